//! Series, chains, tables of dynamic programming, and records with mistakes.

use super::Trial;
use crate::common::{below, bits, bits32, mix};
use crate::seen::Seen;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use stradsap::prelude::*;

/// What a Kalman filter knows of a level and its slope.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Filter {
    state: [f64; 2],
    spread: [[f64; 2]; 2],
}

impl Filter {
    fn step(&mut self, z: f32) {
        let [level, slope] = self.state;
        let [[a, b], [c, d]] = self.spread;
        let (level, a, b, c, d) = (level + slope, a + b + c + d + 0.01, b + d, c + d, d + 0.001);
        let (error, whole) = (f64::from(z) - level, a + 1.0);
        self.state = [level + a / whole * error, slope + c / whole * error];
        self.spread = [[a - a * a / whole, b - a * b / whole], [c - c * a / whole, d - c * b / whole]];
    }
}

/// A Kalman filter for each of many series, which lie one after the other.
pub(super) fn kalman_filters(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (n, long) = (trial.size(300, 40_000), 64);
    let observed: Vec<f32> = (0..n * long).map(|k| (k % long) as f32 * 0.3 + below(k as u64, 10) as f32).collect();
    let begin = Filter { state: [0.0; 2], spread: [[10.0, 0.0], [0.0, 1.0]] };
    let mut plain = vec![begin; n];
    let data = DVector::from_vec(session, observed.clone())?;
    let mut filters = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(0..n, [long, &data, &mut filters], |i| {
                for &z in &data[i * long..(i + 1) * long] {
                    filters[i].step(z);
                }
            })
        },
        || {
            for i in 0..n {
                for &z in &observed[i * long..(i + 1) * long] {
                    plain[i].step(z);
                }
            }
        },
    )?;
    trial.same(filters.to_vec()?, plain);
    seen.digest("filters", &filters)?;
    Ok(report)
}

const STATES: usize = 3;

/// A hidden Markov model of texts of four letters.
#[derive(Clone, Serialize, Deserialize)]
struct Markov {
    begin: [f32; STATES],
    to: [[f32; STATES]; STATES],
    letters: Vec<[f32; STATES]>,
}

impl Markov {
    /// The likeliest state at each letter, and how likely the text is.
    fn decode(&self, text: &[u8]) -> (Vec<u8>, f64) {
        let mut forward: Vec<[f32; STATES]> = Vec::new();
        let mut likely = 0.0;
        for (t, &letter) in text.iter().enumerate() {
            let seen = self.letters[usize::from(letter)];
            let mut now: [f32; STATES] = std::array::from_fn(|s| {
                let before = |from: usize| forward[t - 1][from] * self.to[from][s];
                seen[s] * if t == 0 { self.begin[s] } else { (0..STATES).map(before).sum() }
            });
            let all: f32 = now.iter().sum();
            now.iter_mut().for_each(|part| *part /= all);
            likely += f64::from(all).ln();
            forward.push(now);
        }
        let mut back = [1.0f32; STATES];
        let mut states = vec![0; text.len()];
        for t in (0..text.len()).rev() {
            let both: [f32; STATES] = std::array::from_fn(|s| forward[t][s] * back[s]);
            states[t] = (0..STATES as u8).max_by(|&a, &b| both[a as usize].total_cmp(&both[b as usize])).unwrap_or(0);
            let seen = self.letters[usize::from(text[t])];
            back = std::array::from_fn(|s| (0..STATES).map(|to| self.to[s][to] * seen[to] * back[to]).sum());
            let all: f32 = back.iter().sum();
            back.iter_mut().for_each(|part| *part /= all);
        }
        (states, likely)
    }
}

/// Forward and backward through many texts; how often each state is the likeliest is added up.
pub(super) fn hidden_states(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(300, 36_000);
    let model = Markov {
        begin: [0.5, 0.3, 0.2],
        to: [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]],
        letters: vec![[0.7, 0.1, 0.2], [0.1, 0.6, 0.2], [0.1, 0.2, 0.3], [0.1, 0.1, 0.3]],
    };
    let texts: Vec<Vec<u8>> =
        (0..n as u64).map(|i| (0..5 + i % 40).map(|k| below(50 * i + k, 4) as u8).collect()).collect();
    let mut plain: Vec<(Vec<u8>, f64)> = vec![(Vec::new(), 0.0); n];
    let mut plain_often = vec![0u32; STATES];
    let data = DVector::from_vec(session, texts.clone())?;
    let mut decoded = DVector::from_vec(session, plain.clone())?;
    let mut often = DVector::from_vec(session, plain_often.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(0..data.len(), [model, &data, &mut decoded, sum often], |i| {
                let (states, likely) = model.decode(&data[i]);
                for &state in &states {
                    often[state] += 1;
                }
                decoded[i] = (states, likely);
            })
        },
        || {
            for i in 0..n {
                let (states, likely) = model.decode(&texts[i]);
                for &state in &states {
                    plain_often[usize::from(state)] += 1;
                }
                plain[i] = (states, likely);
            }
        },
    )?;
    trial.same((decoded.to_vec()?, often.to_vec()?), (plain, plain_often));
    seen.digest("decoded", &decoded)?;
    seen.digest("often", &often)?;
    Ok(report)
}

/// Smith-Waterman: the best local alignment of two texts, by a table with an edge of zeros.
pub(super) fn local_alignment(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let text = |seed: u64, n: usize| -> Vec<u8> { (0..n).map(|i| below(seed + i as u64, 4) as u8).collect() };
    let (left, right) = (text(1, trial.size(200, 2_000)), text(5, trial.size(220, 2_500)));
    let (rows, columns) = (left.len() + 1, right.len() + 1);
    let (mut plain, mut plain_best) = (vec![0i32; rows * columns], 0);
    let mut table = DVector::from_vec(session, plain.clone())?;
    let best = session.max(0i32);
    let (one, other) = (left.as_slice(), right.as_slice());
    let report = trial.sweep(
        || {
            async_parallel_for!(
                (0..rows, 0..columns),
                [one, other, columns, &mut table, &best],
                |(i, j)| {
                    if i > 0 && j > 0 {
                        let at = i * columns + j;
                        let both = table[at - columns - 1] + if one[i - 1] == other[j - 1] { 2 } else { -1 };
                        let gap = table[at - 1].max(table[at - columns]) - 1;
                        table[at] = both.max(gap).max(0);
                        best.max(table[at]);
                    }
                },
                order = Preserve
            )
        },
        || {
            for i in 1..rows {
                for j in 1..columns {
                    let at = i * columns + j;
                    let both = plain[at - columns - 1] + if left[i - 1] == right[j - 1] { 2 } else { -1 };
                    let gap = plain[at - 1].max(plain[at - columns]) - 1;
                    plain[at] = both.max(gap).max(0);
                    plain_best = plain_best.max(plain[at]);
                }
            }
        },
    )?;
    trial.same((table.to_vec()?, best.get()), (plain, plain_best));
    seen.digest("table", &table)?;
    seen.record("best", best.get());
    Ok(report)
}

/// The most that fits into a knapsack of each size, thing by thing.
pub(super) fn knapsack(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let sizes = trial.size(2_000, 2_000_000);
    let things: Vec<(usize, u32)> = (0..12).map(|k| (1 + below(k, 300), 1 + below(k + 50, 90) as u32)).collect();
    let mut plain = vec![0u32; sizes];
    let mut best = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(0..sizes, [&mut best], |size| best[size] = 0)?;
            let mut last = None;
            for &(weight, worth) in &things {
                let report = async_parallel_for!(weight..sizes, [weight, worth, &mut best], |size| {
                    best[size] = best.old[size].max(best.old[size - weight] + worth);
                })?;
                last = Some(report);
            }
            Ok(last.unwrap())
        },
        || {
            plain.fill(0);
            for &(weight, worth) in &things {
                for size in (weight..sizes).rev() {
                    plain[size] = plain[size].max(plain[size - weight] + worth);
                }
            }
        },
    )?;
    trial.same(best.to_vec()?, plain);
    seen.digest("best", &best)?;
    Ok(report)
}

/// A way through all cities, and how long it is.
#[derive(Clone, Debug, PartialEq, Element)]
struct Tour {
    cities: Vec<u16>,
    length: i64,
}

/// Chains of simulated annealing, each with random numbers of its own.
pub(super) fn annealed_tours(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (chains, steps) = (trial.size(24, 64), trial.size(200, 20_000) as u64);
    let cities: Vec<(i64, i64)> = (0..40).map(|c| (below(2 * c, 1000) as i64, below(2 * c + 1, 1000) as i64)).collect();
    fn anneal(tour: &mut Tour, cities: &[(i64, i64)], chain: u64, steps: u64) {
        let far = |a: u16, b: u16| {
            let ((x, y), (u, v)) = (cities[usize::from(a)], cities[usize::from(b)]);
            (x - u).abs() + (y - v).abs()
        };
        let n = tour.cities.len();
        for step in 0..steps {
            let random = mix(mix(chain) ^ step);
            let (a, b) = ((random % n as u64) as usize, (random / 64 % n as u64) as usize);
            let (a, b) = (a.min(b), a.max(b));
            if a == 0 || b + 1 == n || a == b {
                continue;
            }
            let way = &tour.cities;
            let gain =
                far(way[a - 1], way[a]) + far(way[b], way[b + 1]) - far(way[a - 1], way[b]) - far(way[a], way[b + 1]);
            let heat = 200.0 * (1.0 - step as f64 / steps as f64) + 1e-9;
            if gain >= 0 || (random >> 40) as f64 / f64::from(1 << 24) < (gain as f64 / heat).exp() {
                tour.cities[a..=b].reverse();
                tour.length -= gain;
            }
        }
    }
    let mut plain = vec![Tour { cities: (0..40).collect(), length: 0 }; chains];
    let mut tours = DVector::from_vec(session, plain.clone())?;
    let shortest = session.min(i64::MAX);
    let report = trial.sweep(
        || {
            async_parallel_for!(0..chains as u64, [steps, cities, &mut tours, &shortest], |chain| {
                let tour = &mut tours[chain];
                anneal(tour, cities, chain, steps);
                shortest.min(tour.length);
            })
        },
        || {
            for chain in 0..chains {
                anneal(&mut plain[chain], &cities, chain as u64, steps);
            }
        },
    )?;
    if trial.size(1, 0) == 1 {
        assert_eq!(Some(shortest.get()), plain.iter().map(|tour| tour.length).min());
    }
    trial.same(tours.to_vec()?, plain);
    seen.digest("tours", &tours)?;
    Ok(report)
}

/// A sample of what a group has seen.
#[derive(Clone, Debug, PartialEq, Element)]
struct Reservoir {
    met: u32,
    kept: Vec<u32>,
}

/// Of each group a sample of five records, which depends on their order.
pub(super) fn reservoirs(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (n, groups) = (trial.size(10_000, 6_000_000), trial.size(400, 50_000));
    let records: Vec<u32> = (0..n as u64).map(|i| below(i, groups) as u32).collect();
    fn meet(reservoir: &mut Reservoir, record: u32) {
        reservoir.met += 1;
        let at = (mix(u64::from(record)) % u64::from(reservoir.met)) as usize;
        if reservoir.kept.len() < 5 {
            reservoir.kept.push(record);
        } else if at < 5 {
            reservoir.kept[at] = record;
        }
    }
    let mut plain = vec![Reservoir { met: 0, kept: Vec::new() }; groups];
    let data = DVector::from_vec(session, records.clone())?;
    let mut samples = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                0..n as u32,
                [&data, &mut samples],
                |i| {
                    let group = data[i];
                    meet(&mut samples[group], i);
                },
                order = Preserve
            )
        },
        || {
            for i in 0..n {
                meet(&mut plain[records[i] as usize], i as u32);
            }
        },
    )?;
    trial.same(samples.to_vec()?, plain);
    seen.digest("samples", &samples)?;
    Ok(report)
}

/// Records as text, some with a mistake: the first one ends the loop, is mended, and the loop runs again.
pub(super) fn records_with_mistakes(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let n = trial.size(4_000, 300_000);
    let good = |i: usize| format!("{},{}.5", below(i as u64, 50), i % 90);
    fn parse(line: &str) -> Result<(u32, f32), String> {
        let (group, value) = line.split_once(',').ok_or_else(|| format!("no comma in {line:?}"))?;
        Ok((group.parse().map_err(|_| format!("no group in {line:?}"))?, value.parse().map_err(|_| "no value")?))
    }
    let mut lines: Vec<String> = (0..n).map(good).collect();
    for (at, line) in [(n / 3, "7;1.5"), (n / 2, "seven,1.5")] {
        lines[at] = line.to_string();
    }
    let mut data = DVector::from_vec(session, lines.clone())?;
    let mut largest = DVector::from_fn(session, 50, |_| f32::NEG_INFINITY)?;
    let mut groups = DVector::from_fn(session, n, |_| 0u32)?;
    let mut attempt = |data: &DVector<String>| {
        async_parallel_for!(
            0..data.len(),
            [&data, &mut largest, &mut groups],
            |i| {
                let (group, value) = parse(&data[i])?;
                groups[i] = group;
                largest[group] = largest[group].max(value);
                Ok::<(), String>(())
            },
            order = Preserve
        )
    };
    for at in [n / 3, n / 2] {
        let error = attempt(&data).unwrap_err().to_string();
        let (said, line) = (parse(&lines[at]).unwrap_err(), &mut lines[at]);
        assert!(error.contains(&format!("iteration {at} failed: {said}")), "{error}");
        *line = good(at);
        data.set(at, line.clone())?;
    }
    let (mut plain, mut plain_groups) = (vec![f32::NEG_INFINITY; 50], vec![0; n]);
    let report = trial.sweep(
        || attempt(&data),
        || {
            for i in 0..n {
                let (group, value) = parse(&lines[i]).unwrap();
                plain_groups[i] = group;
                plain[group as usize] = plain[group as usize].max(value);
            }
        },
    )?;
    trial.same((bits32(largest.to_vec()?), groups.to_vec()?), (bits32(plain), plain_groups));
    seen.digest("largest", &largest)?;
    Ok(report)
}

/// The bootstrap: means of samples drawn with repetition, and their least and greatest.
pub(super) fn bootstrap(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    // (A constant would spare the plain loop a division.)
    let (n, samples) = (black_box(1_000usize), trial.size(200, 10_000));
    let values: Vec<f64> = (0..n as u64).map(|i| below(i, 1000) as f64 / 7.0).collect();
    let x = DVector::from_vec(session, values.clone())?;
    let mut means = DVector::from_fn(session, samples, |_| 0.0f64)?;
    let (least, greatest) = (session.min(f64::INFINITY), session.max(f64::NEG_INFINITY));
    let mut plain = vec![0.0; samples];
    let report = trial.sweep(
        || {
            async_parallel_for!(0..means.len() as u64, [&x, &mut means, &least, &greatest], |s| {
                let drawn = (0..x.len() as u64).map(|k| x[mix((s << 20) ^ k) % x.len() as u64]);
                means[s] = drawn.sum::<f64>() / x.len() as f64;
                least.min(means[s]);
                greatest.max(means[s]);
            })
        },
        || {
            for s in 0..samples as u64 {
                let drawn = (0..n as u64).map(|k| values[(mix((s << 20) ^ k) % n as u64) as usize]);
                plain[s as usize] = drawn.sum::<f64>() / n as f64;
            }
        },
    )?;
    let ends = plain.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |ends, &x| (ends.0.min(x), ends.1.max(x)));
    trial.same((least.get(), greatest.get()), ends);
    trial.same(bits(means.to_vec()?), bits(plain));
    seen.digest("means", &means)?;
    Ok(report)
}
