//! Checking a loop against its promise: the claimed serial order, replayed, must give the same bits.
//!
//! # Why this is sound
//! Before and after a loop no block of it runs, and the loop has its DDSs borrowed: what is lent may be read.
#![allow(unsafe_code)]

use crate::body::capture::{Captured, Kind};
use crate::body::lease::Lease;
use crate::loops::execute::Run;
use crate::memory::buffer::RawBuf;

/// Copies of what a loop may write, from before it.
pub(crate) struct Verifier {
    shadows: Vec<Option<RawBuf>>,
}

impl Verifier {
    pub(crate) fn before(lease: &Lease<'_>) -> Self {
        let copy_of = |c: usize| {
            let lent = lease.vector(c).filter(|lent| lent.is_writable())?;
            let mut copy = RawBuf::new(lent.ops(), lent.len());
            // SAFETY: this many elements are lent, and no block runs.
            unsafe { copy.push_clones(lent.base(), lent.len()) };
            Some(copy)
        };
        Verifier { shadows: (0..lease.captured().len()).map(copy_of).collect() }
    }

    /// Of copies that were made elsewhere, of all captures.
    pub(crate) fn of(captured: &[Captured], copies: Vec<Option<RawBuf>>) -> Self {
        let writable = |capture: &Captured| matches!(capture.kind, Kind::Vector { writable: true, .. });
        let shadows = captured.iter().zip(copies).map(|(capture, copy)| copy.filter(|_| writable(capture))).collect();
        Verifier { shadows }
    }

    /// The captures that were compared. Otherwise the first capture and index where the replay differs from what the loop
    /// left.
    pub(crate) fn check(self, run: &Run<'_>, words: &[u64]) -> Result<Vec<usize>, (usize, usize)> {
        let replaced: Vec<bool> = self.shadows.iter().map(Option::is_some).collect();
        let shadows = run.lease.with(self.shadows);
        // An iteration that failed in the replay did not fail in the run: that is a difference, too.
        let replayed = run.replay(&shadows).map_err(|_| (0, 0))?;
        let left = run.board.total();
        let (mut a, mut b, mut compared) = (Vec::new(), Vec::new(), Vec::new());
        for (c, capture) in run.lease.captured().iter().enumerate() {
            match (&capture.kind, run.lease.vector(c).zip(shadows.vector(c)).filter(|_| replaced[c])) {
                (Kind::Vector { len, ops, .. }, Some((own, shadow))) => {
                    for i in 0..*len {
                        a.clear();
                        b.clear();
                        // SAFETY: both hold `len` elements, and no block runs.
                        unsafe {
                            ops.encode(own.at(i), &mut a);
                            ops.encode(shadow.at(i), &mut b);
                        }
                        if a != b {
                            return Err((c, i));
                        }
                    }
                }
                (Kind::Reduction { .. }, _) if words[c] != replayed.words[c] => return Err((c, 0)),
                (Kind::Relaxed { .. }, _) => {
                    let (Some(left), Some(again)) = (left[c].as_ref(), replayed.relaxed[c].as_ref()) else {
                        return Err((c, 0));
                    };
                    if left.bytes() != again.bytes() {
                        let size = left.ops().size.max(1);
                        let differs = left.bytes().iter().zip(again.bytes()).position(|(a, b)| a != b);
                        return Err((c, differs.unwrap_or(0) / size));
                    }
                }
                (Kind::Reduction { .. }, _) => {}
                (Kind::Vector { .. }, _) => continue,
            }
            compared.push(c);
        }
        Ok(compared)
    }
}
