//! Maps whose values synchronous loops write: as if the values were a DVector in the map's order.

use std::collections::BTreeMap;
use std::fmt::Debug;

use stradsap::prelude::*;
use stradsap::{Error, Key};

use super::kinds::{Chain, Row};
use super::places::{PLACES, note, policies};
use crate::common::{below, mix};
use crate::jobs::processes::{children_as, signal_to};
use crate::jobs::runner::Test;
use crate::seen::Seen;

type Result = stradsap::Result<()>;

/// What has keys of its own for numbers.
trait Numbered: Key {
    fn key(i: usize) -> Self;
}

impl Numbered for u32 {
    fn key(i: usize) -> Self {
        (i as u32).wrapping_mul(2_654_435_761)
    }
}

impl Numbered for String {
    fn key(i: usize) -> Self {
        "ü".repeat(i % 5) + &i.to_string()
    }
}

impl Numbered for (i64, [u8; 3]) {
    fn key(i: usize) -> Self {
        (-(i as i64) / 3, [i as u8, 7, (i % 3) as u8])
    }
}

/// The keys that elements of the input use, and their places in the map's order.
type Uses<K> = Vec<([K; 3], [u32; 3])>;

fn uses<K: Numbered + Ord, V>(in_order: &[(K, V)], len: usize) -> Uses<K> {
    let places: BTreeMap<&K, u32> = in_order.iter().zip(0..).map(|((key, _), place)| (key, place)).collect();
    let used = |i: usize| [below(i as u64, 9), 9 + below(7 * i as u64, 60), 60 + i % 30];
    (0..len).map(used).map(|used| (used.map(K::key), used.map(|i| places[&K::key(i)]))).collect()
}

fn beside_its_twin<K: Numbered + Ord, T: Row>(session: &Session, seen: &mut Seen) -> Result {
    let entries = (0..95).map(|i| (K::key(i), T::make(i)));
    let in_order = DMap::from_entries(session, entries.clone())?.to_vec()?;
    let input = DVector::from_vec(session, uses(&in_order, 120))?;
    for (name, policy) in policies(session) {
        let mut map = DMap::from_entries(session, entries.clone())?;
        let mut rows = DVector::from_iter(session, in_order.iter().map(|(_, row)| row.clone()))?;
        for epoch in 0..3u64 {
            let (looked, twins) = (session.sum(0u64), session.sum(0u64));
            let report = sync_parallel_for!(
                input,
                7,
                [epoch, &mut map, &looked],
                |batch| {
                    for (k, ([hot, cold, read], _)) in batch.into_iter().enumerate() {
                        let by = mix(epoch ^ (batch.start() + k) as u64 ^ map[read].get().look());
                        T::alter(&map[hot], by);
                        if k % 2 == 0 {
                            T::alter(map.get(cold).unwrap(), by ^ 1);
                        }
                        looked.add(map[cold].get().look() % 1000);
                        assert!(map.contains_key(cold) && !map.contains_key(&K::key(95 + k)));
                        assert!(map.get(&K::key(1000)).is_none() && map.len() == 95);
                    }
                },
                policy
            )?;
            let twin = sync_parallel_for!(
                input,
                7,
                [epoch, &mut rows, &twins],
                |batch| {
                    for (k, &(_, [hot, cold, read])) in batch.into_iter().enumerate() {
                        let by = mix(epoch ^ (batch.start() + k) as u64 ^ rows[read].get().look());
                        T::alter(&rows[hot], by);
                        if k % 2 == 0 {
                            T::alter(&rows[cold], by ^ 1);
                        }
                        twins.add(rows[cold].get().look() % 1000);
                    }
                },
                policy
            )?;
            assert_eq!(looked.get(), twins.get(), "{name}, epoch {epoch}");
            assert_eq!((report.copies(), report.rounds()), (twin.copies(), twin.rounds()));
            assert_eq!(report.rows_prefetched() > 0, twin.rows_prefetched() > 0, "{name}, epoch {epoch}");
            // One that is only looked at stays with the workers.
            let left: Vec<u64> = map.iter()?.map(|(_, row)| row.look()).collect();
            let own: Vec<u64> = rows.iter()?.map(|row| row.look()).collect();
            assert_eq!(left, own, "{name}, epoch {epoch}");
            assert!(map.to_vec()?.iter().map(|(key, _)| key).eq(in_order.iter().map(|(key, _)| key)));
            let (key, row) = (&in_order[40].0, rows.get(40)?);
            assert_eq!(map.get(key)?.map(|found| found.look()), Some(row.look()));
            assert_eq!((map.len()?, map.contains_key(key)?, map.get(&K::key(95))?.is_none()), (95, true, true));
            note(seen, name, &report);
            seen.record("map", map.digest()?);
            let again = DMap::from_entries(session, map.to_vec()?)?;
            assert_eq!(again.digest()?, map.digest()?);
        }
    }
    Ok(())
}

pub(crate) fn maps_beside_their_twins(session: &Session, seen: &mut Seen) -> Result {
    beside_its_twin::<u32, f32>(session, seen)?;
    beside_its_twin::<u32, i16>(session, seen)?;
    beside_its_twin::<String, [f32; 6]>(session, seen)?;
    beside_its_twin::<String, f64>(session, seen)?;
    beside_its_twin::<(i64, [u8; 3]), [f64; 100]>(session, seen)?;
    beside_its_twin::<String, Chain>(session, seen)
}

pub(crate) fn maps_without_entries(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_fn(session, 30, |i| i as u32)?;
    for (name, policy) in policies(session) {
        let mut nothing = DMap::<String, f32>::new(session)?;
        let mut x = DVector::from_fn(session, 4, |_| 0i32)?;
        for epoch in 0..3 {
            let report = sync_parallel_for!(
                input,
                4,
                [&mut nothing, &mut x],
                |batch| {
                    assert!(nothing.is_empty() && nothing.iter().next().is_none());
                    assert!(nothing.get("a").is_none() && !nothing.contains_key(""));
                    batch.into_iter().for_each(|&i| x[i % 4].add(1));
                },
                policy
            )?;
            note(seen, name, &report);
            assert!(nothing.is_empty()?);
            assert_eq!((nothing.len()?, nothing.to_vec()?, nothing.get("a")?), (0, vec![], None));
            if epoch == 1 {
                nothing.insert("a".to_string(), 0.5)?;
                nothing.remove("a")?;
            }
        }
        // A copy that has one entry has it twice as much.
        nothing.insert("one".to_string(), 1.0)?;
        sync_parallel_for!(input, 30, [&mut nothing], |_batch| nothing["one"].add(1.0), policy)?;
        seen.record("one", nothing.to_vec()?);
        assert_eq!(nothing.to_vec()?, [("one".to_string(), 2.0)]);
        seen.digest("x", &x)?;
    }
    Ok(())
}

/// Several maps, written and read, with all else that can be captured: each has its own keys and values.
pub(crate) fn maps_among_others(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_fn(session, 90, |i| i as u32)?;
    for (name, policy) in policies(session) {
        let mut first = DMap::from_entries(session, (0..40u32).map(|i| (i, f64::from(i))))?;
        let mut second = DMap::from_entries(session, (0..30u32).map(|i| (format!("n{i}"), [0i32; 2])))?;
        let names = DMap::from_entries(session, (0..90u32).map(|i| (i, format!("n{}", i % 30))))?;
        let mut x = DVector::from_fn(session, 10, |_| 0.0f32)?;
        let mut y = DVector::from_fn(session, 10, |_| 0u64)?;
        let (count, by) = (session.count(), 3u32);
        for _ in 0..3 {
            let report = sync_parallel_for!(
                input,
                5,
                [&mut x, by, &mut first, &count, &names, &mut second, &mut y],
                |batch| {
                    for &i in batch {
                        let value = &first[&(i % 40)];
                        value.set(value.get() * 0.5 + f64::from(by * i));
                        second[&names[&i]].add(&[1, i as i32]);
                        x[i % 10].add(value.get() as f32);
                        y[i % 10].add(u64::from(i));
                        count.add(1);
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            seen.record("first", first.digest()?);
            seen.record("second", second.digest()?);
            seen.digest("x", &x)?;
        }
        assert_eq!(count.get(), 270);
        if !matches!(policy, SyncPolicy::ModelAverage { .. }) {
            // Changes of whole numbers are added up exactly, in any order.
            let sums = (0..30i32).map(|i| (format!("n{i}"), [9, 3 * (3 * i + 90)])).collect::<BTreeMap<_, _>>();
            assert_eq!(second.iter()?.collect::<BTreeMap<_, _>>(), sums, "{name}");
        }
        // What is read is written by another loop, and the other way round.
        sync_parallel_for!(
            input,
            5,
            [&first, &mut second, &count],
            |batch| {
                let all: f64 = first.iter().map(|(_, value)| value).sum();
                second["n7"].set([all as i32, first[&3] as i32]);
                count.add(batch.len() as u64);
            },
            policy
        )?;
        seen.record("second", second.digest()?);
    }
    Ok(())
}

/// Synchronous loops, loops that insert and remove, and the program itself in turn, against a plain map.
pub(crate) fn maps_of_all_loops(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_fn(session, 200, |i| below(i as u64, 70) as u32)?;
    let mut policies = policies(session);
    // Neither loses an addition.
    policies.retain(|(_, policy)| !matches!(policy, SyncPolicy::ModelAverage { .. }));
    policies.push(("bounded", SyncPolicy::Ssp { staleness: 1 }));
    for (name, policy) in policies {
        let mut map = DMap::from_entries(session, (0..20u32).map(|i| (i.to_string(), i64::from(i))))?;
        let mut plain: BTreeMap<String, i64> = map.iter()?.collect();
        for epoch in 0..6i64 {
            // Once, and once more while the values are apart from their keys.
            for _ in 0..2 {
                let report = sync_parallel_for!(
                    input,
                    9,
                    [epoch, &mut map],
                    |batch| {
                        for key in batch {
                            if let Some(value) = map.get(&key.to_string()) {
                                value.add(epoch + i64::from(*key));
                            }
                        }
                    },
                    policy
                )?;
                note(seen, name, &report);
                for key in input.iter()? {
                    if let Some(value) = plain.get_mut(&key.to_string()) {
                        *value += epoch + i64::from(key);
                    }
                }
            }
            match epoch {
                0 => assert_eq!(map.get("7")?, plain.get("7").copied()),
                1 => assert_eq!(map.len()?, plain.len()),
                2 => assert_eq!(map.to_vec()?.len(), plain.len()),
                _ => {}
            }
            // Keys come, go, and change, in another order each time.
            let report = async_parallel_for!(0..60, [epoch, &mut map], |i| {
                let key = (i * 7 % 60).to_string();
                match (i + epoch as usize) % 5 {
                    0 => drop(map.insert(key, i as i64)),
                    1 if i > 40 => drop(map.remove(&key)),
                    2 => drop(map.get_mut(&key).map(|value| *value *= 2)),
                    _ => {}
                }
            })?;
            // Its iterations touch different keys, so their order is no matter.
            for i in 0..60u32 {
                let key = (i * 7 % 60).to_string();
                match (i + epoch as u32) % 5 {
                    0 => drop(plain.insert(key, i64::from(i))),
                    1 if i > 40 => drop(plain.remove(&key)),
                    2 => drop(plain.get_mut(&key).map(|value| *value *= 2)),
                    _ => {}
                }
            }
            seen.record("reused", (report.reused(), report.misspeculations()));
            if epoch % 2 == 0 {
                assert_eq!(map.iter()?.collect::<BTreeMap<_, _>>(), plain, "{name}, epoch {epoch}");
            } else if epoch == 3 {
                map.transform(|_, value| *value += 1)?;
                plain.values_mut().for_each(|value| *value += 1);
            }
        }
        // Values that a synchronous loop left, as an operator finds them, and a loop that reads.
        sync_parallel_for!(input, 9, [&mut map], |_batch| map["0"].add(1), policy)?;
        *plain.get_mut("0").unwrap() += 200i64.div_euclid(9) + 1;
        let sum = map.map(|(_, value)| *value).reduce(|a, b| a + b)?;
        assert_eq!(sum, Some(plain.values().sum::<i64>()), "{name}");
        let counted = session.sum(0i64);
        sync_parallel_for!(input, 9, [&mut map], |_batch| map["0"].add(1), policy)?;
        *plain.get_mut("0").unwrap() += 23;
        async_parallel_for!(0..70, [&map, &counted], |i| {
            counted.add(map.get(&i.to_string()).copied().unwrap_or(0));
        })?;
        assert_eq!(counted.get(), plain.values().sum::<i64>(), "{name}");
        assert_eq!(map.iter()?.collect::<BTreeMap<_, _>>(), plain, "{name}");
        seen.record("map", map.digest()?);
    }
    Ok(())
}

/// Everything that a program can see of a map.
fn everything<V: Element + Debug>(map: &DMap<u32, V>) -> stradsap::Result<(String, usize, String, Option<V>)> {
    Ok((map.digest()?, map.len()?, format!("{map:?}"), map.get(&3)?))
}

/// A loop that fails leaves the map as it was, in whichever form.
pub(crate) fn maps_after_failures(session: &Session, seen: &mut Seen) -> Result {
    const MISSING: u32 = 1;
    const PANIC: u32 = 2;
    const OUTSIDE: u32 = 3;
    let mut all = policies(session);
    all.push(("bounded", SyncPolicy::Ssp { staleness: 2 }));
    for (name, policy) in all {
        let mut input = DVector::from_fn(session, 80, |i| (below(i as u64, 50) as u32, 0u32))?;
        let mut map = DMap::from_entries(session, (0..50u32).map(|i| (i, [f64::from(i); 3])))?;
        let mut x = DVector::from_fn(session, 5, |_| 0i32)?;
        for (epoch, kind) in [MISSING, 0, OUTSIDE, PANIC, 0, 0, MISSING, 0].into_iter().enumerate() {
            let at = below(epoch as u64, 80);
            input.set(at, (input.get(at)?.0, kind))?;
            let before = (everything(&map)?, x.digest()?);
            let ended = sync_parallel_for!(
                input,
                4,
                [&mut x, &mut map],
                |batch| {
                    for &(key, kind) in batch {
                        map[&key].scale(0.5);
                        map[&key].add(&[1.0, f64::from(key), 2.0]);
                        x[key % 5].add(1);
                        match kind {
                            MISSING => map[&1000].scale(2.0),
                            PANIC => panic!("enough of {key}"),
                            OUTSIDE => x[77].add(1),
                            _ => {}
                        }
                    }
                },
                policy
            );
            let after = (everything(&map)?, x.digest()?);
            input.set(at, (input.get(at)?.0, 0))?;
            let expected = match kind {
                MISSING => "`map` has no such key",
                PANIC => "enough of",
                OUTSIDE => "`x[77]`, but `x` has 5 elements",
                _ => {
                    ended?;
                    assert_ne!(before, after, "{name}, epoch {epoch}");
                    if name != "bounded" {
                        seen.record(name, after);
                    }
                    if epoch == 4 {
                        async_parallel_for!(0..10, [&mut map], |i| {
                            map.get_mut(&(i as u32)).unwrap()[0] += 1.0;
                        })?;
                    }
                    continue;
                }
            };
            let error = ended.unwrap_err();
            assert!(matches!(&error, Error::Minibatch { minibatch, .. } if *minibatch == at / 4), "{error}");
            assert!(error.to_string().contains(expected), "{name}, epoch {epoch}: {error}");
            assert_eq!(before, after, "{name}, epoch {epoch}");
        }
    }
    Ok(())
}

/// Threads that share a map's values without locks lose some of their changes, and never anything else.
fn maps_without_locks() {
    for place in PLACES.iter().copied().flatten().copied() {
        let session = place.verified();
        let input = DVector::from_fn(&session, 4000, |i| i as u32).unwrap();
        let mut map = DMap::from_entries(&session, (0..500u32).map(|i| (format!("key {i}"), [0u64; 2]))).unwrap();
        for epoch in 1..=3u64 {
            sync_parallel_for!(
                input,
                20,
                [&mut map],
                |batch| {
                    for i in batch {
                        map[&format!("key {}", i % 500)].add(&[1, 1 << 40]);
                    }
                },
                SyncPolicy::Hybrid
            )
            .unwrap();
            let alone = place.threads == 1;
            for (key, [low, high]) in map.to_vec().unwrap() {
                assert!((1..=8 * epoch).contains(&low), "{key}: {low} on {place}");
                assert!(high % (1 << 40) == 0 && (1..=8 * epoch).contains(&(high >> 40)), "{key}: {high} on {place}");
                assert!(!alone || low == 8 * epoch, "{key}: {low} on {place}");
            }
        }
    }
}

/// The values stay where they are between synchronous loops, whatever looks at them, and the buckets between others:
/// nothing is recorded or planned anew as long as the keys are the same.
fn maps_stay_where_they_are() {
    for place in [PLACES[1][2], PLACES[2][1], PLACES[3][3]] {
        let session = place.verified();
        let workers = session.workers() as u32;
        let input = DVector::from_fn(&session, 60, |i| i as u32).unwrap();
        let mut map = DMap::from_entries(&session, (0..90u32).map(|i| (i, i64::from(i)))).unwrap();
        let touch = |map: &mut DMap<u32, i64>| {
            async_parallel_for!(0..90, [map = &mut *map], |i| *map.get_mut(&(i as u32)).unwrap() ^= 1).unwrap().reused()
        };
        let mut at_first = 0;
        for epoch in 0..6 {
            // Each worker has its own keys: once that is known, nobody sends rows that others don't want.
            let report = sync_parallel_for!(
                input,
                1,
                [workers, &mut map],
                |batch| (0..20).for_each(|k| {
                    let [i] = *batch else { panic!("minibatches of one") };
                    map[&(i % workers + workers * ((i * 5 + k) % (90 / workers)))].add(2);
                }),
                SyncPolicy::Bsp
            )
            .unwrap();
            let rows = report.rows_prefetched();
            if epoch == 0 {
                at_first = rows;
            }
            // In the fifth call there is another key: its rows are others.
            let is_known = epoch != 0 && epoch != 4;
            assert_eq!(2 * rows < at_first, is_known, "epoch {epoch} on {place}: {at_first}, {report}");
            assert_eq!(
                map.iter().unwrap().map(|(_, value)| value / 2).sum::<i64>(),
                (0..90).map(|i| i / 2).sum::<i64>() + (epoch + 1) * 1200
            );
            match epoch {
                0 => assert_eq!((map.get(&1000).unwrap(), map.len().unwrap()), (None, 90)),
                // The same keys, perhaps with other values.
                1 => assert!(!touch(&mut map)),
                2 => assert!(touch(&mut map)),
                3 => {
                    let value = map.remove(&17).unwrap().unwrap();
                    map.insert(1_000_017, 0).unwrap();
                    map.remove(&1_000_017).unwrap();
                    map.insert(17, value).unwrap();
                    map.insert(2_000_000, 0).unwrap();
                }
                _ => {}
            }
        }
    }
}

/// Loops of both kinds with a map, and a look at it after each.
fn run_with_losses(session: &Session, mut lose: impl FnMut(u64)) -> Vec<String> {
    let input = DVector::from_fn(session, 300, |i| format!("k{}", below(i as u64, 40))).unwrap();
    let mut map = DMap::from_entries(session, (0..40u32).map(|i| (format!("k{i}"), [f64::from(i); 4]))).unwrap();
    let mut digests = Vec::new();
    for epoch in 0..8u64 {
        sync_parallel_for!(
            input,
            10,
            [epoch, &mut map],
            |batch| {
                for key in batch {
                    map[key].scale(0.9);
                    map[key].add(&[epoch as f64, 0.1, 0.2, 0.3]);
                }
            },
            SyncPolicy::Bsp
        )
        .unwrap();
        lose(epoch);
        if epoch % 3 == 2 {
            async_parallel_for!(0..60, [epoch, &mut map], |i| {
                map.entry(format!("k{}", i as u64 + epoch)).or_insert([0.0; 4])[0] += 1.0;
            })
            .unwrap();
        }
        if epoch % 2 == 1 {
            digests.push(map.digest().unwrap());
        }
    }
    digests
}

/// Workers are lost while they have the values of a map, before and after others need its buckets.
fn maps_after_losses() {
    let (here, there) = (PLACES[1][0], PLACES[1][2]);
    let expected = run_with_losses(&here.verified(), |_| {});
    let earlier = children_as(std::process::id(), "worker");
    let session = there.verified();
    let mut lost = 0;
    let found = run_with_losses(&session, |epoch| {
        if [0, 2, 3, 6].contains(&epoch) {
            let mut own = children_as(std::process::id(), "worker");
            own.retain(|pid| !earlier.contains(pid));
            signal_to(own[epoch as usize % own.len()], "KILL");
            lost += 1;
        }
    });
    assert_eq!((found, lost), (expected, 4));
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("maps without locks", 60, maps_without_locks),
        Test::new("maps after losses", 60, maps_after_losses),
        Test::new("maps stay where they are", 60, maps_stay_where_they_are),
    ]
}
