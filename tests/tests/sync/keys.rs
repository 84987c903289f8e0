//! Keys and values that bodies add to maps: seen by their own copy at once, by all when the loop has ended.

use std::collections::{BTreeMap, BTreeSet};

use stradsap::Element;
use stradsap::prelude::*;
use stradsap::{Merge, Shared, Verified};

use super::places::{PLACES, copies, note, policies};
use crate::common::below;
use crate::jobs::processes::{children_as, signal_to};
use crate::jobs::runner::Test;
use crate::seen::Seen;

type Result = stradsap::Result<()>;

/// Word `k` of a text in which new words come up all the time.
fn word(k: usize) -> String {
    format!("w{}", if k.is_multiple_of(3) { below(k as u64, 9) } else { below(k as u64, 5 + k / 2) })
}

fn is_average(policy: SyncPolicy) -> bool {
    matches!(policy, SyncPolicy::ModelAverage { .. })
}

/// What a plain loop over a map leaves.
fn counted<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, u64> {
    keys.fold(BTreeMap::new(), |mut counts, key| {
        *counts.entry(key).or_insert(0) += 1;
        counts
    })
}

/// Each epoch has words that those before didn't have.
pub(crate) fn words_are_counted(session: &Session, seen: &mut Seen) -> Result {
    for (name, policy) in policies(session) {
        let mut counts = DMap::<String, u64>::new(session)?;
        for epoch in 0..3 {
            let text = DVector::from_iter(session, (0..400 * (epoch + 1)).map(word))?;
            let had = counts.len()?;
            let before: BTreeMap<String, u64> = counts.iter()?.collect();
            let report = sync_parallel_for!(
                text,
                9,
                [had, &mut counts],
                |batch| {
                    for word in batch {
                        let earlier = counts.get(word).map(Shared::get);
                        assert_eq!(earlier.is_some(), counts.contains_key(word));
                        let len = counts.len();
                        counts.entry(word.clone()).or_insert(0).add(1);
                        // Its own new keys a copy has at once.
                        assert_eq!(counts[word].get(), earlier.unwrap_or(0) + 1);
                        assert_eq!(counts.len() - len, usize::from(earlier.is_none()));
                    }
                    assert!(counts.len() > had || had > 0);
                    assert_eq!(counts.iter().count(), counts.len());
                    let there: BTreeSet<_> = counts.iter().filter(|(_, n)| n.get() > 0).map(|(word, _)| word).collect();
                    assert!(batch.iter().all(|word| there.contains(word)));
                },
                policy
            )?;
            note(seen, name, &report);
            let now: BTreeMap<String, u64> = counts.iter()?.collect();
            if is_average(policy) && copies(session) > 1 {
                assert!(now.keys().eq(counted(text.iter()?).keys()), "{name}");
            } else {
                let mut expected = before;
                for (word, n) in counted(text.iter()?) {
                    *expected.entry(word).or_insert(0) += n;
                }
                assert_eq!(now, expected, "{name}, epoch {epoch}");
            }
            assert_eq!((counts.len()?, counts.contains_key("w0")?), (now.len(), true));
            // Equal contents have one order and one digest, however they came about.
            assert_eq!(DMap::from_entries(session, now)?.digest()?, counts.digest()?);
            seen.record("counts", counts.digest()?);
        }
    }
    Ok(())
}

/// One key from many copies: where it begins, and what becomes of their changes.
pub(crate) fn one_key_from_several_copies(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_fn(session, 60, |i| i as u32)?;
    let n = copies(session) as f64;
    for (name, policy) in policies(session) {
        let mut begun = DMap::<u32, [f64; 2]>::new(session)?;
        let mut odd = DMap::<String, f32>::with_capacity(session, 3000)?;
        let mut untouched = DMap::<u8, i8>::new(session)?;
        sync_parallel_for!(
            input,
            2,
            [&mut begun, &mut odd, &mut untouched],
            |batch| {
                let start = batch.start() as f64;
                for i in batch {
                    begun.entry(i % 5).or_insert_with(|| [100.0 + start, 1.0]).add(&[1.0, 0.5]);
                    let value = odd.entry(format!("odd {}", i % 7)).or_default();
                    value.set(value.get() * 0.75 + *i as f32 / 3.0);
                }
                // A key that is looked for isn't made.
                assert!(untouched.get(&3).is_none() && !untouched.contains_key(&7) && untouched.is_empty());
                let _unused = untouched.entry(3);
            },
            policy
        )?;
        assert!(untouched.is_empty()?, "{name}");
        // It begins as in the first of the minibatches that have it, and is changed twelve times.
        let by = if is_average(policy) { 12.0 / n } else { 12.0 };
        let first = |key: u32| f64::from(100 + key / 2 * 2);
        let expected = (0..5u32).map(|key| (key, [first(key) + by, 1.0 + 0.5 * by])).collect::<BTreeMap<_, _>>();
        let now = begun.iter()?.collect::<BTreeMap<_, _>>();
        for (key, [value, half]) in &expected {
            assert!((now[key][0] - value).abs() < 1e-9 && (now[key][1] - half).abs() < 1e-9, "{name}: {now:?}");
        }
        assert_eq!((now.len(), odd.len()?), (5, 7), "{name}");
        seen.record("begun", begun.digest()?);
        seen.record("odd", odd.digest()?);
    }
    Ok(())
}

/// Combined as rows are, with the same bits as a key that was there.
pub(crate) fn changes_are_combined(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_fn(session, 4 * copies(session), |i| i as u32)?;
    let [mut there, mut new] = [DMap::<u32, [f32; 8]>::new(session)?, DMap::new(session)?];
    (0..3).try_for_each(|key| there.insert(key, [0.25; 8]).map(drop))?;
    for map in [&mut there, &mut new] {
        sync_parallel_for!(
            input,
            4,
            [map = &mut *map],
            |batch| {
                for i in batch {
                    let row = std::array::from_fn(|k| ((i * 31 + k as u32 * 17) % 13) as f32 / 13.0);
                    map.entry(i % 3).or_insert([0.25; 8]).axpy(0.5, &row);
                }
            },
            SyncPolicy::Bsp,
            merge = Combine
        )?;
    }
    assert_eq!(there.to_vec()?, new.to_vec()?);
    seen.record("combined", new.digest()?);
    Ok(())
}

/// The values of a key are in the order of the plain loop, whatever the copies.
pub(crate) fn lists_grow_in_order(session: &Session, seen: &mut Seen) -> Result {
    let text = DVector::from_iter(session, (0..700).map(word))?;
    for (name, policy) in policies(session) {
        let mut places = DMultiMap::<String, (usize, String)>::new(session)?;
        let mut plain = BTreeMap::<String, Vec<(usize, String)>>::new();
        places.insert("w1".to_string(), (7, "before".to_string()))?;
        plain.insert("w1".to_string(), vec![(7, "before".to_string())]);
        let mut total = DVector::from_fn(session, 1, |_| 0u64)?;
        for epoch in 0..3usize {
            let report = sync_parallel_for!(
                text,
                8,
                [epoch, &mut places, &mut total],
                |batch| {
                    for (k, word) in batch.iter().enumerate() {
                        let i = batch.start() + k;
                        if i % 3 == epoch {
                            continue;
                        }
                        let before = places.values(word).count();
                        assert_eq!(before > 0, places.contains_key(word));
                        places.insert(word.clone(), (i, "ü".repeat(i % 4)));
                        assert_eq!(places.values(word).nth(before), Some(&(i, "ü".repeat(i % 4))));
                        total[0].add(1);
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            if let Verified::Compared(names) = report.verified() {
                assert_eq!(names, &["total", "places"]);
            }
            for (i, word) in text.iter()?.enumerate().filter(|(i, _)| i % 3 != epoch) {
                plain.entry(word).or_default().push((i, "ü".repeat(i % 4)));
            }
            assert_eq!(places.iter()?.collect::<BTreeMap<_, _>>(), plain, "{name}, epoch {epoch}");
            assert_eq!((places.keys()?, places.get("w1")?), (plain.len(), plain["w1"].clone()));
            seen.record("places", places.digest()?);
        }
        // Loops of the other kind and operators find them as any others.
        let longest = places.as_map().map(|(_, list)| list.len()).reduce(usize::max)?;
        assert_eq!(longest, plain.values().map(Vec::len).max());
        async_parallel_for!(0..20, [&mut places], |i| places.insert(word(i), (i, String::new())))?;
        (0..20).for_each(|i| plain.entry(word(i)).or_default().push((i, String::new())));
        assert_eq!(places.iter()?.collect::<BTreeMap<_, _>>(), plain, "{name}");
    }
    Ok(())
}

/// Loops of both kinds, operators and the program itself change one map in turn.
pub(crate) fn keys_come_from_everywhere(session: &Session, seen: &mut Seen) -> Result {
    let mut all = policies(session);
    // None of these loses an addition.
    all.retain(|(_, policy)| !is_average(*policy));
    all.push(("bounded", SyncPolicy::Ssp { staleness: 1 }));
    for (name, policy) in all {
        let mut map = DMap::<u32, i64>::new(session)?;
        let mut plain = BTreeMap::<u32, i64>::new();
        for epoch in 0..5u32 {
            let input = DVector::from_fn(session, 150, |i| below(i as u64 * 7, 30 + 40 * epoch as usize) as u32)?;
            let before: Vec<u32> = plain.keys().copied().collect();
            sync_parallel_for!(
                input,
                7,
                [epoch, &mut map],
                |batch| {
                    for &key in batch {
                        // Some values in place, and some keys that only this epoch has.
                        if let Some(value) = map.get(&key).filter(|_| key % 4 == 0) {
                            value.add(10);
                        } else {
                            map.entry(key + 1000 * (key % 2) * epoch).or_insert(0).add(1);
                        }
                    }
                },
                policy
            )?;
            // The first time a key comes up depends on the copy where it is new; so the whole is compared where it isn't.
            for key in input.iter()? {
                if key % 4 == 0 && before.contains(&key) {
                    *plain.get_mut(&key).unwrap() += 10;
                } else if key % 4 != 0 {
                    *plain.entry(key + 1000 * (key % 2) * epoch).or_insert(0) += 1;
                }
            }
            let now: BTreeMap<u32, i64> = map.iter()?.collect();
            for (key, value) in &now {
                let new = key % 4 == 0 && *key < 1000 && !before.contains(key);
                assert!(new || plain[key] == *value, "{name}, epoch {epoch}: {key} has {value}, not {}", plain[key]);
            }
            plain = now;
            if name != "bounded" {
                seen.record("map", map.digest()?);
            }
            match epoch {
                0 => drop((map.insert(7777, 3)?, plain.insert(7777, 3))),
                1 => {
                    async_parallel_for!(0..40, [&mut map], |i| {
                        *map.entry(2 * i as u32).or_insert(0) += 5;
                        map.remove(&(4 * i as u32 + 1));
                    })?;
                    (0..40).for_each(|i| *plain.entry(2 * i).or_insert(0) += 5);
                    for i in 0..40 {
                        plain.remove(&(4 * i + 1));
                    }
                }
                2 => {
                    map.transform(|_, value| *value *= 2)?;
                    plain.values_mut().for_each(|value| *value *= 2);
                }
                _ => {}
            }
            let sum = map.map(|(key, value)| i64::from(*key) ^ value).reduce(|a, b| a + b)?;
            assert_eq!(sum, Some(plain.iter().map(|(key, value)| i64::from(*key) ^ value).sum()), "{name}");
            assert_eq!(map.len()?, plain.len());
        }
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("enough of {0}")]
struct Enough(u32);

/// A loop that fails leaves no key and no value behind.
pub(crate) fn nothing_new_after_failures(session: &Session, seen: &mut Seen) -> Result {
    let mut all = policies(session);
    all.push(("bounded", SyncPolicy::Ssp { staleness: 2 }));
    for (name, policy) in all {
        let mut input = DVector::from_fn(session, 80, |i| (i as u32, 0u32))?;
        let mut counts = DMap::from_entries(session, (0..10u32).map(|i| (i, u64::from(i))))?;
        let mut lists = DMultiMap::from_pairs(session, [(3u32, "three".to_string())])?;
        for (epoch, kind) in [1, 0, 2, 3, 0, 1, 0].into_iter().enumerate() {
            let at = below(epoch as u64, 80);
            input.set(at, (at as u32, kind))?;
            let before = (counts.to_vec()?, lists.to_vec()?, counts.digest()?, lists.digest()?);
            let ended = sync_parallel_for!(
                input,
                4,
                [epoch, &mut counts, &mut lists],
                |batch| {
                    for &(i, kind) in batch {
                        counts.entry(i % (20 + 10 * epoch as u32)).or_insert(5).add(1);
                        lists.insert(i % 6, i.to_string());
                        match kind {
                            1 => return Err(Enough(i)),
                            2 => panic!("enough of {i}"),
                            3 => counts[&12345].add(1),
                            _ => {}
                        }
                    }
                    Ok(())
                },
                policy
            );
            input.set(at, (at as u32, 0))?;
            let after = (counts.to_vec()?, lists.to_vec()?, counts.digest()?, lists.digest()?);
            if kind == 0 {
                ended?;
                assert_eq!((after.0.len(), after.1.len()), (20 + 10 * epoch, 6), "{name}");
                if name != "bounded" {
                    seen.record(name, after);
                }
                continue;
            }
            let error = ended.unwrap_err().to_string();
            let expected = if kind == 3 { "`counts` has no such key" } else { "enough of" };
            assert!(error.contains(expected) && error.contains(&format!("minibatch {}", at / 4)), "{name}: {error}");
            assert_eq!(before, after, "{name}, epoch {epoch}");
        }
    }
    Ok(())
}

/// Changes of it can't be united.
#[derive(Clone, Copy, Debug, Default, PartialEq, Element)]
struct Stubborn(u64);

impl Merge for Stubborn {
    fn change(base: &Self, local: &Self) -> Self {
        assert!(local.0 < 2, "it is enough");
        Stubborn(local.0 - base.0)
    }
    fn apply(&mut self, change: &Self) {
        self.0 += change.0;
    }
    fn share(&mut self, _copies: usize) {}
}

/// A union of new values that panics is a failure of the loop, which leaves nothing.
fn unions_that_panic() {
    for place in PLACES[1..].iter().copied().flatten() {
        let session = place.verified();
        let input = DVector::from_fn(&session, 40, |i| i as u32).unwrap();
        let mut map = DMap::<u32, Stubborn>::new(&session).unwrap();
        let mut x = DVector::from_fn(&session, 40, |_| 0i32).unwrap();
        for policy in [SyncPolicy::Bsp, SyncPolicy::ModelAverage { every: 2 }, SyncPolicy::Ssp { staleness: 1 }] {
            let ended = sync_parallel_for!(
                input,
                2,
                [&mut x, &mut map],
                |batch| {
                    for i in batch {
                        x[*i].add(1);
                        let value = map.entry(i % 2).or_default();
                        value.set(Stubborn(value.get().0 + 1));
                    }
                },
                policy
            );
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("it is enough"), "{policy} on {place}: {error}");
            assert!(map.is_empty().unwrap() && x.iter().unwrap().all(|x| x == 0), "{policy} on {place}");
        }
    }
}

/// Under no policy is an addition lost, however many threads share a copy, or a key or its order.
fn exact() {
    for place in PLACES.iter().copied().flatten().copied() {
        let session = place.verified();
        let text = DVector::from_iter(&session, (0..3000).map(word)).unwrap();
        let bounds = [0, 1, usize::MAX].map(|staleness| SyncPolicy::Ssp { staleness });
        for policy in bounds.into_iter().chain([SyncPolicy::Hybrid, SyncPolicy::Bsp]) {
            let mut counts = DMap::<String, u64>::new(&session).unwrap();
            let mut places = DMultiMap::<String, usize>::new(&session).unwrap();
            sync_parallel_for!(
                text,
                8,
                [&mut counts, &mut places],
                |batch| {
                    for (k, word) in batch.iter().enumerate() {
                        counts.entry(word.clone()).or_insert(0).add(1);
                        places.insert(word.clone(), batch.start() + k);
                    }
                },
                policy
            )
            .unwrap();
            let expected = counted((0..3000).map(word));
            assert_eq!(counts.iter().unwrap().collect::<BTreeMap<_, _>>(), expected, "{policy:?} on {place}");
            let places: BTreeMap<_, _> = places.iter().unwrap().collect();
            assert_eq!(places.len(), expected.len());
            for (word, list) in places {
                assert!(list.is_sorted() && list.len() as u64 == expected[&word], "{policy:?} on {place}: {word}");
            }
        }
    }
}

/// Workers are lost between calls and while they run: each word is counted once.
fn after_losses() {
    let run = |session: &Session, lose: &dyn Fn(u64)| {
        let text = DVector::from_iter(session, (0..600).map(word)).unwrap();
        let mut counts = DMap::<String, u64>::new(session).unwrap();
        let mut places = DMultiMap::<u64, usize>::new(session).unwrap();
        let mut digests = Vec::new();
        for epoch in 0..6u64 {
            lose(epoch);
            sync_parallel_for!(
                text,
                10,
                [epoch, &mut counts, &mut places],
                |batch| {
                    for (k, word) in batch.iter().enumerate() {
                        counts.entry(format!("{word} {}", epoch / 2)).or_insert(0).add(1);
                        places.insert(epoch, batch.start() + k);
                    }
                },
                SyncPolicy::Bsp
            )
            .unwrap();
            assert_eq!(counts.iter().unwrap().map(|(_, n)| n).sum::<u64>(), 600 * (epoch + 1));
            assert_eq!(places.get(&epoch).unwrap(), (0..600).collect::<Vec<_>>());
            digests.push(counts.digest().unwrap());
        }
        digests
    };
    let (here, there) = (PLACES[1][0], PLACES[1][2]);
    let expected = run(&here.verified(), &|_| {});
    let earlier = children_as(std::process::id(), "worker");
    let found = run(&there.verified(), &|epoch| {
        if epoch % 2 == 1 {
            let mut own = children_as(std::process::id(), "worker");
            own.retain(|pid| !earlier.contains(pid));
            signal_to(own[epoch as usize % own.len()], "KILL");
        }
    });
    assert_eq!(found, expected);
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("unions of new values that panic", 60, unions_that_panic),
        Test::new("new keys are counted exactly", 60, exact),
        Test::new("new keys after losses", 60, after_losses),
    ]
}
