//! Steps of random programs: operators on the elements of DVectors.

use std::cmp::Reverse;

use stradsap::prelude::*;

use super::pool::{Pool, Rng, Row, assert_near, assert_same, made, made_map, row};
use super::programs::Step;
use crate::seen::Seen;

type Result = stradsap::Result<()>;

pub(crate) const STEPS: &[(&str, Step)] = &[
    ("map", map),
    ("filter", filter),
    ("flat_map", flat_map),
    ("enumerate", enumerate),
    ("zip", zip),
    ("sample", sample),
    ("split", split),
    ("fold", fold),
    ("reduce", reduce),
    ("count", count),
    ("fused", fused),
    ("sort_by_key", sort),
    ("sorted floats", sort_floats),
    ("shuffle", shuffle),
    ("top_k", top),
    ("number_by_key", number),
    ("random numbers", random),
    ("with values", with_values),
    ("with DVectors", with_vectors),
    ("with maps", with_maps),
    ("fold with captures", fold_with),
];

fn map(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let (made_rows, rows) =
        (x.map(|n| row(u64::from(*n) * 77)).collect()?, plain.iter().map(|n| row(u64::from(*n) * 77)));
    made(made_rows, rows.collect(), &mut pool.rows, rng, seen)?;
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let lens = |word: &String| word.len() as u32 * 100 + u32::from(word.as_bytes()[0]);
    made(x.map(lens).collect()?, plain.iter().map(lens).collect(), &mut pool.numbers, rng, seen)?;
    let (x, plain) = &pool.pairs[rng.index(&pool.pairs)];
    let product = |(n, f): &(u32, f64)| f64::from(*n) * f;
    made(x.map(product).collect()?, plain.iter().map(product).collect(), &mut pool.floats, rng, seen)
}

fn filter(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let some = |n: &u32| n.is_multiple_of(3);
    let kept = plain.iter().copied().filter(some).collect();
    made(x.filter(some).collect()?, kept, &mut pool.numbers, rng, seen)?;
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    // Nothing, all of a few, or about half.
    let wanted = |word: &String| word.len() == 4;
    let kept = plain.iter().filter(|word| wanted(word)).cloned().collect();
    made(x.filter(wanted).collect()?, kept, &mut pool.words, rng, seen)?;
    let (x, _) = &pool.rows[rng.index(&pool.rows)];
    made(x.filter(|row| row.weight > 1e9).collect()?, Vec::new(), &mut pool.rows, rng, seen)
}

fn flat_map(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let several = |n: &u32| (0..n % 3).map(|k| format!("{n}.{k}")).collect::<Vec<String>>();
    made(x.flat_map(several).collect()?, plain.iter().flat_map(several).collect(), &mut pool.words, rng, seen)?;
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let digits = |word: &String| word.chars().rev().find_map(|c| c.to_digit(10));
    made(x.flat_map(digits).collect()?, plain.iter().flat_map(digits).collect(), &mut pool.numbers, rng, seen)
}

fn enumerate(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.floats[rng.index(&pool.floats)];
    let numbered = plain.iter().enumerate().map(|(i, f)| (i as u32 % 50, *f)).collect();
    made(x.enumerate().map(|(i, f)| (*i as u32 % 50, *f)).collect()?, numbered, &mut pool.pairs, rng, seen)?;
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    // Where `nth` is asked for numbers as well.
    let (once, twice) = (x.enumerate(), x.map(|word| word.len()).enumerate());
    let found: Vec<((usize, String), (usize, usize))> = once.zip(twice).to_vec()?;
    let expected: Vec<_> = plain.iter().enumerate().map(|(i, word)| ((i, word.clone()), (i, word.len()))).collect();
    assert_same(&found, &expected);
    Ok(())
}

fn zip(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let (y, other) = &pool.floats[rng.index(&pool.floats)];
    let (z, third) = &pool.rows[rng.index(&pool.rows)];
    let both = plain.iter().zip(other).map(|(n, f)| (n % 200, f * 0.5)).collect();
    let pairs = x.zip(y).map(|(n, f)| (n % 200, f * 0.5)).collect()?;
    // A pipe with captures, beside another with some.
    let (by, shift) = (3u32, 0.25f64);
    let found = with!(
        [by, shift, &y, &z],
        x.map(|n| (n / by, y.len()))
            .zip(y.map(|f| (f + shift, z.len())).zip(z))
            .map(|(a, (b, row))| (a.0, a.1, b.0, b.1, row.key))
    )
    .to_vec()?;
    let expected: Vec<_> = plain
        .iter()
        .zip(other.iter().zip(third))
        .map(|(n, (f, row))| (n / by, other.len(), f + shift, third.len(), row.key))
        .collect();
    assert_same(&found, &expected);
    made(pairs, both, &mut pool.pairs, rng, seen)
}

/// Positions in order, each of an element that is equal.
fn assert_subset(of: &[u32], indices: &[usize], found: &[u32]) {
    assert!(indices.windows(2).all(|two| two[0] < two[1]), "not in order");
    assert_same(found, &indices.iter().map(|&i| of[i]).collect::<Vec<_>>());
}

fn sample(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let (probability, seed) = ([0.0, 0.1, 0.5, 0.9, 1.0][rng.below(5)], rng.next() % 4);
    let some = x.sample(probability, seed).collect()?;
    let of_numbered = x.enumerate().sample(probability, seed).to_vec()?;
    let indices: Vec<usize> = of_numbered.iter().map(|(i, _)| *i).collect();
    let kept: Vec<u32> = of_numbered.iter().map(|(_, n)| *n).collect();
    assert_subset(plain, &indices, &kept);
    let (n, expected) = (plain.len() as f64, plain.len() as f64 * probability);
    assert!((indices.len() as f64 - expected).abs() <= 6.0 * (n * probability * (1.0 - probability)).sqrt());
    seen.record("sample", (indices.len(), indices.first(), indices.last()));
    // After other steps, where several items come from one element.
    let found = x.flat_map(|n| [*n, n + 1, n + 2]).sample(0.5, seed).to_vec()?;
    let mut all = plain.iter().flat_map(|n| [*n, n + 1, n + 2]);
    assert!(found.iter().all(|n| all.any(|other| other == *n)), "no subset in order");
    seen.record("sample of several", found);
    made(some, kept, &mut pool.numbers, rng, seen)
}

fn split(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let (probability, seed) = ([0.0, 0.3, 0.8, 1.0][rng.below(4)], rng.next() % 4);
    let (first, second) = x.enumerate().split(probability, seed)?;
    let (indices, others) = (first.map(|(i, _)| *i).to_vec()?, second.map(|(i, _)| *i).to_vec()?);
    let mut all = [indices.clone(), others.clone()].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..plain.len()), "not each item once");
    let (chosen, left) = x.split(probability, seed)?;
    assert_subset(plain, &indices, &chosen.to_vec()?);
    assert_subset(plain, &others, &left.to_vec()?);
    assert_eq!(x.sample(probability, seed).collect()?.digest()?, chosen.digest()?);
    let (kept, rest) = (chosen.to_vec()?, left.to_vec()?);
    made(chosen, kept, &mut pool.numbers, rng, seen)?;
    made(left, rest, &mut pool.numbers, rng, seen)
}

fn fold(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let sum = x.fold(0u64, |sum, n| sum + u64::from(*n), |a, b| a + b)?;
    assert_eq!(sum, plain.iter().map(|n| u64::from(*n)).sum::<u64>());
    let (x, plain) = &pool.floats[rng.index(&pool.floats)];
    let sum = x.fold(0.0f64, |sum, f| sum + f * f, |a, b| a + b)?;
    let magnitude: f64 = plain.iter().map(|f| f * f).sum();
    assert_near(sum, magnitude, magnitude);
    seen.record("fold", sum.to_bits());
    // What is united depends on the order.
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let initials = x.fold(String::new(), |text, word| text + &word[..1.min(word.len())], |a, b| a + &b);
    let safe = plain.iter().all(|word| word.is_char_boundary(1.min(word.len())));
    match initials {
        Ok(text) => assert!(safe && text == plain.iter().map(|word| &word[..1.min(word.len())]).collect::<String>()),
        Err(error) => assert!(!safe && error.to_string().contains("panicked"), "{error}"),
    }
    Ok(())
}

fn reduce(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    assert_eq!(x.reduce(|a, b| a.max(b))?, plain.iter().copied().max());
    let odd = x.filter(|n| n % 2 == 1).reduce(u32::wrapping_add)?;
    assert_eq!(odd, plain.iter().copied().filter(|n| n % 2 == 1).reduce(u32::wrapping_add));
    let (x, plain) = &pool.floats[rng.index(&pool.floats)];
    let (sum, expected) = (x.reduce(|a, b| a + b)?, plain.iter().copied().reduce(|a, b| a + b));
    assert_eq!(sum.is_some(), expected.is_some());
    assert_near(sum.unwrap_or(0.0), expected.unwrap_or(0.0), plain.iter().map(|f| f.abs()).sum());
    seen.record("reduce", sum.map(f64::to_bits));
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let text = x.map(|word| word.chars().take(1).collect::<String>()).reduce(|a, b| a + &b)?;
    assert_eq!(text, plain.iter().map(|word| word.chars().take(1).collect::<String>()).reduce(|a, b| a + &b));
    Ok(())
}

fn count(pool: &mut Pool<'_>, rng: &mut Rng, _: &mut Seen) -> Result {
    let (x, plain) = &pool.rows[rng.index(&pool.rows)];
    assert_eq!(x.pipe().count()?, plain.len());
    let (y, words) = &pool.words[rng.index(&pool.words)];
    let counted = y.flat_map(|word| word.chars().collect::<Vec<char>>()).filter(|c| c.is_alphabetic()).count()?;
    assert_eq!(counted, words.iter().flat_map(|word| word.chars()).filter(|c| c.is_alphabetic()).count());
    assert_eq!(x.zip(y).count()?, plain.len().min(words.len()));
    Ok(())
}

/// Many steps in one pass.
fn fused(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.rows[rng.index(&pool.rows)];
    let found = x
        .map(|row| Row { weight: row.weight + 1.0, ..*row })
        .enumerate()
        .filter(|(i, row)| (i + row.key as usize) % 4 != 0)
        .flat_map(|(i, row)| vec![(*i as u32, *row); row.key as usize % 3])
        .map(|(i, row)| Row { place: row.place + i64::from(*i), ..*row })
        .filter(|row| row.weight < 40.0)
        .collect()?;
    let expected = plain
        .iter()
        .map(|row| Row { weight: row.weight + 1.0, ..*row })
        .enumerate()
        .filter(|(i, row)| (i + row.key as usize) % 4 != 0)
        .flat_map(|(i, row)| vec![(i as u32, row); row.key as usize % 3])
        .map(|(i, row)| Row { place: row.place + i64::from(i), ..row })
        .filter(|row| row.weight < 40.0)
        .collect();
    made(found, expected, &mut pool.rows, rng, seen)
}

fn sort(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    // Few keys for many items: what is equal stays in order.
    let (x, plain) = &pool.rows[rng.index(&pool.rows)];
    let mut expected = plain.clone();
    expected.sort_by_key(|row| row.key % 5);
    made(x.sort_by_key(|row| row.key % 5)?, expected, &mut pool.rows, rng, seen)?;
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let mut expected = plain.clone();
    expected.sort_by_key(|word| (word.len(), word.clone()));
    made(x.sort_by_key(|word| (word.len(), word.clone()))?, expected, &mut pool.words, rng, seen)?;
    // A pipe, in falling order.
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let mut expected: Vec<u32> = plain.iter().filter(|n| *n % 7 != 0).map(|n| n % 1000).collect();
    expected.sort_by_key(|n| std::cmp::Reverse(*n));
    let sorted = x.filter(|n| n % 7 != 0).map(|n| n % 1000).sort_by_key(|n| -i64::from(*n))?;
    made(sorted, expected, &mut pool.numbers, rng, seen)?;
    // One key for all: one partition has everything.
    let (x, plain) = &pool.pairs[rng.index(&pool.pairs)];
    made(x.sort_by_key(|_| 1u8)?, plain.clone(), &mut pool.pairs, rng, seen)
}

fn sort_floats(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.floats[rng.index(&pool.floats)];
    let mut expected = plain.clone();
    expected.sort_by(f64::total_cmp);
    assert_same(&x.sort_by_key(|f| Ordered(*f))?.to_vec()?, &expected);
    expected.reverse();
    made(x.sort_by_key(|f| Reverse(Ordered(*f)))?, expected, &mut pool.floats, rng, seen)?;
    let (x, plain) = &pool.rows[rng.index(&pool.rows)];
    let mut expected = plain.clone();
    expected.sort_by_key(|row| (row.key % 3, Reverse(Ordered(row.weight))));
    made(x.sort_by_key(|row| (row.key % 3, Reverse(Ordered(row.weight))))?, expected, &mut pool.rows, rng, seen)
}

fn shuffle(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.pairs[rng.index(&pool.pairs)];
    let seed = rng.next() % 4;
    let places = x.enumerate().shuffle(seed)?.map(|(i, _)| *i).to_vec()?;
    let mut all = places.clone();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..plain.len()), "not each item once");
    if plain.len() > 20 {
        let other = x.enumerate().shuffle(seed + 1)?.map(|(i, _)| *i).to_vec()?;
        assert!(!places.is_sorted() && places != other);
    }
    seen.record("shuffle", (places.first(), places.last()));
    // Several items of an element have an order of their own.
    let (numbers, its) = &pool.numbers[rng.index(&pool.numbers)];
    let mut several = numbers.flat_map(|n| [*n, n + 1, n + 2]).shuffle(seed)?.to_vec()?;
    seen.record("shuffle of several", &several);
    several.sort_unstable();
    let mut expected: Vec<u32> = its.iter().flat_map(|n| [*n, n + 1, n + 2]).collect();
    expected.sort_unstable();
    assert_same(&several, &expected);
    let shuffled = places.iter().map(|&i| plain[i]).collect();
    made(x.shuffle(seed)?, shuffled, &mut pool.pairs, rng, seen)
}

fn top(pool: &mut Pool<'_>, rng: &mut Rng, _: &mut Seen) -> Result {
    let most = [0, 1, 3, 50, 1_000_000][rng.below(5)];
    let (x, plain) = &pool.rows[rng.index(&pool.rows)];
    // Few keys for many items: of equal ones the earlier is first.
    let mut expected = plain.clone();
    expected.sort_by_key(|row| Reverse(row.key % 5));
    expected.truncate(most);
    assert_same(&x.top_k(most, |row| row.key % 5)?, &expected);
    let (x, plain) = &pool.floats[rng.index(&pool.floats)];
    let mut expected: Vec<f64> = plain.iter().map(|f| f * 0.5).collect();
    expected.sort_by(f64::total_cmp);
    expected.truncate(most);
    assert_same(&x.map(|f| f * 0.5).top_k(most, |f| Reverse(Ordered(*f)))?, &expected);
    Ok(())
}

fn number(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    fn numbered<T: Clone + PartialEq>(keys: impl Iterator<Item = T>) -> Vec<T> {
        keys.fold(Vec::new(), |mut seen, key| {
            if !seen.contains(&key) {
                seen.push(key);
            }
            seen
        })
    }
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let words = x.number_by_key(|word| word.clone())?;
    let expected = numbered(plain.iter().cloned());
    assert_same(&words.keys.to_vec()?, &expected);
    made_map(pool.session, &words.numbers, &expected.iter().cloned().zip(0..).collect(), seen)?;
    made(words.keys, expected, &mut pool.words, rng, seen)?;
    // After steps that leave items out, and that make several of one.
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let keys = x.filter(|n| n % 3 > 0).flat_map(|n| [n % 40, n % 7, n % 40 + 1]).number_by_key(|n| *n)?.keys;
    let expected = numbered(plain.iter().filter(|n| *n % 3 > 0).flat_map(|n| [n % 40, n % 7, n % 40 + 1]));
    made(keys, expected, &mut pool.numbers, rng, seen)
}

/// Streams in an operator and in a loop: the numbers that the program itself sees.
fn random(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    pool.session.set_seed(rng.next() % 4);
    let (noise, walk) = (pool.session.rng(0), pool.session.rng(1));
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let drawn = with!([noise], x.enumerate().map(|(i, n)| noise.below(*i, u64::from(*n)) as u32)).collect()?;
    let expected = plain.iter().enumerate().map(|(i, n)| noise.below(i, u64::from(*n)) as u32).collect();
    made(drawn, expected, &mut pool.numbers, rng, seen)?;
    let (of, plain) = &pool.floats[rng.index(&pool.floats)];
    let mut walked = of.map(|f| *f).collect()?;
    let walk_on = |i: usize, from: f64| {
        let mut steps = walk.sequence(i);
        (0..3).fold(from, |at, _| at + f64::from(steps.unit()))
    };
    async_parallel_for!(0..walked.len(), [walk, &mut walked], |i| {
        let mut steps = walk.sequence(i);
        for _ in 0..3 {
            walked[i] += f64::from(steps.unit());
        }
    })?;
    let expected = plain.iter().enumerate().map(|(i, from)| walk_on(i, *from)).collect();
    made(walked, expected, &mut pool.floats, rng, seen)
}

fn with_values(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let (most, prefix, table) = (rng.below(6), format!("<{}", rng.below(100)), vec![3u32, 1, 4, 1, 5]);
    let found = with!(
        [most, prefix, table],
        x.filter(|word| word.len() > most)
            .flat_map(|word| vec![word.clone(); table[word.len() % table.len()] as usize % 3])
            .map(|word| format!("{prefix}{word}"))
    );
    let expected = plain
        .iter()
        .filter(|word| word.len() > most)
        .flat_map(|word| vec![word.clone(); table[word.len() % table.len()] as usize % 3])
        .map(|word| format!("{prefix}{word}"));
    let expected: Vec<String> = expected.collect();
    let found = found.collect()?;
    made(found, expected, &mut pool.words, rng, seen)
}

fn with_vectors(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let (table, values) = &pool.floats[rng.index(&pool.floats)];
    let (names, texts) = &pool.words[rng.index(&pool.words)];
    let offset = rng.below(5) as u32;
    let found = with!(
        [offset, &table, &names],
        x.filter(|n| !table.is_empty() && !names.is_empty() && table[*n as usize % table.len()] > -6.0)
            .map(|n| (offset + names[*n as usize % names.len()].len() as u32, table[*n as usize % table.len()]))
    )
    .collect()?;
    let expected = plain
        .iter()
        .map(|n| *n as usize)
        .filter(|n| !values.is_empty() && !texts.is_empty() && values[n % values.len()] > -6.0)
        .map(|n| (offset + texts[n % texts.len()].len() as u32, values[n % values.len()]))
        .collect();
    made(found, expected, &mut pool.pairs, rng, seen)
}

fn with_maps(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.words[rng.index(&pool.words)];
    let (counts, known) = &pool.counts[rng.index(&pool.counts)];
    let (lists, listed) = &pool.lists[rng.index(&pool.lists)];
    let (weights, weighed) = &pool.weights[rng.index(&pool.weights)];
    let found = with!(
        [&counts, &lists, &weights],
        x.filter(|word| counts.contains_key(word.as_str()))
            .flat_map(|word| lists[&(counts[word.as_str()] as u32)].to_vec())
            .map(|word| { (word.len() as u32, weights.get(&(word.len() as u32 * 3)).copied().unwrap_or(-1.0)) })
    )
    .collect()?;
    let expected = plain
        .iter()
        .filter_map(|word| known.get(word))
        .flat_map(|count| listed.get(&(*count as u32)).cloned().unwrap_or_default())
        .map(|word| (word.len() as u32, weighed.get(&(word.len() as u32 * 3)).copied().unwrap_or(-1.0)));
    let expected = expected.collect();
    made(found, expected, &mut pool.pairs, rng, seen)
}

fn fold_with(pool: &mut Pool<'_>, rng: &mut Rng, seen: &mut Seen) -> Result {
    let (x, plain) = &pool.numbers[rng.index(&pool.numbers)];
    let (weights, weighed) = &pool.weights[rng.index(&pool.weights)];
    let by = 0.5f64;
    let sum = with!(
        [by, &weights],
        x.fold(0.0f64, |sum, n| sum + by * weights.get(n).copied().unwrap_or(0.125), |a, b| a + b)
    )?;
    let terms = plain.iter().map(|n| by * weighed.get(n).copied().unwrap_or(0.125));
    assert_near(sum, terms.clone().sum(), terms.map(f64::abs).sum());
    seen.record("fold with captures", sum.to_bits());
    Ok(())
}
