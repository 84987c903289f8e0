//! The virtual iteration: the loop's body on every index, with nothing written (STRADS-AP section 3).

use std::ops::Range;

use crate::capture::{Captured, Kind};
use crate::cold::{Cold, Doing};
use crate::frame::Frame;
use crate::pool::Pool;
use crate::recording::{CaptureLog, CaptureShape, Recording, SLICE};
use crate::task::Task;

/// What the planner has to know of the captures.
pub(crate) fn shapes(captured: &[Captured]) -> Vec<CaptureShape> {
    captured
        .iter()
        .map(|capture| match capture.kind {
            Kind::Vector { len, .. } => CaptureShape { len, reduction: false },
            Kind::Reduction { .. } => CaptureShape { len: 0, reduction: true },
        })
        .collect()
}

/// Records a loop on all threads. `exact` gives writers copies of the real elements instead of blank ones.
pub(crate) fn record(
    task: &dyn Task,
    captured: &[Captured],
    range: Range<usize>,
    exact: bool,
    pool: &Pool,
) -> Recording {
    let slices = pool.map(range.len().div_ceil(SLICE), |s| {
        let start = range.start + s * SLICE;
        let slice = start..range.end.min(start + SLICE);
        let frame = recording_frame(captured, &slice, exact);
        task.record(&frame, slice);
        frame.colds.into_vec().into_iter().map(log_of).collect()
    });
    Recording::new(range, slices, &shapes(captured))
}

/// A frame whose views own nothing, so that every access is noted.
fn recording_frame(captured: &[Captured], slice: &Range<usize>, exact: bool) -> Frame {
    Frame::new(|shared| {
        captured
            .iter()
            .enumerate()
            .map(|(c, capture)| match capture.kind {
                Kind::Vector { base, len, ops, writable, .. } => {
                    let log = CaptureLog::new(slice.start, slice.len(), writable);
                    let doing = Cold::recorder(log, base, len, ops, writable, exact);
                    Cold::new(c, base, len, Some(ops), doing, shared)
                }
                Kind::Reduction { .. } => Cold::new(c, std::ptr::null_mut(), 0, None, Doing::Reduction, shared),
            })
            .collect()
    })
}

fn log_of(cold: Cold) -> CaptureLog {
    match cold.into_doing() {
        Doing::Record(recorder) => recorder.log.into_inner(),
        _ => CaptureLog::default(),
    }
}
