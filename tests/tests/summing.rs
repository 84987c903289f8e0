//! Loops that only add to what they don't read, in this process.

use crate::common::session;
use crate::seen::Seen;
use crate::sums::SCENARIOS;
use stradsap::prelude::*;

#[test]
fn scenarios() {
    for scenario in SCENARIOS {
        let seen = [1, 2, 3, 8].map(|threads| {
            let mut seen = Seen::default();
            (scenario.run)(&session(threads), &mut seen).unwrap();
            seen
        });
        assert!(seen.iter().all(|other| *other == seen[0]), "{}: {seen:?}", scenario.name);
    }
}

#[test]
fn verified_loops_replay_their_tallies() {
    let session = Session::builder().threads(3).verify(true).build().unwrap();
    for scenario in SCENARIOS {
        (scenario.run)(&session, &mut Seen::default()).unwrap();
    }
    let at = DVector::from_fn(&session, 50_000, |i| (i * i % 77) as u32).unwrap();
    let mut sums = DVector::from_fn(&session, 77, |_| 0.0f64).unwrap();
    let report = async_parallel_for!(0..50_000, [&at, sum sums], |i| sums[at[i]] += (i as f64).sqrt()).unwrap();
    assert!(report.reason().contains("tallies"), "{report}");
    assert!(report.verified().to_string().contains("sums"), "{}", report.verified());
}

/// A tally begins at zero: what it comes to may be out of range where the plain loop's sum never is.
#[test]
fn sums_that_fit_are_those_of_the_plain_loop() {
    for threads in [1, 2] {
        let session = session(threads);
        let mut x = DVector::from_fn(&session, 4, |_| i8::MIN).unwrap();
        let report = async_parallel_for!(0..800usize, [sum x], |i| x[i % 4] += 1).unwrap();
        assert_eq!(x.to_vec().unwrap(), [72; 4], "{report}");
        let mut x = DVector::from_fn(&session, 2, |_| 0i32).unwrap();
        async_parallel_for!(0..4000usize, [sum x], |i| x[i % 2] += if i % 4 < 2 { i32::MAX } else { -i32::MAX })
            .unwrap();
        assert_eq!(x.to_vec().unwrap(), [0, 0]);
    }
}

/// Adds up, and never more than it should.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Careful(u32);

impl std::ops::AddAssign<u32> for Careful {
    fn add_assign(&mut self, by: u32) {
        self.0 += by;
    }
}

impl Additive for Careful {
    fn zero() -> Self {
        Careful(0)
    }
    fn unite(&mut self, other: &Self) {
        assert!(self.0 + other.0 < 5000, "too many");
        self.0 += other.0;
    }
}

#[test]
fn a_panic_while_tallies_are_united_leaves_everything_as_before() {
    for threads in [1, 3] {
        let session = session(threads);
        let mut x = DVector::from_fn(&session, 3, |k| Careful(k as u32)).unwrap();
        let mut touched = DVector::from_fn(&session, 9000, |_| 0u8).unwrap();
        let mut run = |n: usize| {
            async_parallel_for!(0..n, [sum x, &mut touched], |i| {
                x[usize::from(i % 3 == 0)] += 1;
                touched[i] = 1;
            })
            .map(drop)
        };
        run(3000).unwrap();
        let error = run(9000).unwrap_err();
        assert!(error.to_string().contains("too many"), "{error}");
        assert_eq!(x.to_vec().unwrap(), [Careful(2000), Careful(1001), Careful(2)]);
        assert_eq!(touched.iter().unwrap().map(usize::from).sum::<usize>(), 3000);
    }
}

#[test]
fn reports_say_what_could_be_declared() {
    let session = session(2);
    let n = 50_000;
    let at = DVector::from_fn(&session, n, |i| (i * 7 % 64) as u32).unwrap();
    let mut h = DVector::from_fn(&session, 64, |_| 0.0f64).unwrap();
    let report = async_parallel_for!(0..n, [&at, &mut h], |i| h[at[i]] += 0.5).unwrap();
    assert!(report.advice().unwrap().contains("`sum h`"), "{report}");
    let report = async_parallel_for!(0..n, [&at, sum h], |i| h[at[i]] += 0.5).unwrap();
    assert_eq!(report.advice(), None, "{report}");
    // Where nothing waits there is nothing to declare.
    let mut own = DVector::from_fn(&session, n, |_| 0.0f64).unwrap();
    let report = async_parallel_for!(0..n, [&mut own], |i| own[i] += 0.5).unwrap();
    assert_eq!(report.advice(), None, "{report}");
}

#[test]
fn reports_say_which_elements_are_reached_again_and_again() {
    let session = session(2);
    let n = 4_000;
    let mut rows = DVector::from_fn(&session, n, |_| [0.0f32; 24]).unwrap();
    let mut by_number = || {
        async_parallel_for!(0..n, [n, &mut rows], |i| {
            for k in 0..24 {
                rows[i * 7 % n][k] += 1.0;
            }
        })
    };
    let report = by_number().unwrap();
    assert!(report.advice().unwrap().contains("each element of `rows` that it touches 24 times"), "{report}");
    let report = async_parallel_for!(0..n, [n, &mut rows], |i| {
        let row = &mut rows[i * 7 % n];
        row.iter_mut().for_each(|x| *x += 1.0);
    });
    let report = report.unwrap();
    assert_eq!(report.advice(), None, "{report}");
    assert_eq!(rows.to_vec().unwrap(), vec![[2.0; 24]; n]);
}
