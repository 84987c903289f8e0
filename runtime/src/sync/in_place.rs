//! One copy in one process: bodies work on the elements themselves. A single thread runs the minibatches in order, as the
//! plain loop would; under `Hybrid` several threads take them in turn and share rows without locks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use super::lanes::{Lanes, Place};
use crate::pool::Pool;

pub(crate) fn run(lanes: &Lanes<'_>, pool: &Pool) {
    let claimed = AtomicUsize::new(0);
    let minibatches = lanes.schedule.minibatches();
    pool.everywhere(lanes.threads, || {
        let since = Instant::now();
        let mut frame = lanes.frame(Place::InPlace);
        let mut first = true;
        loop {
            let minibatch = claimed.fetch_add(1, Relaxed);
            if minibatch >= minibatches || !lanes.run(&mut frame, minibatch, first) {
                break;
            }
            first = false;
        }
        if lanes.serial && !first {
            lanes.finish_serial(&frame);
        }
        lanes.outcome.computing.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
    });
}
