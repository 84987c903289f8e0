//! The DDSs of a random program, each beside what it must hold.

use std::collections::BTreeMap;

use stradsap::Element;
use stradsap::prelude::*;

use crate::common::mix;
use crate::seen::Seen;

/// A reproducible stream of numbers.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(mix(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A length: none, one, about a chunk, several chunks, several partitions.
    pub(crate) fn len(&mut self) -> usize {
        match self.below(12) {
            0 => 0,
            1 => 1,
            2 => 31,
            3 => 32,
            4 => 33,
            5 => 2_000 + self.below(9_000),
            _ => self.below(600),
        }
    }

    /// An index of a list that is not empty.
    pub(crate) fn index<T>(&mut self, of: &[T]) -> usize {
        self.below(of.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Element)]
pub(crate) struct Row {
    pub(crate) key: u32,
    pub(crate) weight: f32,
    pub(crate) place: i64,
}

/// A DDS and what it must hold.
pub(crate) type Vector<T> = (DVector<T>, Vec<T>);
pub(crate) type Map<K, V> = (DMap<K, V>, BTreeMap<K, V>);
pub(crate) type Lists<K, V> = (DMultiMap<K, V>, BTreeMap<K, Vec<V>>);

/// All of a program. None of the lists is ever empty.
pub(crate) struct Pool<'s> {
    pub(crate) session: &'s Session,
    pub(crate) numbers: Vec<Vector<u32>>,
    pub(crate) floats: Vec<Vector<f64>>,
    pub(crate) words: Vec<Vector<String>>,
    pub(crate) rows: Vec<Vector<Row>>,
    pub(crate) pairs: Vec<Vector<(u32, f64)>>,
    pub(crate) weights: Vec<Map<u32, f64>>,
    pub(crate) counts: Vec<Map<String, u64>>,
    pub(crate) lists: Vec<Lists<u32, String>>,
}

/// More of a kind are not kept.
const MOST: usize = 3;
/// Longer ones are not kept: `flat_map` and joins multiply.
const LONGEST: usize = 20_000;

/// Keeps a result in the place of another or beside them.
pub(crate) fn keep<T>(of: &mut Vec<T>, one: T, rng: &mut Rng) {
    if of.len() < MOST {
        of.push(one);
    } else {
        let at = rng.index(of);
        of[at] = one;
    }
}

/// Keeps a vector, looks at it or not, and notes what everybody must see.
pub(crate) fn made<T: Element + PartialEq + std::fmt::Debug>(
    dds: DVector<T>,
    plain: Vec<T>,
    of: &mut Vec<Vector<T>>,
    rng: &mut Rng,
    seen: &mut Seen,
) -> stradsap::Result<()> {
    seen.record("length", dds.len());
    assert_eq!(dds.len(), plain.len());
    // What nobody looks at stays with the workers.
    if rng.one_in(2) {
        assert_same(&dds.to_vec()?, &plain);
        seen.digest("elements", &dds)?;
    }
    if plain.len() <= LONGEST {
        keep(of, (dds, plain), rng);
    }
    Ok(())
}

pub(crate) fn assert_same<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T]) {
    let first = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(i) = first {
        panic!("element {i} is {:?} instead of {:?}", found[i], expected[i]);
    }
    assert_eq!(found.len(), expected.len(), "another length");
}

/// The contents of a map, whose order is that of a map made anew.
pub(crate) fn entries<K, V>(session: &Session, map: &DMap<K, V>) -> stradsap::Result<BTreeMap<K, V>>
where
    K: stradsap::Key + Ord + std::fmt::Debug,
    V: Element + PartialEq + std::fmt::Debug,
{
    let entries = map.to_vec()?;
    let plain: BTreeMap<K, V> = entries.iter().cloned().collect();
    assert_eq!((plain.len(), map.len()?), (entries.len(), entries.len()), "a key is there twice");
    assert_same(&entries, &DMap::from_entries(session, plain.clone())?.to_vec()?);
    Ok(plain)
}

/// Looks at a map, and notes what everybody must see.
pub(crate) fn made_map<K, V>(
    session: &Session,
    map: &DMap<K, V>,
    plain: &BTreeMap<K, V>,
    seen: &mut Seen,
) -> stradsap::Result<()>
where
    K: stradsap::Key + Ord + std::fmt::Debug,
    V: Element + PartialEq + std::fmt::Debug,
{
    let found = entries(session, map)?;
    if let Some((key, value)) = found.iter().find(|&(key, value)| plain.get(key) != Some(value)) {
        panic!("{key:?} has {value:?} instead of {:?}", plain.get(key));
    }
    assert_eq!(found.len(), plain.len());
    seen.record("map", (map.digest()?, map.len()?));
    Ok(())
}

/// As [`made_map`].
pub(crate) fn made_lists<K, V>(
    map: &DMultiMap<K, V>,
    plain: &BTreeMap<K, Vec<V>>,
    seen: &mut Seen,
) -> stradsap::Result<()>
where
    K: stradsap::Key + Ord + std::fmt::Debug,
    V: Element + PartialEq + std::fmt::Debug,
{
    let found: BTreeMap<K, Vec<V>> = map.to_vec()?.into_iter().collect();
    if let Some((key, values)) = found.iter().find(|&(key, values)| plain.get(key) != Some(values)) {
        panic!("{key:?} has {values:?} instead of {:?}", plain.get(key));
    }
    assert_eq!(
        (found.len(), map.keys()?, map.len()?),
        (plain.len(), plain.len(), plain.values().map(Vec::len).sum::<usize>())
    );
    seen.record("lists", (map.digest()?, map.len()?));
    Ok(())
}

/// A float that is another, but for the order in which it was rounded.
pub(crate) fn assert_near(found: f64, expected: f64, magnitude: f64) {
    assert!((found - expected).abs() <= 1e-9 * (1.0 + magnitude), "{found} instead of {expected}");
}

pub(crate) fn word(n: u64) -> String {
    format!("{}{}", ["fig", "pear", "a", "quince ", "é"][(n % 5) as usize], n % 41)
}

pub(crate) fn row(n: u64) -> Row {
    Row { key: (n % 97) as u32, weight: (n % 1000) as f32 / 8.0 - 50.0, place: n as i64 }
}

impl<'s> Pool<'s> {
    pub(crate) fn new(session: &'s Session, rng: &mut Rng) -> stradsap::Result<Self> {
        let mut pool = Pool {
            session,
            numbers: Vec::new(),
            floats: Vec::new(),
            words: Vec::new(),
            rows: Vec::new(),
            pairs: Vec::new(),
            weights: Vec::new(),
            counts: Vec::new(),
            lists: Vec::new(),
        };
        for _ in 0..2 {
            pool.fresh(rng)?;
        }
        Ok(pool)
    }

    /// One of each, made by the program itself.
    pub(crate) fn fresh(&mut self, rng: &mut Rng) -> stradsap::Result<()> {
        fn vector<T: Element>(
            session: &Session,
            rng: &mut Rng,
            f: impl FnMut(u64) -> T,
        ) -> stradsap::Result<Vector<T>> {
            let plain: Vec<T> = (0..rng.len()).map(|_| rng.next()).map(f).collect();
            Ok((DVector::from_vec(session, plain.clone())?, plain))
        }
        let session = self.session;
        keep(&mut self.numbers, vector(session, rng, |n| (n % 5000) as u32)?, rng);
        keep(&mut self.floats, vector(session, rng, |n| n as f64 / 2f64.powi(60) - 8.0)?, rng);
        keep(&mut self.words, vector(session, rng, word)?, rng);
        keep(&mut self.rows, vector(session, rng, row)?, rng);
        keep(&mut self.pairs, vector(session, rng, |n| ((n % 300) as u32, n as f64 / 2f64.powi(62)))?, rng);
        let plain: BTreeMap<u32, f64> = (0..rng.len()).map(|i| ((rng.next() % 2000) as u32, i as f64 / 3.0)).collect();
        keep(&mut self.weights, (DMap::from_entries(session, plain.clone())?, plain), rng);
        let plain: BTreeMap<String, u64> = (0..rng.len()).map(|i| (word(rng.next()), i as u64)).collect();
        keep(&mut self.counts, (DMap::from_entries(session, plain.clone())?, plain), rng);
        let values: Vec<(u32, String)> =
            (0..rng.len()).map(|_| ((rng.next() % 500) as u32, word(rng.next()))).collect();
        let mut plain = BTreeMap::<u32, Vec<String>>::new();
        values.iter().cloned().for_each(|(key, value)| plain.entry(key).or_default().push(value));
        keep(&mut self.lists, (DMultiMap::from_pairs(session, values)?, plain), rng);
        Ok(())
    }

    /// Everything is what it must be.
    pub(crate) fn check(&self, seen: &mut Seen) -> stradsap::Result<()> {
        fn all<T: Element + PartialEq + std::fmt::Debug>(of: &[Vector<T>], seen: &mut Seen) -> stradsap::Result<()> {
            for (dds, plain) in of {
                assert_same(&dds.to_vec()?, plain);
                seen.digest("in the end", dds)?;
            }
            Ok(())
        }
        all(&self.numbers, seen)?;
        all(&self.floats, seen)?;
        all(&self.words, seen)?;
        all(&self.rows, seen)?;
        all(&self.pairs, seen)?;
        for (map, plain) in &self.weights {
            made_map(self.session, map, plain, seen)?;
        }
        for (map, plain) in &self.counts {
            made_map(self.session, map, plain, seen)?;
        }
        for (map, plain) in &self.lists {
            made_lists(map, plain, seen)?;
        }
        Ok(())
    }
}
