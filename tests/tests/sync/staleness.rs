//! The bound of `Ssp`, seen by the bodies themselves: each minibatch adds 1 to all rows of its copy's own clock, and a body that reads
//! rows of others' clocks knows how old they may be. The loop is called several times: in the first call workers send each other all
//! rows, later those that they foresee, and fetch what they haven't foreseen.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test workers -- "sync::the bound"` checks more than 10^8 reads at each place.

use std::time::Duration;

use stradsap::prelude::*;

use super::places::{PLACES, copies};
use crate::common::below;
use crate::jobs::runner::{Test, long};
use crate::places::Place;

pub(crate) fn tests() -> Vec<Test> {
    let places = [PLACES[1][0], PLACES[3][0], PLACES[1][1], PLACES[1][2], PLACES[2][1], PLACES[3][2]];
    let mut tests: Vec<Test> =
        places.map(|place| Test::new(format!("the bound of staleness: {place}"), 600, move || bound(place))).into();
    let places = [PLACES[2][0], PLACES[1][2], PLACES[3][2]];
    tests.extend(places.map(|place| {
        Test::new(format!("the fast run ahead and wait: {place}"), 120, move || ahead_and_waiting(place))
    }));
    tests
}

/// What bodies saw in a call.
struct Observed {
    reads: u64,
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

/// Rows of each copy's clock.
const ROWS: usize = 12;

/// Calls of one loop.
struct Calls {
    staleness: usize,
    /// Minibatches of a copy in a call.
    each: usize,
    /// Rows that a minibatch reads.
    reads: usize,
    pace: Pace,
    /// Which rows are read, in each call.
    patterns: &'static [u64],
}

/// The same rows twice, then others twice.
const FORESEEN_OR_NOT: &[u64] = &[0, 0, 1, 1];

fn run(session: &Session, calls: &Calls) -> Vec<(SyncReport, Observed)> {
    let &Calls { staleness, each, reads, pace, patterns } = calls;
    let copies = copies(session);
    // The last copy has one minibatch less: what it never adds nobody may wait for.
    let input = DVector::from_fn(session, each * copies - 1, |i| i as u32).unwrap();
    let mut clocks = DVector::from_fn(session, copies * ROWS, |_| 0u64).unwrap();
    let mut sums = DVector::from_fn(session, 100, |_| [0i64; 4]).unwrap();
    let mut all = Vec::new();
    for (call, &pattern) in patterns.iter().enumerate() {
        let (read, wrong) = (session.count(), session.count());
        let (behind, ahead) = (session.max(0u64), session.max(0u64));
        let report = sync_parallel_for!(
            input,
            1,
            [
                staleness,
                copies,
                each,
                reads,
                pace,
                call,
                pattern,
                &mut clocks,
                &mut sums,
                &read,
                &wrong,
                &behind,
                &ahead
            ],
            |batch| {
                let (me, clock) = (batch.number() % copies, batch.number() / copies);
                match pace {
                    Pace::Uneven(seed) => match below(seed ^ batch.number() as u64, 200) {
                        0 => std::thread::sleep(Duration::from_micros(1500)),
                        1..5 => std::thread::sleep(Duration::from_micros(100)),
                        _ => {}
                    },
                    Pace::Slow if me == 0 => std::thread::sleep(Duration::from_millis(2)),
                    Pace::Slow => {}
                }
                let (mut bad, mut most_behind, mut most_ahead) = (0, 0, 0);
                let mut random = pattern << 32 | batch.number() as u64;
                for _ in 0..reads {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Five of the rows, which move on, and are others in another pattern.
                    let row = (random >> 33) as usize % 5 + (batch.number() / 3 + 3 * pattern as usize) % (ROWS - 4);
                    let copy = (random >> 40) as usize % copies;
                    let whole = if copy + 1 == copies { each - 1 } else { each };
                    let (before, seen) = (call * whole, clocks[row * copies + copy].get() as usize);
                    bad += u64::from(seen < before + clock.saturating_sub(staleness).min(whole));
                    let seen = seen.saturating_sub(before);
                    if copy == me {
                        bad += u64::from(seen != clock);
                    } else {
                        most_behind = most_behind.max(clock.saturating_sub(seen));
                        most_ahead = most_ahead.max(seen.saturating_sub(clock));
                    }
                }
                read.add(reads as u64);
                wrong.add(bad);
                behind.max(most_behind as u64);
                ahead.max(most_ahead as u64);
                (0..ROWS).for_each(|row| clocks[row * copies + me].add(1));
                // Each minibatch leaves 4 in all of a row's numbers alike, however many others are at it.
                (0..80).for_each(|k| sums[(batch.number() * 7 + k) % 100].add(&[1; 4]));
            },
            SyncPolicy::Ssp { staleness }
        )
        .unwrap();
        all.push((
            report,
            Observed { reads: read.get(), wrong: wrong.get(), behind: behind.get(), ahead: ahead.get() },
        ));
    }
    let whole = |copy| (patterns.len() * if copy + 1 == copies { each - 1 } else { each }) as u64;
    assert_eq!(clocks.to_vec().unwrap(), (0..copies * ROWS).map(|row| whole(row % copies)).collect::<Vec<_>>());
    let sums = sums.to_vec().unwrap().into_iter().fold([0; 4], |sum, row| std::array::from_fn(|k| sum[k] + row[k]));
    assert_eq!(sums, [(patterns.len() * (each * copies - 1) * 80) as i64; 4]);
    all
}

fn bound(place: Place) {
    let session = place.verified();
    let (each, reads) = if long() { (4000, 1000) } else { (150, 160) };
    let mut checked = 0;
    for staleness in [0, 1, 3, 10] {
        for seed in 0..2 {
            let pace = Pace::Uneven(seed * 1000);
            let calls = run(&session, &Calls { staleness, each, reads, pace, patterns: FORESEEN_OR_NOT });
            let fetched = |call: usize| calls[call].0.rows_on_demand() > 0;
            assert_eq!((fetched(1), fetched(2)), (false, session.workers() > 1), "staleness {staleness} on {place}");
            for (report, observed) in calls {
                let case = format!("staleness {staleness} on {place}: {report}");
                assert_eq!(observed.wrong, 0, "{case}");
                assert!(observed.behind <= staleness as u64, "{case}: {} behind", observed.behind);
                assert!(report.staleness_seen() <= staleness as u64, "{case}");
                // What the engine notes is never less than what there is.
                assert!(observed.behind <= report.staleness_seen(), "{case}");
                assert!(observed.ahead <= staleness as u64 + 1, "{case}: {} ahead", observed.ahead);
                assert!(report.reads_checked() >= observed.reads, "{case}: {} reads", observed.reads);
                checked += observed.reads;
            }
        }
    }
    assert_eq!(checked, (8 * FORESEEN_OR_NOT.len() * (each * copies(&session) - 1) * reads) as u64);
    assert!(!long() || checked > 100_000_000, "{checked} reads");
}

fn ahead_and_waiting(place: Place) {
    let session = place.verified();
    for staleness in [0, 1, 3, 10] {
        let calls = Calls { staleness, each: 40, reads: 40, pace: Pace::Slow, patterns: &[0] };
        for (report, observed) in run(&session, &calls) {
            let case = format!("staleness {staleness} on {place}: {report}");
            assert_eq!(observed.wrong, 0, "{case}");
            // As far as they may, and no further.
            assert_eq!((observed.behind, report.staleness_seen()), (staleness as u64, staleness as u64), "{case}");
        }
    }
}
