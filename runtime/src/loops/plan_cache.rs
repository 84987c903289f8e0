//! Plans of loops that ran, to be used again (STRADS-AP section 3: "runs VI and scheduling once and reuses
//! execution plans over subsequent iterations").
//!
//! Which plan a call takes, and which one goes when there are too many, follows from the calls of the program alone, never
//! from clocks or the number of threads: some loops' bits depend on their plan.

use std::any::TypeId;
use std::cmp::Reverse;
use std::collections::BTreeMap;
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
const MOST: usize = 1024;
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

/// The plans of one place, the one that ran last at the end.
#[derive(Default)]
struct SitePlans {
    plans: Vec<CachedPlan>,
    /// How many went, since there was no room.
    gone: usize,
}

impl Plans {
    /// Takes a plan out, if there is one that serves: rather one of that range than a wider one, then the one made under most
    /// of these captured values, then the narrowest, then the one that ran last.
    pub(crate) fn take(&self, key: &PlanKey, values: impl Fn() -> Vec<u64>) -> Option<CachedPlan> {
        let mut sites = locked(&self.0);
        let plans = &mut sites.get_mut(&key.site)?.plans;
        let serving = |&at: &usize| plans[at].serves(&key.range) && plans[at].key.is_of_loop(key);
        let mut serving = (0..plans.len()).filter(serving);
        let first = serving.next()?;
        let at = match serving.next() {
            None => first,
            Some(second) => {
                let values = values();
                let rank = |&at: &usize| {
                    let CachedPlan { key: own, values: under, .. } = &plans[at];
                    let equal = under.iter().zip(&values).filter(|(a, b)| a == b).count();
                    (own.range == key.range, equal, Reverse(own.range.len()), at)
                };
                [first, second].into_iter().chain(serving).max_by_key(rank)?
            }
        };
        Some(plans.remove(at))
    }

    /// Puts a plan in, and drops those for which there is no room.
    pub(crate) fn put(&self, cached: CachedPlan) {
        let dropped = {
            let mut sites = locked(&self.0);
            let SitePlans { plans, gone } = sites.entry(cached.key.site).or_default();
            plans.push(cached);
            let mut dropped = Vec::new();
            while let Some(at) = too_many(plans, *gone) {
                *gone += 1;
                dropped.push(plans.remove(at));
            }
            dropped
        };
        // Plans hold copies of elements, whose drop must not run under the lock: it may drop DDSs.
        drop(dropped);
    }
}

/// The plan that goes next, if there are too many: as if by chance one of those that differ from a newer one in nothing but
/// captured values, else any but the newest. (Were it always the one that hasn't run for longest, loops that use more plans in
/// turn than there is room for would find none of them again.)
fn too_many(plans: &[CachedPlan], gone: usize) -> Option<usize> {
    let bytes = plans.iter().fold(0, |sum: usize, cached| sum.saturating_add(cached.bytes));
    if plans.len() <= MOST && (bytes <= MOST_BYTES || plans.len() <= 1) {
        return None;
    }
    let chance = ((gone as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize;
    let is_variant = |&at: &usize| plans[at + 1..].iter().any(|newer| newer.key == plans[at].key);
    let variants: Vec<usize> = (0..plans.len()).filter(is_variant).collect();
    match variants.len() {
        0 => (plans.len() > LARGE).then(|| chance % (plans.len() - 1)),
        n => Some(variants[chance % n]),
    }
}

impl Slot for Plans {
    fn forget(&self, dds: u64) {
        let mut removed = Vec::new();
        for SitePlans { plans, .. } in locked(&self.0).values_mut() {
            let uses = |cached: &CachedPlan| cached.key.captures.iter().any(|&(id, _)| id == dds);
            removed.extend(plans.extract_if(.., |cached| uses(cached)));
        }
        drop(removed);
    }
}
