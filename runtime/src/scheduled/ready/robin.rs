//! All parameters in turn.

use crate::scheduled::Schedule;

/// A schedule of all parameters in turn, some in each round: [`schedule_round_robin`].
#[derive(Clone, Debug)]
pub struct RoundRobin {
    parameters: usize,
    width: usize,
    next: usize,
}

/// A schedule of the parameters `0..parameters` in their order, over and over, `width` of them in each round. This is the round
/// robin of STRADS's CCD for matrix factorisation; with a width of 1 and no pipeline it is cyclic coordinate descent. The next call
/// continues where this one ends.
///
/// A round never has a parameter twice. A pipeline may, if `width * depth` is larger than `parameters`.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{Schedule, schedule_round_robin};
///
/// let mut schedule = schedule_round_robin(5, 2);
/// let mut round = |t| {
///     let mut jobs = Vec::new();
///     Schedule::<(), usize, ()>::schedule(&mut schedule, t, &(), &mut jobs);
///     jobs
/// };
/// assert_eq!([round(0), round(1), round(2)], [[0, 1], [2, 3], [4, 0]]);
/// ```
pub fn schedule_round_robin(parameters: usize, width: usize) -> RoundRobin {
    RoundRobin { parameters, width: width.clamp(1, parameters.max(1)), next: 0 }
}

impl<M, C> Schedule<M, usize, C> for RoundRobin {
    #[inline]
    fn schedule(&mut self, _round: usize, _model: &M, jobs: &mut Vec<usize>) {
        for _ in 0..self.width.min(self.parameters) {
            jobs.push(self.next);
            self.next += 1;
            if self.next == self.parameters {
                self.next = 0;
            }
        }
    }
}
