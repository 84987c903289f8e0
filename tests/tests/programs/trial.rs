//! How a program runs: once, beside its plain loop, to compare bits; or both in turn, larger and several times, on the clock.

use std::fmt::Debug;
use std::time::Instant;

use stradsap::prelude::*;

/// A run of a program.
#[derive(Default)]
pub(crate) struct Trial {
    /// How often the clock is read; 0: bits are compared.
    rounds: usize,
    /// Seconds of the loop's first call, which records and plans.
    pub(crate) first: f64,
    /// Seconds of the loop's other calls.
    pub(crate) ours: Vec<f64>,
    /// Seconds of the plain loop.
    pub(crate) plain: Vec<f64>,
}

impl Trial {
    /// One that takes the time, in this many rounds.
    pub(crate) fn timed(rounds: usize) -> Trial {
        Trial { rounds: rounds.max(1), ..Trial::default() }
    }

    /// How large something is: in a test, and where the time is taken.
    pub(crate) fn size(&self, tested: usize, timed: usize) -> usize {
        if self.rounds == 0 { tested } else { timed }
    }

    /// A loop of iterations in any order. The plain one runs in the order that the report says, or on the clock in its own.
    pub(crate) fn steps(
        &mut self,
        range: std::ops::Range<usize>,
        ours: impl FnMut() -> stradsap::Result<LoopReport>,
        mut step: impl FnMut(usize),
    ) -> stradsap::Result<LoopReport> {
        if self.rounds > 0 {
            return self.sweep(ours, || range.clone().for_each(&mut step));
        }
        let mut ours = ours;
        let report = ours()?;
        report.serial_order().for_each(step);
        Ok(report)
    }

    /// A loop, or several, with one result in any order.
    pub(crate) fn sweep(
        &mut self,
        mut ours: impl FnMut() -> stradsap::Result<LoopReport>,
        mut plain: impl FnMut(),
    ) -> stradsap::Result<LoopReport> {
        let start = Instant::now();
        let mut report = ours()?;
        self.first = start.elapsed().as_secs_f64();
        plain();
        for _ in 0..self.rounds {
            let start = Instant::now();
            plain();
            let between = Instant::now();
            report = ours()?;
            self.plain.push((between - start).as_secs_f64());
            self.ours.push(between.elapsed().as_secs_f64());
        }
        Ok(report)
    }

    /// What the loop left is what the plain loop left. (On the clock they may have run in different orders.)
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "both are mostly made for the comparison")]
    pub(crate) fn same<T: PartialEq + Debug>(&self, ours: T, plain: T) {
        if self.rounds == 0 {
            assert_eq!(ours, plain);
        }
    }
}
