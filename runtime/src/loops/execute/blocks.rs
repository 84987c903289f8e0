//! The blocks of a run while threads take them: what each came to, and those whose bodies wait for what others do.

use std::rc::Rc;
use std::sync::Mutex;

use super::in_order::InOrder;
use super::{FirstFailure, Run};
use crate::body::context::{AccessTrouble, BlockState};
use crate::body::outcome::Failure;
use crate::body::panics;
use crate::body::waiting::Watch;
use crate::loops::handoff::Dispatch;
use crate::loops::residency::Residency;
use crate::loops::results::BlockResult;
use crate::loops::undo::Undo;
use crate::session::locked;
use crate::session::options::Order;
use crate::session::slow_bodies::{self, Unit};
use crate::session::stack;
use crate::session::timeline::{self, Category};

/// The blocks of a run, as they are run.
pub(super) struct Blocks<'b, D: Dispatch> {
    pub(super) run: &'b Run<'b>,
    pub(super) handoff: &'b D,
    pub(super) undo: &'b Undo,
    pub(super) in_order: Option<&'b InOrder<'b>>,
    pub(super) residency: Option<Residency>,
    pub(super) results: Vec<Mutex<BlockResult>>,
    pub(super) first: Mutex<Option<FirstFailure>>,
}

impl<D: Dispatch> Blocks<'_, D> {
    /// Runs a block that was handed out. Gives the one that ended well, of which nothing was said yet.
    pub(super) fn run(&self, b: usize) -> Option<usize> {
        let Blocks { run, handoff, undo, results, first, .. } = self;
        let _needed = self.residency.as_ref().map(|residency| residency.begin(b));
        let _span = timeline::is_on().then(|| timeline::span(Category::Block, handoff.number(b) as u64));
        let _now = slow_bodies::running(Unit::Block(handoff.number(b) as u64));
        let (start, end) = (run.plan.blocks[b].start, run.plan.blocks[b].end);
        let saved = if start < end { panics::caught(|| undo.save_for(b, run.plan, run.lease)) } else { Ok(()) };
        let first_of_block = run.plan.range.start + run.plan.offset(start);
        let (mut result, b, ended) = match saved {
            Ok(()) => run.run_block(b, self),
            Err(note) => (BlockResult::default(), b, Err((Some(first_of_block), Failure::Panic(note)))),
        };
        if let (Some(in_order), Ok(())) = (self.in_order, &ended) {
            in_order.end(b, &mut result);
        }
        *locked(&results[b]) = result;
        match ended {
            Ok(()) => Some(b),
            Err((iteration, failure)) => {
                let mut first = locked(first);
                // A block that was stopped is no failure of its own.
                let rank = |failure: &Failure, block: usize| (matches!(failure, Failure::Stopped), block);
                if first.as_ref().is_none_or(|other| rank(&failure, b) < rank(&other.failure, other.block)) {
                    *first = Some(FirstFailure { block: b, iteration, failure });
                }
                drop(first);
                handoff.fail(b);
                None
            }
        }
    }
}

/// A block whose body may wait for what others do.
pub(super) struct Watching<'b, D: Dispatch> {
    pub(super) block: usize,
    pub(super) others: &'b Blocks<'b, D>,
    pub(super) state: Rc<BlockState>,
}

/// Each time that a loop has done this many rounds, other blocks go first. (In builds for tests a round takes ten times as long.)
const LETS_OTHERS_GO: u64 = if cfg!(debug_assertions) { 1 << 19 } else { 1 << 22 };

impl<D: Dispatch> Watch for Watching<'_, D> {
    fn ends(&self, rounds: u64) -> bool {
        let others = self.others;
        let Blocks { run, handoff, .. } = others;
        if self.state.is_astray() {
            return rounds >= LETS_OTHERS_GO;
        }
        // A failure of a plan with another order than the loop's is confirmed in any case: nobody needs this block.
        let confirmed = run.order == Order::Preserve && !run.plan.keeps_order();
        let ends = || handoff.cut().is_some_and(|cut| confirmed || cut <= self.block);
        if run.order == Order::Preserve && rounds.is_multiple_of(LETS_OTHERS_GO) && !ends() {
            std::thread::scope(|scope| {
                let go = || {
                    while let Some(b) = handoff.at_hand() {
                        if let Some(b) = others.run(b) {
                            handoff.done(b);
                        }
                    }
                };
                // Where no thread can be had, they run when they would.
                let thread = std::thread::Builder::new().stack_size(stack::of_main());
                drop(thread.spawn_scoped(scope, go));
            });
        }
        if ends() {
            self.state.record(AccessTrouble::Unreachable);
            return true;
        }
        false
    }
}
