//! Where the threads of a loop wait for each other at the end of a round.

use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Condvar, Mutex};

use crate::session::locked;

/// How often a thread looks before it sleeps: some tens of microseconds.
const LOOKS: usize = 4_000;

/// A barrier for rounds that may be short: threads look for a while before they sleep.
pub(crate) struct Meeting {
    threads: usize,
    /// None where threads share cores: one that looks keeps from its core those that it waits for.
    looks: usize,
    here: AtomicUsize,
    round: AtomicUsize,
    lock: Mutex<()>,
    over: Condvar,
}

impl Meeting {
    pub(crate) fn new(threads: usize) -> Meeting {
        Meeting {
            threads,
            looks: if std::thread::available_parallelism().is_ok_and(|cores| threads <= cores.get()) {
                LOOKS
            } else {
                0
            },
            here: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            lock: Mutex::new(()),
            over: Condvar::new(),
        }
    }

    /// Waits until all threads have come. What each did before is seen by all.
    pub(crate) fn wait(&self) {
        if self.threads == 1 {
            return;
        }
        let round = self.round.load(Relaxed);
        if self.here.fetch_add(1, std::sync::atomic::Ordering::AcqRel) + 1 == self.threads {
            self.here.store(0, Relaxed);
            let _held = locked(&self.lock);
            self.round.store(round.wrapping_add(1), Release);
            self.over.notify_all();
            return;
        }
        for _ in 0..self.looks {
            if self.round.load(Acquire) != round {
                return;
            }
            std::hint::spin_loop();
        }
        let mut held = locked(&self.lock);
        while self.round.load(Acquire) == round {
            held = self.over.wait(held).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_goes_on_before_all_have_come() {
        let (meeting, sum) = (Meeting::new(4), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (meeting, sum) = (&meeting, &sum);
                scope.spawn(move || {
                    for round in 0..500 {
                        if thread == round % 4 && round % 50 == 0 {
                            std::thread::sleep(std::time::Duration::from_millis(2));
                        }
                        sum.fetch_add(1, Relaxed);
                        meeting.wait();
                        assert_eq!(sum.load(Relaxed), 4 * (round + 1));
                        meeting.wait();
                    }
                });
            }
        });
    }
}
