//! The input of a synchronous loop on a worker: the elements of its minibatches, one after the other.

use std::ops::Range;
use std::sync::Arc;

use crate::cluster::wire::links::Links;
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{DRIVER, Holder, InputFrom, Problem, Pull, SyncJob};
use crate::cluster::worker::bench::Workbench;
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;

/// About this many bytes are fetched at once.
const PIECE: usize = 8 << 20;
/// Ranges that lie no further apart than this, in bytes, are fetched together: to fetch what lies between them costs less than to ask
/// twice.
const NEAR: usize = 64 << 10;

fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::Broken(what.to_string())
}

impl Workbench {
    /// The worker's minibatches.
    pub(crate) async fn input(&self, job: &SyncJob, links: &Links) -> Result<Arc<RawBuf>, Problem> {
        if let Some(there) = self.sync.kept_input(job.input.key) {
            return Ok(there);
        }
        let from = job.input.from.as_ref().ok_or_else(|| broken("an input that was never sent"))?;
        let ops = naming::element_ops(job.input.ops).ok_or_else(|| broken("a type of another program"))?;
        let elements = match from {
            InputFrom::Driver(blobs) => of_blobs(ops, blobs, links).await?,
            InputFrom::Holders(parts) => self.of_holders(ops, (job, parts), links).await?,
        };
        Ok(self.sync.keep_input(job.input.key, elements))
    }

    /// Takes the elements from where they lie, as they are needed here.
    async fn of_holders(
        &self,
        ops: &'static ElementOps,
        (job, parts): (&SyncJob, &[Pull]),
        links: &Links,
    ) -> Result<RawBuf, Problem> {
        let me = self.workers().iter().position(|&node| node == self.me());
        let copies = me.and_then(|me| job.copies.get(me)).ok_or_else(|| broken("a loop of others"))?;
        let wanted = job.schedule.elements_of(copies.clone());
        let mut elements = RawBuf::new(ops, wanted.iter().map(Range::len).sum());
        for part in parts {
            for piece in pieces(&wanted, &part.range, ops.size) {
                let bytes = self.encoded(part, span(&piece), (ops.plain_size(), links)).await?;
                push(&mut elements, &piece, &bytes)?;
            }
        }
        Ok(elements)
    }

    async fn encoded(
        &self,
        part: &Pull,
        range: Range<usize>,
        (size, links): (Option<usize>, &Links),
    ) -> Result<Vec<u8>, Problem> {
        if part.from != Holder::memory(self.me()) {
            let bytes = links.encoded(part.dds, range, part.from, size).await;
            return bytes.map_err(|error| error.problem(part.from.node));
        }
        let (reservation, mut bytes) = (self.known(part.dds)?, Vec::new());
        if range.end > reservation.len() {
            return Err(broken("an input of another length"));
        }
        // SAFETY: the driver knows that they are here, and no loop writes its own input.
        #[allow(unsafe_code)]
        let there = unsafe { reservation.encode_there(range, &mut bytes) };
        there.map(|()| bytes).ok_or_else(|| broken("an input that is not here"))
    }
}

async fn of_blobs(ops: &'static ElementOps, blobs: &[(u64, usize)], links: &Links) -> Result<RawBuf, Problem> {
    let mut elements = RawBuf::new(ops, blobs.iter().map(|&(_, n)| n).sum());
    for &(blob, n) in blobs {
        let bytes = links.blob(DRIVER, blob).await.map_err(|error| error.problem(DRIVER))?;
        elements.push_decoded(n, &mut bytes.as_slice()).map_err(broken)?;
    }
    Ok(elements)
}

fn span(piece: &[Range<usize>]) -> Range<usize> {
    piece.first().map_or(0, |first| first.start)..piece.last().map_or(0, |last| last.end)
}

/// What is fetched of a part, by pieces: the ranges that are wanted of each.
fn pieces(wanted: &[Range<usize>], part: &Range<usize>, size: usize) -> Vec<Vec<Range<usize>>> {
    let (most, near) = ((PIECE / size.max(1)).max(1), NEAR / size.max(1));
    let mut pieces: Vec<Vec<Range<usize>>> = Vec::new();
    let first = wanted.partition_point(|range| range.end <= part.start);
    for range in wanted[first..].iter().take_while(|range| range.start < part.end) {
        let range = range.start.max(part.start)..range.end.min(part.end);
        for start in range.clone().step_by(most) {
            let range = start..range.end.min(start + most);
            match pieces.last_mut() {
                Some(last) if range.start - span(last).end <= near && range.end - span(last).start <= most => {
                    last.push(range);
                }
                _ => pieces.push(vec![range]),
            }
        }
    }
    pieces
}

/// Appends the elements of a piece that are wanted.
fn push(elements: &mut RawBuf, piece: &[Range<usize>], mut bytes: &[u8]) -> Result<(), Problem> {
    let span = span(piece);
    if piece.iter().map(Range::len).sum::<usize>() == span.len() {
        elements.push_decoded(span.len(), &mut bytes).map_err(broken)?;
    } else {
        let mut all = RawBuf::new(elements.ops(), span.len());
        all.push_decoded(span.len(), &mut bytes).map_err(broken)?;
        let mut own = Vec::new();
        for range in piece {
            all.encode_range(range.start - span.start, range.end - span.start, &mut own);
        }
        let n = piece.iter().map(Range::len).sum();
        elements.push_decoded(n, &mut own.as_slice()).map_err(broken)?;
    }
    if bytes.is_empty() { Ok(()) } else { Err(broken(format!("{} bytes too many of an input", bytes.len()))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_what_is_wanted_of_a_part_and_little_else() {
        let size = 1 << 10;
        let cases: [(&[Range<usize>], Range<usize>); 5] = [
            (&[], 0..100),
            (&[0..10, 20..30, 500..510, 574..600], 0..1000),
            (&[0..10, 20..30, 500..510], 25..505),
            (&[0..50_000, 50_001..50_002], 7..40_000),
            (&[0..3, 9_000..9_001, 9_002..30_000, 30_001..30_002], 2..30_002),
        ];
        for (wanted, part) in cases {
            let pieces = pieces(wanted, &part, size);
            let of = |ranges: &mut dyn Iterator<Item = Range<usize>>| ranges.flatten().collect::<Vec<usize>>();
            let expected: Vec<usize> =
                of(&mut wanted.iter().cloned()).into_iter().filter(|i| part.contains(i)).collect();
            assert_eq!(of(&mut pieces.iter().flatten().cloned()), expected, "{wanted:?} of {part:?}");
            for piece in &pieces {
                assert!(span(piece).len() * size <= PIECE, "{piece:?}");
                assert!(piece.windows(2).all(|two| (two[1].start - two[0].end) * size <= NEAR), "{piece:?}");
            }
            // None could have come with the one before.
            for two in pieces.windows(2) {
                let (before, after) = (span(&two[0]), &two[1][0]);
                let (apart, together) = (after.start - before.end, after.end - before.start);
                assert!(apart * size > NEAR || together * size > PIECE, "{two:?}");
            }
        }
    }
}
