//! How many threads a call of a loop is worth, by what earlier calls took. Which threads run blocks changes no bits.

use std::time::Duration;

use crate::planner::plan::Plan;

/// A loop that takes less runs on the caller's thread alone,
const SHORT: Duration = Duration::from_micros(45);
/// and by so much each thread more delays the end: they are woken one after the other.
const WAKING: Duration = Duration::from_micros(4);
/// Threads that shorten a call by less than this factor have gained nothing: other programs have the cores, say.
const GAIN: f64 = 1.25;
/// Then one thread runs calls for this many times as long as that one took,
const PAUSE: u32 = 10;
/// twice as long each time that threads have gained nothing again, but not longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What earlier calls took.
pub(crate) struct Pace {
    /// As many threads as may find something to do at the same time.
    useful: usize,
    /// How long an iteration took in the last call, in nanoseconds of one thread; none before the first.
    nanos_each: Option<f64>,
    /// For how long one thread alone is still to run calls,
    alone: Duration,
    /// and for how long it was the last time; nothing since threads gained something.
    pause: Duration,
}

impl Pace {
    pub(crate) fn new(plan: &Plan) -> Pace {
        Pace::of(useful_threads(plan))
    }

    fn of(useful: usize) -> Pace {
        Pace { useful, nanos_each: None, alone: Duration::ZERO, pause: Duration::ZERO }
    }

    /// How many threads are worth waking for a call over this many iterations. `caller`: whether the caller's thread may run them.
    pub(crate) fn threads(&self, iterations: usize, caller: bool) -> usize {
        let Some(nanos) = self.nanos_each.map(|nanos| nanos * iterations as f64) else { return self.useful.max(2) };
        if caller && (nanos < SHORT.as_nanos() as f64 || !self.alone.is_zero()) {
            return 1;
        }
        // The time on n threads, `nanos / n + n * WAKING`, is shortest so.
        self.useful.min((nanos / WAKING.as_nanos() as f64).sqrt().ceil() as usize).max(2)
    }

    /// A call has ended: how long it took on this many threads, and for how long these were busy, all together.
    pub(crate) fn ended(&mut self, iterations: usize, threads: usize, (took, busy): (Duration, Duration)) {
        self.nanos_each = Some(busy.as_nanos() as f64 / iterations.max(1) as f64);
        if threads == 1 {
            self.alone = self.alone.saturating_sub(took);
        } else if took.mul_f64(GAIN) > busy {
            self.pause = (2 * self.pause).max(PAUSE * took).min(LONGEST_PAUSE);
            self.alone = self.pause;
        } else {
            self.pause = Duration::ZERO;
        }
    }
}

/// Costs are estimates: twice as many as could be kept busy by them.
fn useful_threads(plan: &Plan) -> usize {
    match plan.graph.edges() {
        0 => usize::MAX,
        _ => (2 * plan.graph.work()).div_ceil(plan.graph.critical_path().max(1)) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn short_calls_stay_with_the_caller() {
        let mut pace = Pace::of(usize::MAX);
        assert!(pace.threads(100, true) > 1, "nothing is known");
        pace.ended(100, 2, (10 * MS, 20 * MS));
        assert!(pace.threads(100, true) > 2);
        assert_eq!(pace.threads(1, true), 8, "the square root of 200 us / 4 us");
        pace.ended(100, 2, (MS / 50, MS / 25));
        assert_eq!((pace.threads(100, true), pace.threads(100, false)), (1, 4));
        pace.ended(100, 1, (MS, MS));
        assert!(pace.threads(100, true) > 1);
    }

    #[test]
    fn threads_that_gain_nothing_are_tried_again_later_and_later() {
        let mut pace = Pace::of(16);
        let alone = |pace: &mut Pace| {
            let calls = (0..).take_while(|_| {
                let one = pace.threads(1000, true) == 1;
                if one {
                    pace.ended(1000, 1, (MS, MS));
                }
                one
            });
            calls.count()
        };
        let mut pauses = Vec::new();
        for _ in 0..4 {
            pace.ended(1000, 2, (4 * MS, 4 * MS));
            pauses.push(alone(&mut pace));
        }
        assert_eq!(pauses, [40, 80, 160, 320]);
        for _ in 0..8 {
            pace.ended(1000, 2, (4 * MS, 4 * MS));
            pauses.push(alone(&mut pace));
        }
        assert_eq!(pauses.last(), Some(&2000));
        pace.ended(1000, 2, (MS, 2 * MS));
        assert_eq!(alone(&mut pace), 0);
        pace.ended(1000, 2, (4 * MS, 4 * MS));
        assert_eq!(alone(&mut pace), 40, "they had gained something meanwhile");
    }
}
