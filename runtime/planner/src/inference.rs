//! Reading access patterns off a sample, instead of running every iteration virtually.
//!
//! Many loops reach shared elements through indices that stand in the data: `p[ratings[i].user]`. When in a sample of
//! the iterations each access to a DDS is at a number found in an element read in step with the loop (or at
//! `i + c`, or at a constant), the other iterations' accesses are computed from the data itself. That costs a pass over
//! the data, where virtual iterations cost nearly as much as real ones.
//!
//! A guess that is wrong for some iteration is a misspeculation there: the loop is undone and recorded in full. So
//! nothing but time depends on the guess.

use std::ops::Range;

use crate::recording::{CaptureShape, FieldPlace, Fields, Recording, Rule, SLICE, Usage};
use crate::rule::{Axis, Source, Width};
use crate::survey::Survey;
use crate::threads::Threads;

/// How many iterations are sampled at a time, and how often.
const SAMPLE: usize = 1024;
const SAMPLES: usize = 8;
const PIECE: usize = SAMPLE / 8;
/// Loops shorter than this are recorded in full.
const WORTHWHILE: usize = 4 * SAMPLE * SAMPLES;
/// Of a shorter loop this many iterations are sampled at a time, to find out whether its iterations are long, and whether it can
/// only run in its own order,
const FEW: usize = 64;
/// but no more than one in this many of all.
const ONE_IN: usize = 8;
/// Loops shorter than this are not,
const WORTH_A_FEW: usize = 512;
/// nor are those that make fewer accesses than this.
const MANY_ACCESSES: f64 = (1 << 20) as f64;
/// More accesses of one iteration to one DDS than this are not looked for.
const MOST_SOURCES: usize = 4;
/// Elements of more bytes than this are not searched for indices.
const LARGEST_RECORD: usize = 128;

/// The iterations to sample, or none for a loop that is better recorded in full.
pub fn samples(range: &Range<usize>) -> Option<Vec<Range<usize>>> {
    let n = range.len();
    (n >= WORTHWHILE).then(|| {
        let begin = |k: usize| range.start + (n - SAMPLE) * k / (SAMPLES - 1);
        // In pieces, so that more threads than there are samples have something to do.
        (0..SAMPLES).flat_map(|k| (begin(k)..begin(k) + SAMPLE).step_by(PIECE)).map(|at| at..at + PIECE).collect()
    })
}

/// The iterations to sample of a loop that is too short for [`samples`], but whose iterations may be long.
pub fn few(range: &Range<usize>) -> Option<Vec<Range<usize>>> {
    let n = range.len();
    let each = FEW.min(n / ONE_IN / SAMPLES);
    let begin = |k: usize| range.start + (n - each) * k / (SAMPLES - 1);
    (WORTH_A_FEW..WORTHWHILE).contains(&n).then(|| (0..SAMPLES).map(|k| begin(k)..begin(k) + each).collect())
}

/// Whether the samples decide if the rest is recorded, since a loop makes many accesses by their estimate.
pub fn is_long(sampled: &Recording<'_>) -> bool {
    sampled.accesses_each * sampled.iterations() as f64 >= MANY_ACCESSES
}

/// Makes a recording of the whole loop from a recording of samples, if the accesses to all shared DDSs follow rules. For each
/// capture that is read in step with the loop and has plain elements, `fields` has these elements. Beside it: of a loop over pairs, how
/// many columns there are.
pub fn infer<'f>(
    sampled: &Recording<'_>,
    samples: &[Range<usize>],
    shapes: &[CaptureShape],
    (fields, columns): (&[Option<Fields<'f>>], Option<usize>),
    pool: &dyn Threads,
) -> Option<Recording<'f>> {
    let range = &sampled.range;
    let rules = guess(sampled, samples, (fields, columns))?;
    for (rule, shape) in rules.iter().zip(shapes) {
        let Some(rule) = rule else { continue };
        let slices = range.len().div_ceil(SLICE);
        let inside = pool.map(slices, |s| {
            let start = range.start + s * SLICE;
            rule.within(start..range.end.min(start + SLICE), shape.len)
        });
        if !inside.into_iter().all(|inside| inside) {
            return None;
        }
    }
    let mut recording = Recording::by_rules(sampled, rules);
    recording.peak_bytes += fields.iter().flatten().map(Fields::encoded_bytes).sum::<usize>();
    Some(recording)
}

/// The same where `fields` have the elements of the samples alone, and others are in other processes: whether indices are in range is for
/// these to find out. None where an iteration may touch several elements of a DDS.
pub fn surveyed(
    sampled: &Recording<'_>,
    samples: &[Range<usize>],
    shapes: &[CaptureShape],
    (fields, columns): (&[Option<Fields<'_>>], Option<usize>),
) -> Option<Recording<'static>> {
    let rules = guess(sampled, samples, (fields, columns))?;
    let mut shared = Vec::new();
    for (c, rule) in rules.iter().enumerate() {
        if let Some(rule) = rule {
            let (source, write) = rule.single()?;
            shared.push((c, shapes[c].len, source, write));
        }
    }
    let survey = Survey { range: sampled.range.clone(), usage: sampled.usage.clone(), shared };
    Recording::surveyed(sampled, survey)
}

/// For each shared capture the rule that the samples follow; none if one follows no rule.
fn guess<'f>(
    sampled: &Recording<'_>,
    samples: &[Range<usize>],
    (fields, columns): (&[Option<Fields<'f>>], Option<usize>),
) -> Option<Vec<Option<Rule<'f>>>> {
    let width = columns.and_then(|columns| u32::try_from(columns).ok());
    let candidates: Vec<Source<'f>> = candidates(&sampled.range, fields).collect();
    let rule = |(c, usage): (usize, &Usage)| match usage {
        Usage::Shared => rule_of(sampled, samples, (&candidates, width), c).map(Some),
        _ => Some(None),
    };
    sampled.usage.iter().enumerate().map(rule).collect()
}

/// Every place in the elements where an index could stand.
fn candidates<'f>(range: &Range<usize>, fields: &[Option<Fields<'f>>]) -> impl Iterator<Item = Source<'f>> {
    let known = fields.iter().enumerate().filter_map(|(c, fields)| fields.map(|fields| (c, fields)));
    // Elements of a few numbers are records; long ones are rows of data.
    let records = known.filter(|(_, fields)| fields.size() <= LARGEST_RECORD && fields.cover(range));
    records.flat_map(|(capture, fields)| {
        Width::ALL.into_iter().flat_map(move |width| {
            // Where numbers lie as in memory, none begins elsewhere.
            // Behind a `bool` numbers may stand anywhere.
            let each = match fields.are_in_memory() {
                true => width.bytes(),
                false if fields.size().is_multiple_of(Width::Four.bytes()) => Width::Four.bytes(),
                false => 1,
            };
            let places = (0..=fields.size().saturating_sub(width.bytes())).step_by(each);
            let places = places.filter(move |byte| byte + width.bytes() <= fields.size());
            places.map(move |byte| Source::Field { fields, width, place: FieldPlace { capture, byte } })
        })
    })
}

fn rule_of<'f>(
    sampled: &Recording<'_>,
    samples: &[Range<usize>],
    (candidates, width): (&[Source<'f>], Option<u32>),
    c: usize,
) -> Option<Rule<'f>> {
    let logs = || samples.iter().zip(&sampled.slices).map(|(iterations, slice)| (iterations, &slice[c]));
    let (first, log) = logs().next()?;
    let mut sources: Vec<(Source<'f>, bool)> = Vec::new();
    for entry in log.of(0) {
        let index = (entry >> 1) as usize;
        sources.push((Source::Constant(index), false));
        sources.push((Source::InStep { offset: index.wrapping_sub(first.start) }, false));
        sources.push((Source::Back { from: index.wrapping_add(first.start) }, false));
        let cell = |(axis, width): (Axis, u32)| {
            (Source::Cell { axis, width, offset: index.wrapping_sub(axis.of(first.start, width)) }, false)
        };
        sources.extend(width.into_iter().flat_map(|width| Axis::ALL.map(|axis| (axis, width))).map(cell));
    }
    sources.extend(candidates.iter().map(|&field| (field, false)));
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
    let mut distinct: Vec<(Source<'f>, bool)> = Vec::new();
    for (source, write) in sources {
        let same = |other: &&mut (Source<'f>, bool)| {
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
    (covered && distinct.len() <= MOST_SOURCES).then_some(Rule { sources: distinct })
}
