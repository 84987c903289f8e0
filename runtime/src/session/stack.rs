//! How large the stacks of a session's threads are.
//!
//! # Why this is sound
//! The system writes a limit, or what it knows of the running thread, into a structure of ours, and reports whether it did.
#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::mem::MaybeUninit;

use stradsap_dds_server::amounts;

use crate::session::error::{Error, Result};

/// Where the main thread's stack has no limit, and the most that is taken over from it: only what is touched takes memory.
const MOST: u64 = 256 << 20;
/// What the library itself needs.
const LEAST: usize = 64 << 10;

/// As large as that of the main thread may grow, so that a body can go as deep as in a plain loop.
pub(crate) fn of_main() -> usize {
    if cfg!(miri) {
        // Miri doesn't know the call below.
        return 8 << 20;
    }
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the module's argument.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, limit.as_mut_ptr()) } == 0;
    // SAFETY: the limit was written.
    let most = if known { unsafe { limit.assume_init() }.rlim_cur } else { MOST };
    usize::try_from(most.clamp(2 << 20, MOST)).unwrap_or(2 << 20)
}

/// Whether the running thread's stack is as large as this, but for what the library needs. Where that isn't known: no.
pub(crate) fn is_as_large(bytes: usize) -> bool {
    thread_local! {
        static OWN: OnceCell<usize> = const { OnceCell::new() };
    }
    OWN.with(|own| *own.get_or_init(of_this_thread)) >= bytes.saturating_sub(LEAST)
}

#[cfg(all(target_os = "linux", not(miri)))]
fn of_this_thread() -> usize {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the running thread, and room for its attributes.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } != 0 {
        return 0;
    }
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes were written, and are given back once.
    let known = unsafe {
        let known = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        known
    };
    if known == 0 { size } else { 0 }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn of_this_thread() -> usize {
    0
}

/// What the program asks for, else what the environment does, in bytes.
pub(crate) fn size(asked: Option<usize>, variable: Option<&str>) -> Result<usize> {
    let (bytes, whence) = match (asked, variable.map(str::trim).filter(|text| !text.is_empty())) {
        (Some(bytes), _) => (Some(bytes), "stack_size".to_string()),
        (None, Some(text)) => (stack_size(text), format!("STRADSAP_STACK_SIZE={text}")),
        (None, None) => return Ok(of_main()),
    };
    bytes
        .filter(|&bytes| bytes >= LEAST)
        .ok_or_else(|| Error::usage(format!("{whence}: {} was expected, at least {LEAST}", amounts::EXPECTED)))
}

fn stack_size(text: &str) -> Option<usize> {
    amounts::bytes(text).and_then(|bytes| usize::try_from(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_thread_knows_its_stack() {
        let large = |bytes: usize| {
            let thread = std::thread::Builder::new().stack_size(4 << 20);
            thread.spawn(move || is_as_large(bytes)).unwrap().join().unwrap()
        };
        // (The system may give it a larger one, that another thread had.)
        assert!(large(1 << 20) && large(4 << 20) && !large(1 << 40));
    }

    #[test]
    fn the_program_goes_before_the_environment() {
        assert_eq!(size(Some(1 << 20), Some("2000000")).unwrap(), 1 << 20);
        assert_eq!(size(None, Some(" 2000000 ")).unwrap(), 2_000_000);
        assert_eq!(size(None, Some("16MiB")).unwrap(), 16 << 20);
        assert!((2 << 20..=256 << 20).contains(&size(None, Some("")).unwrap()));
        assert!(size(Some(10), None).unwrap_err().to_string().contains("at least 65536"));
        assert!(size(None, Some("8M")).unwrap_err().to_string().contains("STRADSAP_STACK_SIZE=8M"));
    }
}
