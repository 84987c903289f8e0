//! A job of loops that take longer than its workers live.

use std::thread::sleep;
use std::time::Duration;

use stradsap::prelude::*;

use crate::common::{mix, ratings};

/// Makes this executable that job: how many milliseconds its slow iterations take.
pub const SLOW_LOOPS: &str = "STRADSAP_TEST_SLOW_LOOPS";

const USERS: usize = 90;
const ITEMS: usize = 70;
const RATINGS: usize = 2000;

#[derive(Debug, thiserror::Error)]
#[error("rating {0} is refused")]
struct Refused(usize);

#[allow(clippy::print_stdout)]
pub fn run(session: &Session) -> stradsap::Result<()> {
    let slow: u64 = std::env::var(SLOW_LOOPS).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let data = DVector::from_vec(session, ratings(RATINGS, USERS, ITEMS))?;
    let row = |i: usize| -> [f32; 4] { std::array::from_fn(|k| (mix((i * 4 + k) as u64) % 1000) as f32 / 2000.0) };
    let mut p = DVector::from_fn(session, USERS, row)?;
    let mut q = DVector::from_fn(session, ITEMS, |i| row(i + 1000))?;
    let mut names = DVector::from_fn(session, USERS, |i| format!("user {i}"))?;
    let mut errors = DVector::from_fn(session, RATINGS, |_| 0.0f32)?;
    let mut counts = DVector::from_fn(session, 40, |i| i as u64)?;
    println!("begins at 0");
    // The first time that a loop is called it is planned, and nothing takes long.
    for (pause, fails) in [(0, false), (slow, true)] {
        let (loss, seen) = (session.sum(0.0f64), session.sum(7u64));
        async_parallel_for!(
            0..RATINGS,
            [pause, &data, &mut p, &mut q, &mut names, &mut errors, &mut counts, &loss, &seen],
            |k| {
                sleep(Duration::from_millis(pause));
                let r = data[k];
                let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
                let e = r.stars - kernels::dot(pu, qi);
                for d in 0..4 {
                    let (a, b) = (pu[d], qi[d]);
                    pu[d] += 0.01 * (e * b - 0.02 * a);
                    qi[d] += 0.01 * (e * a - 0.02 * b);
                }
                errors[k] += e;
                counts[k % 40] += 1 + k as u64;
                names[r.user].push(if e > 0.0 { '+' } else { '-' });
                loss.add(f64::from(e * e));
                seen.add(1);
            }
        )?;
        println!("blocks {:016x} {}", loss.get().to_bits(), seen.get());
        // In its own order: one worker runs all of it.
        let (last, total) = (session.sum(0u64), session.sum(0.5f64));
        async_parallel_for!(
            0..RATINGS / 2,
            [pause, &p, &mut errors, &last, &total],
            |k| {
                sleep(Duration::from_millis(pause));
                let before = if k > 0 { errors[k - 1] } else { 0.0 };
                errors[k] = 0.5 * errors[k] + 0.25 * before + p[k % USERS][0];
                last.add(1);
                total.add(f64::from(errors[k]));
            },
            strategy = Serial
        )?;
        println!("in order {:016x} {}", total.get().to_bits(), last.get());
        async_parallel_for!(0..RATINGS, [pause, &data, &mut errors], |k| {
            sleep(Duration::from_millis(pause));
            errors[k] = errors[k].mul_add(0.9, data[k].stars);
        })?;
        println!("without conflicts");
        // It fails when most of it has been done, and leaves nothing of that.
        let (before, added) = ((p.digest()?, names.digest()?), session.sum(0u64));
        let ended = async_parallel_for!(0..RATINGS, [pause, fails, &data, &mut p, &mut names, &added], |k| {
            sleep(Duration::from_millis(pause));
            let user = data[k].user;
            p[user][1] += 0.001;
            names[user].push('x');
            added.add(1);
            if fails && k == RATINGS - 1 { Err(Refused(k)) } else { Ok(()) }
        });
        if fails {
            let error = ended.expect_err("the last iteration fails").to_string();
            assert!(error.contains("rating 1999 is refused") && error.contains("iteration 1999"), "{error}");
            assert_eq!((p.digest()?, names.digest()?, added.get()), (before.0, before.1, 0), "it has left something");
        } else {
            ended?;
        }
        println!("failed {fails}");
    }
    println!("digest {} {} {} {} {}", p.digest()?, q.digest()?, names.digest()?, errors.digest()?, counts.digest()?);
    Ok(())
}
