//! Reading access patterns off a sample, instead of running every iteration virtually.
//!
//! Many loops reach shared elements through indices that stand in the data: `p[ratings[i].user]`. When in a sample of
//! the iterations each access to a DDS is at a number found in an element read in step with the loop (or at
//! `i + c`, or at a constant), the other iterations' accesses are computed from the data itself. That costs a pass over
//! the data, where virtual iterations cost nearly as much as real ones.
//!
//! A guess that is wrong for some iteration is a stray access there: the loop is undone and recorded in full. So
//! nothing but time depends on the guess.
//!
//! # Why this is sound
//! Fields are read from plain elements, whose every byte is initialised, at offsets within the element, of DVectors
//! that the loop holds borrowed and nobody writes while a plan is made.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::body::capture::{Captured, Kind};
use crate::planner::recording::{CaptureLog, Recording, SLICE, Usage};
use crate::session::pool::Pool;

/// How many iterations are sampled at a time, and how often.
pub(crate) const SAMPLE: usize = 1024;
const SAMPLES: usize = 8;
/// Loops shorter than this are recorded in full.
const WORTHWHILE: usize = 4 * SAMPLE * SAMPLES;
/// More accesses of one iteration to one DDS than this are not looked for.
const MOST_SOURCES: usize = 4;

/// Where an index comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Constant(usize),
    InStep {
        offset: usize,
    },
    /// An unsigned number of `width` bytes in the element of the running iteration.
    Field {
        first_iteration: usize,
        at: *const u8,
        size: usize,
        width: usize,
        place: FieldPlace,
    },
}

/// A field of the elements of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldPlace {
    pub(crate) capture: usize,
    /// How many bytes into the element.
    pub(crate) byte: usize,
}

impl Source {
    fn index(&self, iteration: usize) -> usize {
        match *self {
            Source::Constant(index) => index,
            Source::InStep { offset } => iteration.wrapping_add(offset),
            Source::Field { first_iteration, at, size, width, .. } => {
                let at = at.wrapping_add((iteration - first_iteration) * size);
                // SAFETY: the element of this iteration exists (the recording checked both ends of the range) and is
                // plain, and the field is within it.
                unsafe {
                    if width == 8 {
                        at.cast::<u64>().read_unaligned() as usize
                    } else {
                        at.cast::<u32>().read_unaligned() as usize
                    }
                }
            }
        }
    }
}

/// All accesses of a loop to one DDS, as a rule.
#[derive(Debug)]
pub(crate) struct Derived {
    sources: Vec<(Source, bool)>,
}

// SAFETY: the addresses are read only, while the loop's call holds the DVectors borrowed.
unsafe impl Send for Derived {}
// SAFETY: as above.
unsafe impl Sync for Derived {}

impl Derived {
    /// The field of 4 bytes in which each iteration's one index stands, if that is the rule.
    pub(crate) fn field(&self) -> Option<FieldPlace> {
        match self.sources[..] {
            [(Source::Field { width: 4, place, .. }, _)] => Some(place),
            _ => None,
        }
    }

    /// How many accesses an iteration has at most.
    pub(crate) fn per_iteration(&self) -> usize {
        self.sources.len()
    }

    /// Appends the accesses of one iteration, sorted and each once.
    pub(crate) fn entries_of(&self, iteration: usize, out: &mut Vec<u32>) {
        let mark = out.len();
        out.extend(self.sources.iter().map(|&(source, write)| entry(source.index(iteration), write)));
        crate::planner::recording::sort_iteration(out, mark);
    }

    /// Calls `f` for the one access of each iteration.
    #[inline]
    pub(crate) fn each_single(&self, iterations: Range<usize>, mut f: impl FnMut(u32)) {
        if let Some(&(source, write)) = self.sources.first() {
            match source {
                Source::Field { width: 4, .. } => iterations.for_each(|i| f(entry(source.index(i), write))),
                _ => iterations.for_each(|i| f(entry(source.index(i), write))),
            }
        }
    }

    /// The log of a slice.
    pub(crate) fn log(&self, iterations: Range<usize>) -> CaptureLog {
        if self.sources.len() == 1 {
            let mut entries = Vec::with_capacity(iterations.len());
            self.each_single(iterations, |entry| entries.push(entry));
            return CaptureLog::of_single(entries);
        }
        let mut log = CaptureLog::listing(iterations.start, iterations.len());
        for i in iterations {
            for &(source, write) in &self.sources {
                log.push(source.index(i), write);
            }
            log.end_iteration();
        }
        log
    }

    fn within(&self, iterations: Range<usize>, len: usize) -> bool {
        self.sources.iter().all(|(source, _)| iterations.clone().map(|i| source.index(i)).fold(0, usize::max) < len)
    }
}

fn entry(index: usize, write: bool) -> u32 {
    (index as u32) << 1 | u32::from(write)
}

/// The iterations to sample, or none for a loop that is better recorded in full.
pub(crate) fn samples(range: &Range<usize>) -> Option<Vec<Range<usize>>> {
    let n = range.len();
    (n >= WORTHWHILE).then(|| {
        let begin = |k: usize| range.start + (n - SAMPLE) * k / (SAMPLES - 1);
        (0..SAMPLES).map(|k| begin(k)..begin(k) + SAMPLE).collect()
    })
}

/// A recording of the whole loop from a recording of samples, if the accesses to all shared DDSs follow rules.
pub(crate) fn infer(
    sampled: &Recording,
    samples: &[Range<usize>],
    captured: &[Captured],
    pool: &Pool,
) -> Option<Recording> {
    let range = &sampled.range;
    let mut derived: Vec<Option<Derived>> = Vec::with_capacity(captured.len());
    for (c, capture) in captured.iter().enumerate() {
        let Kind::Vector { len, .. } = capture.kind else {
            derived.push(None);
            continue;
        };
        if sampled.usage[c] != Usage::Shared {
            derived.push(None);
            continue;
        }
        let rule = rule_of(sampled, samples, captured, c)?;
        let slices = range.len().div_ceil(SLICE);
        let inside = pool.map(slices, |s| {
            let start = range.start + s * SLICE;
            rule.within(start..range.end.min(start + SLICE), len)
        });
        if !inside.into_iter().all(|inside| inside) {
            return None;
        }
        derived.push(Some(rule));
    }
    Some(Recording::derived(sampled, derived))
}

fn rule_of(sampled: &Recording, samples: &[Range<usize>], captured: &[Captured], c: usize) -> Option<Derived> {
    let logs = || samples.iter().zip(&sampled.slices).map(|(iterations, slice)| (iterations, &slice[c]));
    let (first, log) = logs().next()?;
    let mut sources: Vec<(Source, bool)> = Vec::new();
    for entry in log.of(0) {
        let index = (entry >> 1) as usize;
        sources.push((Source::Constant(index), false));
        sources.push((Source::InStep { offset: index.wrapping_sub(first.start) }, false));
    }
    sources.extend(fields(sampled, captured).map(|field| (field, false)));
    for (iterations, log) in logs() {
        for (k, i) in iterations.clone().enumerate() {
            let entries = log.of(k);
            sources.retain_mut(|(source, write)| {
                let index = source.index(i);
                let found = entries.iter().find(|&&entry| (entry >> 1) as usize == index);
                *write |= found.is_some_and(|entry| entry & 1 == 1);
                found.is_some()
            });
            if sources.is_empty() {
                return None;
            }
        }
    }
    // Two fields that always agree are one source; then every access must come from some source.
    let mut distinct: Vec<(Source, bool)> = Vec::new();
    for (source, write) in sources {
        let same = |other: &&mut (Source, bool)| {
            logs().all(|(iterations, _)| iterations.clone().all(|i| other.0.index(i) == source.index(i)))
        };
        match distinct.iter_mut().find(same) {
            Some(other) => other.1 |= write,
            None => distinct.push((source, write)),
        }
    }
    let covered = logs().all(|(iterations, log)| {
        iterations.clone().enumerate().all(|(k, i)| {
            log.of(k).iter().all(|entry| distinct.iter().any(|(source, _)| source.index(i) == (entry >> 1) as usize))
        })
    });
    (covered && distinct.len() <= MOST_SOURCES).then_some(Derived { sources: distinct })
}

/// Every place in the elements read in step with the loop where an index could stand.
fn fields(sampled: &Recording, captured: &[Captured]) -> impl Iterator<Item = Source> {
    let first_iteration = sampled.range.start;
    captured.iter().enumerate().flat_map(move |(c, capture)| {
        let (base, offset, size) = match (&capture.kind, sampled.usage[c]) {
            (Kind::Vector { base, ops, .. }, Usage::InStep { offset, written: false }) if ops.plain => {
                (*base, offset, ops.size)
            }
            _ => (std::ptr::null_mut(), 0, 0),
        };
        // Elements of a few numbers are records; long ones are rows of data.
        let size = if size <= 128 { size } else { 0 };
        let element = base.wrapping_add(first_iteration.wrapping_add(offset).wrapping_mul(size));
        [4, 8].into_iter().flat_map(move |width| {
            (0..size / width).map(move |k| Source::Field {
                first_iteration,
                at: element.wrapping_add(k * width),
                size,
                width,
                place: FieldPlace { capture: c, byte: k * width },
            })
        })
    })
}
