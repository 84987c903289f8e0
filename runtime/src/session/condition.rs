//! Condition variables, on which the threads of a simulation wait as well (the feature `simulation`).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A condition variable.
#[derive(Default)]
pub(crate) struct Condition {
    condvar: Condvar,
    #[cfg(feature = "simulation")]
    simulated: Mutex<Vec<std::task::Waker>>,
}

impl Condition {
    pub(crate) fn new() -> Condition {
        Condition::default()
    }

    /// Waits until it is notified, for as long as this at most where that is said, or for no reason at all. The guard is one of the
    /// mutex.
    pub(crate) fn wait<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
        limit: Option<Duration>,
    ) -> MutexGuard<'m, T> {
        #[cfg(feature = "simulation")]
        if stradsap_dds_server::simulation::thread::is_one() {
            return self.wait_simulated(mutex, guard, limit);
        }
        let _ = mutex;
        match limit {
            None => self.condvar.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => self.condvar.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    #[cfg(feature = "simulation")]
    fn wait_simulated<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
        limit: Option<Duration>,
    ) -> MutexGuard<'m, T> {
        use stradsap_dds_server::simulation::thread;

        // Nothing else runs until this thread gives its turn away.
        crate::session::locked(&self.simulated).push(thread::waker());
        drop(guard);
        thread::park(limit.map(|limit| tokio::time::Instant::now() + limit));
        crate::session::locked(mutex)
    }

    pub(crate) fn notify_all(&self) {
        self.condvar.notify_all();
        #[cfg(feature = "simulation")]
        std::mem::take(&mut *crate::session::locked(&self.simulated)).into_iter().for_each(std::task::Waker::wake);
    }
}

/// Takes the time that a step of a computation takes in a simulation; none elsewhere.
#[inline]
pub(crate) fn compute() {
    #[cfg(feature = "simulation")]
    stradsap_dds_server::simulation::thread::compute();
}
