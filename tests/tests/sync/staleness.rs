//! The bound of `Ssp`, seen by the bodies themselves: each minibatch adds 1 to its copy's own clock, and a body that reads the
//! clocks of the others knows how old they may be.

use std::time::Duration;

use stradsap::prelude::*;

use super::places::{PLACES, copies};
use crate::common::below;
use crate::jobs::runner::{Test, long};
use crate::places::Place;

pub(crate) fn tests() -> Vec<Test> {
    let places = [PLACES[1][0], PLACES[3][0], PLACES[1][1], PLACES[1][2], PLACES[2][2], PLACES[3][2]];
    let mut tests: Vec<Test> =
        places.map(|place| Test::new(format!("the bound of staleness: {place}"), 600, move || bound(place))).into();
    let places = [PLACES[2][0], PLACES[1][2], PLACES[3][2]];
    tests.extend(places.map(|place| {
        Test::new(format!("the fast run ahead and wait: {place}"), 120, move || ahead_and_waiting(place))
    }));
    tests
}

/// What bodies saw.
struct Observed {
    /// Clocks that were older than they may be, or own ones that were not the reader's own.
    wrong: u64,
    /// How far behind its reader's the oldest clock was.
    behind: u64,
    /// How far ahead of its reader's the youngest.
    ahead: u64,
}

/// How long a minibatch takes.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
enum Pace {
    /// Now and then one of any copy is late.
    Uneven(u64),
    /// The first copy is always late.
    Slow,
}

fn run(session: &Session, staleness: usize, each: usize, reads: usize, pace: Pace) -> (SyncReport, Observed) {
    let copies = copies(session);
    // The last copy has one minibatch less: what it never adds nobody may wait for.
    let input = DVector::from_fn(session, each * copies - 1, |i| i as u32).unwrap();
    let last = each - 1;
    let mut clocks = DVector::from_fn(session, copies, |_| 0u64).unwrap();
    let mut rows = DVector::from_fn(session, 100, |_| [0i64; 4]).unwrap();
    let (wrong, behind, ahead) = (session.count(), session.max(0u64), session.max(0u64));
    let report = sync_parallel_for!(
        input,
        1,
        [staleness, copies, last, reads, pace, &mut clocks, &mut rows, &wrong, &behind, &ahead],
        |batch| {
            let (me, clock) = (batch.number() % copies, (batch.number() / copies) as u64);
            match pace {
                Pace::Uneven(seed) => match below(seed ^ batch.number() as u64, 200) {
                    0 => std::thread::sleep(Duration::from_micros(1500)),
                    1..5 => std::thread::sleep(Duration::from_micros(100)),
                    _ => {}
                },
                Pace::Slow if me == 0 => std::thread::sleep(Duration::from_millis(2)),
                Pace::Slow => {}
            }
            for k in 0..reads {
                for copy in 0..copies {
                    let seen = clocks[copy].get();
                    let least = clock.saturating_sub(staleness as u64);
                    let least = if copy + 1 == copies { least.min(last as u64) } else { least };
                    let is_own = copy == me;
                    if seen < least || (is_own && seen != clock) {
                        wrong.add(1);
                    }
                    if !is_own {
                        behind.max(clock.saturating_sub(seen));
                        ahead.max(seen.saturating_sub(clock));
                    }
                }
                // Each minibatch leaves 4 in all of a row's numbers alike, however many others are at it.
                rows[(batch.number() * 7 + k) % 100].add(&[1; 4]);
            }
            clocks[me].add(1);
        },
        SyncPolicy::Ssp { staleness }
    )
    .unwrap();
    let expected: Vec<u64> = (0..copies).map(|copy| if copy + 1 == copies { last } else { each } as u64).collect();
    assert_eq!(clocks.to_vec().unwrap(), expected);
    let sums = rows.to_vec().unwrap().into_iter().fold([0; 4], |sum, row| std::array::from_fn(|k| sum[k] + row[k]));
    assert_eq!(sums, [((each * copies - 1) * reads) as i64; 4]);
    (report, Observed { wrong: wrong.get(), behind: behind.get(), ahead: ahead.get() })
}

fn bound(place: Place) {
    let session = place.verified();
    let (each, reads) = (if long() { 20_000 } else { 700 }, 80);
    let mut checked = 0;
    for staleness in [0, 1, 3, 10] {
        for seed in 0..2 {
            let (report, observed) = run(&session, staleness, each, reads, Pace::Uneven(seed * 1000));
            let case = format!("staleness {staleness} on {place}: {report}");
            assert_eq!(observed.wrong, 0, "{case}");
            assert!(observed.behind <= staleness as u64, "{case}: {} behind", observed.behind);
            assert!(report.staleness_seen() <= staleness as u64, "{case}");
            // What the engine notes is never less than what there is.
            assert!(observed.behind <= report.staleness_seen(), "{case}");
            assert!(observed.ahead <= staleness as u64 + 1, "{case}: {} ahead", observed.ahead);
            checked += report.reads_checked();
        }
    }
    let least = 8 * (each * copies(&session) - 1) * reads * copies(&session);
    assert!(checked >= least as u64, "{checked} reads, not {least}");
}

fn ahead_and_waiting(place: Place) {
    let session = place.verified();
    for staleness in [0, 1, 3, 10] {
        let (report, observed) = run(&session, staleness, 40, 2, Pace::Slow);
        let case = format!("staleness {staleness} on {place}: {report}");
        assert_eq!(observed.wrong, 0, "{case}");
        // As far as they may, and no further.
        assert_eq!((observed.behind, report.staleness_seen()), (staleness as u64, staleness as u64), "{case}");
    }
}
