//! Plans of loops that ran, to be used again (STRADS-AP section 3: "runs VI and scheduling once and reuses
//! execution plans over subsequent iterations").
//!
//! Which plan a call takes, and which one goes when there are too many, follows from the calls of the program alone, never
//! from clocks or the number of threads: some loops' bits depend on their plan.

use std::any::TypeId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::body::capture::{Captured, Kind};
use crate::loops::backend::Installed;
use crate::loops::pack::is_laid_out;
use crate::loops::record::Depth;
use crate::loops::tallied;
use crate::loops::undo::is_logged;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::session::locked;
use crate::session::options::{LoopOptions, Order, Strategy};
use crate::session::report::Sizes;
use crate::session::slots::Slot;

/// What a plan belongs to: a body at a place in the source, over these indices of these DDSs, told this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanKey {
    /// The iterations' numbers, and how they become indices.
    pub(crate) range: Range<usize>,
    pub(crate) rule: Vec<u8>,
    pub(crate) site: usize,
    pub(crate) body: TypeId,
    pub(crate) options: LoopOptions,
    /// Identity and length of every DDS; zeros for a reduction.
    pub(crate) captures: Vec<(u64, usize)>,
}

impl PlanKey {
    /// Whether only the ranges may differ.
    fn is_of_loop(&self, other: &PlanKey) -> bool {
        let PlanKey { range: _, rule, site, body, options, captures } = self;
        (*site, *body) == (other.site, other.body)
            && (rule, options, captures) == (&other.rule, &other.options, &other.captures)
    }
}

/// A plan with what it keeps from call to call.
pub(crate) struct CachedPlan {
    pub(crate) key: PlanKey,
    pub(crate) plan: Arc<Plan>,
    pub(crate) installed: Installed,
    /// How thoroughly the loop was recorded.
    pub(crate) depth: Depth,
    pub(crate) misspeculations_in_row: usize,
    /// How long the last call took on one thread, about, in nanoseconds.
    pub(crate) nanos: Option<f64>,
    pub(crate) seconds_recording: f64,
    pub(crate) seconds_planning: f64,
    /// A number for each captured value that it was made under.
    pub(crate) values: Vec<u64>,
    pub(crate) sizes: Arc<Sizes>,
    /// Whether parts of its range may run by it.
    pub(crate) serves_parts: bool,
    /// What it is counted as.
    pub(crate) bytes: usize,
    /// Where iterations strayed by the plan of the most thorough recording: those, which run alone.
    pub(crate) odd: Odd,
    /// Whether no clock may have a say in its blocks any more, since iterations strayed by blocks that one had cut.
    pub(crate) by_data: bool,
    /// In how many calls in a row iterations strayed from a plan of an earlier one that was made under the same values.
    pub(crate) stale: usize,
    /// Whether it runs the loop in its own order under values that no other plan was made under.
    pub(crate) for_all_others: bool,
}

/// Iterations that a plan can't foresee.
#[derive(Clone, Default)]
pub(crate) struct Odd {
    /// Their offsets, ascending.
    pub(crate) offsets: Vec<u32>,
    /// The plan without them alone.
    pub(crate) base: Option<Arc<Plan>>,
    /// The place of the last one that was found, in the base's serial order.
    pub(crate) last: usize,
    /// In how many calls in a row there was a new one.
    pub(crate) calls: usize,
}

/// A place in the source keeps plans of this many bytes,
const MOST_BYTES: usize = 32 << 20;
/// or this many of different loops, if they are larger,
const LARGE: usize = 4;
/// and no more than this many in any case.
const MOST: usize = 1 << 16;
/// Captured values of this many calls are remembered.
const MOST_VALUES: usize = 1 << 12;
/// Of more plans than this many go together.
const MANY: usize = 64;
/// What a plan is counted as besides what grows with the loop.
const EACH: usize = 4096;

impl CachedPlan {
    /// Whether a loop over this range may run by it: over its own range, or over most of it. (A part of few of its blocks
    /// would leave threads without work.)
    fn serves(&self, range: &Range<usize>) -> bool {
        let own = &self.key.range;
        *own == *range
            || self.serves_parts
                && own.start <= range.start
                && range.end <= own.end
                && range.len() > 1
                && 2 * range.len() > own.len()
    }
}

/// What runs a loop over this range by the plan of it or of a wider one that serves it.
pub(crate) fn part_of(plan: &Arc<Plan>, range: &Range<usize>) -> Arc<Plan> {
    if plan.range == *range {
        return Arc::clone(plan);
    }
    let Some(part) = plan.within(range) else { unreachable!("a plan that serves parts can be cut") };
    Arc::new(part)
}

/// Whether a plan may run a part of its range: what comes of it must not depend on which plan runs. Either nothing conflicts,
/// and no bits depend on where blocks begin, or it is the loop's own order, which `order = Preserve` asks for.
pub(crate) fn serves_parts(plan: &Plan, options: &LoopOptions, captured: &[Captured], one_process: bool) -> bool {
    let preserve = options.order == Order::Preserve;
    let by_block = |c: usize| match captured[c].kind {
        Kind::Reduction { ops, .. } => ops.ordered && !preserve,
        Kind::Relaxed { .. } => true,
        Kind::Vector { .. } => tallied::ops_of(plan, captured, c).is_some(),
    };
    let strategy = plan.strategy == Strategy::Aligned || plan.strategy == Strategy::Serial && preserve;
    // Workers have what the whole plan reads.
    let here = one_process || plan.touches(0).is_empty();
    strategy
        && here
        && !plan.has_alone()
        && !options.scratch
        && options.parts.is_none()
        && !(0..captured.len()).any(by_block)
}

/// Bytes of a plan, and of what is kept for it, when it has run: an estimate, and the same wherever it runs.
pub(crate) fn bytes_of(plan: &Plan, captured: &[Captured]) -> usize {
    let n = plan.range.len();
    let kept = |(c, capture): (usize, &Captured)| {
        let Kind::Vector { len, ops, writable, .. } = capture.kind else { return 0 };
        let elements = match plan.usage[c] {
            _ if tallied::ops_of(plan, captured, c).is_some() => 8 * len,
            Usage::InStep { written: true, .. } if ops.needs_drop => n,
            Usage::InStep { .. } if !plan.offsets.is_empty() && is_laid_out(ops, n) => n,
            // Undo copies of others are not the plan's.
            Usage::Shared if writable && ops.needs_drop => match plan.strategy {
                Strategy::Serial if is_logged(captured, plan) => 0,
                Strategy::Serial => len,
                _ if plan.is_sparse(c) => 0,
                _ => len,
            },
            _ => 0,
        };
        elements.saturating_mul(ops.size)
    };
    captured.iter().enumerate().map(kept).fold(EACH + plan.bytes(), usize::saturating_add)
}

/// The plans of a session, by place in the source.
#[derive(Default)]
pub(crate) struct Plans(Mutex<BTreeMap<usize, SitePlans>>);

/// A plan, and when it ran.
struct Kept {
    cached: CachedPlan,
    ran: u64,
}

/// What plans stand together: those of one range and the same DDSs.
type Shelf = (usize, usize, Vec<(u64, usize)>);

fn shelf_of(key: &PlanKey) -> Shelf {
    (key.range.start, key.range.end, key.captures.clone())
}

/// The plans of one place.
#[derive(Default)]
struct SitePlans {
    plans: BTreeMap<Shelf, Vec<Kept>>,
    count: usize,
    bytes: usize,
    /// How many of them serve parts of their ranges.
    wide: usize,
    /// How many plans were put in,
    puts: u64,
    /// and how many went, since there was no room.
    gone: usize,
    /// How many calls in a row needed a plan for their own values.
    fresh: usize,
    /// Values of such calls, and of those that ran by a plan for all others.
    values: BTreeSet<Vec<u64>>,
}

/// What earlier calls say of one that needs a plan for its own values.
pub(crate) struct Earlier {
    /// How many calls in a row, this one included, needed one.
    pub(crate) in_row: usize,
    /// Whether plans went since there was no room.
    pub(crate) gone: bool,
    /// Whether a call had the same values.
    pub(crate) known: bool,
}

impl Plans {
    /// Takes a plan out, if there is one that serves: rather one of that range than a wider one, then the one made under most
    /// of these captured values, then the narrowest, then the one that ran last.
    pub(crate) fn take(&self, key: &PlanKey, values: impl Fn() -> Vec<u64>) -> Option<CachedPlan> {
        locked(&self.0).get_mut(&key.site)?.take(key, &values)
    }

    /// Puts a plan in, and drops those for which there is no room.
    pub(crate) fn put(&self, cached: CachedPlan) {
        // Plans hold copies of elements, whose drop must not run under the lock: it may drop DDSs.
        let dropped = locked(&self.0).entry(cached.key.site).or_default().put(cached);
        drop(dropped);
    }

    /// A call at this place needs a plan for its own values.
    pub(crate) fn needs_its_own(&self, site: usize, values: Vec<u64>) -> Earlier {
        let mut sites = locked(&self.0);
        let plans = sites.entry(site).or_default();
        plans.fresh += 1;
        Earlier { in_row: plans.fresh, gone: plans.gone > 0, known: plans.remembers(values) }
    }

    /// A call at this place ran by a plan for all others. Says whether it may have a plan of its own: its values come again, and plans have room.
    pub(crate) fn comes_again(&self, site: usize, values: Vec<u64>) -> bool {
        let mut sites = locked(&self.0);
        let plans = sites.entry(site).or_default();
        plans.remembers(values) && plans.gone == 0
    }

    /// A call at this place found its plan.
    pub(crate) fn found_its_own(&self, site: usize) {
        locked(&self.0).entry(site).or_default().fresh = 0;
    }
}

impl SitePlans {
    fn take(&mut self, key: &PlanKey, values: &dyn Fn() -> Vec<u64>) -> Option<CachedPlan> {
        let of_loop = |kept: &&Kept| kept.cached.key.is_of_loop(key);
        let own = self.plans.get(&shelf_of(key)).into_iter().flatten();
        let mut found: Vec<&Kept> = own.filter(of_loop).collect();
        if found.is_empty() && self.wide > 0 {
            let serves = |kept: &&Kept| kept.cached.serves(&key.range) && of_loop(kept);
            found = self.plans.values().flatten().filter(serves).collect();
        }
        let best = match found[..] {
            [] | [_] => found.first().copied(),
            _ => {
                let values = values();
                let rank = |kept: &&Kept| {
                    let CachedPlan { key, values: under, for_all_others, .. } = &kept.cached;
                    let equal = under.iter().zip(&values).filter(|(a, b)| a == b).count();
                    (*under == values, *for_all_others, equal, Reverse(key.range.len()), kept.ran)
                };
                found.into_iter().max_by_key(rank)
            }
        };
        let (shelf, ran) = best.map(|kept| (shelf_of(&kept.cached.key), kept.ran))?;
        self.remove(&shelf, ran)
    }

    fn remove(&mut self, shelf: &Shelf, ran: u64) -> Option<CachedPlan> {
        let plans = self.plans.get_mut(shelf)?;
        let at = plans.iter().rposition(|kept| kept.ran == ran)?;
        let Kept { cached, .. } = plans.remove(at);
        if plans.is_empty() {
            self.plans.remove(shelf);
        }
        self.count -= 1;
        self.bytes -= cached.bytes;
        self.wide -= usize::from(cached.serves_parts);
        Some(cached)
    }

    /// Gives those for which there is no room.
    fn put(&mut self, cached: CachedPlan) -> Vec<CachedPlan> {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(cached.bytes);
        self.wide += usize::from(cached.serves_parts);
        self.puts += 1;
        let shelf = shelf_of(&cached.key);
        self.plans.entry(shelf).or_default().push(Kept { cached, ran: self.puts });
        if self.count <= MOST && self.bytes <= MOST_BYTES { Vec::new() } else { self.make_room() }
    }

    /// Drops plans, as if by chance, of those that differ from a newer one in nothing but captured values; where there is none any more,
    /// of all but the newest. (Were it always the one that hasn't run for longest, loops that use more plans in
    /// turn than there is room for would find none of them again.) Many small ones go together, since looking for them takes time.
    fn make_room(&mut self) -> Vec<CachedPlan> {
        let bytes = if self.count > MANY { MOST_BYTES / 8 * 7 } else { MOST_BYTES };
        let mut dropped = Vec::new();
        for variants in [true, false] {
            let mut candidates = self.candidates(variants);
            while (self.count > MOST || self.bytes > bytes) && !candidates.is_empty() {
                if !variants && self.count <= LARGE {
                    break;
                }
                let chance = ((self.gone as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize;
                self.gone += 1;
                let (ran, shelf) = candidates.swap_remove(chance % candidates.len());
                dropped.extend(self.remove(&shelf, ran));
            }
        }
        dropped
    }

    /// All plans but the newest, or the variants among them, in the order in which they ran.
    fn candidates(&self, variants: bool) -> Vec<(u64, Shelf)> {
        let mut found = Vec::new();
        for (shelf, plans) in &self.plans {
            for (at, Kept { cached, ran }) in plans.iter().enumerate() {
                let newer = || plans[at + 1..].iter().rev().any(|newer| newer.cached.key == cached.key);
                if if variants { newer() } else { *ran != self.puts } {
                    found.push((*ran, shelf.clone()));
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Whether it knew these values. It knows them from now on.
    fn remembers(&mut self, values: Vec<u64>) -> bool {
        let known = self.values.contains(&values);
        if !known && self.values.len() < MOST_VALUES {
            self.values.insert(values);
        }
        known
    }
}

impl Slot for Plans {
    fn forget(&self, dds: u64) {
        let mut removed = Vec::new();
        for site in locked(&self.0).values_mut() {
            let uses = |shelf: &&Shelf| shelf.2.iter().any(|&(id, _)| id == dds);
            let shelves: Vec<Shelf> = site.plans.keys().filter(uses).cloned().collect();
            for shelf in shelves {
                let runs: Vec<u64> = site.plans[&shelf].iter().map(|kept| kept.ran).collect();
                removed.extend(runs.into_iter().filter_map(|ran| site.remove(&shelf, ran)));
            }
        }
        drop(removed);
    }
}
