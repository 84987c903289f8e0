//! More elements, and more iterations, than 32 bits count. Most of this runs with `STRADSAP_LONG=1`.

use stradsap::Error;
use stradsap::prelude::*;

use crate::jobs::runner::{Test, long};
use crate::places::{self, ALONE, Expected, Place, at_servers, place};
use crate::seen::{Scenario, Seen};

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![beyond::ranges_far_from_zero, beyond::what_is_not_possible];

const LONG: &[Scenario] =
    crate::scenarios![bytes::iterations_that_only_count, bytes::in_step, bytes::out_of_step, bytes::operators];

pub(crate) fn tests() -> Vec<Test> {
    let expected = Expected::new(ALONE, Place::session);
    let mut tests = places::tests(&[ALONE, place(0, 3, 0), place(2, 1, 0)], &expected, 120, SCENARIOS);
    if long() {
        tests.extend(places::tests(&[place(0, 2, 0), place(2, 1, 0), at_servers(2, 1)], &expected, 1800, LONG));
    }
    tests
}

/// What 32 bits count with a bit to spare, and some more.
const MANY: usize = (1 << 31) + 1_000_000;

/// What is soon done.
mod beyond {
    use super::*;

    pub(crate) fn ranges_far_from_zero(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        const FIRST: usize = 1 << 40;
        let mut x = DVector::from_fn(session, 5000, |i| i as u64)?;
        for order in [Order::Any, Order::Preserve] {
            let report = async_parallel_for!(
                FIRST..FIRST + 5000,
                [&mut x],
                |i| {
                    let k = i - FIRST;
                    x[k] = x[k].wrapping_mul(3) + x[(k * 7 + 1) % 5000] + (i >> 38) as u64;
                },
                order = order
            )?;
            seen.report("far", &report);
        }
        seen.digest("x", &x)
    }

    pub(crate) fn what_is_not_possible(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 10, |i| i)?;
        let most = 1usize << 48;
        let error = async_parallel_for!(0..=most, [&mut x], |i| x[i % 10] += 1).unwrap_err();
        assert!(
            error.to_string().ends_with("281474976710657 iterations are too many: a loop has at most 281474976710656"),
            "{error}"
        );
        let pairs = (1 << 16) + 1;
        let error = async_parallel_for!((0..pairs, 0..1usize << 16), [&mut x], |(i, j)| x[(i + j) % 10] += 1);
        assert!(error.unwrap_err().to_string().ends_with("a loop has at most 4294967295"));
        // They share elements, and can't be listed: they run one after the other, and here the sixth fails.
        let mut y = DVector::from_fn(session, 5, |_| 0u8)?;
        let error = async_parallel_for!(0..1u64 << 33, [&mut y], |i| y[i as usize % 7] = 1).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { dds: "y", index: 5, iteration: 5, len: 5, .. }), "{error}");
        assert_eq!(y.to_vec()?, [0; 5]);
        seen.record("x", x.to_vec()?);
        Ok(())
    }
}

/// What takes minutes, or 2 GiB a copy.
mod bytes {
    use super::*;

    fn of(i: usize) -> u8 {
        (i % 251) as u8
    }

    fn made(session: &Session) -> stradsap::Result<DVector<u8>> {
        session.range(MANY).map(|i| (*i % 251) as u8).collect()
    }

    pub(crate) fn iterations_that_only_count(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = (1u64 << 32) + 5;
        let found = session.count();
        let report = async_parallel_for!(0..n, [&found], |i| {
            if i & 0xff_ffff == 3 {
                found.add(1);
            }
        })?;
        assert_eq!((report.iterations() as u64, found.get()), (n, 257));
        seen.record("strategy", report.strategy());
        // The last few of very many, backwards and in steps.
        let total = session.sum(0u64);
        async_parallel_for!((0..1u64 << 33).rev().step_by(1 << 30), [&total], |i| total.add(i))?;
        seen.record("total", total.get());
        Ok(())
    }

    pub(crate) fn in_step(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = made(session)?;
        let total = session.sum(0u64);
        let report = async_parallel_for!(0..MANY, [&mut x, &total], |i| {
            total.add(u64::from(x[i]));
            x[i] = x[i].wrapping_mul(3);
        })?;
        assert_eq!((report.strategy(), report.misspeculations()), (Strategy::Aligned, 0));
        assert_eq!(total.get(), (0..MANY).map(|i| u64::from(of(i))).sum::<u64>());
        let mut y = made(session)?;
        async_parallel_for!(1..MANY - 1, [&x, &mut y], |i| y[i] = x[i - 1] ^ x[i + 1])?;
        for i in [1, 2, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, MANY - 2] {
            let (before, after) = (of(i - 1).wrapping_mul(3), of(i + 1).wrapping_mul(3));
            assert_eq!(y.get(i)?, before ^ after, "{i}");
        }
        assert_eq!((y.get(0)?, y.get(MANY - 1)?), (of(0), of(MANY - 1)));
        seen.digest("y", &y)
    }

    pub(crate) fn out_of_step(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = made(session)?;
        let place = |i: usize| i.wrapping_mul(7_368_787_561) % MANY;
        let mut plain: std::collections::BTreeMap<usize, u8> = std::collections::BTreeMap::new();
        for n in [500, 200_000usize] {
            let report = async_parallel_for!(0..n, [&mut x], |i| {
                let at = i.wrapping_mul(7_368_787_561) % MANY;
                let next = (i / 3).wrapping_mul(7_368_787_561) % MANY;
                x[at] = x[at].wrapping_add(x[next]).wrapping_add(1);
            })?;
            for i in 0..n {
                let next = place(i / 3);
                let next = plain.get(&next).copied().unwrap_or(of(next));
                let at = plain.entry(place(i)).or_insert_with(|| of(place(i)));
                *at = at.wrapping_add(next).wrapping_add(1);
            }
            assert_eq!(report.strategy(), Strategy::Serial, "{}", report.reason());
            assert!(report.reason().contains("more than a plan can list"), "{}", report.reason());
        }
        for (&at, &value) in plain.iter().step_by(1000) {
            assert_eq!(x.get(at)?, value, "{at}");
        }
        seen.digest("x", &x)
    }

    pub(crate) fn operators(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let x = made(session)?;
        let few = x.enumerate().filter(|(i, _)| i % 10_000_019 == 7).map(|(i, v)| (*i, *v)).collect()?;
        let expected: Vec<_> = (7..MANY).step_by(10_000_019).map(|i| (i, of(i))).collect();
        assert_eq!(few.to_vec()?, expected);
        seen.record("sum", x.map(|v| u64::from(*v)).reduce(|a, b| a + b)?);
        let folder = tempfile::tempdir_in(places::on_the_disk()).unwrap();
        let mut checkpoints = stradsap::Checkpoints::new(folder.path(), 1)?;
        checkpoints.save(1, &(), &[("x", &x)])?;
        checkpoints.finish()?;
        drop(x);
        let again: DVector<u8> = checkpoints.resume()?.unwrap().vector(session, "x")?;
        assert_eq!(again.get(MANY - 1)?, of(MANY - 1));
        seen.digest("again", &again)
    }
}
