//! The same bits on any number of threads, and with `verify` on.

use crate::common::{Rating, WAYS, Way, ratings, session};
use stradsap::prelude::*;
use stradsap::{Error, Result};

const RANK: usize = 8;

struct Factors {
    data: DVector<Rating>,
    p: DVector<[f32; RANK]>,
    q: DVector<[f32; RANK]>,
}

impl Factors {
    fn new(session: &Session, n: usize) -> Factors {
        let start = |i: usize| std::array::from_fn(|k| ((i * 13 + k * 5) % 23) as f32 / 60.0);
        Factors {
            data: DVector::from_vec(session, ratings(n, 400, 150)).unwrap(),
            p: DVector::from_fn(session, 400, start).unwrap(),
            q: DVector::from_fn(session, 150, start).unwrap(),
        }
    }

    fn epoch(&mut self, loss: &stradsap::Sum<f64>) -> Result<LoopReport> {
        let Factors { data, p, q } = self;
        let (alpha, lambda) = (0.05f32, 0.02f32);
        async_parallel_for!(0..data.len(), [alpha, lambda, &data, &mut p, &mut q, &loss], |i| {
            let r = data[i];
            let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
            let e = r.stars - kernels::dot(pu, qi);
            for (a, b) in pu.iter_mut().zip(qi.iter_mut()) {
                let (x, y) = (*a, *b);
                *a += alpha * (e * y - lambda * x);
                *b += alpha * (e * x - lambda * y);
            }
            loss.add(f64::from(e) * f64::from(e));
        })
    }
}

#[test]
fn one_digest_on_one_to_eight_threads() {
    let mut found = Vec::new();
    for threads in 1..=8 {
        let session = session(threads);
        assert_eq!(session.threads(), threads);
        let mut factors = Factors::new(&session, 20_000);
        let before = factors.p.digest().unwrap();
        let mut losses = Vec::new();
        for _ in 0..3 {
            let loss = session.sum(0.0);
            let report = factors.epoch(&loss).unwrap();
            assert_eq!(report.strategy(), Strategy::Grid);
            assert!(report.blocks() >= 8, "{report}");
            losses.push(loss.get());
        }
        assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "nothing was learned: {losses:?}");
        assert_ne!(factors.p.digest().unwrap(), before);
        let losses: Vec<u64> = losses.into_iter().map(f64::to_bits).collect();
        found.push((factors.p.digest().unwrap(), factors.q.digest().unwrap(), losses));
    }
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
}

#[test]
fn the_number_of_threads_may_change_between_loops() {
    let digests = |threads: &[usize]| {
        let session = session(1);
        let mut factors = Factors::new(&session, 10_000);
        let loss = session.sum(0.0);
        for (call, &threads) in threads.iter().enumerate() {
            session.set_threads(threads).unwrap();
            assert_eq!(session.threads(), threads);
            assert_eq!(factors.epoch(&loss).unwrap().reused(), call > 0);
        }
        (factors.p.digest().unwrap(), factors.q.digest().unwrap(), loss.get().to_bits())
    };
    assert_eq!(digests(&[1, 1, 1, 1, 1]), digests(&[3, 1, 8, 2, 5]));
}

#[test]
fn numbers_of_threads_that_are_not_offered() {
    let session = session(2);
    let most = std::thread::available_parallelism().unwrap().get().clamp(256, 1024);
    for threads in [0, most + 1] {
        let error = session.set_threads(threads).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let said = format!("{threads} threads are not offered on this machine: give a number from 1 to {most}");
        assert_eq!(error.to_string(), said);
        assert!(matches!(Session::builder().threads(threads).verify(false).build(), Err(Error::Usage(_))));
    }
    assert_eq!(session.threads(), 2);
}

/// Sessions may work side by side, each with threads of its own.
#[test]
fn sessions_on_several_threads_of_the_program() {
    let digests: Vec<(String, String)> = std::thread::scope(|scope| {
        let one = |threads| {
            scope.spawn(move || {
                let session = session(threads);
                let mut factors = Factors::new(&session, 5000);
                let loss = session.sum(0.0);
                for _ in 0..3 {
                    factors.epoch(&loss).unwrap();
                }
                (factors.p.digest().unwrap(), factors.q.digest().unwrap())
            })
        };
        let running: Vec<_> = [1, 2, 3, 2].into_iter().map(one).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

/// One session may be shared by several threads of the program, too.
#[test]
fn one_session_on_several_threads_of_the_program() {
    let session = session(3);
    let digests: Vec<String> = std::thread::scope(|scope| {
        let one = || {
            scope.spawn(|| {
                let mut factors = Factors::new(&session, 5000);
                let loss = session.sum(0.0);
                for _ in 0..3 {
                    factors.epoch(&loss).unwrap();
                }
                factors.p.digest().unwrap()
            })
        };
        let running: Vec<_> = (0..4).map(|_| one()).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn verify_passes_on_all_strategies() {
    const N: usize = 3000;
    for way in WAYS {
        for threads in [1, 3] {
            for order in [Order::Any, Order::Preserve] {
                if order == Order::Preserve && way == Way::Grid {
                    continue;
                }
                let mut results = Vec::new();
                for verify in [false, true] {
                    let session = session(threads);
                    session.verify(verify);
                    let (rows, cols) = if way == Way::Aligned { (N, N) } else { (40, 30) };
                    let pairs = DVector::from_fn(&session, N, |i| way.pair(i, rows, cols)).unwrap();
                    let mut x = DVector::from_fn(&session, rows, |i| i as f32).unwrap();
                    let mut y = DVector::from_fn(&session, cols, |i| vec![i.to_string()]).unwrap();
                    let (sum, count) = (session.sum(0.0f32), session.count());
                    let strategy = way.option();
                    for _ in 0..2 {
                        let report = async_parallel_for!(
                            0..N,
                            [&pairs, &mut x, &mut y, &sum, &count],
                            |i| {
                                let [a, b] = pairs[i];
                                x[a] = x[a] * 0.9 + i as f32;
                                if y[b].len() < 20 {
                                    y[b].push(format!("{}", x[a]));
                                }
                                sum.add(x[a]);
                                count.add(1);
                            },
                            strategy = strategy,
                            order = order,
                            parts = 3
                        )
                        .unwrap();
                        assert_eq!(report.strategy(), way.strategy());
                    }
                    results.push((x.digest().unwrap(), y.digest().unwrap(), sum.get().to_bits(), count.get()));
                }
                assert_eq!(results[0], results[1], "{way:?}, {order:?}, {threads} threads");
                assert_eq!(results[0].3, 2 * N as u64);
            }
        }
    }
}

#[test]
fn verify_passes_where_a_loop_is_misspeculated_and_keeps_its_errors() {
    let session = session(2);
    session.verify(true);
    let mut targets = DVector::from_fn(&session, 2000, |i| (i * 7 % 50) as u32).unwrap();
    let mut x = DVector::from_fn(&session, 50, |_| 0u32).unwrap();
    let run = |bad: usize, targets: &DVector<u32>, x: &mut DVector<u32>| {
        async_parallel_for!(
            0..2000,
            [bad, &targets, &mut x],
            |i| {
                x[targets[i]] += 1;
                if i == bad { Err("as asked") } else { Ok(()) }
            },
            strategy = Coloured
        )
    };
    assert_eq!(run(9999, &targets, &mut x).unwrap().misspeculations(), 0);
    targets.set(77, 3).unwrap();
    assert_eq!(targets.get(77).unwrap(), 3);
    targets.set(78, 4).unwrap();
    assert_eq!(run(9999, &targets, &mut x).unwrap().misspeculations(), 1);
    let before = x.to_vec().unwrap();
    assert!(matches!(run(1234, &targets, &mut x), Err(Error::Body { iteration: 1234, .. })));
    assert_eq!(x.to_vec().unwrap(), before);
    assert_eq!(before.iter().sum::<u32>(), 4000);
}

/// A body that is not a function of what it captured breaks the promise, and `verify` tells.
#[test]
fn verify_finds_bodies_that_do_not_repeat() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let session = session(1);
    let mut x = DVector::from_fn(&session, 100, |_| 0u32).unwrap();
    let mut run = || {
        async_parallel_for!(
            0..100,
            [&mut x],
            |i| {
                let call = CALLS.fetch_add(1, Relaxed);
                x[i] = if i == 60 { call } else { 1 };
            },
            label = "impure"
        )
    };
    assert!(run().is_ok());
    session.verify(true);
    let error = run().unwrap_err();
    assert!(matches!(error, Error::Verification { dds: "x", index: 60, .. }), "{error:?}");
    assert!(error.to_string().contains("`x[60]` differs from what the claimed serial order gives"), "{error}");
    session.verify(false);
    assert!(run().is_ok());
}

/// Takes half a KiB of stack for each step down.
#[inline(never)]
fn down(n: usize) -> u64 {
    let room = std::hint::black_box([n as u8; 512]);
    if n == 0 { 0 } else { down(n - 1) + u64::from(room[n % 512]) }
}

fn deep(session: &Session, depth: usize) {
    let mut x = DVector::from_fn(session, 4000, |_| 0u64).unwrap();
    async_parallel_for!(0..4000, [depth, &mut x], |i| x[i] = if i % 1000 == 999 { down(depth) } else { 1 }).unwrap();
    assert_eq!(x.to_vec().unwrap()[..1000].iter().filter(|&&x| x == 1).count(), 999);
}

#[test]
fn bodies_go_as_deep_as_on_the_main_thread() {
    let loops = || {
        deep(&Session::builder().threads(2).build().unwrap(), 2500);
        deep(&Session::builder().threads(3).stack_size(128 << 20).build().unwrap(), 20_000);
    };
    // The caller records, and threads of tests are not as the main one.
    std::thread::Builder::new().stack_size(128 << 20).spawn(loops).unwrap().join().unwrap();
}

/// A process that a driver started, but whose main function doesn't know it, would be a driver in turn.
#[test]
fn a_plain_main_is_no_worker() {
    const NAME: &str = "threads::a_plain_main_is_no_worker";
    if std::env::var_os("STRADSAP_ROLE").is_some() {
        let refused = Session::builder().threads(1).build().unwrap_err().to_string();
        assert!(refused.contains("#[stradsap::main]") && refused.contains("harness = false"), "{refused}");
        return;
    }
    for role in ["worker", "server"] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = child.args(["--exact", NAME]).env("STRADSAP_ROLE", role).output().unwrap();
        let out = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && out.contains("1 passed"), "{out}");
    }
}
