//! Grouping iterations by the set of parts that they touch.

pub(crate) mod dense;
mod tuples;

use std::collections::BTreeMap;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::cut::Cut;
use super::graph::Touch;
use crate::recording::Recording;
use crate::threads::Threads;

/// The most groups that a plan has where their keys are looked up: they are ordered and dispatched one by one.
pub(crate) const MAX_GROUPS: usize = 16384;

/// Slices are counted in this many runs.
const RUNS: usize = 64;

/// Slices that are grouped before the first look at whether there are too many groups.
const FIRST_SLICES: usize = 2;

/// Iterations by the parts that they touch.
#[derive(Debug)]
pub(crate) struct Groups {
    /// What each group touches, sorted. Resources are numbered through all shared DDSs.
    pub(crate) touches: Vec<Box<[Touch]>>,
    pub(crate) iterations: Vec<usize>,
    /// Iterations and accesses together.
    pub(crate) cost: Vec<u64>,
    /// A number for every iteration, slice by slice,
    pub(crate) of: Vec<Vec<u16>>,
    /// how often each number stands in each run of `slices_a_run` slices,
    pub(crate) counts: Vec<Vec<u32>>,
    /// and the group behind each number.
    pub(crate) numbers: Vec<u16>,
}

/// How many slices, out of all, are counted together: tables of counts, of which each has all groups, must not grow with the loop.
pub(crate) fn slices_a_run(slices: usize) -> usize {
    slices.div_ceil(RUNS).max(1)
}

impl Groups {
    /// The group of every iteration, in order.
    pub(crate) fn each(&self) -> impl Iterator<Item = u16> + '_ {
        self.of.iter().flatten().map(|&number| self.numbers[number as usize])
    }
}

/// How shared DDSs are cut, and how their parts are numbered together.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The captures that are cut,
    pub captures: Vec<usize>,
    /// and how each is cut.
    pub cuts: Vec<Cut>,
    first: Vec<u32>,
}

impl Parts {
    /// Numbers the parts of these captures, cut like this.
    pub fn new(captures: Vec<usize>, cuts: Vec<Cut>) -> Self {
        let mut first = vec![0];
        for cut in &cuts {
            first.push(first[first.len() - 1] + cut.parts() as u32);
        }
        Parts { captures, cuts, first }
    }

    /// How many parts there are in all.
    pub fn resources(&self) -> usize {
        self.first[self.cuts.len()] as usize
    }

    /// The capture (by its place in `captures`) and the part behind a resource.
    pub fn part_of(&self, resource: u32) -> (usize, usize) {
        let slot = self.first.partition_point(|&first| first <= resource) - 1;
        (slot, (resource - self.first[slot]) as usize)
    }

    pub(crate) fn coarser(&self, shift: u32) -> Parts {
        Parts::new(self.captures.clone(), self.cuts.iter().map(|cut| cut.coarser(shift)).collect())
    }
}

/// Keys of any length, numbered as they appear.
#[derive(Default)]
struct Keys {
    /// The keys, one after the other,
    flat: Vec<u32>,
    /// and where each ends.
    ends: Vec<u32>,
    numbers: HashTable<u32>,
}

impl Keys {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.ends.len()).map(|number| key_at(&self.flat, &self.ends, number as u32))
    }

    /// The number of a key, and whether it is new.
    fn number(&mut self, key: &[u32]) -> (usize, bool) {
        let Keys { flat, ends, numbers } = self;
        let known = |&number: &u32| key_at(flat, ends, number) == key;
        let entry = numbers.entry(hash(key), known, |&number| hash(key_at(flat, ends, number)));
        let vacant = match entry {
            Entry::Occupied(known) => return (*known.get() as usize, false),
            Entry::Vacant(vacant) => vacant,
        };
        let number = ends.len();
        vacant.insert(number as u32);
        flat.extend_from_slice(key);
        ends.push(flat.len() as u32);
        (number, true)
    }
}

fn key_at<'k>(flat: &'k [u32], ends: &[u32], number: u32) -> &'k [u32] {
    let from = number.checked_sub(1).map_or(0, |last| ends[last as usize]);
    &flat[from as usize..ends[number as usize] as usize]
}

/// A small, fixed, fast hash: keys come from the program itself.
fn hash(key: &[u32]) -> u64 {
    let add = |hash: u64, &word: &u32| (hash.rotate_left(5) ^ u64::from(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    // Tables look at the low bits, on which the last number of a key would have no influence.
    key.iter().fold(0, add).rotate_left(26)
}

/// One slice's groups, by keys of its own.
#[derive(Default)]
struct SliceGroups {
    keys: Keys,
    iterations: Vec<usize>,
    cost: Vec<u64>,
    of: Vec<u16>,
}

impl SliceGroups {
    /// The group with this key. None if there are too many.
    fn id(&mut self, key: &[u32]) -> Option<u16> {
        let (id, new) = self.keys.number(key);
        if new {
            if id >= MAX_GROUPS {
                return None;
            }
            self.iterations.push(0);
            self.cost.push(0);
        }
        Some(id as u16)
    }

    /// Counts an iteration of a group with these accesses.
    fn count(&mut self, id: u16, accesses: u64) {
        self.iterations[id as usize] += 1;
        self.cost[id as usize] += accesses;
        self.of.push(id);
    }
}

/// Groups the iterations, or none if there would be too many groups.
pub(crate) fn group(recording: &Recording<'_>, parts: &Parts, pool: &dyn Threads) -> Option<Groups> {
    match dense::digits_and_tables(recording, parts) {
        Some((digits, tables)) => Some(dense::group(recording, parts, &tables, &digits, pool)),
        None => {
            if let Some(groups) = tuples::group(recording, parts, pool) {
                return groups;
            }
            let tables: Vec<Vec<u16>> = parts.cuts.iter().map(Cut::table).collect();
            let of_slice = |s| group_by_hash(recording, s, parts, &tables);
            unite(&grouped_slices(recording.slice_count(), pool, of_slice)?, pool)
        }
    }
}

/// The finest cut, of those given, by which keys would be computed.
pub(crate) fn finest_dense(
    recording: &Recording<'_>,
    shared: &[usize],
    cuts: impl Iterator<Item = usize>,
) -> Option<usize> {
    let digit = |&c: &usize| recording.is_single(c).then(|| if recording.single_mode(c).is_some() { 1 } else { 2 });
    let digits: Vec<usize> = shared.iter().map(digit).collect::<Option<_>>()?;
    let keys = |parts: usize| digits.iter().try_fold(1usize, |keys, digit| keys.checked_mul(digit * parts));
    cuts.filter(|&parts| keys(parts).is_some_and(|keys| keys <= dense::KEYS)).max()
}

fn key_part(table: &[u16], first: u32, entry: u32) -> u32 {
    (first + u32::from(table[(entry >> 1) as usize])) << 1 | (entry & 1)
}

/// All slices' groups, or none as soon as those so far have too many: mostly a few slices tell.
fn grouped_slices(
    slices: usize,
    pool: &dyn Threads,
    group: impl Fn(usize) -> Option<SliceGroups> + Sync,
) -> Option<Vec<SliceGroups>> {
    let mut sliced: Vec<SliceGroups> = Vec::with_capacity(slices);
    let mut seen = Keys::default();
    while sliced.len() < slices {
        let done = sliced.len();
        let more = done.max(FIRST_SLICES).min(slices - done);
        for slice in pool.map(more, |s| group(done + s)) {
            let slice = slice?;
            slice.keys.iter().for_each(|key| _ = seen.number(key));
            sliced.push(slice);
        }
        if seen.len() > MAX_GROUPS {
            return None;
        }
    }
    Some(sliced)
}

fn group_by_hash(recording: &Recording<'_>, s: usize, parts: &Parts, tables: &[Vec<u16>]) -> Option<SliceGroups> {
    let logs: Vec<_> = parts.captures.iter().map(|&capture| recording.log(s, capture)).collect();
    let n = recording.slice_len(s);
    let mut groups = SliceGroups { of: Vec::with_capacity(n), ..SliceGroups::default() };
    let mut key: Vec<u32> = Vec::new();
    for k in 0..n {
        key.clear();
        let mut accesses = 1;
        for (slot, (log, table)) in logs.iter().zip(tables).enumerate() {
            let entries = log.of(k);
            accesses += entries.len() as u64;
            let from = key.len();
            for &entry in entries {
                // Entries are sorted, so equal parts are neighbours.
                let part = key_part(table, parts.first[slot], entry);
                match key[from..].last_mut() {
                    Some(last) if *last >> 1 == part >> 1 => *last |= part,
                    _ => key.push(part),
                }
            }
        }
        let id = groups.id(&key)?;
        groups.count(id, accesses);
    }
    Some(groups)
}

/// One numbering for all slices, by sorted keys, so that it can't depend on who grouped what.
fn unite(sliced: &[SliceGroups], pool: &dyn Threads) -> Option<Groups> {
    let mut found = Keys::default();
    let mut sums: Vec<(&[u32], usize, u64)> = Vec::new();
    // For each slice which of the found keys each of its own is.
    let mut places: Vec<Vec<u32>> = Vec::with_capacity(sliced.len());
    for slice in sliced {
        let place = slice.keys.iter().enumerate().map(|(id, key)| {
            let (place, new) = found.number(key);
            if new {
                sums.push((key, 0, 0));
            }
            let sum = &mut sums[place];
            (sum.1, sum.2) = (sum.1 + slice.iterations[id], sum.2 + slice.cost[id]);
            place as u32
        });
        places.push(place.collect());
        if sums.len() > MAX_GROUPS {
            return None;
        }
    }
    let mut sorted: Vec<u32> = (0..sums.len() as u32).collect();
    sorted.sort_unstable_by_key(|&place| sums[place as usize].0);
    let mut numbers = vec![0u16; sums.len()];
    sorted.iter().enumerate().for_each(|(number, &place)| numbers[place as usize] = number as u16);
    let groups = sums.len();
    let each = slices_a_run(sliced.len());
    let counted = pool.map(sliced.len().div_ceil(each), |run| {
        let mut counts = vec![0u32; groups];
        let of = (run * each..sliced.len().min((run + 1) * each)).map(|s| {
            let renumbered: Vec<u16> = places[s].iter().map(|&place| numbers[place as usize]).collect();
            for (id, &iterations) in sliced[s].iterations.iter().enumerate() {
                counts[renumbered[id] as usize] += iterations as u32;
            }
            sliced[s].of.iter().map(|&id| renumbered[id as usize]).collect()
        });
        let of: Vec<Vec<u16>> = of.collect();
        (of, counts)
    });
    let (of, counts): (Vec<_>, Vec<_>) = counted.into_iter().unzip();
    let of = of.into_iter().flatten().collect();
    let sums = sorted.iter().map(|&place| sums[place as usize]);
    let touches = sums
        .clone()
        .map(|(key, ..)| key.iter().map(|&part| Touch { resource: part >> 1, write: part & 1 == 1 }).collect())
        .collect();
    let (iterations, cost) = sums.map(|(_, iterations, cost)| (iterations, cost)).unzip();
    Some(Groups { touches, iterations, cost, of, counts, numbers: (0..groups as u16).collect() })
}

/// Groups as they are when runs of `1 << shift` parts are joined, and the new number of each old one.
pub(crate) fn coarsen(groups: &Groups, fine: &Parts, coarse: &Parts, shift: u32) -> (Groups, Vec<u16>) {
    let keys: Vec<Vec<Touch>> = groups
        .touches
        .iter()
        .map(|touches| {
            let mut key: Vec<Touch> = Vec::with_capacity(touches.len());
            for touch in touches {
                let (slot, part) = fine.part_of(touch.resource);
                let resource = coarse.first[slot] + (part >> shift) as u32;
                match key.last_mut() {
                    Some(last) if last.resource == resource => last.write |= touch.write,
                    _ => key.push(Touch { resource, write: touch.write }),
                }
            }
            key
        })
        .collect();
    let mut sums: BTreeMap<&[Touch], (usize, u64)> = BTreeMap::new();
    for (g, key) in keys.iter().enumerate() {
        let sum = sums.entry(key).or_default();
        sum.0 += groups.iterations[g];
        sum.1 += groups.cost[g];
    }
    let numbers: BTreeMap<&[Touch], u16> = sums.keys().enumerate().map(|(id, key)| (*key, id as u16)).collect();
    let renumbered = keys.iter().map(|key| numbers[key.as_slice()]).collect();
    let (iterations, cost) = sums.values().copied().unzip();
    let touches = sums.keys().map(|key| Box::from(*key)).collect();
    (Groups { touches, iterations, cost, of: Vec::new(), counts: Vec::new(), numbers: Vec::new() }, renumbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Inline;

    /// A slice of iterations, the key of each given.
    fn slice(keys: &[Vec<u32>]) -> SliceGroups {
        let mut groups = SliceGroups::default();
        for key in keys {
            let id = groups.id(key).unwrap();
            groups.count(id, 1 + key.len() as u64);
        }
        groups
    }

    #[test]
    fn different_keys_have_different_numbers() {
        let numbers = [0, 1, 255, 65_533, 65_534, 65_535, 65_536, u32::MAX];
        let mut all: Vec<Vec<u32>> = vec![Vec::new()];
        let mut longest = 0..1;
        for _length in 1..=5 {
            let longer = longest.clone().flat_map(|k| numbers.map(|number| [&*all[k], &[number]].concat()));
            let longer: Vec<_> = longer.take(3000).collect();
            longest = all.len()..all.len() + longer.len();
            all.extend(longer);
        }
        let mut keys = Keys::default();
        for round in 0..2 {
            for (number, key) in all.iter().enumerate() {
                assert_eq!(keys.number(key), (number, round == 0), "{key:?}");
            }
        }
        assert!(keys.iter().eq(all.iter().map(Vec::as_slice)));
    }

    #[test]
    fn groups_are_numbered_by_their_keys() {
        let key = |i: usize| (0..i % 4).map(|k| 2 * (20 * k + (i * i + k) % 17) as u32 + (i % 2) as u32).collect();
        let slices: Vec<Vec<Vec<u32>>> =
            (0..40).map(|s| (0..100).map(|i| key(i * (s + 1) + 7 * s)).collect()).collect();
        let sliced = grouped_slices(slices.len(), &Inline, |s| Some(slice(&slices[s]))).unwrap();
        let groups = unite(&sliced, &Inline).unwrap();
        let mut expected: BTreeMap<&[u32], (usize, u64)> = BTreeMap::new();
        for key in slices.iter().flatten() {
            let sums = expected.entry(key).or_default();
            *sums = (sums.0 + 1, sums.1 + 1 + key.len() as u64);
        }
        let key_of = |touches: &[Touch]| -> Vec<u32> {
            touches.iter().map(|touch| touch.resource << 1 | u32::from(touch.write)).collect()
        };
        let keys: Vec<Vec<u32>> = groups.touches.iter().map(|touches| key_of(touches)).collect();
        assert!(keys.iter().map(Vec::as_slice).eq(expected.keys().copied()));
        assert!(groups.iterations.iter().copied().zip(groups.cost.iter().copied()).eq(expected.into_values()));
        assert!(groups.each().map(|group| &keys[group as usize]).eq(slices.iter().flatten()));
        let each = slices_a_run(slices.len());
        for (counts, run) in groups.counts.iter().zip(slices.chunks(each)) {
            assert_eq!(counts.iter().sum::<u32>() as usize, run.iter().map(Vec::len).sum::<usize>());
        }
    }

    #[test]
    fn too_many_groups_are_seen_in_the_first_slices() {
        let tried = std::sync::atomic::AtomicUsize::new(0);
        let found = grouped_slices(1000, &Inline, |s| {
            tried.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Some(slice(&(0..2000).map(|k| vec![(2000 * s + k) as u32]).collect::<Vec<_>>()))
        });
        assert!(found.is_none());
        // As many slices as are looked at until there are too many, twice as many each time.
        assert_eq!(tried.into_inner(), (MAX_GROUPS / 2000 + 1).next_power_of_two());
        // As many as there may be are not too many, however many slices have them.
        let found =
            grouped_slices(50, &Inline, |_| Some(slice(&(0..MAX_GROUPS as u32).map(|k| vec![k]).collect::<Vec<_>>())));
        assert_eq!(unite(&found.unwrap(), &Inline).unwrap().touches.len(), MAX_GROUPS);
    }
}
