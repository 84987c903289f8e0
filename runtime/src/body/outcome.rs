//! How a body ends: well, with an error, or unwinding.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::body::context::{AccessTrouble, Context};
use crate::body::panics::{self, CaughtPanic};
use crate::session::error::BodyError;

/// What a body may return.
#[diagnostic::on_unimplemented(
    message = "a loop body can't return `{Self}`",
    label = "neither `()` nor `Result<(), E>`",
    note = "end the body without a value, or with `Ok(())` and an error type that is `std::error::Error + Send + Sync`, or `Box<dyn std::error::Error + Send + Sync>`"
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

// Without this rustc would speak of the error's conversion instead of the body.
#[diagnostic::do_not_recommend]
impl<E: Into<BodyError>> Outcome for Result<(), E> {
    #[inline(always)]
    fn into_error(self) -> Option<BodyError> {
        self.err().map(Into::into)
    }
}

/// Why a block did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    Misspeculation {
        capture: usize,
    },
    OutOfRange {
        capture: usize,
        index: usize,
    },
    Body(BodyError),
    Panic(CaughtPanic),
    /// The destructor of an element panicked, while the loop was undone. That was finished all the same.
    Undoing(CaughtPanic),
    /// The loop is being ended, or a row of another process can't be had.
    Stopped,
    /// The replay of the claimed order gave other bits.
    Difference {
        capture: usize,
        index: usize,
    },
}

/// What `f` gives, or what it unwound with.
pub(crate) fn unwound<T>(f: impl FnOnce() -> T) -> std::thread::Result<T> {
    panics::quietly(|| catch_unwind(AssertUnwindSafe(f)))
}

/// How a block ended. A body that catches its own unwinding can't hide what the context recorded.
pub(crate) fn outcome(
    context: &Context<'_>,
    at: Option<usize>,
    ran: std::thread::Result<Option<(usize, BodyError)>>,
) -> Result<(), (Option<usize>, Failure)> {
    match (context.state.take_trouble(), ran) {
        (Some((AccessTrouble::OutOfRange { capture, index }, then)), _) => {
            Err((at.map(|_| then), Failure::OutOfRange { capture, index }))
        }
        (Some((AccessTrouble::Misspeculation { capture }, then)), _) => {
            Err((at.map(|_| then), Failure::Misspeculation { capture }))
        }
        (Some((AccessTrouble::Unreachable, then)), _) => Err((at.map(|_| then), Failure::Stopped)),
        (_, Err(payload)) => Err((at, Failure::Panic(panics::caught_panic(&*payload)))),
        (_, Ok(Some((i, error)))) => Err((Some(i), Failure::Body(error))),
        (_, Ok(None)) => Ok(()),
    }
}
