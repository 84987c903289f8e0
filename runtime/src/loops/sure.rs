//! Loops that can't fail, and loops that poison what they write when they do: nothing is saved to undo them.
//!
//! The macro says of a body that it does nothing but compute with what it captures, which it indexes by its own index and
//! numbers near it. Here stands what only the types, the lengths and the plan say: that all of it are floats, whose operations
//! never panic; that each index is in range; and that each iteration owns what it touches, so that none strays. (In a serial plan the
//! one block owns everything.)

use std::any::TypeId;

use crate::body::capture::{Captured, Kind};
use crate::loops::tallied;
use crate::memory::element_ops::ops_of;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::session::options::{Indices, LoopOptions, OnFailure, Order, Same, Strategy};

/// Whether a loop's index is the number of its iteration, and its captured values are up to three floats of one type.
pub(crate) fn computes_with_floats<X: Indices, Owned: 'static>() -> bool {
    let floats = [
        TypeId::of::<()>(),
        TypeId::of::<(f32,)>(),
        TypeId::of::<(f32, f32)>(),
        TypeId::of::<(f32, f32, f32)>(),
        TypeId::of::<(f64,)>(),
        TypeId::of::<(f64, f64)>(),
        TypeId::of::<(f64, f64, f64)>(),
    ];
    TypeId::of::<X>() == TypeId::of::<Same<usize>>() && floats.contains(&TypeId::of::<Owned>())
}

/// Whether no iteration of a plan can fail or stray.
pub(crate) fn cannot_fail(plan: &Plan, captured: &[Captured], options: &LoopOptions) -> bool {
    let Some(reach) = options.floats.filter(|reach| reach.len() == captured.len()) else { return false };
    let owned = |c: usize, reach| match plan.strategy {
        Strategy::Serial => true,
        Strategy::Aligned => !options.floats_in_order && owns_own(plan, c, &captured[c], reach),
        _ => false,
    };
    let mut all = captured.iter().zip(reach).enumerate();
    let in_blocks = !plan.has_alone() && plan.offsets.is_empty();
    in_blocks && all.all(|(c, (capture, &reach))| are_floats(plan, capture, reach) && owned(c, reach))
}

/// Whether a plan needs no copies of what a loop writes that poisons it when its body fails. Copies serve to begin again, too: after
/// iterations that stray, and where the loop's own order has to confirm a failure. So it is a loop in which none can stray, since it
/// is one block that owns everything, or each iteration owns what the body may write; and whose order is its plan's.
pub(crate) fn needs_no_copies(plan: &Plan, captured: &[Captured], options: &LoopOptions) -> bool {
    let own = |(c, capture): (usize, &Captured)| match capture.kind {
        Kind::Vector { writable: true, .. } => matches!(plan.usage[c], Usage::InStep { offset: 0, written: true }),
        Kind::Vector { .. } | Kind::Reduction { .. } => true,
        Kind::Relaxed { .. } => false,
    };
    let tallied = (0..captured.len()).any(|c| tallied::ops_of(plan, captured, c).is_some());
    let none_strays = match plan.strategy {
        Strategy::Serial => true,
        Strategy::Aligned => options.writes_own && captured.iter().enumerate().all(own),
        _ => false,
    };
    let in_order = options.order != Order::Preserve || plan.keeps_order();
    options.on_failure == OnFailure::Poison && none_strays && in_order && !plan.has_alone() && !tallied
}

/// What the macro says of a capture that the body only gives floats to add, or to compare.
const REDUCED: (usize, usize) = (u32::MAX as usize, u32::MAX as usize);

/// Whether a capture's elements are floats, and those so far before and behind the number of an iteration are in range.
fn are_floats(plan: &Plan, capture: &Captured, (before, behind): (usize, usize)) -> bool {
    let (len, ops) = match capture.kind {
        Kind::Vector { len, ops, .. } => (len, ops),
        // What is given to it are numbers of this library.
        Kind::Reduction { .. } => return (before, behind) == REDUCED,
        Kind::Relaxed { .. } => return false,
    };
    let range = &plan.range;
    let in_range = range.start >= before && range.end <= len && behind <= len - range.end;
    (ops.is(ops_of::<f32>()) || ops.is(ops_of::<f64>())) && in_range
}

/// Whether, in a plan of blocks without conflicts, each iteration owns what it may touch of a capture.
fn owns_own(plan: &Plan, c: usize, capture: &Captured, reach: (usize, usize)) -> bool {
    let &Kind::Vector { writable, .. } = &capture.kind else { return matches!(capture.kind, Kind::Reduction { .. }) };
    match plan.usage[c] {
        Usage::InStep { offset: 0, written: true } => writable && reach == (0, 0),
        Usage::InStep { written: false, .. } | Usage::ReadOnly => !writable,
        _ => false,
    }
}
