//! The worker's second thread: does one thing after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use stradsap_dds_server::tasks;

use crate::session::condition::Condition;
use crate::session::error::{Error, Result};
use crate::session::locked;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    news: Condition,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// No more come, or nobody does them any more.
    over: bool,
}

/// The way to the thread, which ends with this.
pub(super) struct Jobs(Arc<Queue>);

impl Jobs {
    /// Bodies run on the thread, too: its stack has this many bytes.
    pub(super) fn new(stack: usize) -> Result<Jobs> {
        let queue = Arc::new(Queue::default());
        let own = Arc::clone(&queue);
        let begun = tasks::thread(stack, move || {
            let at_work = AtWork(own);
            while let Some(job) = at_work.0.next() {
                job();
            }
        });
        begun.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        Ok(Jobs(queue))
    }

    /// False: a job has panicked, and the thread has ended with it.
    pub(super) fn add(&self, job: Job) -> bool {
        let mut waiting = locked(&self.0.waiting);
        if waiting.over {
            return false;
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        self.0.news.notify_all();
        true
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        locked(&self.0.waiting).over = true;
        self.0.news.notify_all();
    }
}

/// The thread's hold on the queue.
struct AtWork(Arc<Queue>);

impl Drop for AtWork {
    fn drop(&mut self) {
        let left = {
            let mut waiting = locked(&self.0.waiting);
            waiting.over = true;
            std::mem::take(&mut waiting.jobs)
        };
        // Who waits for one of these hears that it will not be done.
        drop(left);
    }
}

impl Queue {
    fn next(&self) -> Option<Job> {
        let mut waiting = locked(&self.waiting);
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.over {
                return None;
            }
            waiting = self.news.wait(&self.waiting, waiting, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_are_done_in_turn_and_none_is_waited_for_after_a_panic() {
        let (jobs, (sender, done)) = (Jobs::new(1 << 20).unwrap(), mpsc::channel());
        for k in 0..3 {
            let sender = sender.clone();
            assert!(jobs.add(Box::new(move || sender.send(k).unwrap())));
        }
        assert_eq!(done.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);

        let (go, begin) = mpsc::channel();
        jobs.add(Box::new(move || {
            begin.recv().unwrap();
            std::panic::resume_unwind(Box::new("a job panics"));
        }));
        // What waits behind it is dropped, and with it the last sender.
        jobs.add(Box::new(move || sender.send(4).unwrap()));
        go.send(()).unwrap();
        assert!(done.recv().is_err());
        let since = std::time::Instant::now();
        while jobs.add(Box::new(|| ())) {
            assert!(since.elapsed().as_secs() < 20, "nobody says that the thread has ended");
        }
    }
}
