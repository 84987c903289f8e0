//! The memory of a DVector in the program's own process.
//!
//! A buffer is lent by reference count. Who replaces it (the cluster does when it brings elements home) puts another in
//! its place; a buffer that was lent lives until the last lease has ended, and is never changed through its home meanwhile.
//! Nobody waits for a lease to end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::memory::buffer::{RawBuf, give_freed_back};
use crate::memory::element_ops::ElementOps;
use crate::memory::spare::Spare;

/// Where a DVector's elements are kept. Clones are the same home.
#[derive(Clone)]
pub(crate) struct Home(Arc<Inner>);

struct Inner {
    ops: &'static ElementOps,
    buffer: RwLock<Arc<RawBuf>>,
    version: AtomicU64,
    poison: OnceLock<Poison>,
    spare: Arc<Spare>,
}

/// Which loop has left the elements half written, and how it calls them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Poison {
    pub(crate) dds: &'static str,
    pub(crate) site: String,
}

impl Home {
    pub(crate) fn new(buffer: RawBuf, version: u64) -> Home {
        let ops = buffer.ops();
        let (buffer, version) = (RwLock::new(Arc::new(buffer)), AtomicU64::new(version));
        Home(Arc::new(Inner { ops, buffer, version, poison: OnceLock::new(), spare: Arc::default() }))
    }

    /// The type of the elements.
    pub(crate) fn ops(&self) -> &'static ElementOps {
        self.0.ops
    }

    /// Memory for copies of elements.
    pub(crate) fn spare(&self) -> &Arc<Spare> {
        &self.0.spare
    }

    /// The buffer, for as long as the caller keeps it.
    pub(crate) fn lend(&self) -> Arc<RawBuf> {
        Arc::clone(&self.0.buffer.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether somebody else has the buffer now.
    pub(crate) fn is_lent(&self) -> bool {
        Arc::strong_count(&self.0.buffer.read().unwrap_or_else(PoisonError::into_inner)) > 1
    }

    /// Puts another buffer in place of the one that is there.
    pub(crate) fn replace(&self, buffer: RawBuf) {
        let old =
            std::mem::replace(&mut *self.0.buffer.write().unwrap_or_else(PoisonError::into_inner), Arc::new(buffer));
        // Outside the lock: elements may have a `Drop` of the program's own.
        drop(old);
    }

    /// Frees the elements, which are elsewhere.
    pub(crate) fn give_up(&self) {
        let none = Arc::new(RawBuf::new(self.0.ops, 0));
        let old = std::mem::replace(&mut *self.0.buffer.write().unwrap_or_else(PoisonError::into_inner), none);
        // Who was lent the buffer frees it.
        if let Ok(old) = Arc::try_unwrap(old) {
            old.give_back();
            if self.0.ops.needs_drop {
                give_freed_back();
            }
        }
    }

    /// Changes the elements; a copy of them, if the buffer is lent to anybody.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut RawBuf) -> R) -> R {
        let mut buffer = self.0.buffer.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::get_mut(&mut buffer).is_none() {
            let copy = buffer.copy();
            *buffer = Arc::new(copy);
        }
        match Arc::get_mut(&mut buffer) {
            Some(buffer) => f(buffer),
            None => unreachable!("nobody lends the buffer while it is locked"),
        }
    }

    /// A number that changes with the contents, so that copies made for a plan are known to be old.
    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Relaxed)
    }

    pub(crate) fn set_version(&self, version: u64) {
        self.0.version.store(version, Relaxed);
    }

    /// From now on the elements may be anything.
    pub(crate) fn poison(&self, by: Poison) {
        // Of several loops the first is to blame.
        let _ = self.0.poison.set(by);
    }

    pub(crate) fn poisoned(&self) -> Option<&Poison> {
        self.0.poison.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::element_ops::ops_of;

    fn words(words: &[&str]) -> RawBuf {
        let mut buffer = RawBuf::new(ops_of::<String>(), words.len());
        words.iter().for_each(|word| buffer.push(word.to_string()));
        buffer
    }

    #[test]
    fn what_is_lent_outlives_what_replaces_it() {
        let home = Home::new(words(&["a", "b"]), 1);
        let lent = home.lend();
        home.change(|buffer| buffer.as_mut_slice::<String>()[0].push('!'));
        home.replace(words(&["c"]));
        assert_eq!(lent.as_slice::<String>(), ["a", "b"]);
        assert_eq!(home.lend().as_slice::<String>(), ["c"]);
    }

    #[test]
    fn what_is_given_up_is_freed_when_nobody_has_it() {
        let home = Home::new(words(&["a", "b"]), 1);
        let lent = home.lend();
        home.give_up();
        assert_eq!((lent.as_slice::<String>().len(), home.lend().len()), (2, 0));
        let mut numbers = RawBuf::new(ops_of::<u64>(), 100_000);
        (0..100_000u64).for_each(|n| numbers.push(n));
        let home = Home::new(numbers, 1);
        home.give_up();
        assert_eq!((home.lend().len(), home.ops().size), (0, 8));
    }

    #[test]
    fn what_is_not_lent_is_changed_in_place() {
        let home = Home::new(words(&["a"]), 1);
        assert!(!home.is_lent());
        let lent = home.lend();
        assert!(home.is_lent());
        drop(lent);
        let before = home.lend().as_ptr();
        home.change(|buffer| buffer.as_mut_slice::<String>()[0].push('!'));
        assert_eq!((home.lend().as_ptr(), home.lend().as_slice::<String>()), (before, &["a!".to_string()][..]));
    }
}
