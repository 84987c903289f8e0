//! What goes wrong when a session ends, with nobody there to return an error to.

use std::sync::Mutex;

use crate::session::error::Error;
use crate::session::logging::warning;
use crate::session::{is_launched, locked};

static LATE: Mutex<Option<Error>> = Mutex::new(None);

/// Keeps an error for the end of the program, which the first one decides; a program with a `main` of its own gets a warning.
pub(crate) fn record(error: Error) {
    let mut late = locked(&LATE);
    if is_launched() && late.is_none() {
        *late = Some(error);
    } else {
        warning!("{error}");
    }
}

/// The error that the program is to end with.
pub(crate) fn take() -> Option<Error> {
    locked(&LATE).take()
}
