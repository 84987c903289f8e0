//! Which captures a loop adds up in [`crate::loops::tallies`]: those that it only adds to, where that costs less than an order of the additions.

use crate::body::capture::{Adding, Captured, Kind};
use crate::memory::additive::TallyOps;
use crate::memory::element_ops::ElementOps;
use crate::memory::pages;
use crate::planner::plan::Plan;
use crate::planner::recording::{Recording, Usage};
use crate::session::options::{LoopOptions, Order, Strategy};

/// How many tallies an exact sum is expected to have. A constant, for plans must not depend on the machine.
pub(super) const THREADS: usize = 8;
/// How many blocks a plan has, and with them tallies of a sum that is not exact: where nothing conflicts,
const BLOCKS: usize = 32;
/// and else, or where the loop says so.
const MOST_BLOCKS: usize = 1024;
/// How many accesses are worth a block, of which `grain` says how many iterations it is.
const WORTH_A_BLOCK: usize = 4096;
/// Tallies of one DDS take no more bytes than this.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// Elements, and how many there are.
pub(super) type Elements = (&'static ElementOps, usize);

/// How a capture may be added up in tallies, and its elements.
fn adds(capture: &Captured, options: &LoopOptions) -> Option<(Adding, Elements)> {
    let Kind::Vector { len: len @ 1.., ops, adding: Some(adding), .. } = capture.kind else { return None };
    // What asks for a plan of parts gets one.
    let said = options.strategy.is_some() || options.parts.is_some();
    let may = if adding.ops.exact { adding.declared || !said } else { adding.declared && options.order == Order::Any };
    (may && options.strategy != Some(Strategy::Serial)).then_some((adding, (ops, len)))
}

/// Whether a loop of this many iterations would probably have a capture added up in tallies, if it said `sum x`.
pub(super) fn could(capture: &Captured, usage: Usage, options: &LoopOptions, iterations: usize) -> bool {
    let Kind::Vector { len, adding: Some(adding), .. } = capture.kind else { return false };
    let free = options.order == Order::Any && options.strategy.is_none() && options.parts.is_none();
    !adding.declared && usage == Usage::Shared && free && len.saturating_mul(BLOCKS / 2) <= iterations
}

/// Whether tallies may have only the pages that were touched.
pub(super) fn is_by_pages(element: &ElementOps) -> bool {
    !element.by_key && element.width() == 1
}

/// Whether tallies cost less than an order of the additions. Those of a declared sum have a page for each addition at most where
/// there are fewer than elements; and nothing else will do where iterations strayed: what is added to may be other elements in each call.
fn is_worthwhile(
    recording: &Recording<'_>,
    c: usize,
    (adding, (element, len)): (Adding, Elements),
    (options, strayed, alone): (&LoopOptions, bool, bool),
) -> bool {
    let (n, size, accesses) = (recording.iterations(), element.size, recording.accesses(c));
    let grain = options.grain.map(|grain| grain.clamp(1, n.max(1)));
    let blocks = match (options.parts, grain) {
        _ if !alone => MOST_BLOCKS,
        (Some(parts), _) => parts.clamp(1, MOST_BLOCKS),
        (None, Some(grain)) => n.div_ceil(grain).clamp(1, MOST_BLOCKS),
        (None, None) => BLOCKS,
    };
    let (copies, each) = if adding.ops.exact { (THREADS, 1) } else { (blocks, blocks.div_ceil(2)) };
    // `grain` says what iterations cost besides their accesses. (A wide row takes longer to be added to another.)
    let worth = |grain| (WORTH_A_BLOCK * n / grain) as f64 / (size as f64 / 32.0).max(1.0);
    let work = grain.filter(|_| adding.declared && alone).map_or(accesses, |grain| accesses.max(worth(grain)));
    let whole = size.saturating_mul(len).saturating_mul(copies) <= MOST_BYTES;
    let by_pages = pages::bytes_of(size, len, accesses / copies as f64) * copies as f64 <= MOST_BYTES as f64;
    let few = adding.declared && is_by_pages(element) && by_pages && accesses <= len as f64;
    few || whole && (adding.declared && strayed || len as f64 * each as f64 <= work)
}

/// The maps that are added up in tallies whatever the recording says: none is in step, and an access to one takes long to record.
pub(crate) fn beforehand(captured: &[Captured], options: &LoopOptions, iterations: usize) -> Vec<bool> {
    let tallied = |capture: &Captured| {
        adds(capture, options).is_some_and(|(Adding { ops, .. }, (element, len))| {
            ops.exact && element.by_key && len <= iterations && THREADS * len <= MOST_BYTES / 64
        })
    };
    captured.iter().map(tallied).collect()
}

/// Takes those captures out of a recording that are to be added up in tallies, besides those that were known to be before.
/// `strayed`: whether iterations have touched other elements than recorded.
pub(crate) fn leave_out(
    recording: &mut Recording<'_>,
    tallied: &mut [bool],
    captured: &[Captured],
    (options, strayed): (&LoopOptions, bool),
) {
    let shared = recording.shared();
    // Where all that is shared may be added up, nothing conflicts.
    let all = shared.iter().all(|&c| {
        let adds = adds(&captured[c], options);
        adds.is_some_and(|adds| is_worthwhile(recording, c, adds, (options, strayed, true)))
    });
    for (c, capture) in captured.iter().enumerate() {
        let alone = all || shared.iter().all(|&other| other == c);
        let Some((adding, elements)) = adds(capture, options) else { continue };
        let usage = recording.usage[c];
        let conflicts = usage == Usage::Shared || adding.declared && (strayed || usage == Usage::Untouched);
        tallied[c] |= conflicts
            && recording.in_all_blocks.is_none()
            && is_worthwhile(recording, c, (adding, elements), (options, strayed, alone));
    }
    (0..tallied.len()).filter(|&c| tallied[c]).for_each(|c| recording.leave_out(c));
}

/// The captures that are added up in tallies of all elements from the first call on, since there are many additions.
pub(super) fn many(recording: &Recording<'_>, plan: &Plan, captured: &[Captured]) -> Vec<usize> {
    let many = |c: &usize| match captured[*c].kind {
        Kind::Vector { len, .. } => ops_of(plan, captured, *c).is_some() && recording.accesses(*c) >= len as f64,
        _ => false,
    };
    (0..captured.len()).filter(many).collect()
}

/// How the plan has a capture added up in tallies, if it does.
pub(crate) fn ops_of(plan: &Plan, captured: &[Captured], c: usize) -> Option<&'static TallyOps> {
    match captured[c].kind {
        Kind::Vector { adding: Some(adding), .. }
            if plan.strategy != Strategy::Serial && plan.usage[c] == Usage::Reduction =>
        {
            Some(adding.ops)
        }
        _ => None,
    }
}
