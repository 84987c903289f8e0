//! Steps of random programs: operators by key, and operators on maps.

use std::collections::BTreeMap;

use stradsap::prelude::*;

use super::pool::{Pool, Rng, assert_near, assert_same, entries, keep, made, made_lists, made_map};
use super::programs::Step;
use crate::seen::Seen;

type Result = stradsap::Result<()>;

pub(crate) const STEPS: &[(&str, Step)] = &[
    ("collect_map", collect_map),
    ("count_by_key", count_by_key),
    ("group_by_key", group_by_key),
    ("reduce_by_key", reduce_by_key),
    ("join", join),
    ("join with lists", join_lists),
    ("pipes of a map", of_map),
    ("pipes of lists", of_lists),
    ("split a map", split_map),
    ("transform a map", transform_map),
];

fn collect_map(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.pairs[rng.index(&pool.pairs)];
    // The last value of each key.
    let (map, expected) = (x.map(|pair| *pair).collect_map()?, plain.iter().copied().collect());
    made_map(pool.session, &map, &expected, seen)?;
    keep(&mut pool.weights, (map, expected), rng);
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let map = x.enumerate().map(|(i, word)| (word.clone(), *i as u64)).collect_map()?;
    let expected: BTreeMap<String, u64> = plain.iter().enumerate().map(|(i, word)| (word.clone(), i as u64)).collect();
    // Used before anybody has looked at it.
    let joined = x.join(&map, |word| word.clone()).collect()?.to_vec()?;
    assert_same(&joined, &plain.iter().map(|word| (word.clone(), expected[word])).collect::<Vec<_>>());
    made_map(pool.session, &map, &expected, seen)?;
    keep(&mut pool.counts, (map, expected), rng);
    Ok(())
}

fn count_by_key(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let map = x.count_by_key(|word| word.clone())?;
    let mut expected = BTreeMap::new();
    plain.iter().for_each(|word| *expected.entry(word.clone()).or_default() += 1);
    made_map(pool.session, &map, &expected, seen)?;
    keep(&mut pool.counts, (map, expected), rng);
    // Of a pipe, by keys of several parts.
    let (x, plain) = &pool.rows[rng.index(&pool.rows)];
    let map = x.filter(|row| row.key != 5).count_by_key(|row| (row.key % 10, row.weight < 0.0))?;
    let mut expected = BTreeMap::<(u32, bool), u64>::new();
    for row in plain.iter().filter(|row| row.key != 5) {
        *expected.entry((row.key % 10, row.weight < 0.0)).or_default() += 1;
    }
    made_map(pool.session, &map, &expected, seen)
}

fn group_by_key(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let map = x.enumerate().map(|(i, word)| (*i as u32 % 60, word.clone())).group_by_key()?;
    let mut expected = BTreeMap::<u32, Vec<String>>::new();
    plain.iter().enumerate().for_each(|(i, word)| expected.entry(i as u32 % 60).or_default().push(word.clone()));
    made_lists(&map, &expected, seen)?;
    keep(&mut pool.lists, (map, expected), rng);
    // The items' order within each key, where there are many of few keys.
    let (x, plain) = &pool.rows[rng.index(&pool.rows)];
    let map = x.enumerate().map(|(i, row)| ((row.key % 3) as u8, *i)).group_by_key()?;
    let mut expected = BTreeMap::<u8, Vec<usize>>::new();
    plain.iter().enumerate().for_each(|(i, row)| expected.entry((row.key % 3) as u8).or_default().push(i));
    made_lists(&map, &expected, seen)
}

fn reduce_by_key(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.pairs[rng.index(&pool.pairs)];
    let map = x.map(|pair| *pair).reduce_by_key(|a, b| a + b)?;
    let mut expected = BTreeMap::<u32, (f64, f64)>::new();
    for (key, value) in plain {
        let sums = expected.entry(*key).or_default();
        *sums = (sums.0 + value, sums.1 + value.abs());
    }
    let found = entries(pool.session, &map)?;
    assert!(found.keys().eq(expected.keys()));
    found.iter().zip(expected.values()).for_each(|((_, found), (sum, abs))| assert_near(*found, *sum, *abs));
    seen.record("sums", map.digest()?);
    keep(&mut pool.weights, (map, found), rng);
    // What is reduced depends on the order.
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let map = x.map(|word| (word.len() % 4, word.clone())).reduce_by_key(|a, b| a + &b)?;
    let mut expected = BTreeMap::<usize, String>::new();
    plain.iter().for_each(|word| expected.entry(word.len() % 4).or_default().push_str(word));
    made_map(pool.session, &map, &expected, seen)
}

fn join(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let (map, known) = &pool.weights[rng.index(&pool.weights)];
    let found = x.join(map, |n| *n).collect()?;
    let expected = plain.iter().filter_map(|n| Some((*n, *known.get(n)?))).collect();
    made(found, expected, &mut pool.pairs, rng, seen)?;
    // What was joined, joined again.
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let (counts, counted) = &pool.counts[rng.index(&pool.counts)];
    let (weights, weighed) = &pool.weights[rng.index(&pool.weights)];
    let found = x
        .filter(|word| word.len() > 2)
        .join(counts, |word| word.clone())
        .join(weights, |(_, count)| *count as u32 % 2000)
        .map(|((word, count), weight)| ((word.len() as u64 + count) as u32, *weight))
        .collect()?;
    let expected = plain
        .iter()
        .filter(|word| word.len() > 2)
        .filter_map(|word| {
            let count = counted.get(word)?;
            Some(((word.len() as u64 + count) as u32, *weighed.get(&(*count as u32 % 2000))?))
        })
        .collect();
    made(found, expected, &mut pool.pairs, rng, seen)
}

fn join_lists(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let (lists, listed) = &pool.lists[rng.index(&pool.lists)];
    // At most some thousand pairs.
    let few = plain.len() as u32 / 200 + 1;
    let pipe = with!([few], x.filter(|n| *n % few == 0));
    let found = pipe.join(lists, |n| *n % 100).map(|(n, word)| format!("{word} {n}")).collect()?;
    let expected = plain
        .iter()
        .filter(|n| *n % few == 0)
        .flat_map(|n| listed.get(&(n % 100)).into_iter().flatten().map(move |word| format!("{word} {n}")))
        .collect();
    made(found, expected, &mut pool.words, rng, seen)
}

fn of_map(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (map, plain) = &pool.weights[rng.index(&pool.weights)];
    let entries = map.to_vec()?;
    let found = map.map(|(key, value)| (key % 150, value + 1.0)).collect()?;
    let expected = entries.iter().map(|(key, value)| (key % 150, value + 1.0)).collect();
    let heavy = map.filter(|(_, value)| *value > 1.0).flat_map(|(key, _)| [*key, key + 1]).collect()?;
    let its: Vec<u32> = entries.iter().filter(|(_, value)| *value > 1.0).flat_map(|(key, _)| [*key, key + 1]).collect();
    let sorted = map.sort_by_key(|(key, _)| *key)?;
    assert_same(&sorted.to_vec()?, &plain.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
    let sum = map.fold(0.0, |sum, (_, value)| sum + value, |a, b| a + b)?;
    assert_near(sum, plain.values().sum(), plain.values().map(|value| value.abs()).sum());
    let largest = map.reduce(|a, b| if (a.1, a.0) < (b.1, b.0) { b } else { a })?;
    assert_eq!(largest, plain.iter().map(|(k, v)| (*k, *v)).reduce(|a, b| if (a.1, a.0) < (b.1, b.0) { b } else { a }));
    seen.record("of a map", (sum.to_bits(), sorted.digest()?));
    let ends = map.count_by_key(|(key, _)| key % 10)?;
    let mut counted = BTreeMap::<u32, u64>::new();
    plain.keys().for_each(|key| *counted.entry(key % 10).or_default() += 1);
    made_map(pool.session, &ends, &counted, seen)?;
    // A map of a map, from values that another map has.
    let (counts, known) = &pool.counts[rng.index(&pool.counts)];
    let again = with!(
        [&map],
        counts.map(|(word, count)| (*count as u32, map.get(&(word.len() as u32)).copied().unwrap_or(0.5)))
    );
    let again = again.map(|(count, weight)| (*count % 30, *weight)).count_by_key(|(count, _)| *count)?;
    let mut counted = BTreeMap::<u32, u64>::new();
    known.values().for_each(|count| *counted.entry(*count as u32 % 30).or_default() += 1);
    made_map(pool.session, &again, &counted, seen)?;
    made(found, expected, &mut pool.pairs, rng, seen)?;
    made(heavy, its, &mut pool.numbers, rng, seen)
}

fn of_lists(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (lists, plain) = &pool.lists[rng.index(&pool.lists)];
    let lengths = lists.map(|(key, values)| (*key, values.len() as u64)).collect_map()?;
    let expected: BTreeMap<u32, u64> = plain.iter().map(|(key, values)| (*key, values.len() as u64)).collect();
    made_map(pool.session, &lengths, &expected, seen)?;
    // Turned round: to each word its keys.
    let inverted = lists.flat_map(|(key, values)| values.iter().map(|word| (word.clone(), *key)).collect::<Vec<_>>());
    let inverted = inverted.sort_by_key(|(_, key)| *key)?.map(|pair| pair.clone()).group_by_key()?;
    let mut expected = BTreeMap::<String, Vec<u32>>::new();
    for (key, values) in plain {
        values.iter().for_each(|word| expected.entry(word.clone()).or_default().push(*key));
    }
    made_lists(&inverted, &expected, seen)?;
    assert_eq!(lists.pipe().count()?, plain.len());
    let all = lists.fold(0usize, |n, (_, values)| n + values.len(), |a, b| a + b)?;
    assert_eq!(all, plain.values().map(Vec::len).sum::<usize>());
    Ok(())
}

fn split_map(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (map, plain) = &pool.counts[rng.index(&pool.counts)];
    let (some, others) = map.split(0.6, rng.next() % 5)?;
    let mut both = [some.to_vec()?, others.to_vec()?].concat();
    seen.record("split", (some.digest()?, others.digest()?));
    both.sort();
    assert_same(&both, &plain.clone().into_iter().collect::<Vec<_>>());
    // Made a map again.
    let again = others.map(|entry| entry.clone()).collect_map()?;
    let expected = others.to_vec()?.into_iter().collect();
    made_map(pool.session, &again, &expected, seen)?;
    keep(&mut pool.counts, (again, expected), rng);
    Ok(())
}

fn transform_map(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let at = rng.index(&pool.weights);
    let (map, plain) = &mut pool.weights[at];
    map.transform(|key, value| *value = *value * 0.5 + f64::from(key % 7))?;
    plain.iter_mut().for_each(|(key, value)| *value = *value * 0.5 + f64::from(key % 7));
    let (counts, known) = &pool.counts[rng.index(&pool.counts)];
    let (names, texts) = &pool.words[rng.index(&pool.words)];
    let shift = rng.below(9) as f64;
    with!(
        [shift, &counts, &names],
        map.transform(|key, value| {
            if *key as usize % 2 == 0 && !names.is_empty() {
                *value += shift + counts.get(&names[*key as usize % names.len()]).map_or(0.0, |count| *count as f64);
            }
        })
    )?;
    for (key, value) in plain.iter_mut().filter(|(key, _)| **key % 2 == 0 && !texts.is_empty()) {
        *value += shift + known.get(&texts[*key as usize % texts.len()]).map_or(0.0, |count| *count as f64);
    }
    if rng.one_in(2) {
        made_map(pool.session, map, plain, seen)?;
    }
    let at = rng.index(&pool.lists);
    let (lists, plain) = &pool.lists[at];
    assert_eq!(lists.keys()?, plain.len());
    Ok(())
}
