//! Rules that give the elements that an iteration touches, from its index and the data.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::log::{CaptureLog, sort_iteration};

/// The elements that a loop reads in step, one element of a capture for each iteration, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<'f> {
    first: usize,
    size: usize,
    bytes: &'f [u8],
    /// In place of all elements those of some runs of iterations, each with its first.
    samples: &'f [(usize, Vec<u8>)],
    /// Whether elements lie in memory as they do here.
    in_memory: bool,
}

impl<'f> Fields<'f> {
    /// Elements of `size` bytes, one after the other, beginning with that of iteration `first`.
    pub fn new(first: usize, size: usize, bytes: &'f [u8]) -> Self {
        Fields { first, size, bytes, samples: &[], in_memory: true }
    }

    /// The same of elements that lie in another way in memory.
    pub fn encoded(first: usize, size: usize, bytes: &'f [u8]) -> Self {
        Fields { in_memory: false, ..Fields::new(first, size, bytes) }
    }

    /// Elements of `size` bytes of some runs of iterations alone, each with its first iteration.
    pub fn of_samples(size: usize, samples: &'f [(usize, Vec<u8>)]) -> Self {
        Fields { first: 0, size, bytes: &[], samples, in_memory: true }
    }

    /// Whether a number stands at the same place of an element in memory.
    pub(crate) fn are_in_memory(&self) -> bool {
        self.in_memory
    }

    /// The memory that was taken for elements that lie in another way.
    pub(crate) fn encoded_bytes(&self) -> usize {
        if self.in_memory { 0 } else { self.bytes.len() }
    }

    /// How many bytes an element has.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether each of these iterations has an element.
    pub(crate) fn cover(&self, iterations: &Range<usize>) -> bool {
        if !self.samples.is_empty() {
            return true;
        }
        let count = self.bytes.len().checked_div(self.size).unwrap_or(0);
        self.first <= iterations.start && iterations.end <= self.first.saturating_add(count)
    }

    /// The bytes of these iterations' elements; fewer if there are no more.
    fn of(&self, iterations: Range<usize>) -> &'f [u8] {
        let sampled = self.samples.iter().find_map(|(first, bytes)| {
            let at = |iteration: usize| iteration.checked_sub(*first)?.checked_mul(self.size);
            bytes.get(at(iterations.start)?..at(iterations.end)?)
        });
        if let Some(sampled) = sampled {
            return sampled;
        }
        let at =
            |iteration: usize| iteration.saturating_sub(self.first).saturating_mul(self.size).min(self.bytes.len());
        &self.bytes[at(iterations.start)..at(iterations.end)]
    }

    /// The number that stands in a field of an iteration's element; where there is none, one that is no index.
    fn number(&self, iteration: usize, byte: usize, width: Width) -> usize {
        width.read(self.of(iteration..iteration.saturating_add(1)), byte)
    }
}

/// A field of the elements of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldPlace {
    /// Which capture.
    pub capture: usize,
    /// Its offset in the element, in bytes.
    pub byte: usize,
}

/// Fields of the elements of a capture in which indices of 4 bytes stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFields {
    /// Which capture.
    pub capture: usize,
    /// Their offsets in the element, in bytes.
    pub bytes: Vec<usize>,
}

/// How many bytes a number has that might be an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Width {
    Four,
    Eight,
}

impl Width {
    pub(crate) const ALL: [Width; 2] = [Width::Four, Width::Eight];

    pub(crate) fn bytes(self) -> usize {
        match self {
            Width::Four => 4,
            Width::Eight => 8,
        }
    }

    #[inline]
    fn read(self, element: &[u8], byte: usize) -> usize {
        let Some(at) = element.get(byte..) else { return usize::MAX };
        match self {
            Width::Four => at.first_chunk().map_or(usize::MAX, |&bytes| u32::from_ne_bytes(bytes) as usize),
            Width::Eight => at.first_chunk().map_or(usize::MAX, |&bytes| u64::from_ne_bytes(bytes) as usize),
        }
    }
}

/// Which number of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Axis {
    Row,
    Column,
}

impl Axis {
    pub(crate) const ALL: [Axis; 2] = [Axis::Row, Axis::Column];

    /// The number of an iteration, in rows of that many.
    #[inline]
    pub(crate) fn of(self, iteration: usize, width: u32) -> usize {
        // A loop over pairs has fewer than 2^32 iterations.
        let (iteration, width) = (iteration as u32, width.max(1));
        match self {
            Axis::Row => (iteration / width) as usize,
            Axis::Column => (iteration % width) as usize,
        }
    }
}

/// Where an index comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source<'f> {
    Constant(usize),
    InStep {
        offset: usize,
    },
    /// The iteration's number counted down from this: the loop goes backwards.
    Back {
        from: usize,
    },
    /// The row or column of a loop over pairs, whose rows have that many iterations.
    Cell {
        axis: Axis,
        width: u32,
        offset: usize,
    },
    /// An unsigned number in the element of the running iteration.
    Field {
        fields: Fields<'f>,
        width: Width,
        place: FieldPlace,
    },
}

/// The same without the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SourceSpec {
    Constant(usize),
    InStep { offset: usize },
    Back { from: usize },
    Cell { axis: Axis, width: u32, offset: usize },
    Field { capture: usize, byte: usize, width: Width },
}

impl SourceSpec {
    /// The source among these elements, by capture; without elements, one that gives no index.
    pub(crate) fn with<'f>(&self, fields: &[Option<Fields<'f>>]) -> Option<Source<'f>> {
        Some(match *self {
            SourceSpec::Constant(index) => Source::Constant(index),
            SourceSpec::InStep { offset } => Source::InStep { offset },
            SourceSpec::Back { from } => Source::Back { from },
            SourceSpec::Cell { axis, width, offset } => Source::Cell { axis, width, offset },
            SourceSpec::Field { capture, byte, width } => {
                let end = byte.checked_add(width.bytes())?;
                let fields = match fields {
                    [] => Fields::new(0, end, &[]),
                    fields => (*fields.get(capture)?).filter(|fields| end <= fields.size)?,
                };
                Source::Field { fields, width, place: FieldPlace { capture, byte } }
            }
        })
    }
}

impl Source<'_> {
    fn spec(&self) -> SourceSpec {
        match *self {
            Source::Constant(index) => SourceSpec::Constant(index),
            Source::InStep { offset } => SourceSpec::InStep { offset },
            Source::Back { from } => SourceSpec::Back { from },
            Source::Cell { axis, width, offset } => SourceSpec::Cell { axis, width, offset },
            Source::Field { width, place: FieldPlace { capture, byte }, .. } => {
                SourceSpec::Field { capture, byte, width }
            }
        }
    }

    pub(crate) fn index(&self, iteration: usize) -> usize {
        match self {
            Source::Constant(index) => *index,
            Source::InStep { offset } => iteration.wrapping_add(*offset),
            Source::Back { from } => from.wrapping_sub(iteration),
            Source::Cell { axis, width, offset } => axis.of(iteration, *width).wrapping_add(*offset),
            Source::Field { fields, width, place } => fields.number(iteration, place.byte, *width),
        }
    }

    /// Calls `f` with the index of each iteration.
    #[inline]
    fn each(&self, iterations: Range<usize>, mut f: impl FnMut(usize)) {
        match *self {
            // Nearly all long loops come here.
            Source::Field { fields, width: Width::Four, place } => {
                each_number(fields.of(iterations), fields.size, place.byte, f);
            }
            _ => iterations.for_each(|i| f(self.index(i))),
        }
    }
}

/// Calls `f` with the number of 4 bytes that begins at a byte of each element.
#[inline]
fn each_number(elements: &[u8], size: usize, byte: usize, mut f: impl FnMut(usize)) {
    // With the size known when this is compiled, no element needs a check: a pass over 2^20 elements of 12 bytes takes
    // 0.42 ms, as by addresses, and 0.87 ms otherwise.
    macro_rules! by_size {
        ($($n:literal)*) => {
            match size {
                $($n if byte <= $n - 4 => elements.as_chunks::<$n>().0.iter().for_each(|element| {
                    f(element[byte..].first_chunk().map_or(usize::MAX, |&bytes| u32::from_ne_bytes(bytes) as usize));
                }),)*
                _ => elements.chunks_exact(size).for_each(|element| f(Width::Four.read(element, byte))),
            }
        };
    }
    by_size!(4 8 12 16 20 24 32);
}

/// All accesses of a loop to one DDS, as a rule.
#[derive(Debug)]
pub struct Rule<'f> {
    pub(crate) sources: Vec<(Source<'f>, bool)>,
}

impl Rule<'_> {
    /// Where the one index of each iteration comes from, if it has one, and whether its element is written.
    pub(crate) fn single(&self) -> Option<(SourceSpec, bool)> {
        match self.sources[..] {
            [(source, write)] => Some((source.spec(), write)),
            _ => None,
        }
    }

    /// The fields of 4 bytes in which an iteration's indices stand, of the first capture that has some.
    pub(crate) fn index_fields(&self) -> Option<IndexFields> {
        let places = || {
            self.sources.iter().filter_map(|(source, _)| match source {
                Source::Field { fields, width: Width::Four, place } if fields.are_in_memory() => Some(*place),
                _ => None,
            })
        };
        let FieldPlace { capture, .. } = places().next()?;
        let bytes = places().filter(|place| place.capture == capture).map(|place| place.byte).collect();
        Some(IndexFields { capture, bytes })
    }

    /// Whether its distances from the iteration's number are as far from one another as cells of two rows.
    pub(crate) fn reaches_far(&self) -> bool {
        const FAR: usize = 8;
        let steps = self.sources.iter().filter_map(|(source, _)| match source {
            Source::InStep { offset } => Some(*offset as isize),
            Source::Back { from } => Some(*from as isize),
            _ => None,
        });
        let ends = steps.fold(None, |ends: Option<(isize, isize)>, step| {
            Some(ends.map_or((step, step), |(least, most)| (least.min(step), most.max(step))))
        });
        ends.is_some_and(|(least, most)| most.abs_diff(least) >= FAR)
    }

    /// Whether it has an iteration touch what the one before it writes.
    pub(crate) fn is_a_chain(&self) -> bool {
        let next = |writer: &Source<'_>, by: &Source<'_>| match (writer, by) {
            (Source::InStep { offset: at }, Source::InStep { offset: by }) => *at == by.wrapping_add(1),
            (Source::Back { from: at }, Source::Back { from: by }) => *by == at.wrapping_add(1),
            _ => false,
        };
        let written = || self.sources.iter().filter(|(_, write)| *write);
        self.sources.iter().any(|(by, _)| written().any(|(at, _)| next(at, by)))
    }

    /// Whether its accesses write, where all do or all don't.
    pub(crate) fn mode(&self) -> Option<bool> {
        let &(_, first) = self.sources.first()?;
        self.sources.iter().all(|&(_, write)| write == first).then_some(first)
    }

    /// How many accesses an iteration has at most.
    pub(crate) fn per_iteration(&self) -> usize {
        self.sources.len()
    }

    /// Appends the accesses of one iteration, sorted and each once.
    pub(crate) fn entries_of(&self, iteration: usize, out: &mut Vec<u32>) {
        let mark = out.len();
        out.extend(self.sources.iter().map(|(source, write)| entry(source.index(iteration), *write)));
        sort_iteration(out, mark);
    }

    /// Calls `f` for the one access of each iteration.
    #[inline]
    pub(crate) fn each_single(&self, iterations: Range<usize>, mut f: impl FnMut(u32)) {
        if let Some((source, write)) = self.sources.first() {
            source.each(iterations, |index| f(entry(index, *write)));
        }
    }

    /// The log of a slice.
    pub(crate) fn log(&self, iterations: Range<usize>) -> CaptureLog {
        if self.sources.len() == 1 {
            let mut entries = Vec::with_capacity(iterations.len());
            self.each_single(iterations, |entry| entries.push(entry));
            return CaptureLog::of_single(entries);
        }
        let columns = self.columns(&iterations);
        let mut log = CaptureLog::listing(iterations.start, iterations.len() * columns.len());
        for k in 0..iterations.len() {
            for &entry in columns.iter().filter_map(|entries| entries.get(k)) {
                log.push((entry >> 1) as usize, entry & 1 == 1);
            }
            log.end_iteration();
        }
        log
    }

    /// The accesses of these iterations, source by source: each is a pass over the elements without a look at what the source is.
    pub(crate) fn columns(&self, iterations: &Range<usize>) -> Vec<Vec<u32>> {
        let column = |(source, write): &(Source<'_>, bool)| {
            let mut entries = Vec::with_capacity(iterations.len());
            source.each(iterations.clone(), |index| entries.push(entry(index, *write)));
            entries
        };
        self.sources.iter().map(column).collect()
    }

    /// Whether all its indices in these iterations are below `len`.
    pub(crate) fn within(&self, iterations: Range<usize>, len: usize) -> bool {
        self.sources.iter().all(|(source, _)| {
            let mut largest = 0;
            source.each(iterations.clone(), |index| largest = largest.max(index));
            largest < len
        })
    }
}

fn entry(index: usize, write: bool) -> u32 {
    (index as u32) << 1 | u32::from(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_what_the_iteration_before_writes() {
        let rule = |steps: &[(isize, bool)]| {
            let source = |&(by, write): &(isize, bool)| (Source::InStep { offset: by as usize }, write);
            Rule { sources: steps.iter().map(source).collect() }
        };
        assert!(rule(&[(-1, false), (0, true)]).is_a_chain());
        assert!(rule(&[(-1, false), (0, true), (1, false)]).is_a_chain());
        assert!(rule(&[(4, true), (5, true)]).is_a_chain());
        assert!(!rule(&[(0, true), (1, false)]).is_a_chain(), "nobody touches what is written");
        assert!(!rule(&[(-2, false), (0, true)]).is_a_chain(), "two chains");
        assert!(!rule(&[(-1, false), (0, false)]).is_a_chain());
        let back = |steps: &[(usize, bool)]| Rule {
            sources: steps.iter().map(|&(from, write)| (Source::Back { from }, write)).collect(),
        };
        assert!(back(&[(9, true), (10, false)]).is_a_chain());
        assert!(!back(&[(9, true), (8, false)]).is_a_chain(), "from before the loop");
        let constant = Rule { sources: vec![(Source::Constant(3), true), (Source::InStep { offset: 2 }, false)] };
        assert!(!constant.is_a_chain());
    }
}
