//! What bodies do with a DVector besides indexing it: the methods that slices have.

use crate::common::below;
use crate::seen::{Scenario, Seen, without_worker};
use std::ops::AddAssign;
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    bodies::index_by_any_integer,
    bodies::exchange_elements,
    bodies::find_what_is_there,
    bodies::change_what_is_there,
    bodies::go_through_maps,
    bodies::say_which_index,
    bodies::go_through_all,
    bodies::look_at_neighbours,
    bodies::write_beside,
    bodies::smooth_in_place,
    bodies::reach_over_the_end,
    bodies::go_farther_now_and_then
];

const STRATEGIES: [Strategy; 3] = [Strategy::Grid, Strategy::Coloured, Strategy::Serial];

/// What must be the same everywhere.
pub(crate) mod bodies {
    use super::*;

    pub(crate) fn index_by_any_integer(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 12, |i| i as u64)?;
        let totals = session.relaxed_vector(vec![0u64; 12]);
        async_parallel_for!(0..12u8, [&mut x, &totals], |i| {
            totals.add(i, 1);
            let own = totals[i] + totals[usize::from(i)] + totals[i64::from(i)];
            x[i] += own;
            for k in 0..3 {
                assert!(x[k] < 100 && totals[k] < 2);
            }
        })?;
        assert_eq!(x.to_vec()?, (0..12).map(|i| i + 3).collect::<Vec<_>>());
        async_parallel_for!(0..1, [&mut x], |_| {
            let (a, b) = x.pair_mut(0u8, 11u64);
            std::mem::swap(a, b);
            let (a, b) = x.pair_mut(1, 10usize);
            std::mem::swap(a, b);
            let [a, b, c] = x.many_mut([2i16, 3, 4]);
            (*a, *b, *c) = (*b, *c, *a);
            x[5u16] = x[6i8] + x[7u32] + x[8isize] + x[9];
        })?;
        assert_eq!(x.to_vec()?, [14, 13, 6, 7, 5, 9 + 10 + 11 + 12, 9, 10, 11, 12, 4, 3]);
        seen.digest("x", &x)
    }

    /// Elements at fixed distances, on both sides and at both ends, beside such at a distance that is a value.
    pub(crate) fn look_at_neighbours(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for n in [1usize, 2, 3, 64, 5000, 70_000] {
            let w = n / 3;
            let from = DVector::from_fn(session, n, |i| below(i as u64, 1000) as f32)?;
            let names = DVector::from_fn(session, n, |i| i.to_string())?;
            let mut to = DVector::from_fn(session, n, |i| i as f32)?;
            let mut longer = DVector::from_fn(session, n, |_| String::new())?;
            let sum = session.sum(0u64);
            let (v, mut plain) = (from.to_vec()?, to.to_vec()?);
            for _ in 0..2 {
                async_parallel_for!(0..n, [n, w, &from, &names, &mut to, &mut longer, &sum], |i| {
                    if i == 0 || i + 2 >= n {
                        to[i] -= 1.0;
                        return;
                    }
                    to[i] += 0.5 * from[i] + 0.25 * (from[i - 1] + from[1 + i]) - from[i + 2];
                    if i >= w && i + w < n {
                        to[i] += from[i - w] * from[i + w];
                    }
                    sum.add(from[i + 1] as u64);
                    let both = format!("{}{}", names[i - 1], names[i + 1]);
                    longer[i] = both;
                })?;
                for i in 0..n {
                    if i == 0 || i + 2 >= n {
                        plain[i] -= 1.0;
                        continue;
                    }
                    plain[i] += 0.5 * v[i] + 0.25 * (v[i - 1] + v[1 + i]) - v[i + 2];
                    if i >= w && i + w < n {
                        plain[i] += v[i - w] * v[i + w];
                    }
                }
            }
            assert_eq!(to.to_vec()?, plain, "{n}");
            assert!((1..n.saturating_sub(2)).all(|i| longer.get(i).unwrap() == format!("{}{}", i - 1, i + 1)));
            seen.digest("to", &to)?;
            seen.record("sum", sum.get());
        }
        Ok(())
    }

    /// An iteration writes the element after its own number alone, or that and its own.
    pub(crate) fn write_beside(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 20_000usize;
        let mut x = DVector::from_fn(session, n + 1, |i| i as u64)?;
        async_parallel_for!(0..n, [&mut x], |i| x[i + 1] = 3 * i as u64)?;
        assert!((0..n).all(|i| x.get(i + 1).unwrap() == 3 * i as u64));
        let mut plain = x.to_vec()?;
        for strategy in STRATEGIES {
            async_parallel_for!(
                (0..n).step_by(2),
                [&mut x],
                |i| {
                    let old = x[i];
                    x[i] = x[i + 1];
                    x[i + 1] = old + 1;
                },
                strategy = strategy
            )?;
            for i in (0..n).step_by(2) {
                (plain[i], plain[i + 1]) = (plain[i + 1], plain[i] + 1);
            }
        }
        assert_eq!(x.to_vec()?, plain);
        seen.digest("x", &x)
    }

    /// What iterations write their neighbours read, in the loop's order.
    pub(crate) fn smooth_in_place(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (n, strategy) in [30_000usize, 500].into_iter().flat_map(|n| STRATEGIES.map(|strategy| (n, strategy))) {
            let weights = DVector::from_fn(session, n, |i| 1.0 / (1 + i % 7) as f64)?;
            let mut x = DVector::from_fn(session, n, |i| (i % 13) as f64)?;
            let mut seen_before = DVector::from_fn(session, n, |_| 0.0f64)?;
            let mut plain = x.to_vec()?;
            for _ in 0..2 {
                async_parallel_for!(
                    1..n - 1,
                    [&weights, &mut x, &mut seen_before],
                    |i| {
                        seen_before[i] += x[i];
                        x[i] = weights[i] * (x[i - 1] + x[i + 1]) + weights[i - 1] * x[i];
                    },
                    order = Preserve,
                    strategy = strategy
                )?;
                for i in 1..n - 1 {
                    let weight = |i: usize| 1.0 / (1 + i % 7) as f64;
                    plain[i] = weight(i) * (plain[i - 1] + plain[i + 1]) + weight(i - 1) * plain[i];
                }
            }
            assert_eq!(x.to_vec()?, plain, "{n} {strategy:?}");
            seen.digest("x", &x)?;
            seen.digest("before", &seen_before)?;
        }
        Ok(())
    }

    /// The last iteration's neighbour isn't there: an error that names it, and nothing has changed.
    pub(crate) fn reach_over_the_end(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for n in [5usize, 40_000] {
            let from = DVector::from_fn(session, n, |i| i as u64)?;
            let mut to = DVector::from_fn(session, n, |_| 1u64)?;
            let error = async_parallel_for!(0..n, [&from, &mut to], |i| to[i] = from[i + 1]).unwrap_err().to_string();
            assert!(error.contains(&n.to_string()), "{error}");
            let under = async_parallel_for!(0..n, [&from, &mut to], |i| to[i] = from[i.wrapping_sub(1)]).unwrap_err();
            assert!(to.to_vec()?.iter().all(|&value| value == 1), "{under}");
            seen.record("error", error);
        }
        Ok(())
    }

    /// A distance that the recording saw nowhere near as large.
    pub(crate) fn go_farther_now_and_then(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 40_000usize;
        let far = DVector::from_fn(session, n, |i| if i % 9973 == 7 { 100u32 } else { 1 })?;
        let mut x = DVector::from_fn(session, n, |i| i as u64)?;
        let mut plain = x.to_vec()?;
        for _ in 0..2 {
            async_parallel_for!(
                0..n,
                [n, &far, &mut x],
                |i| {
                    let d = far[i] as usize;
                    if i + d < n {
                        x[i] = x[i].wrapping_mul(3) ^ x[i + d];
                    }
                },
                order = Preserve
            )?;
            for i in 0..n {
                let d = if i % 9973 == 7 { 100 } else { 1 };
                if i + d < n {
                    plain[i] = plain[i].wrapping_mul(3) ^ plain[i + d];
                }
            }
        }
        assert_eq!(x.to_vec()?, plain);
        seen.digest("x", &x)
    }

    pub(crate) fn exchange_elements(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in STRATEGIES {
            let mut x = DVector::from_fn(session, 60, |i| i as u64)?;
            let mut texts = DVector::from_fn(session, 60, |i| i.to_string())?;
            let (mut plain, mut plain_texts) = (x.to_vec()?, texts.to_vec()?);
            for _ in 0..2 {
                let report = async_parallel_for!(
                    0..300u32,
                    [&mut x, &mut texts],
                    |i| {
                        // Now and then an element with itself.
                        let (a, b) = (below(u64::from(i / 2), 60), below(u64::from(i.div_ceil(2)), 60));
                        x.swap(a, b);
                        texts.swap(b, a as u32);
                        x[a] += u64::from(i);
                    },
                    strategy = strategy,
                    parts = 3
                )?;
                assert_eq!(report.strategy(), strategy);
                for i in report.serial_order() {
                    let (a, b) = (below(i as u64 / 2, 60), below((i as u64).div_ceil(2), 60));
                    plain.swap(a, b);
                    plain_texts.swap(b, a);
                    plain[a] += i as u64;
                }
                assert_eq!((x.to_vec()?, texts.to_vec()?), (plain.clone(), plain_texts.clone()), "{strategy}");
                seen.report("report", &report);
            }
        }
        let mut x = DVector::from_fn(session, 10, |i| i)?;
        for (a, b) in [(3, 10usize), (10, 3), (10, 10)] {
            let error = async_parallel_for!(0..2, [a, b, &mut x], |_| x.swap(a, b)).unwrap_err();
            assert!(matches!(error, stradsap::Error::IndexOutOfRange { index: 10, len: 10, .. }), "{error:?}");
        }
        assert_eq!(x.to_vec()?, (0..10).collect::<Vec<_>>());
        Ok(())
    }

    pub(crate) fn find_what_is_there(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in STRATEGIES {
            let x = DVector::from_fn(session, 50, |i| i as u64)?;
            let mut y = DVector::from_fn(session, 80, |i| i as u64)?;
            let mut plain = y.to_vec()?;
            let report = async_parallel_for!(
                0..100,
                [&x, &mut y],
                |i| {
                    let next = y.get(i + 1).copied().unwrap_or(7);
                    if let (Some(&of_x), None) = (x.get(i as u32), x.get(i as i64 - 200)) {
                        y[i] = y[i] * 3 + of_x + next;
                    } else if y.get(i).is_some() {
                        y[i] += 1;
                    }
                },
                order = Preserve,
                strategy = strategy,
                parts = 3
            )?;
            for i in 0..100usize {
                let next = plain.get(i + 1).copied().unwrap_or(7);
                if i < 50 {
                    plain[i] = plain[i] * 3 + i as u64 + next;
                } else if i < 80 {
                    plain[i] += 1;
                }
            }
            assert_eq!(y.to_vec()?, plain, "{strategy}");
            seen.report("report", &report);
        }
        Ok(())
    }

    /// As the methods of slices do, of vectors with elements and without.
    pub(crate) fn change_what_is_there(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for n in [0usize, 1, 40] {
            let x = DVector::from_fn(session, n, |i| i as u64 + 5)?;
            let mut texts = DVector::from_fn(session, n, |i| i.to_string())?;
            let links = DMultiMap::from_pairs(session, (0..n as u64).map(|i| (i / 2, i)))?;
            let mut plain = texts.to_vec()?;
            async_parallel_for!(0..60, [n, &x, &links, &mut texts], |i| {
                let ends = x.first().zip(x.last()).map_or(0, |(first, last)| first + last);
                let linked: u64 = links.get(&(i as u64)).iter().sum();
                match texts.get_mut(i) {
                    Some(text) => *text += &format!(" {ends} {linked}"),
                    None => assert!(i >= n),
                }
            })?;
            async_parallel_for!(0..2, [&mut texts], |i| {
                for text in &mut texts {
                    *text += &format!(" {i} {}", text.len());
                }
            })?;
            let mut numbers = DVector::from_fn(session, n, |i| i as f32)?;
            async_parallel_for!(0..3, [n, &mut numbers], |i| {
                for (k, number) in (&mut numbers).into_iter().enumerate().skip(i) {
                    *number = 0.5 * *number + k as f32;
                }
                if let Some(first) = numbers.first().copied() {
                    numbers[i % n] += first;
                }
            })?;
            let mut expected: Vec<f32> = (0..n).map(|i| i as f32).collect();
            for i in 0..3 {
                for (k, number) in expected.iter_mut().enumerate().skip(i) {
                    *number = 0.5 * *number + k as f32;
                }
                if let Some(first) = expected.first().copied() {
                    expected[i % n] += first;
                }
            }
            assert_eq!(numbers.to_vec()?, expected);
            let ends = if n == 0 { 0 } else { 5 + n as u64 + 4 };
            for (k, text) in plain.iter_mut().enumerate() {
                let linked: u64 = (0..n as u64).filter(|i| i / 2 == k as u64).sum();
                *text += &format!(" {ends} {linked}");
                for i in 0..2 {
                    *text += &format!(" {i} {}", text.len());
                }
            }
            assert_eq!(texts.to_vec()?, plain);
            seen.digest("texts", &texts)?;
        }
        Ok(())
    }

    pub(crate) fn go_through_maps(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for n in [0u64, 1, 700] {
            let weights = DMap::from_entries(session, (0..n).map(|i| (i * 3, (i as f64).sqrt())))?;
            let mut x = DVector::from_fn(session, 50, |_| (0u64, 0.0f64, 0.0f64))?;
            async_parallel_for!(0..50u64, [&weights, &mut x], |i| {
                x[i].0 = weights.keys().filter(|key| *key % 7 == i % 7).sum();
                x[i].1 = weights.values().sum();
                for (key, weight) in &weights {
                    x[i].2 += weight * (key % (i + 1)) as f64;
                }
            })?;
            let entries = weights.to_vec()?;
            for (i, (keys, values, both)) in (0u64..).zip(x.to_vec()?) {
                assert_eq!(keys, entries.iter().map(|(key, _)| *key).filter(|key| key % 7 == i % 7).sum::<u64>());
                assert_eq!(values.to_bits(), entries.iter().map(|(_, weight)| weight).sum::<f64>().to_bits());
                let expected = entries.iter().fold(0.0, |sum, (key, weight)| sum + weight * (key % (i + 1)) as f64);
                assert_eq!(both.to_bits(), expected.to_bits());
            }
            seen.digest("x", &x)?;
        }
        Ok(())
    }

    /// Errors name what the body wrote, and where.
    pub(crate) fn say_which_index(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 10, |i| i as i64)?;
        let error = async_parallel_for!(0..10, [&mut x], |i| x[i as i64 - 1] += 1).unwrap_err().to_string();
        assert!(error.ends_with("iteration 0 uses `x[-1]`, but `x` has 10 elements"), "{error}");
        let twice = async_parallel_for!(0..10, [&mut x], |i| x.pair_mut(i, i).0.add_assign(1)).unwrap_err().to_string();
        let inverted = async_parallel_for!(0..10, [&mut x], |i| x[i + 1..i].fill(0)).unwrap_err().to_string();
        for error in [twice, inverted] {
            seen.record("error", without_worker(session, &error));
            assert!(error.contains("views.rs") && !error.contains("view.rs"), "{error}");
        }
        assert_eq!(x.to_vec()?, (0..10).collect::<Vec<_>>());
        Ok(())
    }

    pub(crate) fn go_through_all(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let table = DVector::from_fn(session, 40, |i| i as u64 * 5)?;
        let mut x = DVector::from_fn(session, 30, |i| i as u64)?;
        let mut plain = x.to_vec()?;
        for _ in 0..2 {
            let report = async_parallel_for!(0..30, [&table, &mut x], |i| {
                assert_eq!(table.iter().len(), 40);
                for element in &table {
                    x[i] = x[i].wrapping_mul(3) + element;
                }
                x[i] = table.iter().rev().skip(i).fold(x[i], |all, element| all.wrapping_mul(7) ^ element);
            })?;
            assert_eq!(report.strategy(), Strategy::Aligned);
            for (i, x) in plain.iter_mut().enumerate() {
                (0..40).for_each(|k| *x = x.wrapping_mul(3) + k * 5);
                *x = (0..40).rev().skip(i).fold(*x, |all, k| all.wrapping_mul(7) ^ (k * 5));
            }
            assert_eq!(x.to_vec()?, plain);
            // Each iteration reads what all wrote before it.
            let report = async_parallel_for!(
                0..30,
                [&mut x],
                |i| {
                    let sum = x.iter().fold(0u64, |sum, element| sum.wrapping_add(*element));
                    let mut other = 0u64;
                    for element in &x {
                        other ^= element;
                    }
                    x[i] = sum ^ other;
                },
                order = Preserve
            )?;
            for i in 0..30 {
                let sum = plain.iter().fold(0u64, |sum, element| sum.wrapping_add(*element));
                plain[i] = sum ^ plain.iter().fold(0, |other, element| other ^ element);
            }
            assert_eq!(x.to_vec()?, plain);
            seen.report("report", &report);
            // By themselves, as references are gone through.
            let weights = DMap::from_entries(session, (0..20u64).map(|i| (i, i * i)))?;
            let mut all = DVector::from_fn(session, 3, |_| 0u64)?;
            async_parallel_for!(0..3, [&table, &weights, &mut all], |i| {
                let mut sum = 0;
                for element in table {
                    sum += element;
                }
                for (key, weight) in weights {
                    sum ^= key * weight;
                }
                all[i] = sum;
            })?;
            let sum: u64 = (0..40).map(|k| k * 5).sum();
            assert_eq!(all.to_vec()?, [(0..20).fold(sum, |sum, k| sum ^ (k * k * k)); 3]);
            async_parallel_for!(0..1, [&mut all], |_i| {
                for element in all {
                    *element += 1;
                }
            })?;
            assert_eq!(all.get(2)?, (0..20).fold(sum, |sum, k| sum ^ (k * k * k)) + 1);
        }
        Ok(())
    }
}
