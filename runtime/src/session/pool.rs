//! The threads: the one place that knows the thread pool library.

use std::sync::Arc;

use rayon::prelude::*;

use crate::memory::buffer::large_pages;
use crate::planner::Threads;
use crate::session::error::{Error, Result};
use crate::session::nodes::{Machine, Nodes, System};
use crate::session::stack;

/// A number of threads; with one, everything runs on the caller's own.
pub(crate) struct Pool {
    threads: usize,
    stack: usize,
    rayon: Option<rayon::ThreadPool>,
}

impl Pool {
    /// The caller's own thread.
    pub(crate) fn one() -> Self {
        Pool { threads: 1, stack: 0, rayon: None }
    }

    /// With stacks of this many bytes.
    pub(crate) fn new(threads: usize, stack: usize) -> Result<Self> {
        Pool::on(threads, stack, Arc::new(Machine))
    }

    /// On a machine of which is asked what memory nodes it has.
    pub(crate) fn on(threads: usize, stack: usize, system: Arc<dyn System>) -> Result<Self> {
        let rayon = if threads == 1 {
            None
        } else {
            let nodes = Nodes::of(system);
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .stack_size(stack)
                .thread_name(|k| format!("stradsap-{k}"))
                .start_handler(move |k| nodes.iter().for_each(|nodes| nodes.keep(k, threads)))
                .build()
                .map_err(|error| Error::Threads { threads, reason: error.to_string() })?;
            Some(pool)
        };
        Ok(Pool { threads, stack, rayon })
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Whether a body can go as deep on the caller's thread as on these.
    pub(crate) fn fits_caller(&self) -> bool {
        self.rayon.is_none() || stack::is_as_large(self.stack)
    }

    /// `f(0), f(1), ..., f(n - 1)`, in this order, on any threads.
    pub(crate) fn map<R: Send>(&self, n: usize, f: impl Fn(usize) -> R + Sync + Send) -> Vec<R> {
        match &self.rayon {
            Some(pool) if n > 1 => pool.install(|| (0..n).into_par_iter().with_max_len(1).map(f).collect()),
            _ => (0..n).map(f).collect(),
        }
    }

    /// Runs `f` on up to `most` threads at the same time. One that begins when another has ended must find nothing left to do, and end.
    pub(crate) fn on_some(&self, most: usize, f: impl Fn() + Sync + Send) {
        match &self.rayon {
            // Of many threads only those that are needed are woken.
            Some(pool) if most > 1 && most < self.threads => pool.scope(|scope| {
                (1..most).for_each(|_| scope.spawn(|_| f()));
                f();
            }),
            _ => self.everywhere(most, |_| f()),
        }
    }

    /// Runs `f` once on each of up to `most` threads at the same time, with the number of the thread: the same one each time.
    pub(crate) fn everywhere(&self, most: usize, f: impl Fn(usize) + Sync + Send) {
        match &self.rayon {
            Some(pool) if most > 1 => {
                pool.broadcast(|context| {
                    if context.index() < most {
                        f(context.index());
                    }
                });
            }
            _ => f(0),
        }
    }
}

impl Threads for Pool {
    fn count(&self) -> usize {
        self.threads
    }

    fn run(&self, n: usize, f: &(dyn Fn(usize) + Sync)) {
        self.map(n, f);
    }

    fn zeros(&self, n: usize) -> Vec<u32> {
        let mut zeros = vec![0; n];
        large_pages(&mut zeros);
        zeros
    }
}
