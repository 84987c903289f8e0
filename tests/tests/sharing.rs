//! How work is shared out, wherever it is: by `grain`, by `parts`, and where iterations are long.

use crate::common::{below, bits};
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    shares::of_so_many_iterations,
    shares::in_so_many_parts,
    shares::of_long_iterations,
    shares::by_a_clock_of_what_strays,
];

/// What must be the same everywhere.
pub(crate) mod shares {
    use super::*;

    pub(crate) fn of_so_many_iterations(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, len) = (5000, 300);
        for grain in [1, 40, 3000] {
            let at = DVector::from_fn(session, n, |i| below(i as u64, len) as u32)?;
            let mut x = DVector::from_fn(session, len, |i| i as f64)?;
            let sum = session.sum(0.1);
            let report = async_parallel_for!(
                0..n,
                [&at, &mut x, &sum],
                |i| {
                    x[at[i]] = x[at[i]] * 0.9 + i as f64;
                    sum.add(x[at[i]]);
                },
                grain = grain
            )?;
            let mut plain: Vec<f64> = (0..len).map(|i| i as f64).collect();
            for i in report.serial_order() {
                let k = below(i as u64, len);
                plain[k] = plain[k] * 0.9 + i as f64;
            }
            assert_eq!(bits(x.to_vec()?), bits(plain), "{report}");
            seen.report("report", &report);
            seen.digest("x", &x)?;
            seen.record("sum", sum.get().to_bits());
        }
        Ok(())
    }

    pub(crate) fn in_so_many_parts(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 5000, |i| i as u64)?;
        let before = x.to_vec()?;
        // Each iteration touches many parts, which no other does: each would be a block.
        let refused = async_parallel_for!(
            0..100_000,
            [&mut x],
            |i| (0..8).for_each(|k| x[below(8 * i as u64 + k, 5000)] += 1),
            parts = 64
        )
        .unwrap_err();
        assert!(refused.to_string().contains("`parts = 64` isn't possible"), "{refused}");
        assert_eq!(x.to_vec()?, before);
        // Each with the one before: a chain, cut into parts all the same.
        let report = async_parallel_for!(1..5000, [&mut x], |i| x[i] += x[i - 1], parts = 4, order = Preserve)?;
        assert_eq!(report.strategy(), Strategy::Grid);
        assert_eq!(x.to_vec()?, (0..5000u64).map(|i| i * (i + 1) / 2).collect::<Vec<_>>());
        seen.report("report", &report);
        Ok(())
    }

    pub(crate) fn of_long_iterations(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        fn long(i: usize) -> f64 {
            (0..20_000).fold(i as f64, |x, k| (x + f64::from(k)).sqrt())
        }
        let mut x = DVector::from_fn(session, 40, |_| 0.0f64)?;
        let (sum, count) = (session.sum(0.1f64), session.count());
        for _ in 0..2 {
            let report = async_parallel_for!(0..40, [&mut x, &count], |i| {
                x[i] += long(i);
                count.add(1);
            })?;
            assert!(report.blocks() >= 32, "{report}");
            async_parallel_for!(0..40, [&x, &sum], |i| sum.add(x[i] + long(i)))?;
        }
        seen.digest("x", &x)?;
        seen.record("totals", (sum.get().to_bits(), count.get()));
        Ok(())
    }

    /// What iterations touch changes between calls. Whether that counts as straying follows from the data, not from how long
    /// they take.
    pub(crate) fn by_a_clock_of_what_strays(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 40;
        let mut told = [Seen::default(), Seen::default()];
        for (told, rounds) in told.iter_mut().zip([0u32, 20_000]) {
            let mut from = DVector::from_fn(session, n, |i| i as u32)?;
            let mut x = DVector::from_fn(session, n, |i| i as f64)?;
            for call in 0..5 {
                let mut plain = x.to_vec()?;
                let report = async_parallel_for!(0..n, [rounds, &from, &mut x], |i| {
                    let other = x[from[i]];
                    let nothing = 0.0 * (0..rounds).fold(other, |x, k| (x + f64::from(k)).sqrt());
                    x[i] = 0.5 * x[i] + other + nothing;
                })?;
                let shift = if call < 2 { 0 } else { 7 };
                for i in report.serial_order() {
                    plain[i] = 0.5 * plain[i] + plain[(i + shift) % n];
                }
                assert_eq!(bits(x.to_vec()?), bits(plain), "call {call}: {report}");
                told.report("strays", &report);
                told.digest("x", &x)?;
                if call == 1 {
                    async_parallel_for!(0..n, [n, &mut from], |i| from[i] = ((i + 7) % n) as u32)?;
                }
            }
        }
        assert_eq!(told[0], told[1]);
        seen.0.extend(told.into_iter().flat_map(|told| told.0));
        Ok(())
    }
}
