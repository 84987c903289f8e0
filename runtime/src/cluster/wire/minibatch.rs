//! What the workers of a synchronous loop send each other: rows, and which rows they want.
//!
//! A message is a frame of kind `Blob`: its tag says what it is, `lo` for which round (or, under `Ssp`, how many minibatches),
//! `hi` who sends it (of a push, which copy). The payload is a list of sections, each of some rows of one DDS:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | capture |
//! | 4..8 | copy, or what the section is |
//! | 8..12 | rows |
//! | 12..16 | bytes of a row, or 0 where there are no values |
//! | 16.. | the rows' indices, 4 bytes each, then the values |

use stradsap_dds_server::frame::{Header, Kind};

use crate::cluster::wire::links::EMPTY;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Tag {
    /// A worker has all that it needs to begin; the rows that it wants for its first round.
    Ready = 1,
    /// What a worker's copies made of rows that the receiver keeps; the rows that it wants for the next round.
    Changes = 2,
    /// Rows as they are in a round. The receiver may go on.
    Rows = 3,
    /// More of them, which may come while bodies run.
    MoreRows = 4,
    /// Rows that a body waits for.
    Fetch = 5,
    /// The answer to that.
    Fetched = 6,
    /// Under `Ssp`: the changes of one minibatch to rows that the receiver keeps; the rows that it wants.
    Push = 7,
    /// Under `Ssp`: rows as of a clock that all copies have reached. Before the sections there are 8 bytes for each of the receiver's
    /// copies: how many minibatches' changes of it are in them, as before those of `Fetched` under `Ssp`.
    Mark = 8,
}

impl Tag {
    pub(crate) fn of(number: u64) -> Option<Tag> {
        [Tag::Ready, Tag::Changes, Tag::Rows, Tag::MoreRows, Tag::Fetch, Tag::Fetched, Tag::Push, Tag::Mark]
            .into_iter()
            .find(|&tag| tag as u64 == number)
    }
}

/// The copy of a section that isn't about one: rows that the sender wants.
pub(crate) const WANTED: u32 = u32::MAX;
/// That it wants every row that changes.
pub(crate) const WANTS_ALL: u32 = u32::MAX - 1;
/// That the receiver's own value is the current one.
pub(crate) const KEEP: u32 = u32::MAX - 2;
/// That the receiver's value is no longer the current one.
pub(crate) const GONE: u32 = u32::MAX - 3;
/// Rows with their current values.
pub(crate) const CURRENT: u32 = u32::MAX - 4;

const HEAD: usize = 16;

pub(crate) fn header(generation: u32, call: u64, tag: Tag, lo: u64, hi: u64) -> Header {
    Header { kind: Kind::Blob, generation, call, lo, hi, tag: tag as u64, ..EMPTY }
}

/// A message in the making.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins a section of this many rows, and takes their indices.
    pub(crate) fn section(&mut self, capture: usize, of: u32, rows: &[u32], size: usize) {
        self.bytes.reserve(HEAD + rows.len() * (4 + size));
        for number in [capture as u32, of, rows.len() as u32, size as u32] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        for row in rows {
            self.bytes.extend_from_slice(&row.to_le_bytes());
        }
    }

    /// The value of the section's next row.
    pub(crate) fn value(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Some rows of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) capture: usize,
    pub(crate) of: u32,
    pub(crate) rows: Vec<u32>,
    /// Where the first value stands in the payload, and how large one is.
    pub(crate) values: usize,
    pub(crate) size: usize,
}

/// What a DDS's sections may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) len: usize,
    pub(crate) size: usize,
}

/// The sections of a payload, or what is wrong with it. `shapes`: of each capture, none for those that aren't written.
pub(crate) fn read(payload: &[u8], shapes: &[Option<Shape>]) -> Result<Vec<Section>, String> {
    let mut sections = Vec::new();
    let mut at = 0;
    let number = |at: usize| -> Option<u32> {
        let bytes = payload.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    while at < payload.len() {
        let head = (number(at), number(at + 4), number(at + 8), number(at + 12));
        let (Some(capture), Some(of), Some(n), Some(size)) = head else {
            return Err(format!("a section's head is cut short at byte {at}"));
        };
        let (capture, n, size) = (capture as usize, n as usize, size as usize);
        let Some(shape) = shapes.get(capture).copied().flatten() else {
            return Err(format!("capture {capture} is not written by this loop"));
        };
        if size != 0 && size != shape.size {
            return Err(format!("rows of {size} bytes, but they have {}", shape.size));
        }
        let values = at + HEAD + 4 * n;
        let end = n.checked_mul(size).and_then(|bytes| bytes.checked_add(values));
        if n > shape.len || end.is_none_or(|end| end > payload.len()) {
            return Err(format!("{n} rows at byte {at} of {}", payload.len()));
        }
        let (indices, _) = payload[at + HEAD..values].as_chunks::<4>();
        let rows: Vec<u32> = indices.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        if rows.iter().any(|&row| row as usize >= shape.len) {
            return Err(format!("a row beyond the {} of capture {capture}", shape.len));
        }
        sections.push(Section { capture, of, rows, values, size });
        at = values + n * size;
    }
    Ok(sections)
}

impl Section {
    /// The value of the `k`-th row.
    pub(crate) fn value<'p>(&self, payload: &'p [u8], k: usize) -> &'p [u8] {
        let at = self.values + k * self.size;
        payload.get(at..at + self.size).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Option<Shape>; 3] = [Some(Shape { len: 10, size: 4 }), None, Some(Shape { len: 3, size: 8 })];

    fn message() -> Vec<u8> {
        let mut message = Writer::default();
        message.section(0, 7, &[1, 9], 4);
        message.value(b"abcd");
        message.value(b"efgh");
        message.section(2, WANTED, &[2, 0], 0);
        message.finish()
    }

    #[test]
    fn sections_come_back() {
        let bytes = message();
        let sections = read(&bytes, &SHAPES).unwrap();
        assert_eq!(sections.len(), 2);
        assert_eq!(
            (sections[0].of, &sections[0].rows[..], sections[0].value(&bytes, 1)),
            (7, &[1, 9][..], &b"efgh"[..])
        );
        assert_eq!((sections[1].capture, sections[1].of, &sections[1].rows[..]), (2, WANTED, &[2, 0][..]));
        assert!(read(&[], &SHAPES).unwrap().is_empty());
    }

    #[test]
    fn nothing_is_believed_that_does_not_fit() {
        let bytes = message();
        for end in 1..bytes.len() {
            // A cut between the sections leaves a shorter message, which is one.
            assert_eq!(read(&bytes[..end], &SHAPES).is_ok(), end == HEAD + 16, "{end} bytes");
        }
        let mut state = 7u64;
        for _ in 0..20_000 {
            let mut hostile = bytes.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % hostile.len();
                hostile[at] ^= (state >> 20) as u8;
            }
            if let Ok(sections) = read(&hostile, &SHAPES) {
                for section in sections {
                    let shape = SHAPES[section.capture].unwrap();
                    assert!(section.rows.iter().all(|&row| (row as usize) < shape.len));
                    (0..section.rows.len()).for_each(|k| assert_eq!(section.value(&hostile, k).len(), section.size));
                }
            }
        }
    }
}
