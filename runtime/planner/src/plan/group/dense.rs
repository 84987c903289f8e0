//! Groups whose numbers are computed: every iteration touches one part of each shared DDS.

use super::{Groups, Parts, slices_a_run};
use crate::plan::cut::Cut;
use crate::plan::graph::Touch;
use crate::recording::Recording;
use crate::threads::Threads;

/// As many keys are computed rather than looked up, and may all have groups: 256 parts of each of two DDSs.
pub(crate) const KEYS: usize = 1 << 16;

/// How a part, and whether it is written, are one digit of a computed key.
#[derive(Clone, Copy)]
pub(crate) struct Digit {
    radix: u32,
    /// Whether all iterations write it, or all don't, where that is so.
    write: Option<bool>,
}

/// The part of an element. (There is one, unless elements have changed since they were looked at.)
fn part_of(table: &[u16], entry: u32) -> u16 {
    table.get((entry >> 1) as usize).copied().unwrap_or_default()
}

impl Digit {
    fn touch(self, first: u32, digit: u32) -> Touch {
        match self.write {
            Some(write) => Touch { resource: first + digit, write },
            None => Touch { resource: first + (digit >> 1), write: digit & 1 == 1 },
        }
    }
}

/// How keys are computed, if every iteration touches exactly one element of each shared DDS and the keys are few.
pub(crate) fn digits(recording: &Recording<'_>, parts: &Parts) -> Option<Vec<Digit>> {
    let digit = |(&c, cut): (&usize, &Cut)| {
        let write = recording.single_mode(c);
        let radix = cut.parts() as u32 * if write.is_some() { 1 } else { 2 };
        recording.is_single(c).then_some(Digit { radix, write })
    };
    let digits: Vec<Digit> = parts.captures.iter().zip(&parts.cuts).map(digit).collect::<Option<_>>()?;
    let keys = digits.iter().try_fold(1usize, |keys, digit| keys.checked_mul(digit.radix as usize))?;
    (keys <= KEYS).then_some(digits)
}

/// The same, with the part of each element of the shared DDSs.
pub(crate) fn digits_and_tables(recording: &Recording<'_>, parts: &Parts) -> Option<(Vec<Digit>, Vec<Vec<u16>>)> {
    Some((digits(recording, parts)?, parts.cuts.iter().map(Cut::table).collect()))
}

/// How many numbers there are.
pub(crate) fn keys(digits: &[Digit]) -> usize {
    digits.iter().map(|digit| digit.radix as usize).product()
}

/// The number of each iteration of a slice.
pub(crate) fn numbers_of(
    recording: &Recording<'_>,
    s: usize,
    captures: &[usize],
    tables: &[Vec<u16>],
    digits: &[Digit],
) -> Vec<u16> {
    let mut numbers = vec![0u16; recording.slice_len(s)];
    for (slot, (&capture, table)) in captures.iter().zip(tables).enumerate() {
        let digit = digits[slot];
        // (The only digit may have as many values as a number.)
        let radix = if slot == 0 { 0 } else { digit.radix as u16 };
        let mut number = numbers.iter_mut();
        let mut add = |digit: u16| {
            if let Some(number) = number.next() {
                *number = *number * radix + digit;
            }
        };
        match digit.write {
            Some(_) => recording.each_single(s, capture, |entry| add(part_of(table, entry))),
            None => recording.each_single(s, capture, |entry| add(part_of(table, entry) << 1 | (entry & 1) as u16)),
        }
    }
    numbers
}

/// The groups of all iterations.
pub(super) fn group(
    recording: &Recording<'_>,
    parts: &Parts,
    tables: &[Vec<u16>],
    digits: &[Digit],
    pool: &dyn Threads,
) -> Groups {
    let size = keys(digits);
    let (slices, each) = (recording.slice_count(), slices_a_run(recording.slice_count()));
    let counted: Vec<(Vec<Vec<u16>>, Vec<u32>)> = pool.map(slices.div_ceil(each), |run| {
        let numbers_of = |s| numbers_of(recording, s, &parts.captures, tables, digits);
        let of: Vec<Vec<u16>> = (run * each..slices.min((run + 1) * each)).map(numbers_of).collect();
        let mut counts = vec![0u32; size];
        for &number in of.iter().flatten() {
            counts[number as usize] += 1;
        }
        (of, counts)
    });
    let mut totals = vec![0usize; size];
    for (_, counts) in &counted {
        for (total, &count) in totals.iter_mut().zip(counts) {
            *total += count as usize;
        }
    }
    let mut groups = of_counts(parts, digits, &totals);
    for (of, counts) in counted {
        groups.of.extend(of);
        groups.counts.push(counts);
    }
    groups
}

/// The groups, from how many iterations have each number alone.
pub(crate) fn of_counts(parts: &Parts, digits: &[Digit], totals: &[usize]) -> Groups {
    let mut groups = Groups {
        touches: Vec::new(),
        iterations: Vec::new(),
        cost: Vec::new(),
        of: Vec::new(),
        counts: Vec::new(),
        numbers: vec![0; totals.len()],
    };
    for (number, &count) in totals.iter().enumerate().filter(|(_, count)| **count > 0) {
        groups.numbers[number] = groups.touches.len() as u16;
        let mut rest = number as u32;
        let mut touches = Vec::with_capacity(digits.len());
        for (&first, digit) in parts.first[..digits.len()].iter().zip(digits).rev() {
            touches.push(digit.touch(first, rest % digit.radix));
            rest /= digit.radix;
        }
        touches.reverse();
        groups.touches.push(touches.into());
        groups.iterations.push(count);
        groups.cost.push((count * (1 + digits.len())) as u64);
    }
    groups
}
