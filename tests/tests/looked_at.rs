//! Operators over few items that look at large captures: what they give, and that workers hold only what is looked at.

use stradsap::prelude::*;
use stradsap::{DMultiMap, Error};

use crate::common::{below, mix};
use crate::jobs::processes::{children_as, memory};
use crate::seen::{Alone, Scenario, Seen};

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    bodies::maps,
    bodies::many_keys,
    bodies::elements,
    bodies::between_loops,
    bodies::all_of_it,
    bodies::failures,
    bodies::made_there
];

pub(crate) const ALONE: &[Alone] = &[
    ("a join of few items brings little of a large map", a_join_of_few_items),
    ("a join of many items brings the map", a_join_of_many_items),
    ("large values that a join looks up are forgotten one after the other", a_join_with_large_values),
];

/// Entries or elements of what is looked at.
const MANY: usize = 200_000;

fn key(i: usize) -> u32 {
    below(i as u64, 2 * MANY) as u32
}

fn squares(session: &Session) -> stradsap::Result<DMap<u32, u64>> {
    session.range(MANY).map(|i| (*i as u32, (*i * *i) as u64)).collect_map()
}

/// What must be the same everywhere.
pub(crate) mod bodies {
    use super::*;

    pub(crate) fn maps(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let squares = squares(session)?;
        let few = DVector::from_fn(session, 40, key)?;
        let found = few.join(&squares, |key| *key).collect()?;
        let plain: Vec<(u32, u64)> =
            (0..40).map(key).filter(|key| (*key as usize) < MANY).map(|key| (key, u64::from(key).pow(2))).collect();
        assert!((5..35).contains(&plain.len()));
        assert_eq!(found.to_vec()?, plain);
        seen.digest("found", &found)?;
        // By one map twice.
        let twice = few.join(&squares, |key| *key).join(&squares, |(key, _)| key / 2).map(|(_, square)| *square);
        let halves = plain.iter().map(|(key, _)| u64::from(key / 2).pow(2));
        assert_eq!(twice.to_vec()?, halves.collect::<Vec<_>>());
        // Again, and by two maps at once, of which one has texts.
        assert_eq!(few.join(&squares, |key| *key).count()?, plain.len());
        let texts = session.range(MANY).map(|i| (format!("key {i}"), *i as u64)).collect_map()?;
        let both = few.join(&squares, |key| *key).join(&texts, |(key, _)| format!("key {}", key / 2)).collect()?;
        let expected = plain.iter().map(|(key, square)| ((*key, *square), u64::from(key / 2)));
        assert_eq!(both.to_vec()?, expected.collect::<Vec<_>>());
        let lists: DMultiMap<u32, u64> = session.range(MANY).map(|i| (*i as u32 / 3, *i as u64)).group_by_key()?;
        let several = few.join(&lists, |key| key / 3).map(|(_, i)| *i).to_vec()?;
        let keys = (0..40).map(|i| u64::from(key(i) / 3)).filter(|key| *key < MANY as u64 / 3);
        assert_eq!(several, keys.flat_map(|key| 3 * key..3 * key + 3).collect::<Vec<_>>());
        Ok(())
    }

    /// Some thousand keys, of which many are the same or have no value, in maps of all kinds; and a closure that looks into one of them.
    pub(crate) fn many_keys(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        const KEYS: usize = 6000;
        let squares = squares(session)?;
        let texts = session.range(MANY).map(|i| (format!("key {i}"), *i as u64)).collect_map()?;
        let lists: DMultiMap<u32, String> =
            session.range(MANY).map(|i| (*i as u32 / 3, format!("{i}"))).group_by_key()?;
        let keys = DVector::from_fn(session, KEYS, |i| key(i / 2))?;
        let found = keys.join(&squares, |key| *key).join(&lists, |(key, _)| *key);
        let found = found.filter(|(_, text)| !text.ends_with('7')).collect()?;
        let plain = (0..KEYS).map(|i| key(i / 2)).filter(|key| (*key as usize) < MANY).flat_map(|key| {
            let texts = (3 * key..3 * key + 3).filter(move |i| key < MANY as u32 / 3 && i % 10 != 7);
            texts.map(move |i| ((key, u64::from(key).pow(2)), i.to_string()))
        });
        assert_eq!(found.to_vec()?, plain.collect::<Vec<_>>());
        seen.digest("found", &found)?;
        let sum =
            keys.join(&texts, |key| format!("key {key}")).map(|(_, i)| *i).fold(0, |all, i| all + i, |a, b| a + b)?;
        let there = |key: &u32| (*key as usize) < MANY;
        assert_eq!(sum, (0..KEYS).map(|i| key(i / 2)).filter(there).map(u64::from).sum::<u64>());
        // As counts by what was found, which are dealt out.
        let counts = keys.join(&squares, |key| *key).count_by_key(|(key, _)| key % 10)?;
        let plain = (0..KEYS).map(|i| key(i / 2)).filter(there).filter(|key| key % 10 == 3).count() as u64;
        assert_eq!(counts.get(&3)?, Some(plain));
        // The closure and the join look at the same map, and a key that isn't there ends the operator.
        let both = with!([&squares], keys.join(&squares, |key| *key).map(|(key, square)| square - squares[&(key / 2)]));
        let plain =
            (0..KEYS).map(|i| key(i / 2)).filter(there).map(|key| u64::from(key).pow(2) - u64::from(key / 2).pow(2));
        assert_eq!(both.to_vec()?, plain.collect::<Vec<_>>());
        let wrong = keys.join(&squares, |key| if *key == self::key(1000) { panic!("key {key}") } else { *key }).count();
        let wrong = wrong.unwrap_err().to_string();
        assert!(wrong.contains(&format!("key {}", key(1000))), "{wrong}");
        Ok(())
    }

    pub(crate) fn elements(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let table = session.range(MANY).map(|i| mix(*i as u64)).collect()?;
        let texts = session.range(MANY).map(|i| format!("text {i}")).collect()?;
        let rows: DMatrix<f32> = session.range(MANY).map(|i| [*i as f32, 0.5 * *i as f32, 1.0]).collect_rows(3)?;
        let few = DVector::from_fn(session, 30, |i| below(i as u64, MANY - 100))?;
        let given = with!(
            [&table, &texts, &rows],
            few.map(|&i| {
                let window = table[i..i + 70].iter().fold(table[i], |all, one| all.rotate_left(3) ^ one);
                (window, texts[i + 1].clone(), texts.get(MANY + i).is_none(), rows[i].iter().sum::<f32>())
            })
        )
        .collect()?;
        for (&i, (window, text, none, sum)) in few.to_vec()?.iter().zip(given.to_vec()?) {
            let all = (i..i + 70).fold(mix(i as u64), |all, k| all.rotate_left(3) ^ mix(k as u64));
            assert_eq!((window, text, none, sum), (all, format!("text {}", i + 1), true, 1.5 * i as f32 + 1.0));
        }
        // One DVector under two names.
        let both = with!([&texts, again = &texts], few.map(|&i| (texts[i].len(), again[i / 2].clone()))).to_vec()?;
        for (&i, (length, text)) in few.to_vec()?.iter().zip(both) {
            assert_eq!((length, text), (format!("text {i}").len(), format!("text {}", i / 2)));
        }
        seen.digest("given", &given)
    }

    /// What was fetched is forgotten: loops change it between two operators, in place and in the order of blocks.
    pub(crate) fn between_loops(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut table = session.range(MANY).map(|i| mix(*i as u64)).collect()?;
        let mut plain: Vec<u64> = (0..MANY as u64).map(mix).collect();
        let pairs = DVector::from_fn(session, 3000, |k| (below(2 * k as u64, MANY), below(2 * k as u64 + 1, MANY)))?;
        let few = DVector::from_fn(session, 40, |i| below(i as u64 + 7, MANY))?;
        for round in 0..4u64 {
            let report = match round {
                // In step.
                1 => async_parallel_for!(0..MANY, [round, &mut table], |i| table[i] += round)?,
                // Here and there.
                _ => async_parallel_for!(0..3000, [&pairs, &mut table], |k| {
                    let (a, b) = pairs[k];
                    let sum = table[a].wrapping_add(table[b]);
                    table[a] = sum.rotate_left(7);
                    table[b] ^= sum;
                })?,
            };
            let pairs = pairs.to_vec()?;
            for i in report.serial_order() {
                if round == 1 {
                    plain[i] += round;
                } else {
                    let (a, b) = pairs[i];
                    let sum = plain[a].wrapping_add(plain[b]);
                    plain[a] = sum.rotate_left(7);
                    plain[b] ^= sum;
                }
            }
            let looked = with!([&table], few.map(|&i| table[i])).to_vec()?;
            assert_eq!(looked, few.to_vec()?.iter().map(|&i| plain[i]).collect::<Vec<_>>(), "round {round}");
            seen.record("looked at", looked);
        }
        assert_eq!(table.to_vec()?, plain);
        seen.digest("table", &table)
    }

    /// Each item looks at everything, and the captured DVector is a source as well.
    pub(crate) fn all_of_it(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let table = session.range(MANY).map(|i| mix(*i as u64) >> 20).collect()?;
        let few = session.range(24).map(|i| *i as u64).collect()?;
        let least = with!([&table], few.map(|&k| (0..table.len()).map(|i| table[i] ^ mix(k)).min())).to_vec()?;
        let sums = with!([&table], few.map(|&k| table.iter().map(|e| e ^ k).sum::<u64>())).to_vec()?;
        let plain: Vec<u64> = (0..MANY as u64).map(|i| mix(i) >> 20).collect();
        for (k, (least, sum)) in least.into_iter().zip(sums).enumerate() {
            let k = k as u64;
            assert_eq!(least, plain.iter().map(|e| e ^ mix(k)).min());
            assert_eq!(sum, plain.iter().map(|e| e ^ k).sum::<u64>());
        }
        let next = with!([&table], table.enumerate().map(|(i, e)| e ^ table[(i + 1) % table.len()])).collect()?;
        assert_eq!(next.get(MANY - 1)?, plain[MANY - 1] ^ plain[0]);
        seen.digest("next", &next)
    }

    pub(crate) fn failures(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let table = session.range(MANY).map(|i| *i as u64).collect()?;
        let few = DVector::from_fn(session, 40, |i| if i == 29 { MANY + 3 } else { 1000 * i })?;
        let beyond = with!([&table], few.map(|&i| table[i])).to_vec().unwrap_err();
        let text = beyond.to_string();
        assert!(
            matches!(beyond, Error::Operator { element: Some(29), .. }) && text.contains("`table[200003]`"),
            "{text}"
        );
        let wrong = with!(
            [&table],
            few.map(|&i| {
                assert!(table[i.min(20_000)] < 20_000, "too large");
                i
            })
        );
        let wrong = wrong.to_vec().unwrap_err().to_string();
        assert!(wrong.contains("too large"), "{wrong}");
        seen.record("beyond", text);
        // The next one is well.
        let sum = with!([&table], few.map(|&i| table[i % 40_000])).fold(0, |all, one| all + one, |a, b| a + b)?;
        seen.record("sum", sum);
        Ok(())
    }

    /// What is made of what was looked at stays with the workers, and is made again after a loss.
    pub(crate) fn made_there(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let squares = squares(session)?;
        let few = DVector::from_fn(session, 50, |i| below(i as u64, MANY) as u32)?;
        let mut found = few.join(&squares, |key| *key).map(|(_, square)| *square).collect()?;
        let by_end = few.join(&squares, |key| *key).map(|(key, square)| (key % 10, *square)).collect_map()?;
        for _ in 0..3 {
            let report = async_parallel_for!(0..found.len(), [&mut found], |i| found[i] = found[i].wrapping_mul(3))?;
            seen.report("loop", &report);
        }
        let keys = few.to_vec()?;
        let expected = keys.iter().map(|key| u64::from(*key).pow(2).wrapping_mul(27));
        assert_eq!(found.to_vec()?, expected.collect::<Vec<_>>());
        for key in &keys {
            let last = keys.iter().rev().find(|other| *other % 10 == key % 10).unwrap();
            assert_eq!(by_end.get(&(key % 10))?, Some(u64::from(*last).pow(2)));
        }
        seen.digest("found", &found)
    }
}

/// By how many KiB the largest worker's peak grows while `n` items are joined with a map of 2^21 entries.
fn growth(n: usize) -> u64 {
    const ENTRIES: usize = 1 << 21;
    let session = two_workers();
    let map = session.range(ENTRIES).map(|i| (*i as u64, *i as u64 + 1)).collect_map().unwrap();
    let items = session.range(n).map(|i| below(*i as u64, ENTRIES) as u64).collect().unwrap();
    growth_by(|| {
        let sum = items.join(&map, |key| *key).filter(|(key, next)| next - key == 1).count().unwrap();
        assert_eq!(sum, n);
    })
}

fn two_workers() -> Session {
    let session = Session::builder().threads(1).explain(false).build().unwrap();
    session.start_workers(&ClusterOptions::new(2).threads(1)).unwrap();
    session
}

/// The same while something is done.
fn growth_by(something: impl FnOnce()) -> u64 {
    let workers = children_as(std::process::id(), "worker");
    assert_eq!(workers.len(), 2);
    // Their peaks are those from now on.
    workers.iter().for_each(|pid| std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap());
    let before: Vec<u64> = workers.iter().map(|pid| memory(*pid).unwrap().1).collect();
    something();
    let peaks = workers.iter().zip(before).map(|(pid, before)| memory(*pid).unwrap().0.saturating_sub(before));
    peaks.max().unwrap()
}

fn a_join_of_few_items() {
    let grown = growth(500);
    assert!(grown < 8 << 10, "{grown} KiB");
}

/// It is what the test above would see if a worker fetched all of it.
fn a_join_of_many_items() {
    let grown = growth(800_000);
    assert!(grown > 16 << 10, "{grown} KiB");
}

/// Each worker looks up 48 MB of the other's.
fn a_join_with_large_values() {
    const ENTRIES: usize = 34_000;
    let session = two_workers();
    let entries = session.range(ENTRIES).map(|i| (*i as u64, vec![*i as u64; 1500]));
    let map = entries.collect_map().unwrap();
    let items = session.range(16_000).map(|i| (*i * 7 % ENTRIES) as u64).collect().unwrap();
    let grown = growth_by(|| {
        let sums = items.join(&map, |key| *key).map(|(key, values)| values[1499] + values.len() as u64 - key);
        assert!(sums.to_vec().unwrap().iter().all(|sum| *sum == 1500));
    });
    assert!(grown < 36 << 10, "{grown} KiB");
}
