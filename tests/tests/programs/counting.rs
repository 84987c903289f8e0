//! Counts, sums and sieves.

use super::Trial;
use crate::common::{below, bits, mix, ratings};
use crate::seen::Seen;
use std::hint::black_box;
use stradsap::prelude::*;

/// The area of a quarter of a circle.
pub(super) fn monte_carlo(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (n, seed) = (trial.size(50_000, 5_000_000) as u64, 3u64);
    let inside = session.count();
    let point = |k: u64| ((mix(2 * k) % 10_000) as f64, (mix(2 * k + 1) % 10_000) as f64);
    let mut plain = 0;
    let report = trial.sweep(
        || {
            async_parallel_for!(0..n, [seed, point, &inside], |k| {
                let (x, y) = point(seed + k);
                if x * x + y * y < 1e8 {
                    inside.add(1);
                }
            })
        },
        || plain += (0..n).map(|k| point(seed + k)).filter(|(x, y)| x * x + y * y < 1e8).count() as u64,
    )?;
    trial.same(inside.get(), plain);
    seen.record("inside", plain);
    Ok(report)
}

/// One step of k-means: each point to its nearest centre; then the centres, from all points at once.
pub(super) fn nearest_centres(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let points: Vec<[f64; 2]> = (0..trial.size(8_000, 3_000_000) as u64)
        .map(|k| [below(2 * k, 1000) as f64, below(2 * k + 1, 1000) as f64])
        .collect();
    // Sizes of data are known when a program runs: as a constant, this one would have the plain loop unrolled.
    let mut centres: Vec<[f64; 2]> = points[..black_box(8)].to_vec();
    let data = DVector::from_vec(session, points.clone())?;
    let mut of = DVector::from_fn(session, points.len(), |_| 0u8)?;
    fn nearest(centres: &[[f64; 2]], [x, y]: &[f64; 2]) -> u8 {
        let far = |k: usize| (centres[k][0] - x).powi(2) + (centres[k][1] - y).powi(2);
        (0..centres.len()).min_by(|&a, &b| far(a).total_cmp(&far(b))).unwrap_or(0) as u8
    }
    let mut last = None;
    for _ in 0..trial.size(3, 1) {
        let around = centres.as_slice();
        let mut plain = vec![0u8; points.len()];
        let report = trial.sweep(
            || async_parallel_for!(0..data.len(), [around, &data, &mut of], |i| of[i] = nearest(around, &data[i])),
            || {
                for (of, point) in plain.iter_mut().zip(&points) {
                    *of = nearest(&centres, point);
                }
            },
        )?;
        trial.same(of.to_vec()?, plain.clone());
        for (k, centre) in centres.iter_mut().enumerate() {
            let mine: Vec<&[f64; 2]> =
                points.iter().zip(&plain).filter(|(_, of)| **of as usize == k).map(|(p, _)| p).collect();
            let n = mine.len().max(1) as f64;
            *centre = [mine.iter().map(|p| p[0]).sum::<f64>() / n, mine.iter().map(|p| p[1]).sum::<f64>() / n];
        }
        last = Some(report);
    }
    seen.digest("of", &of)?;
    Ok(last.unwrap())
}

/// Weights are added up by word, in a map.
pub(super) fn weights_of_words(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    weights(session, seen, trial, |n| below(n, 97))
}

/// Most words are one.
pub(super) fn weights_of_a_common_word(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    weights(session, seen, trial, |n| below(n, 100).saturating_sub(95))
}

fn weights(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
    word: fn(u64) -> usize,
) -> stradsap::Result<LoopReport> {
    let words: Vec<(String, f64)> = (0..trial.size(5_000, 1_000_000) as u64)
        .map(|n| (format!("w{}", word(n)), 1.0 / (1.0 + below(n, 7) as f64)))
        .collect();
    let data = DVector::from_vec(session, words.clone())?;
    let mut weights: DMap<String, f64> = DMap::new(session)?;
    let mut plain = std::collections::HashMap::new();
    let report = trial.sweep(
        || {
            async_parallel_for!(
                0..data.len(),
                [&data, &mut weights],
                |n| {
                    let (word, weight) = &data[n];
                    *weights.entry(word.clone()).or_insert(0.0) += weight;
                },
                order = Preserve
            )
        },
        || {
            for (word, weight) in &words {
                *plain.entry(word.clone()).or_insert(0.0f64) += weight;
            }
        },
    )?;
    let plain: std::collections::BTreeMap<_, _> = plain.into_iter().collect();
    let mut found = weights.to_vec()?;
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let (keys, values): (Vec<String>, Vec<f64>) = found.into_iter().unzip();
    trial.same(&keys, &plain.keys().cloned().collect());
    trial.same(bits(values), bits(plain.into_values()));
    seen.record("words", keys.len());
    Ok(report)
}

/// How many numbers fall into each bin.
pub(super) fn histogram(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let values: Vec<u16> =
        (0..trial.size(40_000, 50_000_000) as u64).map(|n| (below(n, 300) + below(n + 7, 300)) as u16).collect();
    let data = DVector::from_vec(session, values.clone())?;
    let mut bins = DVector::from_fn(session, 600, |_| 0u32)?;
    let mut plain = vec![0u32; 600];
    let report = trial.sweep(
        || async_parallel_for!(&data, [&mut bins], |value| bins[value] += 1),
        || values.iter().for_each(|&value| plain[usize::from(value)] += 1),
    )?;
    trial.same(bins.to_vec()?, plain);
    seen.digest("bins", &bins)?;
    Ok(report)
}

/// How often each word comes, in a map.
pub(super) fn word_counts(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let lines: Vec<String> = (0..trial.size(3_000, 400_000) as u64)
        .map(|n| format!("w{} w{} w{}", below(3 * n, 800), below(3 * n + 1, 800), below(3 * n + 2, 800)))
        .collect();
    let data = DVector::from_vec(session, lines.clone())?;
    let mut counts: DMap<String, u64> = DMap::new(session)?;
    let mut plain = std::collections::HashMap::new();
    let report = trial.sweep(
        || {
            async_parallel_for!(0..data.len(), [&data, &mut counts], |n| {
                for word in data[n].split(' ') {
                    *counts.entry(word.to_string()).or_insert(0) += 1;
                }
            })
        },
        || {
            lines
                .iter()
                .flat_map(|line| line.split(' '))
                .for_each(|word| *plain.entry(word.to_string()).or_insert(0u64) += 1);
        },
    )?;
    let plain: std::collections::BTreeMap<_, _> = plain.into_iter().collect();
    let mut found = counts.to_vec()?;
    found.sort();
    trial.same(&found, &plain.into_iter().collect());
    seen.record("words", found.len());
    Ok(report)
}

/// How often words stand beside each other, in a table of rows.
pub(super) fn pairs_of_words(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let text: Vec<u8> = (0..trial.size(20_000, 30_000_000) as u64).map(|n| below(n, 64) as u8).collect();
    let data = DVector::from_vec(session, text.clone())?;
    let mut beside = DVector::from_fn(session, 64, |_| [0u32; 64])?;
    let mut plain = vec![[0u32; 64]; 64];
    let report = trial.sweep(
        || {
            async_parallel_for!(1..data.len(), [&data, &mut beside], |n| {
                let (left, right) = (data[n - 1], data[n]);
                beside[left][usize::from(right)] += 1;
                beside[right][usize::from(left)] += 1;
            })
        },
        || {
            for pair in text.windows(2) {
                plain[usize::from(pair[0])][usize::from(pair[1])] += 1;
                plain[usize::from(pair[1])][usize::from(pair[0])] += 1;
            }
        },
    )?;
    trial.same(beside.to_vec()?, plain);
    seen.digest("beside", &beside)?;
    Ok(report)
}

/// Of each item, the mean of its ratings so far.
pub(super) fn means_of_items(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let items = trial.size(900, 50_000);
    let all = ratings(trial.size(20_000, 8_000_000), 500, items);
    let data = DVector::from_vec(session, all.clone())?;
    let mut plain = vec![(0.0f64, 0u32); items];
    let mut means = DVector::from_fn(session, items, |_| (0.0f64, 0u32))?;
    let report = trial.steps(
        0..all.len(),
        || {
            async_parallel_for!(0..data.len(), [&data, &mut means], |n| {
                let (mean, count) = &mut means[data[n].item];
                *count += 1;
                *mean += (f64::from(data[n].stars) - *mean) / f64::from(*count);
            })
        },
        |n| {
            let (mean, count) = &mut plain[all[n].item as usize];
            *count += 1;
            *mean += (f64::from(all[n].stars) - *mean) / f64::from(*count);
        },
    )?;
    trial.same(bits(means.to_vec()?.iter().map(|(mean, _)| *mean)), bits(plain.iter().map(|(mean, _)| *mean)));
    seen.report("means", &report);
    Ok(report)
}

/// The largest value of each group, and where it stands.
pub(super) fn largest_of_each(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let groups = trial.size(700, 50_000);
    let items: Vec<(u32, i64)> = (0..trial.size(20_000, 6_000_000) as u64)
        .map(|n| (below(n, groups) as u32, below(n + 3, 5_000) as i64))
        .collect();
    let data = DVector::from_vec(session, items.clone())?;
    let mut largest = DVector::from_fn(session, groups, |_| (i64::MIN, 0u32))?;
    let mut plain = vec![(i64::MIN, 0u32); groups];
    let report = trial.sweep(
        || {
            async_parallel_for!(0..data.len() as u32, [&data, &mut largest], |n| {
                let (group, value) = data[n];
                let best = &mut largest[group];
                if (value, n) > *best {
                    *best = (value, n);
                }
            })
        },
        || {
            for (n, &(group, value)) in (0..).zip(&items) {
                let best = &mut plain[group as usize];
                *best = (*best).max((value, n));
            }
        },
    )?;
    trial.same(largest.to_vec()?, plain);
    seen.report("largest", &report);
    Ok(report)
}

/// Of Eratosthenes: iteration `p` strikes out its multiples, if it still stands.
pub(super) fn sieve(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(4_000, 1_000_000);
    let last = trial.size(64, 1_001);
    let mut plain = vec![true; n];
    let mut prime = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                2..last,
                [n, &mut prime],
                |p| {
                    if prime[p] {
                        for k in (p * p..n).step_by(p) {
                            prime[k] = false;
                        }
                    }
                },
                order = Preserve
            )
        },
        || {
            for p in 2..last {
                if plain[p] {
                    (p * p..n).step_by(p).for_each(|k| plain[k] = false);
                }
            }
        },
    )?;
    trial.same(prime.to_vec()?, plain.clone());
    trial.same(plain[2..].iter().filter(|&&prime| prime).count(), 550);
    seen.digest("prime", &prime)?;
    Ok(report)
}

/// Each number becomes the mean of itself and the one before, with its value at that moment.
pub(super) fn running_mean(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let mut plain: Vec<f64> = (0..trial.size(6_000, 10_000_000) as u64).map(|i| below(i, 100) as f64).collect();
    let mut x = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                1..x.len(),
                [&mut x],
                |i| {
                    let before = x[i - 1];
                    x[i] = 0.5 * (x[i] + before);
                },
                order = Preserve
            )
        },
        || (1..plain.len()).for_each(|i| plain[i] = 0.5 * (plain[i] + plain[i - 1])),
    )?;
    trial.same(bits(x.to_vec()?), bits(plain));
    seen.digest("x", &x)?;
    Ok(report)
}
