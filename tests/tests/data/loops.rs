//! Steps of random programs: loops over what operators made, and what the program does between them.

use stradsap::prelude::*;

use super::pool::{Pool, Rng, keep, made, made_lists, made_map, word};
use super::programs::Step;
use crate::seen::Seen;

type Result = stradsap::Result<()>;

pub(crate) const STEPS: &[(&str, Step)] = &[
    ("a loop in step", in_step),
    ("a loop that conflicts", conflicting),
    ("a loop over a map", over_map),
    ("a loop over lists", over_lists),
    ("transform", transform),
    ("the program's changes", changes),
    ("dropped", dropped),
    ("fresh", |pool, rng, _| pool.fresh(rng)),
];

fn in_step(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let by = rng.below(100) as f64 / 64.0;
    let at = rng.index(&pool.floats);
    let (x, plain) = &mut pool.floats[at];
    async_parallel_for!(0..x.len(), [by, &mut x], |i| x[i] = x[i] * 0.5 + by * i as f64)?;
    plain.iter_mut().enumerate().for_each(|(i, f)| *f = *f * 0.5 + by * i as f64);
    // What they just wrote is with the workers.
    let (x, plain) = &pool.floats[at];
    let some = x.enumerate().filter(|(i, _)| i % 3 == 0).map(|(i, f)| (*i as u32 % 250, *f)).collect()?;
    let expected = plain.iter().enumerate().filter(|(i, _)| i % 3 == 0).map(|(i, f)| (i as u32 % 250, *f)).collect();
    made(some, expected, &mut pool.pairs, rng, seen)
}

fn conflicting(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let at = rng.index(&pool.words);
    let (data, numbers) = &pool.numbers[rng.index(&pool.numbers)];
    let (x, plain) = &mut pool.words[at];
    let preserve = rng.one_in(2);
    if plain.is_empty() {
        return Ok(());
    }
    let order = if preserve { Order::Preserve } else { Order::Any };
    let report = async_parallel_for!(
        0..data.len(),
        [&data, &mut x],
        |i| {
            let at = data[i] as usize % x.len();
            // On a placeholder, which is filled anew for each access, this would never end.
            while x[at].len() > 6 {
                x[at].pop();
            }
            x[at].insert(0, char::from(b'a' + (i % 26) as u8));
        },
        order = order
    )?;
    let run: Vec<usize> = if preserve { (0..numbers.len()).collect() } else { report.serial_order().collect() };
    assert_eq!(run.len(), numbers.len());
    for i in run {
        let at = numbers[i] as usize % plain.len();
        while plain[at].len() > 6 {
            plain[at].pop();
        }
        plain[at].insert(0, char::from(b'a' + (i % 26) as u8));
    }
    seen.report("conflicts", &report);
    let lens = pool.words[at].0.map(|word| word.len() as u32).collect()?;
    let expected = pool.words[at].1.iter().map(|word| word.len() as u32).collect();
    made(lens, expected, &mut pool.numbers, rng, seen)
}

fn over_map(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (words, texts) = &pool.words[rng.index(&pool.words)];
    let at = rng.index(&pool.counts);
    let (counts, plain) = &mut pool.counts[at];
    let report = async_parallel_for!(0..words.len(), [&words, &mut counts], |i| {
        let entry = counts.entry(words[i].clone()).or_insert(i as u64 % 3);
        *entry = *entry * 3 % 1_000_003 + i as u64;
    })?;
    for i in report.serial_order() {
        let entry = plain.entry(texts[i].clone()).or_insert(i as u64 % 3);
        *entry = *entry * 3 % 1_000_003 + i as u64;
    }
    // An operator first, then the entries.
    let (counts, plain) = &pool.counts[at];
    let large = counts.filter(|(_, count)| *count > 100).count()?;
    assert_eq!(large, plain.values().filter(|count| **count > 100).count());
    made_map(pool.session, counts, plain, seen)
}

fn over_lists(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (pairs, values) = &pool.pairs[rng.index(&pool.pairs)];
    let at = rng.index(&pool.lists);
    let (lists, plain) = &mut pool.lists[at];
    let report = async_parallel_for!(0..pairs.len(), [&pairs, &mut lists], |i| {
        let key = pairs[i].0;
        if lists[&key].len() > 20 {
            lists.remove(&key);
        }
        lists.insert(key, format!("n{i}"));
    })?;
    for i in report.serial_order() {
        let list = plain.entry(values[i].0).or_default();
        if list.len() > 20 {
            list.clear();
        }
        list.push(format!("n{i}"));
    }
    made_lists(&pool.lists[at].0, &pool.lists[at].1, seen)
}

fn transform(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let at = rng.index(&pool.words);
    let (x, plain) = &mut pool.words[at];
    x.transform(|text| text.insert(0, '+'))?;
    plain.iter_mut().for_each(|text| text.insert(0, '+'));
    let (counts, known) = &pool.counts[rng.index(&pool.counts)];
    let (numbers, values) = &pool.numbers[rng.index(&pool.numbers)];
    let (most, end) = (rng.below(8), ".".to_string());
    with!(
        [most, end, &counts, &numbers],
        x.transform(|text| {
            if text.len() > most {
                let n = if numbers.is_empty() { 0 } else { numbers[text.len() % numbers.len()] };
                *text = format!("{n}{}{end}", counts.get(text).copied().unwrap_or(1));
            }
        })
    )?;
    for text in plain.iter_mut().filter(|text| text.len() > most) {
        let n = if values.is_empty() { 0 } else { values[text.len() % values.len()] };
        *text = format!("{n}{}{end}", known.get(text).copied().unwrap_or(1));
    }
    let initials = pool.words[at].0.count_by_key(|text| text.chars().next())?;
    let mut expected = std::collections::BTreeMap::new();
    pool.words[at].1.iter().for_each(|text| *expected.entry(text.chars().next()).or_default() += 1);
    made_map(pool.session, &initials, &expected, seen)
}

/// What the program itself writes is what operators see.
fn changes(pool: &mut Pool<'_>, rng: &mut Rng, _: &mut Seen) -> Result {
    let at = rng.index(&pool.numbers);
    let (x, plain) = &mut pool.numbers[at];
    if !plain.is_empty() {
        let i = rng.index(plain);
        x.set(i, i as u32)?;
        plain[i] = i as u32;
    }
    let at = rng.index(&pool.weights);
    let (map, plain) = &mut pool.weights[at];
    for _ in 0..3 {
        let key = rng.below(1500) as u32;
        assert_eq!(map.get(&key)?, plain.get(&key).copied());
        if rng.one_in(3) {
            assert_eq!(map.remove(&key)?, plain.remove(&key));
        } else {
            assert_eq!(map.insert(key, f64::from(key) / 2.0)?, plain.insert(key, f64::from(key) / 2.0));
        }
    }
    let (at, name) = (rng.index(&pool.counts), word(rng.next()));
    let (map, plain) = &mut pool.counts[at];
    map.update(name.clone(), |entry| *entry.or_insert(40) += 2)?;
    *plain.entry(name).or_insert(40) += 2;
    let (at, key) = (rng.index(&pool.lists), rng.below(400) as u32);
    let (lists, plain) = &mut pool.lists[at];
    lists.insert(key, "more".to_string())?;
    plain.entry(key).or_default().push("more".to_string());
    assert_eq!(lists.get(&key)?, plain[&key]);
    Ok(())
}

/// Results that go, some of them never looked at.
fn dropped(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.rows[rng.index(&pool.rows)];
    drop(x.map(|row| row.place).collect()?);
    let kept = x.filter(|row| row.place % 2 == 0).collect()?;
    let expected = plain.iter().copied().filter(|row| row.place % 2 == 0).collect();
    drop(x.sort_by_key(|row| row.place)?);
    drop(x.map(|row| (row.key, row.place)).group_by_key()?);
    if pool.rows.len() > 1 {
        let at = rng.index(&pool.rows);
        pool.rows.swap_remove(at);
    }
    if pool.floats.len() > 1 {
        let at = rng.index(&pool.floats);
        pool.floats.swap_remove(at);
    }
    keep(&mut pool.rows, (kept, expected), rng);
    seen.record("dropped", pool.rows.len());
    Ok(())
}
