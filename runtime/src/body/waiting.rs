//! Loops within a body that go round for long: they may wait for what an iteration makes that hasn't run yet.
//!
//! The plain loop would have run that iteration before; the plan, which didn't foresee it, has it later. So a body that goes
//! round for long lets other blocks go first, and ends when one of them has failed. `async_parallel_for!` has the loops in a body
//! counted that name a DDS and have no bound of their own: `while`, `loop`, and `for` over a range without an end.
//!
//! # Why this is sound
//! What watches over the thread is set by [`watched`], which takes it away again before it returns, however that happens. So
//! the address is good whenever it is found.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::panic::resume_unwind;
use std::ptr::NonNull;

use crate::body::context::EndIteration;

/// A watch is asked each time that this many rounds are done.
const ROUNDS: u64 = 1 << 16;

/// Who knows of the other blocks.
pub(crate) trait Watch {
    /// How often loops in the running iteration have gone round. True: the iteration is to end.
    fn ends(&self, rounds: u64) -> bool;
}

thread_local! {
    static WATCH: Cell<Option<NonNull<dyn Watch>>> = const { Cell::new(None) };
}

struct Restore(Option<NonNull<dyn Watch>>);

impl Drop for Restore {
    fn drop(&mut self) {
        WATCH.set(self.0);
    }
}

/// Runs `f` under somebody's watch.
pub(crate) fn watched<R>(watch: &dyn Watch, f: impl FnOnce() -> R) -> R {
    // SAFETY: only the lifetime changes, and the address is taken away before the borrow ends.
    let watch = unsafe { std::mem::transmute::<NonNull<dyn Watch + '_>, NonNull<dyn Watch>>(NonNull::from(watch)) };
    let _before = Restore(WATCH.replace(Some(watch)));
    f()
}

/// A round of a loop in a body.
#[doc(hidden)]
#[inline(always)]
pub fn round(rounds: &Cell<u64>) {
    let now = rounds.get() + 1;
    rounds.set(now);
    if now.is_multiple_of(ROUNDS) {
        look(now);
    }
}

#[cold]
#[inline(never)]
fn look(rounds: u64) {
    // SAFETY: see the module's argument.
    let ends = WATCH.get().is_some_and(|watch| unsafe { watch.as_ref() }.ends(rounds));
    if ends {
        resume_unwind(Box::new(EndIteration));
    }
}
