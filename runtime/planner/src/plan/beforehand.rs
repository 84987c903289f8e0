//! What a sample of the iterations, or the rules that they follow, tell: that no plan would promise anything, so that the
//! rest need not be recorded, or no plan looked for.

use std::collections::HashMap;

use super::make::{BLOCK_COST, WORKERS, WORTHWHILE, listed_cost, promises_little};
use super::sort::writes_any_of;
use super::{Facts, HotDds};
use crate::options::{Order, PlanOptions};
use crate::recording::{CaptureShape, Recording};

/// How much more of the sampled iterations must write one element than of all of them: the sample may be off.
const MARGIN: f64 = 1.1;
/// About how many iterations of a sample are compared with two others each,
const PAIRS: usize = 2048;
/// one of them as many times farther on as this.
const PAIRS_APART: usize = 2_654_435_761;
/// Where at least this share of the pairs conflict, few iterations could run at the same time in any order,
const MOSTLY: f64 = 0.6;
/// and blocks of them are tried with this many.
const ENOUGH: usize = 2048;
/// How many elements of a DDS reports name.
const HOTTEST: usize = 3;

/// Whether a recording, of a sample or of the whole loop, shows that the loop should run serially in its own order.
pub fn is_serial(recording: &Recording<'_>, shapes: &[CaptureShape], options: &PlanOptions) -> bool {
    serial(recording, shapes, options).is_some()
}

/// What is to be said of such a loop.
pub(super) fn serial(recording: &Recording<'_>, shapes: &[CaptureShape], options: &PlanOptions) -> Option<Facts> {
    if let Some(reason) = recording.unlisted(shapes) {
        let (reason, too_many_groups) = (reason.to_string(), options.parts.is_some());
        return Some(Facts { reason, too_many_groups, peak_bytes: recording.peak_bytes, ..Facts::default() });
    }
    if options.strategy.is_some() || options.parts.is_some() {
        return None;
    }
    mostly_cut_short(recording)
        .or_else(|| with_hot_element(recording))
        .or_else(|| all_against_all(recording, shapes, options))
        .or_else(|| in_a_chain(recording, options))
        .or_else(|| narrow(recording))
}

/// Whether a sample shows that a loop that keeps its order, and is no table, should run serially: in wavefronts of single iterations
/// too few stand, or looking them up takes longer than they do, and blocks of a grid promise nothing.
pub fn is_narrow(sampled: &Recording<'_>, shapes: &[CaptureShape], options: &PlanOptions) -> bool {
    let PlanOptions { order, strategy, parts, grain, columns, .. } = options;
    let free = strategy.is_none() && parts.is_none() && grain.is_none() && columns.is_none();
    let (shared, n) = (sampled.shared(), sampled.recorded());
    if *order != Order::Preserve || !free || !is_sample(sampled) || shared.is_empty() || n < ENOUGH {
        return false;
    }
    let wide = n as f64 / wavefronts(sampled, &shared).max(1) as f64;
    let each = 1.0 + sampled.accesses_each;
    let pays = listed_cost(sampled.iterations(), each, *order) * WORTHWHILE <= WORKERS as f64;
    let blocks = (wide * each) as u64 / BLOCK_COST;
    let may_pay = pays && blocks >= WORKERS as u64;
    !may_pay && promises_little(&sampled.by_itself(n), shapes, options)
}

/// What is to be said of such a loop.
fn narrow(sampled: &Recording<'_>) -> Option<Facts> {
    if !sampled.narrow {
        return None;
    }
    let reason = "in the loop's own order too few iterations could run at the same time, by a sample".to_string();
    let hot: Vec<HotDds> = sampled.shared().into_iter().map(|c| hot_of(sampled, c)).collect();
    let accesses = hot.iter().map(|dds| dds.accesses).sum();
    // If iterations compute much, `grain` has a plan looked for.
    Some(Facts { reason, hot, accesses, short: true, ..Facts::default() })
}

/// How many wavefronts the iterations of a sample have, as a loop of their own that keeps its order.
fn wavefronts(sampled: &Recording<'_>, shared: &[usize]) -> u32 {
    // The last wavefront that writes an element, and that touches it, each plus one.
    let mut last: Vec<HashMap<u32, (u32, u32)>> = shared.iter().map(|_| HashMap::new()).collect();
    let mut most = 0;
    for slice in &sampled.slices {
        for k in 0..slice[shared[0]].iterations {
            let accesses =
                || shared.iter().enumerate().flat_map(|(slot, &c)| slice[c].of(k).iter().map(move |at| (slot, at)));
            let after = accesses().map(|(slot, entry)| {
                let (writer, any) = last[slot].get(&(entry >> 1)).copied().unwrap_or_default();
                if entry & 1 == 1 { any } else { writer }
            });
            let own = after.max().unwrap_or(0) + 1;
            for (slot, entry) in accesses() {
                let seen = last[slot].entry(entry >> 1).or_default();
                seen.1 = seen.1.max(own);
                if entry & 1 == 1 {
                    seen.0 = own;
                }
            }
            most = most.max(own);
        }
    }
    most
}

/// By the rules that a loop follows that keeps its order, each iteration writes what the next one touches, and nothing leads
/// to another row of a table.
fn in_a_chain(recording: &Recording<'_>, options: &PlanOptions) -> Option<Facts> {
    if options.order != Order::Preserve || !recording.is_a_chain() || recording.reaches_far() {
        return None;
    }
    let reason = "each iteration touches what the one before writes".to_string();
    let accesses = recording.shared().into_iter().map(|c| recording.listed(c)).sum();
    Some(Facts { reason, inferred: true, accesses, peak_bytes: recording.peak_bytes, ..Facts::default() })
}

/// Most iterations ended early, on values from before the loop: what they touch behind that is missing.
fn mostly_cut_short(recording: &Recording<'_>) -> Option<Facts> {
    let recorded = recording.recorded();
    if 2 * recording.cut_short <= recorded {
        return None;
    }
    let changing = recording.writable().next();
    let cut_short = recording.cut_short * (recording.iterations() / recorded.max(1)).max(1);
    let reason = "most iterations ended early while the loop was recorded".to_string();
    Some(Facts { reason, changing, cut_short, ..Facts::default() })
}

/// Whether that is what a recording is.
fn is_sample(recording: &Recording<'_>) -> bool {
    recording.recorded() < recording.iterations() && !recording.is_inferred() && recording.outline().is_empty()
}

/// Nearly all iterations of a sample write one element: each has to wait for the one before.
fn with_hot_element(sampled: &Recording<'_>) -> Option<Facts> {
    if !is_sample(sampled) {
        return None;
    }
    let hot: Vec<HotDds> = sampled.shared().into_iter().map(|c| hot_of(sampled, c)).collect();
    let enough = sampled.iterations() as f64 * MARGIN / WORTHWHILE;
    if !hot.iter().flat_map(|dds| &dds.written).any(|&written| f64::from(written) >= enough) {
        return None;
    }
    let reason = "nearly every iteration writes one element, by a sample".to_string();
    let accesses = hot.iter().map(|dds| dds.accesses).sum();
    Some(Facts { reason, hot, accesses, ..Facts::default() })
}

/// Each iteration of a sample conflicts with those beside it and with others from anywhere. At most a few could run at the same
/// time then, wherever they stand: of `n` iterations, where one pair in `q` doesn't conflict, an order finds about `ln n / ln q`.
/// Where most pairs conflict, single iterations find no more; whether blocks do is tried with the sample.
fn all_against_all(sampled: &Recording<'_>, shapes: &[CaptureShape], options: &PlanOptions) -> Option<Facts> {
    let shared = sampled.shared();
    if !is_sample(sampled) || shared.is_empty() {
        return None;
    }
    let places: Vec<(usize, usize)> = sampled
        .slices
        .iter()
        .enumerate()
        .flat_map(|(s, slice)| (0..slice[shared[0]].iterations).map(move |k| (s, k)))
        .collect();
    let n = places.len();
    // (A step that has no divisor in common with most numbers goes round all of them.)
    let elsewhere = |j: usize| j.wrapping_mul(PAIRS_APART) % n;
    let conflict = |a: usize, b: usize| a == b || do_conflict(sampled, &shared, places[a], places[b]);
    let each = (n / PAIRS).max(1);
    if n < 2 {
        return None;
    }
    let compared = (0..n - 1).step_by(each).flat_map(|j| [(j, j + 1), (j, elsewhere(j))]);
    let (pairs, apart) =
        compared.fold((0usize, 0usize), |(pairs, apart), (a, b)| (pairs + 1, apart + usize::from(!conflict(a, b))));
    let mostly = || {
        let few = apart as f64 <= (1.0 - MOSTLY) * pairs as f64;
        few && n >= ENOUGH
            && options.order == Order::Any
            && promises_little(&sampled.by_itself(ENOUGH), shapes, options)
    };
    let reason = match apart {
        0 => "each iteration conflicts with all others, by a sample",
        _ if mostly() => "most iterations conflict with most others, by a sample",
        _ => return None,
    };
    let reason = reason.to_string();
    let hot: Vec<HotDds> = shared.into_iter().map(|c| hot_of(sampled, c)).collect();
    let accesses = hot.iter().map(|dds| dds.accesses).sum();
    Some(Facts { reason, hot, accesses, ..Facts::default() })
}

/// Whether one of two iterations, each the `k`-th of a slice, writes what the other touches.
fn do_conflict(sampled: &Recording<'_>, shared: &[usize], one: (usize, usize), other: (usize, usize)) -> bool {
    shared.iter().any(|&c| {
        let entries = |(s, k): (usize, usize)| sampled.slices[s][c].of(k);
        writes_any_of(entries(one), entries(other)) || writes_any_of(entries(other), entries(one))
    })
}

/// The elements that stand in a list of accesses most, how often each does, and how often to be written.
fn counted(entries: impl Iterator<Item = u32> + Clone, accesses: usize) -> Vec<(u32, (u32, u32))> {
    /// Elements are counted by number where there are no more than this many for each access.
    const SPARSE: usize = 8;
    let len = entries.clone().max().map_or(0, |last| (last >> 1) as usize + 1);
    let mut counts: Vec<(u32, (u32, u32))> = if len <= accesses.saturating_mul(SPARSE) {
        let mut counts = vec![(0, 0); len];
        entries.for_each(|entry| {
            let count: &mut (u32, u32) = &mut counts[(entry >> 1) as usize];
            *count = (count.0 + 1, count.1 + (entry & 1));
        });
        (0..).zip(counts).filter(|(_, (touched, _))| *touched > 0).collect()
    } else {
        let mut sorted: Vec<u32> = entries.collect();
        sorted.sort_unstable();
        let same = sorted.chunk_by(|one, other| one >> 1 == other >> 1);
        same.map(|same| (same[0] >> 1, (same.len() as u32, same.iter().map(|entry| entry & 1).sum()))).collect()
    };
    let first = |&(index, (touched, _)): &(u32, (u32, u32))| (std::cmp::Reverse(touched), index);
    if counts.len() > HOTTEST {
        counts.select_nth_unstable_by_key(HOTTEST - 1, first);
        counts.truncate(HOTTEST);
    }
    counts.sort_unstable_by_key(first);
    counts
}

/// The elements of a capture that are touched most, of all iterations, as a sample has it.
fn hot_of(sampled: &Recording<'_>, capture: usize) -> HotDds {
    let entries = || sampled.slices.iter().flat_map(|slice| slice[capture].entries());
    let accesses: usize = sampled.slices.iter().map(|slice| slice[capture].entries().len()).sum();
    let hottest = counted(entries().copied(), accesses);
    let scale = sampled.iterations() as f64 / sampled.recorded().max(1) as f64;
    let of_all = |count: u32| (f64::from(count) * scale) as u32;
    HotDds {
        capture,
        accesses: (accesses as f64 * scale) as usize,
        elements: hottest.iter().map(|&(index, (touched, _))| (index as usize, of_all(touched))).collect(),
        written: hottest.iter().map(|&(_, (_, written))| of_all(written)).collect(),
        estimated: true,
    }
}
