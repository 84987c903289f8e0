//! The threads that a plan is made on.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads that share out independent pieces of work. No plan depends on their number.
///
/// ```
/// use stradsap_planner::{Inline, Threads};
///
/// let threads: &dyn Threads = &Inline;
/// assert_eq!(threads.map(4, |k| k * k), [0, 1, 4, 9]);
/// ```
pub trait Threads: Sync {
    /// How many threads there are.
    fn count(&self) -> usize;

    /// Calls `f(0), f(1), ..., f(n - 1)`, in any order and at the same time, and returns when all calls have.
    fn run(&self, n: usize, f: &(dyn Fn(usize) + Sync));

    /// This many zeros, where a list goes that every call of the loop reads.
    fn zeros(&self, n: usize) -> Vec<u32> {
        vec![0; n]
    }
}

impl dyn Threads + '_ {
    /// The results `f(0), f(1), ..., f(n - 1)`, in this order, whichever threads computed them.
    pub fn map<R: Send>(&self, n: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let results: Vec<Mutex<Option<R>>> = (0..n).map(|_| Mutex::new(None)).collect();
        self.run(n, &|k| {
            let result = f(k);
            *locked(&results[k]) = Some(result);
        });
        results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// The caller's own thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inline;

impl Threads for Inline {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, n: usize, f: &(dyn Fn(usize) + Sync)) {
        (0..n).for_each(f);
    }
}

/// Locks a mutex whose contents no panic leaves half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
