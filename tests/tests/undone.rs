//! Loops over rows that grow and shrink, one after the other, some of which fail: what failed has left nothing, whatever
//! calls before it have saved.

use crate::common::below;
use crate::seen::{Alone, Scenario, Seen};
use stradsap::Error;
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    turns::rows_that_grow_and_shrink_come_back,
    turns::shared_rows_come_back_by_any_plan,
    turns::loops_over_floats_that_fail_leave_nothing,
];

/// Tests that need no workers.
pub(crate) const ALONE: &[Alone] = crate::alone![a_clone_that_panics_while_rows_are_saved_changes_nothing];

const N: usize = 300;

/// What one loop does to the rows, and where it fails.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Turn {
    seed: u64,
    fails: usize,
    panics: bool,
}

impl Turn {
    fn new(turn: u64) -> Turn {
        let fails = if turn % 3 == 2 { below(turn, N) } else { N };
        Turn { seed: turn, fails, panics: turn.is_multiple_of(2) }
    }

    fn check(self, i: usize) -> std::result::Result<(), std::fmt::Error> {
        assert!(i != self.fails || !self.panics, "iteration {i}");
        if i == self.fails { Err(std::fmt::Error) } else { Ok(()) }
    }
}

/// A row grows, shrinks, gives its memory back or becomes another.
fn change<T: Clone>(row: &mut Vec<T>, seed: u64, i: usize, new: &T) {
    match below(seed * 1000 + i as u64, 5) {
        0 => row.extend(vec![new.clone(); 3 + i % 7]),
        1 => row.truncate(row.len() / 2),
        2 => *row = Vec::new(),
        3 => row.shrink_to_fit(),
        _ => *row = vec![new.clone(); i % 40],
    }
}

/// Loops after loops on the same data.
pub(crate) mod turns {
    use super::*;

    pub(crate) fn rows_that_grow_and_shrink_come_back(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut pairs = DVector::from_fn(session, N, |i| vec![(i as u32, 0.5); i % 9]).unwrap();
        let mut lists = DVector::from_fn(session, N, |i| vec![vec![i as f32; i % 5]; i % 4]).unwrap();
        let mut texts = DVector::from_fn(session, N, |i| "x".repeat(i % 30)).unwrap();
        let (mut own_pairs, mut own_lists) = (pairs.to_vec().unwrap(), lists.to_vec().unwrap());
        let mut own_texts = texts.to_vec().unwrap();
        for turn in (0..30).map(Turn::new) {
            let ran = async_parallel_for!(0..N, [turn, &mut pairs, &mut lists, &mut texts], |i| {
                change(&mut pairs[i], turn.seed, i, &(i as u32, turn.seed as f64));
                change(&mut lists[i], turn.seed + 1, i, &vec![turn.seed as f32; i % 3]);
                texts[i].push_str(&turn.seed.to_string());
                turn.check(i)
            });
            assert_eq!(ran.is_err(), turn.fails < N, "turn {}", turn.seed);
            if ran.is_ok() {
                for i in 0..N {
                    change(&mut own_pairs[i], turn.seed, i, &(i as u32, turn.seed as f64));
                    change(&mut own_lists[i], turn.seed + 1, i, &vec![turn.seed as f32; i % 3]);
                    own_texts[i].push_str(&turn.seed.to_string());
                }
            }
            assert_eq!(pairs.to_vec().unwrap(), own_pairs, "turn {}", turn.seed);
            assert_eq!(lists.to_vec().unwrap(), own_lists, "turn {}", turn.seed);
            assert_eq!(texts.to_vec().unwrap(), own_texts, "turn {}", turn.seed);
        }
        seen.digest("pairs", &pairs)?;
        seen.digest("lists", &lists)?;
        seen.digest("texts", &texts)
    }

    /// Rows that several iterations write, by parts, one after the other, and element by element.
    pub(crate) fn shared_rows_come_back_by_any_plan(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for way in 0..3 {
            let rows = 40;
            let at = DVector::from_fn(session, N, |i| below(i as u64, rows) as u32).unwrap();
            let mut lists = DVector::from_fn(session, rows, |i| vec![i as u32; i % 5]).unwrap();
            let mut own = lists.to_vec().unwrap();
            for turn in (0..18).map(Turn::new) {
                let mut run = || match way {
                    0 => async_parallel_for!(
                        0..N,
                        [turn, &at, &mut lists],
                        |i| {
                            change(&mut lists[at[i]], turn.seed, i, &(i as u32));
                            turn.check(i)
                        },
                        order = Preserve
                    ),
                    1 => async_parallel_for!(
                        0..N,
                        [turn, &at, &mut lists],
                        |i| {
                            change(&mut lists[at[i]], turn.seed, i, &(i as u32));
                            turn.check(i)
                        },
                        strategy = Serial
                    ),
                    _ => async_parallel_for!(
                        0..N,
                        [turn, &at, &mut lists],
                        |i| {
                            change(&mut lists[at[i]], turn.seed, i, &(i as u32));
                            turn.check(i)
                        },
                        order = Preserve,
                        strategy = Coloured
                    ),
                };
                let ran = run();
                assert_eq!(ran.is_err(), turn.fails < N, "way {way}, turn {}", turn.seed);
                if ran.is_ok() {
                    (0..N).for_each(|i| change(&mut own[below(i as u64, rows)], turn.seed, i, &(i as u32)));
                }
                assert_eq!(lists.to_vec().unwrap(), own, "way {way}, turn {}", turn.seed);
            }
            seen.digest("lists", &lists)?;
        }
        Ok(())
    }

    /// A factor that panics for some numbers.
    #[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
    pub(crate) struct Factor(f64);

    impl std::ops::Mul<f64> for Factor {
        type Output = f64;
        fn mul(self, by: f64) -> f64 {
            assert!(by < 150.0, "too much for {}", self.0);
            self.0 * by
        }
    }

    /// Loops that can't fail, which save nothing, between others that look the same and fail.
    pub(crate) fn loops_over_floats_that_fail_leave_nothing(
        session: &Session,
        seen: &mut Seen,
    ) -> stradsap::Result<()> {
        let x = DVector::from_fn(session, N, |i| i as f64).unwrap();
        let whole = DVector::from_fn(session, N, |i| i as u8).unwrap();
        let mut y = DVector::from_fn(session, N, |_| 1.0f64).unwrap();
        let mut bytes = DVector::from_fn(session, N, |_| 100u8).unwrap();
        let mut own = vec![1.0f64; N];
        let (a, factor) = (0.5f64, Factor(0.25));
        for turn in 0..4 {
            async_parallel_for!(1..N - 1, [a, &x, &mut y], |i| {
                let around = x[i - 1] + x[i + 1];
                y[i] += a * around.sqrt();
            })
            .unwrap();
            (1..N - 1).for_each(|i| own[i] += a * ((i - 1) as f64 + (i + 1) as f64).sqrt());
            assert_eq!(y.to_vec().unwrap(), own, "turn {turn}");

            let beyond = async_parallel_for!(0..N, [&x, &mut y], |i| {
                y[i] *= x[i + 1];
            });
            assert!(matches!(beyond, Err(Error::IndexOutOfRange { index: N, .. })));
            let below = async_parallel_for!(0..N, [&x, &mut y], |i| {
                y[i] *= x[i - 1];
            });
            assert!(matches!(below, Err(Error::Panic { .. } | Error::IndexOutOfRange { .. })));
            async_parallel_for!(1..N - 1, [&x, &mut y], |i| {
                y[i] += x[i - 1..=i + 1].iter().sum::<f64>();
            })
            .unwrap();
            (1..N - 1).for_each(|i| own[i] += (i - 1..=i + 1).map(|k| k as f64).sum::<f64>());
            assert_eq!(y.to_vec().unwrap(), own, "turn {turn}");
            let beyond = async_parallel_for!(0..N, [&x, &mut y], |i| {
                y[i] += x[i..i + 2].iter().sum::<f64>();
            });
            assert!(matches!(beyond, Err(Error::Panic { .. } | Error::IndexOutOfRange { .. })));

            // A body may reach beyond one end of its range and not beyond the other.
            async_parallel_for!(3..N, [&x, &mut y], |i| y[i] += x[i - 3]).unwrap();
            (3..N).for_each(|i| own[i] += (i - 3) as f64);
            async_parallel_for!(0..N - 2, [&x, &mut y], |i| y[i] -= x[i + 2]).unwrap();
            (0..N - 2).for_each(|i| own[i] -= (i + 2) as f64);
            assert_eq!(y.to_vec().unwrap(), own, "turn {turn}");
            let below = async_parallel_for!(2..N, [&x, &mut y], |i| y[i] += x[i - 3]);
            assert!(matches!(below, Err(Error::Panic { .. } | Error::IndexOutOfRange { .. })));
            let beyond = async_parallel_for!(3..N, [&x, &mut y], |i| y[i] += x[i - 3] + x[i + 1]);
            assert!(matches!(beyond, Err(Error::IndexOutOfRange { index: N, .. })));
            let beyond = async_parallel_for!(0..N - 1, [&x, &mut y], |i| y[i] -= x[i + 2]);
            assert!(matches!(beyond, Err(Error::IndexOutOfRange { index: N, .. })));
            assert_eq!(y.to_vec().unwrap(), own, "turn {turn}");

            async_parallel_for!(1..N, [&mut y], |i| y[i] = 0.5 * (y[i] + y[i - 1]), order = Preserve).unwrap();
            (1..N).for_each(|i| own[i] = 0.5 * (own[i] + own[i - 1]));
            let below = async_parallel_for!(0..N, [&mut y], |i| y[i] = 0.5 * (y[i] + y[i - 1]), order = Preserve);
            assert!(matches!(below, Err(Error::Panic { .. } | Error::IndexOutOfRange { .. })));
            let beyond = async_parallel_for!(0..N, [&mut y], |i| y[i] = 0.5 * (y[i] + y[i + 1]), order = Preserve);
            assert!(matches!(beyond, Err(Error::IndexOutOfRange { index: N, .. })));
            let beyond = async_parallel_for!(1..N, [&mut y], |i| y[i] = y[i - 1] - y[i + 1], order = Preserve);
            assert!(matches!(beyond, Err(Error::IndexOutOfRange { index: N, .. })));
            assert_eq!(y.to_vec().unwrap(), own, "turn {turn}");

            let panicked = async_parallel_for!(0..N, [factor, &x, &mut y], |i| {
                y[i] = factor * x[i];
            });
            assert!(matches!(panicked, Err(Error::Panic { iteration: 150, .. })));
            assert_eq!(y.to_vec().unwrap(), own, "turn {turn}");

            let divided = async_parallel_for!(0..N, [&whole, &mut bytes], |i| {
                bytes[i] /= whole[i];
            });
            assert!(matches!(divided, Err(Error::Panic { .. })));
            assert_eq!(bytes.to_vec().unwrap(), [100; N]);

            async_parallel_for!(0..N, [&mut y], |i| {
                y[i] = y.old[i].max(-y[i]) - 0.125;
            })
            .unwrap();
            own.iter_mut().for_each(|y| *y = y.max(-*y) - 0.125);
            assert_eq!(y.to_vec().unwrap(), own, "turn {turn}");
        }
        seen.digest("y", &y)
    }
}

fn a_clone_that_panics_while_rows_are_saved_changes_nothing() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    static CLONES_FAIL: AtomicBool = AtomicBool::new(false);

    /// A number whose clone may panic: it needs no drop, so that rows of it are cloned into.
    #[derive(Debug, PartialEq, Element)]
    struct Moody(u32);

    impl Clone for Moody {
        fn clone(&self) -> Moody {
            assert!(!CLONES_FAIL.load(Relaxed) || self.0 % 50 != 7, "no clone of {}", self.0);
            Moody(self.0)
        }
    }

    for threads in [1, 2] {
        let session = crate::common::session(threads);
        let rows = || (0..100u32).map(|i| (0..i % 7).map(|k| Moody(3 * i + k)).collect::<Vec<_>>());
        let mut lists = DVector::from_vec(&session, rows().collect()).unwrap();
        let mut own: Vec<Vec<Moody>> = rows().collect();
        for turn in 0..6 {
            CLONES_FAIL.store(turn % 2 == 1, Relaxed);
            let ran = async_parallel_for!(0..100, [&mut lists], |i| {
                lists[i].push(Moody(1));
                lists[i].reverse();
            });
            CLONES_FAIL.store(false, Relaxed);
            match ran {
                Ok(_) => own.iter_mut().for_each(|row| {
                    row.push(Moody(1));
                    row.reverse();
                }),
                Err(error) => assert!(turn % 2 == 1 && matches!(error, Error::Panic { .. }), "{error}"),
            }
            assert!(lists.to_vec().unwrap() == own, "{threads} threads, turn {turn}");
        }
    }
}
