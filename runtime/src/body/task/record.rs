//! Virtual iterations: the body runs, and the captures' slow paths note what it touches.
//!
//! # Why this is sound
//! By rule 2 of [`super`].
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use super::{Iterations, LoopTask};
use crate::body::capture::Handles;
use crate::body::context::{AccessTrouble, Context};
use crate::body::outcome::{Outcome, unwound};
use crate::body::panics;
use crate::body::slow_path::{Doing, Recorder};
use crate::body::value::Values;
use crate::session::options::Indices;

impl<X, V, H, S, I, F, R> LoopTask<X, V, H, S, I, F, R>
where
    X: Indices,
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    /// [`Task::record`](super::Task::record).
    ///
    /// # Safety
    /// Rule 2; the slots record.
    pub(super) unsafe fn record_range(&self, context: &Context<'_>, range: Range<usize>) {
        let at = &context.state.at;
        let (mut done, mut runaways, mut ended) = (range.start, 0, 0);
        while done < range.end {
            let ran = unwound(|| {
                // SAFETY: rule 2.
                let mut views = unsafe { H::views(&context.slots) };
                let mut scratch = self.scratch_to_record(context, &mut views, done);
                // What an iteration returns means nothing: the values that it saw were not the real ones.
                let mut rest = Iterations::Range { start: done, end: range.end };
                while self.one_by_one(context, &mut views, &mut scratch, rest, ends_recorded_iteration).is_some() {
                    end_recorded_iteration(context);
                    rest = Iterations::Range { start: at.get() + 1, end: range.end };
                }
            });
            if ran.is_ok() {
                return;
            }
            runaways += u32::from(matches!(context.state.take_trouble(), Some((AccessTrouble::Runaway, _))));
            let now = at.get();
            let cut_short = if is_concrete(context) {
                // The real run will show whether the iteration fails.
                true
            } else {
                // Placeholders may be to blame: once more, with real values.
                each_recorder(context, |recorder| recorder.log.borrow_mut().discard_iteration());
                self.ends_early(context, now)
            };
            if cut_short {
                each_recorder(context, |recorder| recorder.log.borrow_mut().cut_short());
                ended += 1;
            }
            end_after_failure(context);
            // Each one takes milliseconds to be found out, and one is seldom alone.
            set_concrete(context, runaways >= MOST_RUNAWAYS);
            done = now + 1;
            if ended == PATIENCE && done - range.start == PATIENCE {
                if self.all_end_early(context, done..range.end) {
                    (done..range.end).for_each(|_| skip_iteration(context));
                    return;
                }
                set_concrete(context, runaways >= MOST_RUNAWAYS);
            }
        }
    }

    /// Scratch for the virtual iteration. What setting it up touches, every block will touch.
    fn scratch_to_record<'v>(&'v self, context: &'v Context<'_>, views: &mut H::Views<'v>, first: usize) -> S {
        context.state.at.set(first);
        each_recorder(context, |recorder| recorder.log.borrow_mut().begin_scratch());
        let scratch = (self.scratch)(self.values.refs(), views);
        each_recorder(context, |recorder| recorder.log.borrow_mut().end_scratch());
        H::begin(views, &context.slots);
        scratch
    }

    /// Records one iteration with real values, and says whether it ends early.
    #[inline(never)]
    fn ends_early(&self, context: &Context<'_>, i: usize) -> bool {
        set_concrete(context, true);
        let once = Iterations::Range { start: i, end: i + 1 };
        let ran = unwound(|| {
            // SAFETY: rule 2.
            let mut views = unsafe { H::views(&context.slots) };
            let mut scratch = self.scratch_to_record(context, &mut views, i);
            self.one_by_one(context, &mut views, &mut scratch, once, |_| true)
        });
        context.state.take_trouble();
        ran.is_err()
    }

    /// Whether iterations all over a range end early; nothing is recorded of them.
    fn all_end_early(&self, context: &Context<'_>, range: Range<usize>) -> bool {
        let logs = RefCell::new(Vec::new());
        each_recorder(context, |recorder| logs.borrow_mut().push(recorder.log.borrow().clone()));
        let all = range.clone().step_by(range.len() / PATIENCE + 1).all(|i| {
            let ends = self.ends_early(context, i);
            // (Copies may be in any state: dropping one may panic, too.)
            let _dropped = panics::caught(|| set_concrete(context, true));
            ends
        });
        let logs = RefCell::new(logs.into_inner().into_iter());
        each_recorder(context, |recorder| _ = logs.borrow_mut().next().map(|log| recorder.log.replace(log)));
        all
    }
}

fn each_recorder(context: &Context<'_>, f: impl Fn(&Recorder<'_>)) {
    for slot in &context.slots {
        if let Doing::Record(recorder) = slot.slow_path().doing() {
            f(recorder);
        }
    }
}

#[inline]
fn end_recorded_iteration(context: &Context<'_>) {
    each_recorder(context, |recorder| {
        recorder.log.borrow_mut().end_iteration();
        recorder.next_iteration();
    });
}

fn ends_recorded_iteration(context: &Context<'_>) -> bool {
    end_recorded_iteration(context);
    true
}

/// Leaves out an iteration that would end early.
fn skip_iteration(context: &Context<'_>) {
    each_recorder(context, |recorder| {
        let mut log = recorder.log.borrow_mut();
        log.cut_short();
        log.end_iteration();
    });
}

/// Ends an iteration that failed. Its scratch copies may be in any state: dropping one may panic, too.
fn end_after_failure(context: &Context<'_>) {
    let _ended = panics::caught(|| end_recorded_iteration(context));
}

/// Where this many iterations at the beginning of a slice end early, and as many more all over it, the others are left out: a
/// panic takes a microsecond or two.
const PATIENCE: usize = 8;

/// After this many iterations that never end on placeholders, the rest of a slice is recorded with real values.
const MOST_RUNAWAYS: u32 = 3;

/// Recorders that were concrete from the start stay so.
fn set_concrete(context: &Context<'_>, concrete: bool) {
    each_recorder(context, |recorder| {
        recorder.next_iteration();
        recorder.concrete.set(concrete || recorder.always_concrete);
    });
}

/// Whether no capture is on placeholders.
fn is_concrete(context: &Context<'_>) -> bool {
    context.slots.iter().all(|slot| match slot.slow_path().doing() {
        Doing::Record(recorder) => recorder.concrete.get(),
        _ => true,
    })
}
