//! What loops run over: integers of any type, backwards and in steps, as the plain loop does.

use crate::common::{below, bits};
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    over::integers_of_any_type,
    over::backwards_and_in_steps,
    over::negative_numbers,
    over::other_steps_at_one_place,
    over::nothing,
    over::pairs,
    over::elements
];

/// Runs over a range in the loop's own order, and over the same range plainly.
macro_rules! as_plainly {
    ($session:expr, $seen:expr, $($range:expr),* $(,)?) => {$({
        let mut x = DVector::from_fn($session, 97, |k| k as f64)?;
        let mut plain = x.to_vec()?;
        let mut own = DVector::from_fn($session, 97, |k| k as f64)?;
        let mut plain_own = own.to_vec()?;
        for _ in 0..2 {
            let report = async_parallel_for!($range, [&mut x], |i| {
                let at = below(i as u64, 97);
                x[at] = x[at] * 0.9 + i as f64;
                x[below(at as u64, 97)] += 1.0;
            }, order = Preserve)?;
            for i in $range {
                let at = below(i as u64, 97);
                plain[at] = plain[at] * 0.9 + i as f64;
                plain[below(at as u64, 97)] += 1.0;
            }
            assert_eq!(bits(x.to_vec()?), bits(plain.clone()), "{}", stringify!($range));
            assert_eq!(report.iterations(), ($range).count(), "{}", stringify!($range));
            $seen.report(stringify!($range), &report);
            // Each iteration with an element of its own, whose number it is.
            let report = async_parallel_for!($range, [&mut own, &x], |i| own[i] = own[i] / 2.0 + x[i])?;
            for i in $range {
                plain_own[i as usize] = plain_own[i as usize] / 2.0 + plain[i as usize];
            }
            assert_eq!(bits(own.to_vec()?), bits(plain_own.clone()), "{}", stringify!($range));
            assert_eq!(report.misspeculations(), 0, "{}", stringify!($range));
        }
    })*};
}

/// What must be the same everywhere.
pub(crate) mod over {
    use super::*;

    pub(crate) fn integers_of_any_type(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (a, z) = (3u8, 90u8);
        as_plainly!(session, seen, a..z, a..=z, 0..90u16, 5..=90u32, 0..97u64, 0..97usize);
        as_plainly!(session, seen, 0..90i8, 0..90i16, 3..=90i32, 0..97i64, 7..97isize);
        // The type is the plain loop's.
        let mut x = DVector::from_fn(session, 256, |_| 0u8)?;
        async_parallel_for!(0..=u8::MAX, [&mut x], |i| x[i] = i.wrapping_mul(3))?;
        assert_eq!(x.to_vec()?, (0..=u8::MAX).map(|i| i.wrapping_mul(3)).collect::<Vec<_>>());
        // It follows from the body, too.
        fn twice(i: u32) -> u32 {
            2 * i
        }
        let n = 200;
        let mut y = DVector::from_fn(session, 256, |_| 0u32)?;
        async_parallel_for!(0..n, [&mut y], |i| y[i] = twice(i))?;
        assert_eq!(y.to_vec()?[..201], (0..200).map(twice).chain([0]).collect::<Vec<_>>());
        seen.digest("y", &y)
    }

    pub(crate) fn backwards_and_in_steps(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, k) = (90usize, 7);
        as_plainly!(session, seen, (0..n).rev(), (0..=n).rev(), (3..90u8).rev(), (0..90).rev());
        as_plainly!(session, seen, (0..n).step_by(k), (1..=n).step_by(3), (2..90i32).step_by(2), (0..90).step_by(5));
        as_plainly!(session, seen, (0..n).step_by(k).rev(), (0..n).rev().step_by(k), (5..90u8).rev().step_by(11).rev());
        as_plainly!(session, seen, (0..3).step_by(100), (0..1).rev(), (0..2u64).step_by(2), (0..n).rev().rev());
        Ok(())
    }

    pub(crate) fn negative_numbers(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 50, |_| 0i64)?;
        for _ in 0..2 {
            async_parallel_for!((-25..25i32).rev(), [&mut x], |i| {
                x[i + 25] = x[i + 25].wrapping_mul(3) ^ i64::from(i);
            })?;
            async_parallel_for!((i64::MIN..i64::MIN + 50).step_by(3), [&mut x], |i| x[i - i64::MIN] ^= i)?;
        }
        let mut plain = vec![0i64; 50];
        for _ in 0..2 {
            (-25..25i64).rev().for_each(|i| plain[(i + 25) as usize] = plain[(i + 25) as usize].wrapping_mul(3) ^ i);
            (i64::MIN..i64::MIN + 50).step_by(3).for_each(|i| plain[(i - i64::MIN) as usize] ^= i);
        }
        assert_eq!(x.to_vec()?, plain);
        seen.digest("x", &x)
    }

    /// The same loop, with other steps each time: no plan of one serves the other.
    pub(crate) fn other_steps_at_one_place(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 600, |i| i as u64)?;
        let mut plain = x.to_vec()?;
        for step in [1, 3, 6, 3] {
            let report = async_parallel_for!(
                (0..100 * step).step_by(step),
                [step, &mut x],
                |i| {
                    let k = (i + step) % 600;
                    x[k] = x[k].wrapping_mul(3) ^ x[i];
                },
                order = Preserve
            )?;
            for i in (0..100 * step).step_by(step) {
                let k = (i + step) % 600;
                plain[k] = plain[k].wrapping_mul(3) ^ plain[i];
            }
            assert_eq!((report.iterations(), report.misspeculations()), (100, 0));
            assert_eq!(x.to_vec()?, plain, "{step}");
            seen.report("report", &report);
        }
        Ok(())
    }

    #[allow(clippy::reversed_empty_ranges)]
    pub(crate) fn nothing(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        as_plainly!(session, seen, (5..5usize).rev(), (9..3u32).step_by(4), (7..=6u8).rev(), 9..3i8, 5..=4u16);
        Ok(())
    }

    /// As two nested loops.
    #[allow(clippy::needless_range_loop, reason = "they are what it is compared with")]
    pub(crate) fn pairs(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (rows, columns) = (17u32, 12u8);
        let mut rates = DVector::from_fn(session, 17, |i| i as f64)?;
        let mut others = DVector::from_fn(session, 13, |j| 1.0 / (1.0 + j as f64))?;
        let (mut plain_rates, mut plain_others) = (rates.to_vec()?, others.to_vec()?);
        for step in [0.5, 0.25] {
            let report = async_parallel_for!(
                (2..rows, 1..=columns),
                [step, &mut rates, &mut others],
                |(i, j)| {
                    let by = step * (rates[i] - others[j]);
                    rates[i] -= by;
                    others[j] += by * f64::from(j) / f64::from(i);
                },
                order = Preserve
            )?;
            for i in 2..rows as usize {
                for j in 1..=usize::from(columns) {
                    let by = step * (plain_rates[i] - plain_others[j]);
                    plain_rates[i] -= by;
                    plain_others[j] += by * j as f64 / i as f64;
                }
            }
            assert_eq!((report.iterations(), report.misspeculations()), (15 * 12, 0));
            assert_eq!(bits(rates.to_vec()?), bits(plain_rates.clone()));
            assert_eq!(bits(others.to_vec()?), bits(plain_others.clone()));
            seen.report("report", &report);
        }
        // A matrix, by elements of it; pairs in a variable; none at all; and an iteration's number in an error.
        let mut table = DVector::from_fn(session, 6 * 4, |_| 0usize)?;
        let cells = (0..6usize, 0..4usize);
        let report = async_parallel_for!(cells, [&mut table], |(i, j)| table[4 * i + j] = 10 * i + j)?;
        assert_eq!(table.to_vec()?, (0..24).map(|k| 10 * (k / 4) + k % 4).collect::<Vec<_>>());
        assert_eq!(report.strategy(), Strategy::Aligned);
        async_parallel_for!((0..6, 3..3), [&mut table], |(i, j)| table[i + j] = 99)?;
        let error = async_parallel_for!((0..6, 0..4), [&mut table], |(i, j): (usize, usize)| table[i + 7 * j] = 0);
        assert!(matches!(error.unwrap_err(), stradsap::Error::IndexOutOfRange { iteration: 15, index: 24, .. }));
        seen.digest("table", &table)
    }

    /// The elements of another DVector are what the body is given.
    pub(crate) fn elements(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let order = DVector::from_fn(session, 300, |k| below(k as u64, 97) as u16)?;
        let edges = DVector::from_fn(session, 200, |k| (below(k as u64, 97) as u32, below(k as u64 + 9, 97) as i64))?;
        let (plain_order, plain_edges) = (order.to_vec()?, edges.to_vec()?);
        let mut x = DVector::from_fn(session, 97, |k| k as f64)?;
        let mut plain = x.to_vec()?;
        for at in [1u32, 2] {
            // (The body's own `order` and `at` are not the loop's.)
            let report = async_parallel_for!(
                &order,
                [at, &mut x],
                |i| {
                    let order = f64::from(at);
                    x[i] = x[i] * 0.5 + order;
                    x[(i + 1) % 97] -= 1.0;
                },
                order = Preserve
            )?;
            for &i in &plain_order {
                plain[usize::from(i)] = plain[usize::from(i)] * 0.5 + f64::from(at);
                plain[usize::from(i + 1) % 97] -= 1.0;
            }
            assert_eq!(bits(x.to_vec()?), bits(plain.clone()));
            seen.report("order", &report);
            let report = async_parallel_for!(&edges, [&mut x, &order], |(a, b)| {
                let (a, b) = (a, b as usize);
                if order[a] != order[b] {
                    let step = 0.1 * (x[a] - x[b]);
                    x[a] -= step;
                    x[b] += step;
                }
            })?;
            for k in report.serial_order() {
                let (a, b) = (plain_edges[k].0 as usize, plain_edges[k].1 as usize);
                if plain_order[a] != plain_order[b] {
                    let step = 0.1 * (plain[a] - plain[b]);
                    plain[a] -= step;
                    plain[b] += step;
                }
            }
            assert_eq!(bits(x.to_vec()?), bits(plain.clone()));
            seen.report("edges", &report);
        }
        // Through a reference and a field; each element once.
        struct Held<'h> {
            all: [&'h DVector<u16>; 1],
        }
        let held = Held { all: [&order] };
        let mut seen_once = DVector::from_fn(session, 97, |_| 0u32)?;
        let total = session.sum(0u64);
        async_parallel_for!(&held.all[0], [&mut seen_once, &total], |mut i: u16| {
            i /= 2;
            seen_once[i] |= 1;
            total.add(u64::from(i));
        })?;
        assert_eq!(total.get(), plain_order.iter().map(|i| u64::from(i / 2)).sum::<u64>());
        seen.digest("once", &seen_once)
    }
}
