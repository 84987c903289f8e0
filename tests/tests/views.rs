//! What bodies do with a DVector besides indexing it: the methods that slices have.

use crate::common::below;
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    bodies::index_by_any_integer,
    bodies::exchange_elements,
    bodies::find_what_is_there,
    bodies::go_through_all
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
        }
        Ok(())
    }
}

#[test]
fn on_1_2_and_4_threads() {
    for threads in [1, 2, 4] {
        let session = crate::common::session(threads);
        for scenario in SCENARIOS {
            (scenario.run)(&session, &mut Seen::default()).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
    }
}
