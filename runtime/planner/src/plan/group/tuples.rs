//! Groups where rules say what iterations touch, a few elements each: the parts of these elements, one behind the other, are a number, and
//! the numbers are counted. So no iteration's accesses are listed, sorted and hashed.

use std::collections::BTreeMap;

use super::dense::KEYS;
use super::{Groups, MAX_GROUPS, Parts, slices_a_run};
use crate::plan::graph::Touch;
use crate::recording::Recording;
use crate::threads::Threads;

/// One of the elements that an iteration touches.
struct Source {
    /// How many parts its DDS has, and which resource is the first of them.
    radix: u32,
    first: u32,
    write: bool,
}

/// The sources of all shared DDSs, one DDS after the other, if their parts have few enough numbers; and how many.
fn sources(recording: &Recording<'_>, parts: &Parts) -> Option<(Vec<Source>, usize)> {
    let (mut sources, mut count) = (Vec::new(), 1usize);
    for ((&capture, cut), &first) in parts.captures.iter().zip(&parts.cuts).zip(&parts.first) {
        for &(_, write) in &recording.rule(capture)?.sources {
            sources.push(Source { radix: cut.parts() as u32, first, write });
            count = count.checked_mul(cut.parts()).filter(|&count| count <= KEYS)?;
        }
    }
    Some((sources, count))
}

/// What the iterations of some slices are.
struct Counted {
    /// Their numbers, slice by slice,
    of: Vec<Vec<u16>>,
    /// and how often each stands there.
    counts: Vec<u32>,
    /// By number, how many accesses of iterations are to elements that they have touched before.
    again: BTreeMap<u16, u64>,
}

/// The groups of all iterations. None at all where numbers would be too many; `Some(None)` where groups are.
pub(super) fn group(recording: &Recording<'_>, parts: &Parts, pool: &dyn Threads) -> Option<Option<Groups>> {
    let (sources, count) = sources(recording, parts)?;
    let tables: Vec<Vec<u16>> = parts.cuts.iter().map(super::Cut::table).collect();
    let (slices, each) = (recording.slice_count(), slices_a_run(recording.slice_count()));
    let counted: Vec<Counted> = pool.map(slices.div_ceil(each), |run| {
        let mut counted = Counted { of: Vec::new(), counts: vec![0; count], again: BTreeMap::new() };
        for s in run * each..slices.min((run + 1) * each) {
            let numbers = numbers(recording, s, parts, &tables, &mut counted.again);
            numbers.iter().for_each(|&number| counted.counts[number as usize] += 1);
            counted.of.push(numbers);
        }
        counted
    });
    Some(unite(counted, &sources, count))
}

/// The number of each iteration of a slice.
fn numbers(
    recording: &Recording<'_>,
    s: usize,
    parts: &Parts,
    tables: &[Vec<u16>],
    again: &mut BTreeMap<u16, u64>,
) -> Vec<u16> {
    let mut numbers = vec![0u16; recording.slice_len(s)];
    let mut twice = Vec::new();
    for ((&capture, cut), table) in parts.captures.iter().zip(&parts.cuts).zip(tables) {
        let radix = cut.parts() as u16;
        let columns = recording.rule(capture).map_or_else(Vec::new, |rule| rule.columns(&recording.slice(s)));
        for (k, column) in columns.iter().enumerate() {
            for (number, &entry) in numbers.iter_mut().zip(column) {
                // (There is one, unless elements have changed since they were looked at.)
                let part = table.get((entry >> 1) as usize).copied().unwrap_or_default();
                *number = *number * radix + part;
            }
            let known = |i: usize| columns[..k].iter().any(|other| other[i] >> 1 == column[i] >> 1);
            if k > 0 {
                twice.extend((0..column.len()).filter(|&i| known(i)));
            }
        }
    }
    twice.into_iter().for_each(|i| *again.entry(numbers[i]).or_default() += 1);
    numbers
}

/// Groups by sorted keys. None if there are too many.
fn unite(counted: Vec<Counted>, sources: &[Source], count: usize) -> Option<Groups> {
    let (mut iterations, mut again) = (vec![0usize; count], vec![0u64; count]);
    for Counted { counts, again: more, .. } in &counted {
        iterations.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += count as usize);
        more.iter().for_each(|(&number, &times)| again[number as usize] += times);
    }
    let mut keys: BTreeMap<Vec<u32>, Vec<u16>> = BTreeMap::new();
    for number in (0..count).filter(|&number| iterations[number] > 0) {
        keys.entry(key_of(number, sources)).or_default().push(number as u16);
    }
    if keys.len() > MAX_GROUPS {
        return None;
    }
    let mut groups = Groups {
        touches: Vec::with_capacity(keys.len()),
        iterations: Vec::with_capacity(keys.len()),
        cost: Vec::with_capacity(keys.len()),
        of: Vec::new(),
        counts: Vec::new(),
        numbers: vec![0; count],
    };
    for (group, (key, of)) in keys.into_iter().enumerate() {
        of.iter().for_each(|&number| groups.numbers[number as usize] = group as u16);
        let all: usize = of.iter().map(|&number| iterations[number as usize]).sum();
        let again: u64 = of.iter().map(|&number| again[number as usize]).sum();
        groups.touches.push(key.iter().map(|&part| Touch { resource: part >> 1, write: part & 1 == 1 }).collect());
        groups.iterations.push(all);
        groups.cost.push((all * (1 + sources.len())) as u64 - again);
    }
    for Counted { of, counts, .. } in counted {
        groups.of.extend(of);
        groups.counts.push(counts);
    }
    Some(groups)
}

/// The key of a number: resources in ascending order, each once, and whether they are written.
fn key_of(number: usize, sources: &[Source]) -> Vec<u32> {
    let mut rest = number as u32;
    let mut key: Vec<u32> = Vec::with_capacity(sources.len());
    for &Source { radix, first, write } in sources.iter().rev() {
        key.push((first + rest % radix) << 1 | u32::from(write));
        rest /= radix;
    }
    key.sort_unstable();
    key.dedup_by(|next, last| {
        let same = *next >> 1 == *last >> 1;
        if same {
            *last |= *next;
        }
        same
    });
    key
}

#[cfg(test)]
mod tests {
    use super::{group, sources};
    use crate::plan::cut::Cut;
    use crate::plan::group::Parts;
    use crate::plan::group::{group_by_hash, grouped_slices};
    use crate::recording::{CaptureLog, CaptureShape, Recording};
    use crate::rule::{Rule, Source};
    use crate::threads::Inline;

    #[test]
    fn the_same_groups_as_by_keys() {
        const N: usize = 50_000;
        let shape = CaptureShape { len: 3 * N, reduction: false, by_block: false, owning: false, dealt: false };
        let sampled = Recording::new(0..N, vec![vec![CaptureLog::new(0, 1, true); 2]], &[shape; 2]);
        let step = |offset: usize, write: bool| (Source::InStep { offset }, write);
        for (one, other) in [
            (vec![step(0, false), step(N, true)], vec![step(7, true)]),
            (vec![step(0, false), step(0, true)], vec![step(5, false), step(2 * N - 1, false)]),
            (vec![(Source::Constant(70), true), step(60, false)], vec![(Source::Constant(3), false)]),
        ] {
            let rules = vec![Some(Rule { sources: one }), Some(Rule { sources: other })];
            let recording = Recording::by_rules(&sampled, rules);
            let cut = |parts: usize| Cut { bounds: (0..=parts).map(|k| 3 * N * k / parts).collect() };
            let parts = Parts::new(vec![0, 1], vec![cut(16), cut(11)]);
            let tables: Vec<Vec<u16>> = parts.cuts.iter().map(Cut::table).collect();
            let found = group(&recording, &parts, &Inline).unwrap().unwrap();
            let by_key = |s| group_by_hash(&recording, s, &parts, &tables);
            let expected = grouped_slices(recording.slice_count(), &Inline, by_key).unwrap();
            let expected = super::super::unite(&expected, &Inline).unwrap();
            assert_eq!(found.touches, expected.touches);
            assert_eq!((&found.iterations, &found.cost), (&expected.iterations, &expected.cost));
            assert!(found.each().eq(expected.each()));
        }
    }

    #[test]
    fn many_numbers_are_left_to_keys() {
        let shape = CaptureShape { len: 100, reduction: false, by_block: false, owning: false, dealt: false };
        let sampled = Recording::new(0..100, vec![vec![CaptureLog::new(0, 1, true)]], &[shape]);
        let parts = Parts::new(vec![0], vec![Cut { bounds: (0..=32).map(|k| 3 * k).collect() }]);
        let count = |recording: &Recording<'_>| sources(recording, &parts).map(|(_, count)| count);
        for (touched, expected) in [(1, Some(32)), (3, Some(32_768)), (4, None)] {
            let rule = Rule { sources: (0..touched).map(|k| (Source::InStep { offset: k }, true)).collect() };
            assert_eq!(count(&Recording::by_rules(&sampled, vec![Some(rule)])), expected);
        }
        assert_eq!(count(&sampled), None, "without rules");
    }
}
