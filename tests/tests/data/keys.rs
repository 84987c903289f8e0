//! Loops over maps, against plain maps in the loop's serial order.

use std::collections::BTreeMap;

use stradsap::prelude::*;

use super::pool::{entries, made_lists, made_map, word};
use crate::common::{below, mix};
use crate::seen::Seen;

type Result = stradsap::Result<()>;

/// Counting words into a map that is empty at first, again and again.
pub(crate) fn words(session: &Session, seen: &mut Seen) -> Result {
    let texts: Vec<String> = (0..6000u64).map(|i| word(mix(i) % 900 * 41 + mix(i + 1) % 300)).collect();
    let data = DVector::from_vec(session, texts.clone())?;
    let mut counts = DMap::new(session)?;
    let mut plain = BTreeMap::<String, u64>::new();
    for round in 0..3u64 {
        let report = async_parallel_for!(0..data.len(), [round, &data, &mut counts], |i| {
            *counts.entry(data[i].clone()).or_insert(0) += 1 + round;
        })?;
        texts.iter().for_each(|text| *plain.entry(text.clone()).or_insert(0) += 1 + round);
        // (How many blocks there are a clock may decide: whole numbers are added up in tallies.)
        seen.record("strategy", (report.strategy(), report.misspeculations()));
        made_map(session, &counts, &plain, seen)?;
        assert_eq!(report.serial_order().count(), texts.len());
    }
    // What an operator counts is the same map.
    let again = data.count_by_key(|text| text.clone())?.map(|(text, n)| (text.clone(), n * 6)).collect_map()?;
    assert_eq!(again.digest()?, counts.digest()?);
    Ok(())
}

/// Several maps, read and written, with a DVector and a value.
pub(crate) fn several_maps(session: &Session, seen: &mut Seen) -> Result {
    let steps: Vec<(u32, u32)> = (0..3000).map(|i| (below(i * 2, 300) as u32, below(i * 2 + 1, 400) as u32)).collect();
    let data = DVector::from_vec(session, steps.clone())?;
    let names: BTreeMap<u32, String> = (0..300).map(|k| (k, format!("name {}", k % 37))).collect();
    let known = DMap::from_entries(session, names.clone())?;
    let mut sums: BTreeMap<u32, i64> = (0..200).map(|k| (k * 2, i64::from(k))).collect();
    let mut totals = DMap::from_entries(session, sums.clone())?;
    let (mut latest, mut last) = (DMap::<String, i64>::new(session)?, BTreeMap::<String, i64>::new());
    let mut marks = DVector::from_fn(session, 3000, |_| 0i64)?;
    let mut marked = vec![0i64; 3000];
    for by in [3i64, 5] {
        let report =
            async_parallel_for!(0..data.len(), [by, &data, &known, &mut totals, &mut latest, &mut marks], |i| {
                let (from, to) = data[i];
                let seen = totals.get(&from).copied().unwrap_or(-1);
                if let Some(total) = totals.get_mut(&to) {
                    *total = (*total * by + seen) % 10_007;
                }
                latest.insert(known[&from].clone(), seen + i as i64);
                marks[i] = seen;
            })?;
        for i in report.serial_order() {
            let (from, to) = steps[i];
            let seen = sums.get(&from).copied().unwrap_or(-1);
            if let Some(total) = sums.get_mut(&to) {
                *total = (*total * by + seen) % 10_007;
            }
            last.insert(names[&from].clone(), seen + i as i64);
            marked[i] = seen;
        }
        seen.report("several maps", &report);
        assert_eq!(marks.to_vec()?, marked);
        made_map(session, &totals, &sums, seen)?;
        made_map(session, &latest, &last, seen)?;
    }
    Ok(())
}

/// A map of lists: values in the serial order; read, changed and removed.
pub(crate) fn many_values(session: &Session, seen: &mut Seen) -> Result {
    let steps: Vec<(String, u32)> = (0..2500u64).map(|i| (word(mix(i) % 130), below(i + 9, 100) as u32)).collect();
    let data = DVector::from_vec(session, steps.clone())?;
    let mut lists = DMultiMap::from_pairs(session, steps.iter().take(200).cloned())?;
    let mut plain = BTreeMap::<String, Vec<u32>>::new();
    steps.iter().take(200).for_each(|(key, value)| plain.entry(key.clone()).or_default().push(*value));
    for round in 0..2u32 {
        let report = async_parallel_for!(0..data.len(), [round, &data, &mut lists], |i| {
            let (key, value) = &data[i];
            match (value + round) % 5 {
                0 => lists.get_mut(key).iter_mut().for_each(|value| *value += 1),
                1 if lists[key].len() > 12 => drop(lists.remove(key)),
                2 if lists.contains_key(key) => lists.insert(key.clone(), lists[key][0] + 7),
                _ => lists.insert(key.clone(), *value),
            }
        })?;
        for i in report.serial_order() {
            let (key, value) = &steps[i];
            match (value + round) % 5 {
                0 => plain.get_mut(key).into_iter().flatten().for_each(|value| *value += 1),
                1 if plain.get(key).is_some_and(|list| list.len() > 12) => drop(plain.remove(key)),
                2 if plain.contains_key(key) => {
                    let first = plain[key][0];
                    plain.entry(key.clone()).or_default().push(first + 7);
                }
                _ => plain.entry(key.clone()).or_default().push(*value),
            }
        }
        seen.report("many values", &report);
        made_lists(&lists, &plain, seen)?;
    }
    Ok(())
}

/// In the loop's own order: the plain loop.
pub(crate) fn preserved(session: &Session, seen: &mut Seen) -> Result {
    let steps: Vec<(u32, u32)> = (0..2000).map(|i| (below(i * 2, 150) as u32, below(i * 2 + 1, 150) as u32)).collect();
    let data = DVector::from_vec(session, steps.clone())?;
    let mut map = DMap::from_entries(session, (0..100u32).map(|k| (k, f64::from(k))))?;
    let mut plain: BTreeMap<u32, f64> = (0..100).map(|k| (k, f64::from(k))).collect();
    let mut lists = DMultiMap::<u32, u32>::new(session)?;
    let mut listed = BTreeMap::<u32, Vec<u32>>::new();
    for _ in 0..2 {
        let report = async_parallel_for!(
            0..data.len(),
            [&data, &mut map, &mut lists],
            |i| {
                let (a, b) = data[i];
                let other = map.get(&a).copied();
                let own = map.entry(b).and_modify(|x| *x *= 0.75).or_insert(1.0);
                *own += other.unwrap_or(0.5);
                lists.insert(a % 40, b);
            },
            order = Preserve
        )?;
        for (a, b) in &steps {
            let other = plain.get(a).copied();
            let own = plain.entry(*b).and_modify(|x| *x *= 0.75).or_insert(1.0);
            *own += other.unwrap_or(0.5);
            listed.entry(a % 40).or_default().push(*b);
        }
        seen.report("preserved", &report);
        made_map(session, &map, &plain, seen)?;
        made_lists(&lists, &listed, seen)?;
    }
    Ok(())
}

/// Keys that go and come again, and a program that changes the map between loops.
pub(crate) fn removed(session: &Session, seen: &mut Seen) -> Result {
    let keys: Vec<u64> = (0..1500).map(|i| below(i, 500) as u64).collect();
    let data = DVector::from_vec(session, keys.clone())?;
    let mut map = DMap::from_entries(session, (0..300u64).map(|k| (k, vec![k])))?;
    let mut plain: BTreeMap<u64, Vec<u64>> = (0..300).map(|k| (k, vec![k])).collect();
    for round in 0..4u64 {
        let report = async_parallel_for!(0..data.len(), [round, &data, &mut map], |i| {
            let key = data[i];
            if (key + round) % 3 == 0 {
                if let Some(mut gone) = map.remove(&key) {
                    gone.push(i as u64);
                    if gone.len() % 2 == 0 {
                        map.insert(key, gone);
                    }
                }
            } else {
                map.entry(key).or_default().push(round);
            }
        })?;
        for i in report.serial_order() {
            let key = keys[i];
            if (key + round) % 3 == 0 {
                if let Some(mut gone) = plain.remove(&key) {
                    gone.push(i as u64);
                    if gone.len() % 2 == 0 {
                        plain.insert(key, gone);
                    }
                }
            } else {
                plain.entry(key).or_default().push(round);
            }
        }
        made_map(session, &map, &plain, seen)?;
        // Many more keys than there were: the map grows.
        for key in 0..200 * round {
            assert_eq!(map.insert(10_000 + key, vec![key])?, plain.insert(10_000 + key, vec![key]));
        }
        assert_eq!(map.get(&10_001)?, plain.get(&10_001).cloned());
        if round == 2 {
            map.transform(|_, list| list.truncate(5))?;
            plain.values_mut().for_each(|list| list.truncate(5));
        }
    }
    assert_eq!(entries(session, &map)?, plain);
    Ok(())
}

/// Bodies that look at every entry of a map.
pub(crate) fn whole_maps(session: &Session, seen: &mut Seen) -> Result {
    let weights = DMap::from_entries(session, (0..150u32).map(|k| (k, f64::from(k) / 3.0)))?;
    let links = DMultiMap::from_pairs(session, (0..400u32).map(|k| (k % 60, k)))?;
    let (order, lists) = (weights.to_vec()?, links.to_vec()?);
    let mut sums = DVector::from_fn(session, 80, |_| (0.0f64, 0u32))?;
    async_parallel_for!(0..sums.len(), [&weights, &links, &mut sums], |i| {
        let over = weights.iter().filter(|(key, _)| **key as usize % 80 >= i).map(|(_, value)| value).sum();
        let of =
            links.iter().map(|(key, values)| if *key as usize > i { values.len() as u32 } else { values[0] }).sum();
        sums[i] = (over, of);
    })?;
    let expected: Vec<(f64, u32)> = (0..80)
        .map(|i| {
            let over = order.iter().filter(|(key, _)| *key as usize % 80 >= i).map(|(_, value)| value).sum();
            let of = lists.iter().map(|(key, v)| if *key as usize > i { v.len() as u32 } else { v[0] }).sum();
            (over, of)
        })
        .collect();
    assert_eq!(sums.to_vec()?, expected);
    seen.digest("sums", &sums)
}
