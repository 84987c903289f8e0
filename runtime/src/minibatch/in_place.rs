//! One copy in one process: bodies work on the elements themselves. A single thread runs the minibatches in order, as the
//! plain loop would; under `Hybrid` several threads take them in turn and share rows without locks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use super::hot::{HotLocks, HotRows, Uses, choose};
use super::lanes::{Lanes, Place};
use crate::body::context::Frame;
use crate::session::pool::Pool;

/// So many minibatches for each thread are worth a count of the accesses of one.
const WORTH_COUNTING: usize = 8;

pub(crate) fn run(lanes: &Lanes<'_>, pool: &Pool) {
    let claimed = AtomicUsize::new(0);
    let locks = HotLocks::new();
    let minibatches = lanes.schedule.minibatches();
    let next = || Some(claimed.fetch_add(1, Relaxed)).filter(|&minibatch| minibatch < minibatches);
    pool.everywhere(lanes.threads, || {
        let since = Instant::now();
        let run_all = |frame: &Frame<'_>, after: &dyn Fn()| {
            let mut first = true;
            while let Some(minibatch) = next() {
                let ran = lanes.run(frame, minibatch, first);
                let united = lanes.uniting(minibatch, after).is_some();
                if !(ran && united) {
                    break;
                }
                first = false;
            }
            !first
        };
        match lanes.caches.filter(|_| lanes.threads > 1 && minibatches >= WORTH_COUNTING * lanes.threads) {
            None => {
                let frame = lanes.frame(Place::Direct);
                if run_all(&frame, &|| {}) && lanes.serial {
                    lanes.finish_serial(&frame);
                }
            }
            Some(known) => {
                let chosen = known.get().or_else(|| {
                    let uses: Vec<Uses> = lanes.captured().iter().map(|_| Uses::default()).collect();
                    let counted =
                        next().is_some_and(|first| lanes.run(&lanes.frame(Place::Counted(&uses)), first, true));
                    counted.then(|| choose(&uses, lanes.threads))
                });
                if let Some(chosen) = chosen {
                    let hot = HotRows::of(&chosen, lanes.lease, lanes.merges, &locks);
                    lanes.outcome.cached.fetch_max(hot.iter().flatten().map(|hot| hot.len() as u64).sum(), Relaxed);
                    known.set(chosen);
                    run_all(&lanes.frame(Place::Hot(&hot)), &|| hot.iter().flatten().for_each(HotRows::flush));
                }
            }
        }
        lanes.outcome.computing.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
    });
}
