//! Loops that only add to what they don't read: histograms, counts of words, sums of gradients.

use std::collections::HashMap;

use crate::common::{below, bits, bits32};
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    additions::histogram,
    additions::words,
    additions::bigrams,
    additions::gradients,
    additions::types,
    additions::several_beside_others,
    additions::several_and_nothing_else,
    additions::few_to_each_element,
    additions::of_iterations_that_compute_much,
    additions::in_order,
    additions::short_against_long,
    additions::where_it_holds,
    additions::again_and_again,
    additions::failures,
    additions::whether_any_and_all,
    additions::of_a_type_of_its_own,
];

fn text(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("w{}", below(i as u64, 1 + below(i as u64 + 7, 900)))).collect()
}

/// What must be the same everywhere.
pub(crate) mod additions {
    use super::*;

    pub(crate) fn histogram(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 50_000;
        let at = DVector::from_fn(session, n, |i| below(i as u64, 300) as u32)?;
        let mut plain = vec![7u64; 300];
        (0..n).for_each(|i| plain[below(i as u64, 300)] += i as u64);
        // Seen by itself, said, with the loop's own order, and by an index that is computed.
        let (mut a, mut b) = (DVector::from_fn(session, 300, |_| 7u64)?, DVector::from_fn(session, 300, |_| 7u64)?);
        let (mut c, mut d) = (DVector::from_fn(session, 300, |_| 7u64)?, DVector::from_fn(session, 300, |_| 7u64)?);
        let seen_so = async_parallel_for!(0..n, [&at, &mut a], |i| a[at[i]] += i as u64)?;
        let said = async_parallel_for!(0..n, [&at, sum b], |i| b[at[i]] += i as u64)?;
        let ordered = async_parallel_for!(0..n, [&at, h = sum c], |i| h[at[i]] += i as u64, order = Preserve)?;
        let computed = async_parallel_for!(0..n, [&mut d], |i| d[below(i as u64, 300)] += i as u64)?;
        for report in [seen_so, said, ordered, computed] {
            assert_eq!(report.strategy(), Strategy::Aligned, "{report}");
            assert!(report.reason().contains("added up in tallies"), "{report}");
            assert!(report.conflicts().is_empty());
            seen.report("report", &report);
        }
        for x in [&a, &b, &c, &d] {
            assert_eq!(x.to_vec()?, plain);
        }
        Ok(())
    }

    /// Few additions meet in a row, so the loop is serial, unless it says that iterations cost much, or how many blocks they are.
    pub(crate) fn of_iterations_that_compute_much(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, rows) = (600usize, 800usize);
        let words = |n: usize| (0..5).map(move |k| below((5 * n + k) as u64, 800));
        let mut theta = DVector::from_fn(session, n, |i| 1.0 + i as f64)?;
        let (mut plain, mut plain_theta) = (vec![[0.0; 4]; rows], theta.to_vec()?);
        for (strategy, blocks, case) in
            [(Strategy::Serial, 1, 0), (Strategy::Aligned, 60, 1), (Strategy::Aligned, 6, 2)]
        {
            let mut sums = DMatrix::from_fn(session, rows, 4, |_, _| 0.0f64)?;
            macro_rules! run {
                ($($option:tt)*) => {
                    async_parallel_for!(0..n, [theta = &mut theta, sum sums], |i| {
                        theta[i] = (theta[i] + 1.0).sqrt();
                        for k in 0..5 {
                            sums[below((5 * i + k) as u64, 800)][k % 4] += theta[i];
                        }
                    } $($option)*)?
                };
            }
            let report = match case {
                0 => run!(),
                1 => run!(, grain = 10),
                _ => run!(, parts = 6),
            };
            plain.fill([0.0; 4]);
            for (i, theta) in plain_theta.iter_mut().enumerate() {
                *theta = (*theta + 1.0).sqrt();
                words(i).enumerate().for_each(|(k, word)| plain[word][k % 4] += *theta);
            }
            assert_eq!((report.strategy(), report.blocks()), (strategy, blocks), "{report}");
            for (row, plain) in plain.iter().enumerate() {
                let close = |(own, plain): (&f64, &f64)| (own - plain).abs() < 1e-12 * plain.abs();
                assert!(sums.get(row)?.iter().zip(plain).all(|pair| pair.0 == pair.1 || close(pair)), "{row}");
            }
            seen.record("sums", sums.digest()?);
            seen.report("report", &report);
        }
        seen.digest("theta", &theta)
    }

    /// Sums of each word and of all, as the step of an EM algorithm takes them.
    pub(crate) fn several_and_nothing_else(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, words) = (3_000, 200);
        let weight = |i: usize, k: usize| 1.0 / (1 + below((7 * i + k) as u64, 50)) as f64;
        let mut of_word = DVector::from_fn(session, words, |_| [0.0f64; 3])?;
        let mut of_all = DVector::from_fn(session, 1, |_| [0.0f64; 3])?;
        let report = async_parallel_for!(0..n, [weight, words, sum of_word, sum of_all], |i| {
            for k in 0..3 {
                let by = std::array::from_fn(|topic| weight(i, 3 * k + topic));
                of_word.add(below((3 * i + k) as u64, words), by);
                of_all.add(0, by);
            }
        })?;
        assert_eq!(report.strategy(), Strategy::Aligned, "{report}");
        assert!(report.reason().contains("`of_word` and `of_all` added up in tallies"), "{report}");
        seen.report("report", &report);
        seen.digest("of words", &of_word)?;
        seen.digest("of all", &of_all)?;
        let plain: f64 = (0..n).flat_map(|i| (0..9).map(move |k| weight(i, k))).sum();
        let sums = [of_word.to_vec()?, of_all.to_vec()?].map(|rows| rows.concat().iter().sum::<f64>());
        assert!(sums.iter().all(|sum| (sum - plain).abs() < 1e-9 * plain), "{sums:?} {plain}");
        Ok(())
    }

    /// The fewer additions an element has, the fewer blocks: each has a tally of its own.
    pub(crate) fn few_to_each_element(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (len, blocks) in [(2_500, 8), (400, 25), (40, 32)] {
            let at = DVector::from_fn(session, 40_000, |i| below(i as u64, len) as u32)?;
            let mut x = DVector::from_fn(session, len, |_| 0.0f32)?;
            let report = async_parallel_for!(0..at.len(), [&at, sum x], |i| x[at[i]] += 0.1)?;
            assert!(report.reason().contains("tallies"), "{report}");
            assert_eq!(report.blocks(), blocks, "{report}");
            seen.report("report", &report);
            seen.digest("x", &x)?;
        }
        Ok(())
    }

    pub(crate) fn words(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let words = text(40_000);
        let mut plain: HashMap<String, u64> = HashMap::new();
        words.iter().for_each(|word| *plain.entry(word.clone()).or_insert(0) += 1);
        let words = DVector::from_vec(session, words)?;
        let mut counts: DMap<String, u64> = DMap::new(session)?;
        let mut again: DMap<String, u64> = DMap::new(session)?;
        let mut by_text: DMap<String, u64> = DMap::new(session)?;
        async_parallel_for!(0..words.len(), [&words, sum by_text], |n| by_text.add(words[n].as_str(), 1))?;
        let report = async_parallel_for!(0..words.len(), [&words, &mut counts], |n| {
            *counts.entry(words[n].clone()).or_insert(0) += 1;
        })?;
        assert!(report.reason().contains("`counts` added up in tallies"), "{report}");
        for call in 1..=3u64 {
            async_parallel_for!(0..words.len(), [&words, sum again], |n| *again.entry(words[n].clone()).or_default() += 1)?;
            assert_eq!(again.len()?, plain.len());
            assert!(again.iter()?.all(|(word, count)| plain[&word] * call == count));
        }
        assert!(counts.iter()?.all(|(word, count)| plain[&word] == count));
        assert_eq!(counts.len()?, plain.len());
        assert_eq!(by_text.digest()?, counts.digest()?);
        assert_eq!(counts.digest()?, DMap::from_entries(session, plain)?.digest()?);
        seen.record("counts", (counts.digest()?, again.digest()?));
        // What a tally left is what other loops and the program work with.
        again.insert("new".to_string(), 5)?;
        async_parallel_for!(0..words.len(), [&words, &mut again], |n| {
            if let Some(count) = again.get_mut(&words[n]) {
                *count = 1;
            }
        })?;
        assert!(again.iter()?.all(|(word, count)| count == if word == "new" { 5 } else { 1 }));
        Ok(())
    }

    pub(crate) fn bigrams(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let words = text(20_000);
        let mut plain: HashMap<(String, String), u64> = HashMap::new();
        words.windows(2).for_each(|two| *plain.entry((two[0].clone(), two[1].clone())).or_insert(0) += 1);
        let words = DVector::from_vec(session, words)?;
        let mut pairs: DMap<(String, String), u64> = DMap::new(session)?;
        async_parallel_for!(1..words.len(), [&words, sum pairs], |n| {
            *pairs.entry((words[n - 1].clone(), words[n].clone())).or_insert(0) += 1;
        })?;
        let entries: HashMap<_, _> = pairs.iter()?.collect();
        assert_eq!(entries, plain);
        seen.record("pairs", pairs.digest()?);
        Ok(())
    }

    /// Gradient boosting: for each feature and bin the sums of gradients and Hessians.
    pub(crate) fn gradients(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (rows, features, bins) = (20_000, 6, 16);
        let bin = |row: usize, f: usize| below((row * features + f) as u64, bins) as u8;
        let binned = DVector::from_fn(session, rows, |row| std::array::from_fn::<u8, 6, _>(|f| bin(row, f)))?;
        let gradient = DVector::from_fn(session, rows, |row| [(row as f64).sin(), 0.1 + (row % 7) as f64])?;
        let mut sums = DVector::from_fn(session, features * bins, |_| [0.0f64; 2])?;
        let mut plain = vec![[0.0f64; 2]; features * bins];
        for round in 0..2 {
            let report = async_parallel_for!(0..rows, [bins, &binned, &gradient, sum sums], |row| {
                let [g, h] = gradient[row];
                for (f, &bin) in binned[row].iter().enumerate() {
                    if f % 2 == 0 {
                        sums[f * bins + usize::from(bin)][0] += g;
                        sums[f * bins + usize::from(bin)][1] += h;
                    } else {
                        sums.add(f * bins + usize::from(bin), [g, h]);
                    }
                }
            })?;
            assert_eq!((report.strategy(), report.reused()), (Strategy::Aligned, round > 0), "{report}");
            for row in 0..rows {
                for f in 0..features {
                    plain[f * bins + usize::from(bin(row, f))][0] += (row as f64).sin();
                    plain[f * bins + usize::from(bin(row, f))][1] += 0.1 + (row % 7) as f64;
                }
            }
        }
        for (ours, plain) in sums.to_vec()?.iter().flatten().zip(plain.iter().flatten()) {
            assert!((ours - plain).abs() < 1e-8 * plain.abs().max(1.0), "{ours} {plain}");
        }
        seen.record("sums", bits(sums.to_vec()?.into_iter().flatten()));
        Ok(())
    }

    pub(crate) fn types(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 4000;
        let mut small = DVector::from_fn(session, 10, |_| 0i16)?;
        let mut pairs = DVector::from_fn(session, 10, |k| (k as u32, [0i64; 3]))?;
        let mut floats = DVector::from_fn(session, 10, |_| (-0.0f32, 0.5f64))?;
        let mut by_key: DMap<u32, [f64; 2]> = DMap::from_entries(session, [(3, [1.0, 2.0])])?;
        async_parallel_for!(0..n as u32, [&mut small, sum pairs, sum floats, sum by_key], |i| {
            small[i % 10] += (i % 5) as i16 - 2;
            pairs[i % 9].0 += 1;
            pairs[i % 8].1[(i % 3) as usize] += 7 - i64::from(i);
            floats[i % 5].1 += f64::from(i) / 3.0;
            by_key.entry(i % 100).or_insert([0.0, 0.0])[1] += 0.1;
        })?;
        let mut plain = [(0i16, 0u32, [0i64; 3]); 10];
        (0..10).for_each(|k| plain[k].1 = k as u32);
        for i in 0..n {
            plain[i % 10].0 += (i % 5) as i16 - 2;
            plain[i % 9].1 += 1;
            plain[i % 8].2[i % 3] += 7 - i as i64;
        }
        let ours = small.to_vec()?.into_iter().zip(pairs.to_vec()?);
        assert_eq!(ours.map(|(a, (b, c))| (a, b, c)).collect::<Vec<_>>(), plain);
        // Where nothing is added no bits change.
        assert!(floats.iter()?.all(|(first, _)| first.to_bits() == (-0.0f32).to_bits()));
        assert_eq!((by_key.len()?, by_key.get(&3)?.unwrap()[0]), (100, 1.0));
        seen.record("floats", bits(floats.iter()?.map(|(_, x)| x)));
        seen.record("by key", by_key.digest()?);
        Ok(())
    }

    pub(crate) fn several_beside_others(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, len) = (30_000, 200);
        let edges = DVector::from_fn(session, n, |i| [below(i as u64, len) as u32, below(i as u64 + 5, len) as u32])?;
        for strategy in [None, Some(Strategy::Grid), Some(Strategy::Coloured), Some(Strategy::Serial)] {
            let mut rank = DVector::from_fn(session, len, |i| i as f64)?;
            let (mut degree, mut weight) =
                (DVector::from_fn(session, len, |_| 0u32)?, DVector::from_fn(session, 20, |_| 0.0)?);
            let moved = session.sum(0.0f64);
            let mut run = |n: usize| {
                let (edges, rank, degree, weight, moved) = (&edges, &mut rank, &mut degree, &mut weight, &moved);
                macro_rules! run {
                    ($($option:tt)*) => {
                        async_parallel_for!(0..n, [&edges, &mut rank, sum degree, sum weight, &moved], |i| {
                            let [a, b] = edges[i];
                            let step = 0.1 * (rank[a] - rank[b]);
                            rank[a] -= step;
                            rank[b] += step;
                            degree[a] += 1;
                            degree[b] += 1;
                            weight[a % 20] += step;
                            moved.add(step.abs());
                        }, $($option)*)
                    };
                }
                match strategy {
                    None => run!(),
                    Some(strategy) => run!(strategy = strategy),
                }
            };
            for _ in 0..2 {
                let report = run(n)?;
                seen.report("report", &report);
            }
            let mut plain = vec![0u32; len];
            for [a, b] in edges.iter()? {
                plain[a as usize] += 2;
                plain[b as usize] += 2;
            }
            assert_eq!(degree.to_vec()?, plain);
            seen.digest("rank", &rank)?;
            seen.digest("weight", &weight)?;
            seen.record("moved", moved.get().to_bits());
        }
        Ok(())
    }

    /// With `order = Preserve` the bits are the plain loop's.
    pub(crate) fn in_order(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 40_000;
        let at = DVector::from_fn(session, n, |i| below(i as u64, 50) as u32)?;
        let (mut counts, mut sums) =
            (DVector::from_fn(session, 50, |_| 1u32)?, DVector::from_fn(session, 50, |_| 0.1f32)?);
        let (mut plain_counts, mut plain_sums) = (counts.to_vec()?, sums.to_vec()?);
        let report = async_parallel_for!(0..n, [&at, &mut counts, sum sums], |i| {
            counts[at[i]] += 3;
            sums[at[i]] += (i as f32).sqrt();
        }, order = Preserve)?;
        for i in 0..n {
            plain_counts[below(i as u64, 50)] += 3;
            plain_sums[below(i as u64, 50)] += (i as f32).sqrt();
        }
        assert_eq!((counts.to_vec()?, bits32(sums.to_vec()?)), (plain_counts, bits32(plain_sums)));
        seen.report("report", &report);
        Ok(())
    }

    /// Where copies would cost more than the additions, these are ordered; in step with the loop they need neither.
    pub(crate) fn short_against_long(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let len = 60_000;
        let mut long = DVector::from_fn(session, len, |i| i as u64)?;
        let report = async_parallel_for!(0..3000, [sum long], |i| long[below(i as u64, 1000) * 7] += 1)?;
        assert!(report.reason().contains("`long` added up in tallies"), "{report}");
        assert_eq!(long.iter()?.sum::<u64>(), (0..len as u64).sum::<u64>() + 3000);
        seen.report("few", &report);
        let report = async_parallel_for!(0..len, [sum long], |i| long[i] += 1)?;
        assert!(!report.reason().contains("tallies"), "{report}");
        let few = async_parallel_for!(0..1, [sum long], |i| long[i] += 1)?;
        assert_eq!(few.strategy(), Strategy::Serial);
        async_parallel_for!(0..0, [sum long], |i| long[i] += 1)?;
        let mut none = DVector::from_vec(session, Vec::<u64>::new())?;
        let error = async_parallel_for!(0..5, [sum none], |i| none[i] += 1).unwrap_err();
        assert!(error.to_string().contains("`none[0]`, but `none` has 0 elements"), "{error}");
        seen.digest("long", &long)
    }

    /// Additions under a condition that holds for others in each call: no call needs another plan than the first.
    pub(crate) fn where_it_holds(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, len) = (20_000usize, 70_000usize);
        let at = DVector::from_fn(session, n, |i| [below(i as u64, len) as u32, below(i as u64 + 9, 200) as u32])?;
        let mut when = DVector::from_fn(session, n, |_| 1u32)?;
        let (mut counts, mut sums) =
            (DVector::from_fn(session, len, |_| 0i64)?, DVector::from_fn(session, len, |_| [0.5f32, -0.0])?);
        let mut none = DVector::from_fn(session, len, |_| 0.25f64)?;
        let (mut plain_counts, mut plain_sums) = (vec![0i64; len], vec![[0.5f64, -0.0]; len]);
        for round in 0..6u32 {
            // None at first, then a few, then all.
            let share = [0, 1, 3, 50, 100, 2][round as usize];
            async_parallel_for!(0..n, [share, &mut when], |i| when[i] = u32::from(below(i as u64 + 31, 100) < share))?;
            let report = async_parallel_for!(0..n, [len, &at, &when, sum counts, sum sums, sum none], |i| {
                let [far, near] = at[i];
                if when[i] == 1 {
                    counts[far] += i as i64 - 7000;
                    counts[near] += 1;
                    sums[len - 1 - far as usize][0] += 1.0 / (1 + i) as f32;
                    sums.add(near, [0.1, 0.2]);
                    if i == n_of_none() {
                        none[far] += 1.0;
                    }
                }
            })?;
            assert_eq!((report.reused(), report.misspeculations()), (round > 0, 0), "round {round}: {report}");
            assert_eq!(report.strategy(), Strategy::Aligned, "{report}");
            for i in (0..n).filter(|&i| below(i as u64 + 31, 100) < share) {
                let (far, near) = (below(i as u64, len), below(i as u64 + 9, 200));
                plain_counts[far] += i as i64 - 7000;
                plain_counts[near] += 1;
                plain_sums[len - 1 - far][0] += 1.0 / (1 + i) as f64;
                plain_sums[near][0] += 0.1;
                plain_sums[near][1] += 0.2;
            }
            assert_eq!(counts.to_vec()?, plain_counts, "round {round}");
            let numbers = |rows: &[[f64; 2]]| rows.concat();
            let ours: Vec<[f64; 2]> = sums.iter()?.map(|row| row.map(f64::from)).collect();
            let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-4 * b.abs().max(1.0);
            assert!(numbers(&ours).iter().zip(&numbers(&plain_sums)).all(close), "round {round}");
            // Where nothing was added no bits have changed.
            let untouched = ours.iter().zip(&plain_sums).filter(|(_, plain)| plain[1] == 0.0);
            assert!(untouched.clone().count() > 0 && untouched.clone().all(|(ours, _)| ours[1].is_sign_negative()));
            seen.record("sums", bits32(sums.iter()?.flatten()));
        }
        seen.digest("none", &none)?;
        seen.digest("counts", &counts)
    }

    fn n_of_none() -> usize {
        77
    }

    /// Loops that read, write and add to the same data, one after the other.
    pub(crate) fn again_and_again(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, len) = (10_000, 64);
        let mut at = DVector::from_fn(session, n, |i| below(i as u64, len) as u32)?;
        let (mut counts, mut plain) = (DVector::from_fn(session, len, |_| 0u64)?, vec![0u64; len]);
        let mut plain_at = at.to_vec()?;
        for round in 0..5u64 {
            async_parallel_for!(0..n, [&at, sum counts], |i| counts[at[i]] += 1)?;
            plain_at.iter().for_each(|&k| plain[k as usize] += 1);
            assert_eq!(counts.to_vec()?, plain, "round {round}");
            // What was counted says where to count next.
            async_parallel_for!(0..n, [len, &counts, &mut at], |i| at[i] =
                ((counts[at[i]] + i as u64) % len as u64) as u32)?;
            plain_at
                .iter_mut()
                .enumerate()
                .for_each(|(i, k)| *k = ((plain[*k as usize] + i as u64) % len as u64) as u32);
            async_parallel_for!(0..len, [round, &mut counts], |k| counts[k] = counts[k] / 2 + round)?;
            plain.iter_mut().for_each(|count| *count = *count / 2 + round);
            counts.set(3, 1000)?;
            plain[3] = 1000;
        }
        assert_eq!((counts.to_vec()?, at.to_vec()?), (plain, plain_at));
        seen.digest("counts", &counts)
    }

    pub(crate) fn failures(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 20_000;
        let at = DVector::from_fn(session, n, |i| below(i as u64, 100) as u32)?;
        let mut counts = DVector::from_fn(session, 100, |k| k as u64)?;
        let mut words: DMap<u32, u64> = DMap::from_entries(session, (0..50).map(|k| (k, 1)))?;
        let mut touched = DVector::from_fn(session, n, |_| false)?;
        let before = (counts.to_vec()?, words.digest()?, touched.to_vec()?);
        for (bad, how) in [(15_000usize, 0), (7, 1), (11_111, 2)] {
            let error = async_parallel_for!(0..n, [bad, how, &at, sum counts, sum words, &mut touched], |i| {
                counts[at[i]] += 1;
                *words.entry(at[i]).or_insert(0) += 1;
                touched[i] = true;
                match how {
                    0 if i == bad => return Err("no more"),
                    1 if i == bad => panic!("no more"),
                    2 if i == bad => counts[at[i] + 100] += 1,
                    _ => {}
                }
                Ok(())
            })
            .unwrap_err();
            let iteration = error.to_string();
            assert!(iteration.contains(&format!("iteration {bad}")), "{error}");
            assert_eq!((counts.to_vec()?, words.digest()?, touched.to_vec()?), before, "{error}");
        }
        async_parallel_for!(0..n, [&at, sum counts, sum words], |i| {
            counts[at[i]] += 1;
            *words.entry(at[i]).or_insert(0) += 1;
        })?;
        assert_eq!(counts.iter()?.sum::<u64>(), before.0.iter().sum::<u64>() + n as u64);
        assert_eq!(words.iter()?.map(|(_, count)| count).sum::<u64>(), 50 + n as u64);
        seen.digest("counts", &counts)?;
        seen.record("words", words.digest()?);
        Ok(())
    }

    pub(crate) fn whether_any_and_all(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 10_000usize;
        let x = DVector::from_fn(session, n, |i| below(i as u64, 1000) as u32)?;
        let (found, never, fine, not_fine) = (session.any(), session.any(), session.all(), session.all());
        for (order, call) in [(Order::Any, 0), (Order::Preserve, 1)] {
            async_parallel_for!(
                0..n,
                [&x, &found, &never, &fine, &not_fine],
                |i| {
                    found.or(x[i] == x[17]);
                    never.or(x[i] >= 1000);
                    fine.and(x[i] < 1000);
                    not_fine.and(i != 9_999);
                },
                order = order
            )?;
            assert_eq!((found.get(), never.get(), fine.get(), not_fine.get()), (true, false, true, false), "{call}");
        }
        not_fine.set(true);
        let failed = async_parallel_for!(0..n, [&not_fine], |i| {
            not_fine.and(false);
            if i == 5000 { Err("failed") } else { Ok(()) }
        });
        assert!(failed.is_err() && not_fine.get());
        seen.record("flags", (found, never, fine, not_fine));
        Ok(())
    }

    /// The least of what was seen, and where: a reduction of the program's own.
    #[derive(Clone, Copy, Debug, PartialEq, Element)]
    struct Least {
        value: f64,
        at: u64,
    }

    impl Additive for Least {
        const EXACT: bool = true;
        fn zero() -> Self {
            Least { value: f64::INFINITY, at: u64::MAX }
        }
        fn unite(&mut self, other: &Self) {
            if (other.value, other.at) < (self.value, self.at) {
                *self = *other;
            }
        }
    }

    pub(crate) fn of_a_type_of_its_own(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 30_000usize;
        let value = |i: usize| (below(i as u64, 5000) as f64 - 2500.0).powi(2);
        let x = DVector::from_fn(session, n, value)?;
        let mut least = DVector::from_fn(session, 1, |_| Least::zero())?;
        let mut of_class: DMap<u32, Least> = DMap::new(session)?;
        async_parallel_for!(0..n, [&x, sum least, sum of_class], |i| {
            let own = Least { value: x[i], at: i as u64 };
            least.add(0, own);
            of_class.add(&(i as u32 % 7), own);
        })?;
        let plain = |of: &dyn Fn(usize) -> bool| {
            let least = (0..n).filter(|&i| of(i)).min_by(|&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
            least.map(|i| Least { value: value(i), at: i as u64 })
        };
        assert_eq!(Some(least.get(0)?), plain(&|_| true));
        for class in 0..7 {
            assert_eq!(of_class.get(&class)?, plain(&|i| i as u32 % 7 == class));
        }
        seen.record("least", least.to_vec()?);
        Ok(())
    }
}
