//! Loops as logs of their accesses: iteration by iteration (capture, index, whether it is written).

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use stradsap_planner::inference::samples;
use stradsap_planner::plan::{Plan, outline, plan};
use stradsap_planner::recording::{CaptureLog, CaptureShape, Recording, slices};
use stradsap_planner::{PlanOptions, Threads};

/// A capture, an index, and whether the element is written.
pub(crate) type Access = (usize, usize, bool);

/// A loop that needs no body: what its iterations touch, in order.
pub(crate) struct Loop {
    pub(crate) range: Range<usize>,
    /// Of each capture: how many elements it has, and whether it may be written.
    pub(crate) captures: Vec<(usize, bool)>,
    /// Of each iteration.
    pub(crate) accesses: Vec<Vec<Access>>,
}

impl Loop {
    pub(crate) fn shapes(&self) -> Vec<CaptureShape> {
        self.captures
            .iter()
            .map(|&(len, _)| CaptureShape { len, reduction: false, by_block: false, owning: false, dealt: false })
            .collect()
    }

    /// The logs of some iterations.
    fn logs(&self, slice: &Range<usize>) -> Vec<CaptureLog> {
        let log = |&(_, writable): &(usize, bool)| CaptureLog::new(slice.start, slice.len(), writable);
        let mut logs: Vec<CaptureLog> = self.captures.iter().map(log).collect();
        for i in slice.clone() {
            for &(capture, index, write) in &self.accesses[i - self.range.start] {
                logs[capture].access(index, write);
            }
            logs.iter_mut().for_each(CaptureLog::end_iteration);
        }
        logs
    }

    /// The recording of these iterations.
    pub(crate) fn record(&self, slices: &[Range<usize>]) -> Recording<'static> {
        Recording::new(self.range.clone(), slices.iter().map(|slice| self.logs(slice)).collect(), &self.shapes())
    }

    /// The recording of all iterations.
    pub(crate) fn record_all(&self) -> Recording<'static> {
        self.record(&slices(&self.range))
    }

    /// The recording of its outline, if it may be a loop over a table; a loop over pairs has rows of `columns` iterations.
    pub(crate) fn outline(&self, columns: Option<usize>) -> Option<Recording<'static>> {
        let samples = samples(&self.range)?;
        let middle = outline::middle(&self.record(&samples), &samples, columns)?;
        let rows = self.record(&middle);
        let edges = outline::edges(&rows, &middle, columns)?;
        let logs = edges.iter().map(|slice| self.logs(slice)).collect();
        Some(rows.outlined(middle, (edges, logs), &self.shapes()))
    }

    pub(crate) fn plan(&self, options: &PlanOptions, threads: usize) -> Plan {
        plan(&self.record_all(), &self.shapes(), options, &Team(threads))
    }
}

/// This many threads, each of which takes the next call that nobody has.
pub(crate) struct Team(pub(crate) usize);

impl Threads for Team {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, n: usize, f: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.0.min(n) {
                scope.spawn(|| {
                    loop {
                        let k = next.fetch_add(1, Relaxed);
                        if k >= n {
                            return;
                        }
                        // The last ones first: no result may depend on the order.
                        f(n - 1 - k);
                    }
                });
            }
        });
    }
}

/// The loop's indices in the plan's serial order.
pub(crate) fn serial_order(plan: &Plan) -> Vec<usize> {
    (0..plan.range.len()).map(|place| plan.range.start + plan.offset(place)).collect()
}
