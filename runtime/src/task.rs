//! A loop body as the engine runs it: without its types.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::capture::Handles;
use crate::cold::Doing;
use crate::error::BodyError;
use crate::frame::{Frame, Trouble};
use crate::panics::{self, PanicNote};
use crate::value::Values;

/// What a body may return.
#[diagnostic::on_unimplemented(
    message = "a loop body can't return `{Self}`",
    label = "neither `()` nor `Result<(), E>`",
    note = "end the body without a value, or with `Ok(())` and an error type that is `std::error::Error + Send + Sync`"
)]
pub trait Outcome {
    #[doc(hidden)]
    fn into_error(self) -> Option<BodyError>;
}

impl Outcome for () {
    #[inline(always)]
    fn into_error(self) -> Option<BodyError> {
        None
    }
}

impl<E: Into<BodyError>> Outcome for Result<(), E> {
    #[inline(always)]
    fn into_error(self) -> Option<BodyError> {
        self.err().map(Into::into)
    }
}

/// Which iterations a block runs.
#[derive(Clone, Copy)]
pub(crate) enum Iterations<'p> {
    /// Consecutive ones.
    Range { start: usize, end: usize },
    /// A list: offsets from `first`, in the order of execution.
    List { first: usize, offsets: &'p [u32] },
}

/// Why a block did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    Stray { capture: usize },
    OutOfRange { capture: usize, index: usize },
    Body(BodyError),
    Panic(PanicNote),
    /// The replay of the claimed order gave other bits.
    Difference { capture: usize, index: usize },
}

/// A loop body, its captured values and its capture types.
pub(crate) trait Task: Sync {
    /// Runs iterations for real. On failure says which iteration it was.
    fn run(&self, frame: &Frame, iterations: Iterations<'_>) -> Result<(), (usize, Failure)>;
    /// Runs iterations virtually: the frame's cold sides note what they touch.
    fn record(&self, frame: &Frame, range: Range<usize>);
    /// What tells this body from others at the same place in the source.
    fn type_id(&self) -> TypeId;
}

pub(crate) struct LoopTask<V, H, F, R> {
    values: V,
    body: F,
    types: PhantomData<fn(H) -> R>,
}

impl<V, H, F, R> LoopTask<V, H, F, R>
where
    V: Values,
    H: Handles,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, usize) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    pub(crate) fn new(values: V, _handles: &H, body: F) -> Self {
        const {
            assert!(
                size_of::<F>() == 0,
                "the body of this parallel loop uses a variable that is not in its capture list: add it there, \
                 as `x` (a value), `&x` (a DDS that is read) or `&mut x` (a DDS that is written)"
            );
        }
        LoopTask { values, body, types: PhantomData }
    }
}

impl<V, H, F, R> Task for LoopTask<V, H, F, R>
where
    V: Values,
    H: Handles,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, usize) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    fn run(&self, frame: &Frame, iterations: Iterations<'_>) -> Result<(), (usize, Failure)> {
        let at = &frame.shared.at;
        let ran = panics::quietly(|| {
            catch_unwind(AssertUnwindSafe(|| {
                let values = self.values.refs();
                let mut views = views_of::<H>(frame);
                match iterations {
                    Iterations::Range { start, end } => {
                        for i in start..end {
                            at.set(i);
                            if let Some(error) = (self.body)(values, &mut views, i).into_error() {
                                return Some(error);
                            }
                        }
                    }
                    Iterations::List { first, offsets } => {
                        for (j, &offset) in offsets.iter().enumerate() {
                            let i = first + offset as usize;
                            at.set(i);
                            H::step(&mut views, j, i);
                            if let Some(error) = (self.body)(values, &mut views, i).into_error() {
                                return Some(error);
                            }
                        }
                    }
                }
                H::finish(&views, &frame.slots);
                None
            }))
        });
        // A body that catches its own unwinding can't hide what the frame noted.
        let failure = match (frame.shared.trouble.take(), ran) {
            (Some(Trouble::OutOfRange { capture, index }), _) => Failure::OutOfRange { capture, index },
            (Some(Trouble::Stray { capture }), _) => Failure::Stray { capture },
            (_, Err(payload)) => Failure::Panic(panics::note_of(payload)),
            (_, Ok(Some(error))) => Failure::Body(error),
            (_, Ok(None)) => return Ok(()),
        };
        Err((at.get(), failure))
    }

    fn record(&self, frame: &Frame, range: Range<usize>) {
        let at = &frame.shared.at;
        at.set(range.start);
        while at.get() < range.end {
            let ran = panics::quietly(|| {
                catch_unwind(AssertUnwindSafe(|| {
                    let values = self.values.refs();
                    let mut views = views_of::<H>(frame);
                    while at.get() < range.end {
                        let i = at.get();
                        // What it returns means nothing: the values that it saw were not the real ones.
                        let _ = (self.body)(values, &mut views, i).into_error();
                        end_recorded_iteration(frame);
                        at.set(i + 1);
                    }
                }))
            });
            if ran.is_err() {
                frame.shared.trouble.set(None);
                if is_exact(frame) {
                    // The real run will show whether the iteration fails.
                    end_recorded_iteration(frame);
                    set_exact(frame, false);
                    at.set(at.get() + 1);
                } else {
                    // Blank scratch may be to blame: once more, with real values.
                    for cold in &frame.colds {
                        if let Doing::Record(recorder) = cold.doing() {
                            recorder.log.borrow_mut().discard_iteration();
                        }
                    }
                    self.record_exactly(frame);
                }
            }
        }
    }

    fn type_id(&self) -> TypeId {
        TypeId::of::<F>()
    }
}

impl<V, H, F, R> LoopTask<V, H, F, R>
where
    V: Values,
    H: Handles,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, usize) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    /// Records the one iteration that failed on blank scratch.
    #[cold]
    fn record_exactly(&self, frame: &Frame) {
        set_exact(frame, true);
        let i = frame.shared.at.get();
        let _ran = panics::quietly(|| {
            catch_unwind(AssertUnwindSafe(|| {
                let mut views = views_of::<H>(frame);
                let _ = (self.body)(self.values.refs(), &mut views, i).into_error();
            }))
        });
        frame.shared.trouble.set(None);
        end_recorded_iteration(frame);
        set_exact(frame, false);
        frame.shared.at.set(i + 1);
    }
}

/// The views of a frame's slots.
#[inline(always)]
#[allow(unsafe_code)]
fn views_of<H: Handles>(frame: &Frame) -> H::Views<'_> {
    // SAFETY: the engine made the frame's slots from the captures that `H` described, for a block that owns
    // what they say (see `view`).
    unsafe { H::views(&frame.slots) }
}

#[inline]
fn end_recorded_iteration(frame: &Frame) {
    for cold in &frame.colds {
        if let Doing::Record(recorder) = cold.doing() {
            recorder.log.borrow_mut().end_iteration();
            recorder.next_iteration();
        }
    }
}

/// Recorders that were exact from the start stay so.
fn set_exact(frame: &Frame, exact: bool) {
    for cold in &frame.colds {
        if let Doing::Record(recorder) = cold.doing() {
            recorder.next_iteration();
            recorder.exact.set(exact || recorder.always_exact);
        }
    }
}

fn is_exact(frame: &Frame) -> bool {
    frame.colds.iter().any(|cold| matches!(cold.doing(), Doing::Record(recorder) if recorder.exact.get()))
}
