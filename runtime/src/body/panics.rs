//! Panics of loop bodies: caught, kept with their place in the source, and not printed on the way.
//!
//! While recording, a body runs on values that were never meant to be seen; its panics mean nothing there.
//! In a run the panic becomes the loop's error, which says all that the default hook would have printed.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::PanicHookInfo;
use std::sync::Once;

/// What a panic said, and where.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct CaughtPanic {
    pub(crate) message: String,
    pub(crate) location: String,
}

thread_local! {
    /// The program's code runs on this thread on behalf of a call: its panics are that call's, and it can begin no other.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static LAST_LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `f` with panics on this thread recorded instead of printed.
pub(crate) fn quietly<R>(f: impl FnOnce() -> R) -> R {
    install_hook();
    let before = QUIET.replace(true);
    LAST_LOCATION.set(None);
    let result = f();
    QUIET.set(before);
    result
}

/// Whether this thread runs a body, or other code of the program on behalf of a call.
pub(crate) fn inside_body() -> bool {
    QUIET.get()
}

fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if QUIET.get() {
                let location = info.location().map(ToString::to_string);
                LAST_LOCATION.with_borrow_mut(|last| *last = location);
            } else {
                previous(info);
            }
        }));
    });
}

/// What the payload of a caught panic says.
pub(crate) fn caught_panic(payload: &(dyn Any + Send)) -> CaughtPanic {
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a payload that is not text".to_string()
    };
    let location = LAST_LOCATION.take().unwrap_or_else(|| "unknown place".to_string());
    CaughtPanic { message, location }
}

/// What `f` gives, or what its panic said.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Result<R, CaughtPanic> {
    quietly(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f))).map_err(|payload| caught_panic(&*payload))
}

/// The same for what is called within [`quietly`], which it doesn't begin again: it costs next to nothing.
#[inline(always)]
pub(crate) fn caught_within<R>(f: impl FnOnce() -> R) -> Result<R, CaughtPanic> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|payload| caught_panic(&*payload))
}
