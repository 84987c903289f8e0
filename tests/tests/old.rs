//! `x.old`: what a loop writes, as it was before the loop.

use crate::common::{below, bits};
use crate::seen::{Alone, Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    before::jacobi_in_one_vector,
    before::ranks_of_pages,
    before::labels_of_neighbours,
    before::elements_of_every_kind,
    before::every_way_to_read,
    before::changes_between_calls,
    before::failures_leave_no_trace,
    before::failures_over_numbers,
    before::patterns_that_change,
    before::beside_additions,
    before::pivots_of_an_elimination,
    before::several_loops_and_names,
];

/// Tests that need no workers.
pub(crate) const ALONE: &[Alone] = crate::alone![copies_go_with_their_vectors, a_clone_that_panics_is_the_loops_error];

/// What must be the same everywhere.
pub(crate) mod before {
    use super::*;

    pub(crate) fn jacobi_in_one_vector(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (n, order) in [(5000, Order::Any), (5000, Order::Preserve), (2, Order::Any), (3, Order::Any)] {
            let mut plain: Vec<f64> = (0..n).map(|i| below(i as u64, 100) as f64).collect();
            let mut x = DVector::from_vec(session, plain.clone())?;
            for sweep in 0..5 {
                let report = async_parallel_for!(
                    1..n - 1,
                    [&mut x],
                    |i| x[i] = 0.25 * x.old[i - 1] + 0.5 * x[i] + 0.25 * x.old[i + 1],
                    order = order
                )?;
                let old = plain.clone();
                (1..n - 1).for_each(|i| plain[i] = 0.25 * old[i - 1] + 0.5 * old[i] + 0.25 * old[i + 1]);
                assert_eq!(bits(x.to_vec()?), bits(plain.clone()), "sweep {sweep}");
                assert_eq!((report.reused(), report.misspeculations()), (sweep > 0, 0));
                assert!(n < 5000 || report.strategy() == Strategy::Aligned, "{report}");
                seen.report("sweep", &report);
            }
        }
        Ok(())
    }

    /// Hubs that everybody reads, and that are written, too.
    pub(crate) fn ranks_of_pages(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 2000;
        let to = |v: usize, k: usize| if k == 0 { v % 3 } else { below((5 * v + k) as u64, n) };
        let links = DVector::from_fn(session, n, |v| std::array::from_fn::<u32, 4, _>(|k| to(v, k) as u32))?;
        let mut plain = vec![1.0; n];
        let mut rank = DVector::from_vec(session, plain.clone())?;
        for _ in 0..4 {
            let report = async_parallel_for!(0..n, [n, &links, &mut rank], |v| {
                let from = links[v].iter().map(|&u| rank.old[u]).sum::<f64>();
                rank[v] = 0.15 / n as f64 + 0.85 * from / 4.0;
            })?;
            assert_eq!((report.strategy(), report.misspeculations()), (Strategy::Aligned, 0));
            let old = plain.clone();
            for v in 0..n {
                plain[v] = 0.15 / n as f64 + 0.85 * (0..4).map(|k| old[to(v, k)]).sum::<f64>() / 4.0;
            }
            assert_eq!(bits(rank.to_vec()?), bits(plain.clone()));
            seen.report("ranks", &report);
        }
        Ok(())
    }

    pub(crate) fn labels_of_neighbours(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 600;
        let beside = |v: usize| -> Vec<u32> { (0..1 + v % 4).map(|k| below((7 * v + k) as u64, n) as u32).collect() };
        let neighbours = DVector::from_fn(session, n, beside)?;
        let mut plain: Vec<String> = (0..n).map(|v| format!("label {}", below(v as u64, 900))).collect();
        let mut label = DVector::from_vec(session, plain.clone())?;
        for _ in 0..3 {
            async_parallel_for!(0..n, [&neighbours, &mut label], |v| {
                let least = neighbours[v].iter().map(|&u| &label.old[u]).min().unwrap();
                if *least < label[v] {
                    label[v] = least.clone();
                }
            })?;
            let old = plain.clone();
            for (v, own) in plain.iter_mut().enumerate() {
                let least = beside(v).into_iter().map(|u| &old[u as usize]).min().unwrap();
                *own = own.clone().min(least.clone());
            }
            assert_eq!(label.to_vec()?, plain);
        }
        seen.digest("label", &label)
    }

    #[derive(Clone, Debug, PartialEq, Element)]
    struct Node {
        name: String,
        weights: Vec<f32>,
        next: Option<u32>,
    }

    #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, Element)]
    #[element(serde)]
    enum Kind {
        Leaf,
        Inner { children: Vec<u8> },
    }

    /// Each element takes the one before it.
    fn shift<T: stradsap::Element + PartialEq + std::fmt::Debug>(
        session: &Session,
        seen: &mut Seen,
        make: impl Fn(usize) -> T,
    ) -> stradsap::Result<()> {
        let n = 300;
        let mut plain: Vec<T> = (0..n).map(make).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        for _ in 0..3 {
            async_parallel_for!(0..n, [n, &mut x], |i| x[i] = x.old[(i + n - 1) % n].clone())?;
            plain.rotate_right(1);
            assert_eq!(x.to_vec()?, plain);
        }
        seen.digest("shifted", &x)
    }

    pub(crate) fn elements_of_every_kind(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        shift(session, seen, |i| i as u8)?;
        shift(session, seen, |i| [i as f32; 16])?;
        shift(session, seen, |_| ())?;
        shift(session, seen, |i| (i as u64, i % 2 == 0))?;
        shift(session, seen, |i| "x".repeat(i % 7))?;
        shift(session, seen, |i| vec![vec![i as u16; i % 3]; i % 4])?;
        shift(session, seen, |i| (i % 3 > 0).then(|| format!("{i}")))?;
        shift(session, seen, |i| {
            let weights = vec![0.5; i % 5];
            Node { name: i.to_string(), weights, next: (i % 2 == 0).then_some(i as u32) }
        })?;
        shift(session, seen, |i| if i % 2 == 0 { Kind::Leaf } else { Kind::Inner { children: vec![i as u8; i % 4] } })
    }

    pub(crate) fn every_way_to_read(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 400usize;
        let mut plain: Vec<u64> = (0..n).map(|i| below(i as u64, n) as u64).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        for _ in 0..3 {
            async_parallel_for!(0..n, [&mut x], |i| {
                assert!(x.old.len() == x.len() && !x.old.is_empty(), "{} of {}", x.old[i], x.old.len());
                let around = &x.old[i.saturating_sub(2)..(i + 3).min(x.old.len())];
                // What is written meanwhile is another.
                x[i] = 1;
                x[i] += around.iter().sum::<u64>();
                let far = |k: u64| x.old[x.old[k as usize % x.old.len()] as usize % x.old.len()];
                let sum = far(x.old[i]) + x.old.get(i + 1).copied().unwrap_or(7) + u64::from(x.old.get(9999).is_none());
                x[i] = (x[i] + sum + x.old.iter().take(3).sum::<u64>()) % 1000;
                for (k, e) in (&x.old).into_iter().enumerate().skip(n_of(i)).take(2) {
                    x[i] ^= *e * k as u64;
                }
                vec![x.old[i]].into_iter().for_each(drop);
            })?;
            let old = plain.clone();
            for i in 0..n {
                let around = &old[i.saturating_sub(2)..(i + 3).min(n)];
                let far = |k: u64| old[old[k as usize % n] as usize % n];
                let sum = far(old[i]) + old.get(i + 1).copied().unwrap_or(7) + 1;
                plain[i] = (1 + around.iter().sum::<u64>() + sum + old.iter().take(3).sum::<u64>()) % 1000;
                old.iter().enumerate().skip(n_of(i)).take(2).for_each(|(k, e)| plain[i] ^= e * k as u64);
            }
            assert_eq!(x.to_vec()?, plain);
        }
        seen.digest("x", &x)
    }

    fn n_of(i: usize) -> usize {
        i / 2
    }

    pub(crate) fn changes_between_calls(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 100;
        let mut plain: Vec<i64> = (0..n as i64).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        for round in 0..4i64 {
            x.set(round as usize, -round)?;
            plain[round as usize] = -round;
            let report = async_parallel_for!(0..n, [n, &mut x], |i| x[i] += 2 * x.old[n - 1 - i])?;
            assert_eq!(report.reused(), round > 0);
            let old = plain.clone();
            (0..n).for_each(|i| plain[i] += 2 * old[n - 1 - i]);
            async_parallel_for!(0..n, [&mut x], |i| x[i] %= 1_000_003)?;
            plain.iter_mut().for_each(|x| *x %= 1_000_003);
            assert_eq!(x.to_vec()?, plain, "round {round}");
        }
        seen.digest("x", &x)
    }

    pub(crate) fn failures_leave_no_trace(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 500;
        let mut plain: Vec<Vec<u32>> = (0..n).map(|i| vec![i as u32]).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        for bad in [n, 0, 250, n, 499, 7, n, n] {
            let called = async_parallel_for!(0..n, [bad, n, &mut x], |i| {
                let longer = [x.old[i].as_slice(), &x.old[(i + 1) % n]].concat();
                x[i] = longer;
                x[i].truncate(6);
                assert!(i != 7 || bad != 7, "seven");
                if i == bad { Err(format!("bad at {i}")) } else { Ok(()) }
            });
            match called {
                Ok(_) => {
                    let old = plain.clone();
                    for i in 0..n {
                        plain[i] = [old[i].as_slice(), &old[(i + 1) % n]].concat();
                        plain[i].truncate(6);
                    }
                    assert_eq!(bad, n);
                }
                Err(stradsap::Error::Body { iteration, .. } | stradsap::Error::Panic { iteration, .. }) => {
                    assert_eq!(iteration, bad);
                }
                Err(error) => return Err(error),
            }
            assert_eq!(x.to_vec()?, plain, "bad at {bad}");
        }
        seen.digest("x", &x)
    }

    /// Numbers that a body reads as they were are put back from the copies that it reads: by iterations of their own, in parts and
    /// in the loop's own order, of which some run over a part of the range.
    pub(crate) fn failures_over_numbers(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 3_000;
        let to: Vec<u32> = (0..n).map(|i| below(i as u64, n) as u32).collect();
        let mut plain: Vec<u64> = (0..n as u64).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        let at = DVector::from_vec(session, to.clone())?;
        let ended = |called: stradsap::Result<LoopReport>, bad: usize| match called {
            Ok(_) => Ok(true),
            Err(stradsap::Error::Body { iteration, .. }) if iteration == bad => Ok(false),
            Err(error) => Err(error),
        };
        for (round, bad) in [n, 1, 1_500, n, n - 1, 0, n].into_iter().enumerate() {
            let first = round % 3;
            let own = async_parallel_for!(first..n, [bad, n, &mut x], |i| {
                x[i] = x.old[n - 1 - i].wrapping_mul(3).wrapping_add(x.old[i]);
                if i == bad { Err("bad") } else { Ok(()) }
            });
            if ended(own, bad)? {
                let old = plain.clone();
                (first..n).for_each(|i| plain[i] = old[n - 1 - i].wrapping_mul(3).wrapping_add(old[i]));
            }
            assert_eq!(x.to_vec()?, plain, "bad at {bad}");
            let others = async_parallel_for!(0..n, [bad, &at, &mut x], |i| {
                x[at[i]] = x[at[i]].wrapping_add(x.old[at[i]] % 1_000);
                if i == bad { Err("bad") } else { Ok(()) }
            });
            if ended(others, bad)? {
                let old = plain.clone();
                (0..n).for_each(|i| {
                    plain[to[i] as usize] = plain[to[i] as usize].wrapping_add(old[to[i] as usize] % 1_000);
                });
            }
            assert_eq!(x.to_vec()?, plain, "bad at {bad}");
            let chain = async_parallel_for!(
                1..n,
                [bad, &mut x],
                |i| {
                    x[i] = x[i - 1].wrapping_mul(5).wrapping_add(x.old[i]);
                    if i == bad { Err("bad") } else { Ok(()) }
                },
                order = Preserve
            );
            if ended(chain, bad)? {
                (1..n).for_each(|i| plain[i] = plain[i - 1].wrapping_mul(5).wrapping_add(plain[i]));
            }
            assert_eq!(x.to_vec()?, plain, "bad at {bad}");
        }
        seen.digest("x", &x)
    }

    /// What is begun again reads what was there before the loop.
    pub(crate) fn patterns_that_change(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 800;
        let mut next = DVector::from_fn(session, n, |i| ((i + 1) % n) as u32)?;
        let mut plain: Vec<u64> = (0..n as u64).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        let mut undone = 0;
        for round in 0..5 {
            for i in (0..n).step_by(50) {
                next.set(i, below((i + round) as u64, n) as u32)?;
            }
            let to = next.to_vec()?;
            let report = async_parallel_for!(
                0..n,
                [&next, &mut x],
                |i| {
                    let at = next[i];
                    x[at] = x[at].wrapping_mul(3) + x.old[i] + x.old[at];
                },
                order = Preserve
            )?;
            undone += report.misspeculations();
            let old = plain.clone();
            for i in 0..n {
                let at = to[i] as usize;
                plain[at] = plain[at].wrapping_mul(3) + old[i] + old[at];
            }
            assert_eq!(x.to_vec()?, plain, "round {round}");
            seen.report("round", &report);
        }
        assert!(undone > 0);
        Ok(())
    }

    pub(crate) fn beside_additions(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 3000;
        let mut plain = vec![1u64; 60];
        let (mut x, mut y) = (DVector::from_vec(session, plain.clone())?, DVector::from_vec(session, plain.clone())?);
        for _ in 0..3 {
            let largest = session.max(0);
            let seen_so = async_parallel_for!(0..n, [n, &mut x, &largest], |i| {
                x[below(i as u64, 60)] += x.old[i % 60] % n as u64;
                largest.max(x.old[i % 60]);
            })?;
            let said = async_parallel_for!(0..n, [n, sum y], |i| y[below(i as u64, 60)] += y.old[i % 60] % n as u64)?;
            for report in [seen_so, said] {
                assert!(report.reason().contains("added up in tallies"), "{report}");
            }
            let old = plain.clone();
            (0..n).for_each(|i| plain[below(i as u64, 60)] += old[i % 60] % n as u64);
            assert_eq!(largest.get(), *old.iter().max().unwrap());
            assert_eq!((x.to_vec()?, y.to_vec()?), (plain.clone(), plain.clone()));
        }
        seen.digest("x", &x)
    }

    /// Rows below row `k`, which they read, and which nobody writes: parts of one range.
    pub(crate) fn pivots_of_an_elimination(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 24;
        let mut plain: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                (0..n).map(|j| 1.0 + below((i * n + j) as u64, 9) as f64 + if i == j { 50.0 } else { 0.0 }).collect()
            })
            .collect();
        let mut rows = DVector::from_vec(session, plain.clone())?;
        let mut recorded = 0;
        for k in 0..n - 1 {
            let report = async_parallel_for!(k + 1..n, [k, n, &mut rows], |i| {
                let by = rows[i][k] / rows.old[k][k];
                rows[i][k] = by;
                for j in k + 1..n {
                    let above = rows.old[k][j];
                    rows[i][j] -= by * above;
                }
            })?;
            recorded += usize::from(!report.reused());
            let (above, below) = plain.split_at_mut(k + 1);
            for row in below {
                row[k] /= above[k][k];
                (k + 1..n).for_each(|j| row[j] -= row[k] * above[k][j]);
            }
            seen.report("step", &report);
        }
        assert_eq!(bits(rows.to_vec()?.concat()), bits(plain.concat()));
        assert!(recorded <= 6, "{recorded}");
        Ok(())
    }

    struct Model {
        p: DVector<f32>,
    }

    /// One place in the source, for several DVectors.
    fn halve(p: &mut DVector<f32>, plain: &mut [f32]) -> stradsap::Result<LoopReport> {
        let first = plain[0];
        plain.iter_mut().for_each(|p| *p = (*p + first) / 2.0);
        async_parallel_for!(0..p.len(), [&mut p], |i| p[i] = (p.old[i] + p.old[0]) / 2.0)
    }

    pub(crate) fn several_loops_and_names(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut model = Model { p: DVector::from_fn(session, 50, |i| i as f32)? };
        let mut other = DVector::from_fn(session, 50, |i| 3.0 * i as f32)?;
        let (mut plain_p, mut plain_q) = (model.p.to_vec()?, other.to_vec()?);
        for round in 0..3 {
            let report = async_parallel_for!(
                0..50,
                [p = &mut model.p, q = &mut other],
                |i| {
                    p[i] = q.old[49 - i];
                    q[i] = p.old[49 - i] + 1.0;
                },
                label = "both"
            )?;
            assert_eq!((report.label(), report.reused()), (Some("both"), round > 0));
            let old = plain_p.clone();
            plain_p = plain_q.iter().rev().copied().collect();
            plain_q = old.iter().rev().map(|p| p + 1.0).collect();
            assert_eq!(halve(&mut model.p, &mut plain_p)?.reused(), round > 0);
            assert_eq!(halve(&mut other, &mut plain_q)?.reused(), round > 0);
            assert_eq!((model.p.to_vec()?, other.to_vec()?), (plain_p.clone(), plain_q.clone()), "round {round}");
        }
        seen.digest("p", &model.p)?;
        seen.digest("q", &other)
    }
}

/// Copies belong to their DVector: a program that makes many is not held up by those that are gone.
fn copies_go_with_their_vectors() {
    let session = crate::common::session(2);
    for round in 0..200u32 {
        let mut x = DVector::from_fn(&session, 100, |i| i as u32).unwrap();
        async_parallel_for!(0..100, [round, &mut x], |i| x[i] = x.old[99 - i] + round).unwrap();
        assert_eq!(x.get(1).unwrap(), 98 + round);
    }
}

fn a_clone_that_panics_is_the_loops_error() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static BAD: AtomicU32 = AtomicU32::new(u32::MAX);

    #[derive(Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, Element)]
    #[element(serde)]
    struct Fragile(u32);

    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(self.0 != BAD.load(Relaxed), "{} is not to be cloned", self.0);
            Fragile(self.0)
        }
    }

    for first in [true, false] {
        let session = crate::common::session(2);
        let mut x = DVector::from_fn(&session, 300, |i| Fragile(i as u32)).unwrap();
        let mut turn = || async_parallel_for!(0..300, [&mut x], |i| x[i].0 = x.old[299 - i].0);
        if !first {
            turn().unwrap();
        }
        BAD.store(123, Relaxed);
        let error = turn().unwrap_err();
        BAD.store(u32::MAX, Relaxed);
        assert!(matches!(&error, stradsap::Error::Panic { message, .. } if message.contains("123 is not")), "{error}");
        turn().unwrap();
        let expected = |i: u32| Fragile(if first { 299 - i } else { i });
        assert_eq!(x.to_vec().unwrap(), (0..300).map(expected).collect::<Vec<_>>());
    }
}
