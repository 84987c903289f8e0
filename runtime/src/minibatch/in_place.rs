//! One copy in one process: bodies work on the elements themselves. A single thread runs the minibatches in order, as the
//! plain loop would; under `Hybrid` several threads take them in turn and share rows without locks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use super::hot::{HotLocks, HotRows, Uses, choose};
use super::runner::{Runner, ViewTarget};
use crate::body::context::Context;
use crate::session::pool::Pool;

/// This many minibatches for each thread are worth a count of the accesses of one.
const WORTH_COUNTING: usize = 8;

pub(crate) fn run(runner: &Runner<'_>, pool: &Pool) {
    let claimed = AtomicUsize::new(0);
    let locks = HotLocks::new();
    let minibatches = runner.schedule.minibatches();
    let next = || Some(claimed.fetch_add(1, Relaxed)).filter(|&minibatch| minibatch < minibatches);
    pool.everywhere(runner.threads, |thread| {
        let since = Instant::now();
        let part = (0, thread);
        let run_all = |context: &Context<'_>, after: &dyn Fn()| {
            let mut first = true;
            while let Some(minibatch) = next() {
                let ran = runner.run(context, minibatch, first);
                let united = runner.uniting(minibatch, after).is_some();
                if !(ran && united) {
                    break;
                }
                first = false;
            }
            runner.keep_new_entries(context, part);
            !first
        };
        match runner.caches.filter(|_| runner.threads > 1 && minibatches >= WORTH_COUNTING * runner.threads) {
            None => {
                let context = runner.context(ViewTarget::Direct, part);
                if run_all(&context, &|| {}) && runner.serial {
                    runner.finish_serial(&context);
                }
            }
            Some((known, most)) => {
                let chosen = known.get().or_else(|| {
                    let uses: Vec<Uses> = runner.captured().iter().map(|_| Uses::default()).collect();
                    let context = runner.context(ViewTarget::Counted(&uses), part);
                    let counted = next().is_some_and(|first| runner.run(&context, first, true));
                    runner.keep_new_entries(&context, part);
                    counted.then(|| choose(&uses, runner.threads))
                });
                if let Some(chosen) = chosen {
                    let hot = HotRows::of(&chosen, (runner.threads, most), runner.lease, runner.merges, &locks);
                    runner.outcome.cached.fetch_max(hot.iter().flatten().map(|hot| hot.len() as u64).sum(), Relaxed);
                    known.set(chosen);
                    run_all(&runner.context(ViewTarget::Hot(&hot), part), &|| {
                        hot.iter().flatten().for_each(HotRows::flush);
                    });
                }
            }
        }
        runner.outcome.computing.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
    });
}
