//! Parameters chosen by what they did last, and by what they have to do with each other.

use std::collections::VecDeque;

use super::random::Numbers;
use super::tree::SumTree;
use crate::scheduled::Schedule;

/// No weight is larger, so that sums stay finite.
const HEAVIEST: f64 = 1e290;
/// With a dependency check, this many candidates are drawn for each parameter that a round may have.
const SPARE: usize = 2;
const ETA: f64 = 1e-8;

/// How far a change moved a parameter.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Magnitude;
///
/// struct Step { by: f64, objective: f64 }
///
/// impl Magnitude for Step {
///     fn magnitude(&self) -> f64 {
///         self.by.abs()
///     }
/// }
/// assert_eq!((Step { by: -2.0, objective: 0.5 }.magnitude(), [3.0f32, 4.0].magnitude()), (2.0, 5.0));
/// ```
pub trait Magnitude {
    /// Its size, without a sign.
    fn magnitude(&self) -> f64;
}

impl Magnitude for f64 {
    fn magnitude(&self) -> f64 {
        self.abs()
    }
}

impl Magnitude for f32 {
    fn magnitude(&self) -> f64 {
        f64::from(self.abs())
    }
}

impl<const N: usize> Magnitude for [f64; N] {
    fn magnitude(&self) -> f64 {
        self.iter().map(|x| x * x).sum::<f64>().sqrt()
    }
}

impl<const N: usize> Magnitude for [f32; N] {
    fn magnitude(&self) -> f64 {
        self.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
    }
}

/// How [`DynRegr`] draws its candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// In proportion to the square of the last change, plus a small constant.
    #[default]
    Priority,
    /// All with the same probability (Shotgun).
    Random,
    /// One after the other, in turn. No dependencies are checked.
    Cyclic,
}

/// A schedule that chooses parameters by their last changes and by their dependencies: [`schedule_dyn_regr`].
#[derive(Clone, Debug)]
pub struct DynRegr<D = fn(usize, usize) -> f64> {
    width: usize,
    pick: Pick,
    candidates: Option<usize>,
    eta: f64,
    check: Option<(f64, D)>,
    numbers: Numbers,
    /// The weight of each parameter; 0 while it is planned or in flight.
    weights: SumTree,
    /// For how many rounds is planned at once.
    window: usize,
    next: usize,
    planned: VecDeque<(usize, f64)>,
    in_flight: VecDeque<usize>,
    /// Parameter, weight, and the place in the order of the draws.
    drawn: Vec<(usize, f64, usize)>,
    dropped: u64,
}

/// STRADS's `scheduleDynRegr` (section 4.1, algorithm 2) for the parameters `0..parameters`, of which up to `width` are updated
/// in a round. A job is a parameter's number.
///
/// Candidates are drawn without replacement, with probabilities in proportion to the square of their last change plus a small
/// constant. The highest priorities come first, over all rounds that are in flight together (section 3.4). With a [dependency
/// check](DynRegr::uncorrelated) a candidate is dropped if it is correlated with a parameter that is already chosen or in flight. A
/// parameter is never in flight twice.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{Pick, Schedule, schedule_dyn_regr};
///
/// // Even parameters are the same as the odd ones behind them.
/// let mut schedule = schedule_dyn_regr(100, 8).seed(7).uncorrelated(0.1, |a, b| if a / 2 == b / 2 { 1.0 } else { 0.0 });
/// schedule.set_priorities(|j| if j < 10 { 1.0 } else { 0.0 });
/// let mut jobs: Vec<usize> = Vec::new();
/// Schedule::<(), usize, f64>::schedule(&mut schedule, 0, &(), &mut jobs);
/// let mut pairs: Vec<usize> = jobs.iter().map(|j| j / 2).collect();
/// pairs.sort_unstable();
/// pairs.dedup();
/// assert_eq!(pairs.len(), jobs.len()); // nothing stands beside its twin
///
/// let _shotgun = schedule_dyn_regr(100, 8).pick(Pick::Random);
/// let _by_priority_alone = schedule_dyn_regr(100, 8);
/// let _one_after_the_other = schedule_dyn_regr(100, 8).pick(Pick::Cyclic);
/// ```
///
/// # Cost
/// Drawing a candidate takes `O(log parameters)`. With a dependency check each candidate is compared with those that are chosen or
/// in flight.
pub fn schedule_dyn_regr(parameters: usize, width: usize) -> DynRegr {
    DynRegr {
        width: width.max(1),
        pick: Pick::Priority,
        candidates: None,
        eta: ETA,
        check: None,
        numbers: Numbers::new(0),
        weights: SumTree::new(parameters, |_| 1.0),
        window: 1,
        next: 0,
        planned: VecDeque::new(),
        in_flight: VecDeque::new(),
        drawn: Vec::new(),
        dropped: 0,
    }
}

impl<D> DynRegr<D> {
    /// Sets the seed of the draws. The same seed gives the same schedule.
    pub fn seed(mut self, seed: u64) -> Self {
        self.numbers = Numbers::new(seed);
        self
    }

    /// Sets how candidates are drawn.
    pub fn pick(mut self, pick: Pick) -> Self {
        self.pick = pick;
        self
    }

    /// Sets how many candidates are drawn for a round. The default is twice the width with a dependency check, and the width
    /// without one. If there are more candidates than the width, those with the highest priorities are taken.
    pub fn candidates(mut self, candidates: usize) -> Self {
        self.candidates = Some(candidates);
        self
    }

    /// Sets the small constant, 1e-8 by default. A parameter that moved little at its last update would otherwise not be drawn for
    /// a long time, even if others have moved since. The larger the constant, the sooner it is drawn again. Another remedy is to
    /// call [`set_priorities`](DynRegr::set_priorities) from time to time.
    pub fn eta(mut self, eta: f64) -> Self {
        self.eta = if eta.is_finite() { eta.max(f64::MIN_POSITIVE) } else { ETA };
        self
    }

    /// Drops a candidate whose correlation with one already chosen, or in flight, is above `rho` in absolute value. An
    /// infinite `rho` checks nothing.
    pub fn uncorrelated<E: Fn(usize, usize) -> f64 + Clone>(self, rho: f64, correlation: E) -> DynRegr<E> {
        DynRegr {
            width: self.width,
            pick: self.pick,
            candidates: self.candidates,
            eta: self.eta,
            check: (rho != f64::INFINITY).then_some((rho, correlation)),
            numbers: self.numbers,
            weights: self.weights,
            window: self.window,
            next: self.next,
            planned: self.planned,
            in_flight: self.in_flight,
            drawn: self.drawn,
            dropped: self.dropped,
        }
    }

    /// Sets how far each parameter is expected to move. A program knows this when it has computed a full gradient. Without this,
    /// every parameter's first priority is that of a change of 1. Call it between calls of the program.
    pub fn set_priorities(&mut self, mut change: impl FnMut(usize) -> f64) {
        self.planned.clear();
        let eta = self.eta;
        self.weights.fill(|j| weight(change(j), eta));
    }

    /// How many candidates were dropped so far because they depend on others.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn put_back_planned(&mut self) {
        while let Some((parameter, weight)) = self.planned.pop_front() {
            self.weights.set(parameter, weight);
        }
    }
}

fn weight(change: f64, eta: f64) -> f64 {
    let weight = change * change + eta;
    if weight.is_nan() { HEAVIEST } else { weight.min(HEAVIEST) }
}

impl<D: Fn(usize, usize) -> f64> DynRegr<D> {
    /// Chooses the parameters of the window's rounds, the highest priorities first.
    fn plan(&mut self) {
        let each =
            self.candidates.unwrap_or(if self.check.is_some() { self.width.saturating_mul(SPARE) } else { self.width });
        let wanted = self.width.saturating_mul(self.window);
        let candidates = each.max(self.width).saturating_mul(self.window).min(self.weights.len());
        self.drawn.clear();
        for place in 0..candidates {
            let Some(parameter) = self.weights.draw(self.numbers.unit()) else { break };
            self.drawn.push((parameter, self.weights.get(parameter), place));
            self.weights.set(parameter, 0.0);
        }
        self.drawn.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.2.cmp(&b.2)));
        for k in 0..self.drawn.len() {
            let (parameter, weight, _) = self.drawn[k];
            if self.planned.len() < wanted && !self.depends(parameter) {
                self.planned.push_back((parameter, weight));
            } else {
                self.dropped += u64::from(self.planned.len() < wanted);
                self.weights.set(parameter, weight);
            }
        }
    }

    /// Whether a parameter is correlated with one that is planned or in flight.
    fn depends(&self, parameter: usize) -> bool {
        let Some((rho, correlation)) = &self.check else { return false };
        let others = self.planned.iter().map(|&(other, _)| other).chain(self.in_flight.iter().copied());
        // What is no number is no reason to believe that two parameters have nothing to do with each other.
        others.into_iter().map(|other| correlation(parameter, other)).any(|c| c.is_nan() || c.abs() > *rho)
    }
}

impl<M, C: Magnitude, D: Fn(usize, usize) -> f64 + Clone> Schedule<M, usize, C> for DynRegr<D> {
    fn begin(&mut self, pipeline: usize) {
        self.window = pipeline;
        self.put_back_planned();
    }

    fn schedule(&mut self, _round: usize, _model: &M, jobs: &mut Vec<usize>) {
        if self.pick == Pick::Cyclic {
            let parameters = self.weights.len();
            for _ in 0..self.width.min(parameters) {
                // Whatever is in flight is left out this time.
                if !self.in_flight.contains(&self.next) {
                    jobs.push(self.next);
                    self.in_flight.push_back(self.next);
                }
                self.next = if self.next + 1 == parameters { 0 } else { self.next + 1 };
            }
            return;
        }
        if self.planned.is_empty() {
            self.plan();
        }
        for _ in 0..self.width {
            let Some((parameter, _)) = self.planned.pop_front() else { break };
            jobs.push(parameter);
            self.in_flight.push_back(parameter);
        }
    }

    fn observe(&mut self, &parameter: &usize, change: &C) {
        // Jobs come back in the order in which they left.
        self.in_flight.pop_front();
        if self.pick == Pick::Cyclic {
            return;
        }
        let weight = if self.pick == Pick::Priority { weight(change.magnitude(), self.eta) } else { 1.0 };
        self.weights.set(parameter, weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<D: Fn(usize, usize) -> f64 + Clone>(schedule: &mut DynRegr<D>) -> Vec<usize> {
        let mut jobs = Vec::new();
        Schedule::<(), usize, f64>::schedule(schedule, 0, &(), &mut jobs);
        jobs
    }

    fn observe<D: Fn(usize, usize) -> f64 + Clone>(
        schedule: &mut DynRegr<D>,
        jobs: &[usize],
        change: impl Fn(usize) -> f64,
    ) {
        jobs.iter().for_each(|job| Schedule::<(), usize, f64>::observe(schedule, job, &change(*job)));
    }

    #[test]
    fn draws_are_in_proportion_to_squared_changes() {
        let mut schedule = schedule_dyn_regr(4, 1).eta(1.0).seed(11);
        schedule.set_priorities(|j| [0.0, 1.0, 2.0, 3.0][j]); // weights 1, 2, 5, 10
        let mut counts = [0.0f64; 4];
        for _ in 0..36_000 {
            let jobs = round(&mut schedule);
            counts[jobs[0]] += 1.0;
            observe(&mut schedule, &jobs, |j| j as f64);
        }
        for (count, weight) in counts.iter().zip([1.0, 2.0, 5.0, 10.0]) {
            // Five standard deviations of a binomial distribution.
            let (mean, p) = (36_000.0 * weight / 18.0, weight / 18.0);
            assert!((count - mean).abs() < 5.0 * (mean * (1.0 - p)).sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn nothing_is_in_flight_twice_nor_beside_what_it_depends_on() {
        let related = |a: usize, b: usize| if a % 7 == b % 7 { -0.9 } else { 0.05 };
        for depth in 1..=4 {
            let mut schedule = schedule_dyn_regr(50, 3).seed(depth as u64).uncorrelated(0.1, related);
            Schedule::<(), usize, f64>::begin(&mut schedule, depth);
            let mut in_flight: VecDeque<Vec<usize>> = VecDeque::new();
            let mut seen = [false; 50];
            for t in 0..2000 {
                if t >= depth {
                    let jobs = in_flight.pop_front().unwrap();
                    observe(&mut schedule, &jobs, |j| 1.0 / (1 + j) as f64);
                }
                let jobs = round(&mut schedule);
                jobs.iter().for_each(|&j| seen[j] = true);
                in_flight.push_back(jobs);
                let mut classes: Vec<usize> = in_flight.iter().flatten().map(|j| j % 7).collect();
                let n = classes.len();
                classes.sort_unstable();
                classes.dedup();
                assert_eq!(classes.len(), n, "depth {depth}, round {t}: {in_flight:?}");
            }
            assert!(seen.iter().filter(|&&seen| seen).count() > 40 && schedule.dropped() > 0);
        }
    }

    #[test]
    fn priorities_come_first_within_the_window() {
        let mut schedule = schedule_dyn_regr(12, 2).candidates(6);
        schedule.set_priorities(|j| j as f64);
        Schedule::<(), usize, f64>::begin(&mut schedule, 2);
        assert_eq!((round(&mut schedule), round(&mut schedule)), (vec![11, 10], vec![9, 8]));
    }

    #[test]
    fn every_parameter_has_its_turn_before_any_has_a_second_one() {
        let mut schedule = schedule_dyn_regr(40, 4);
        let mut first: Vec<usize> = Vec::new();
        for _ in 0..10 {
            let jobs = round(&mut schedule);
            observe(&mut schedule, &jobs, |_| 0.0);
            first.extend(jobs);
        }
        first.sort_unstable();
        assert!(first.iter().copied().eq(0..40));
    }

    #[test]
    fn a_clone_goes_on_as_the_original() {
        let mut schedule = schedule_dyn_regr(1000, 5).seed(9).pick(Pick::Random);
        round(&mut schedule);
        let mut other = schedule.clone();
        let rounds: Vec<_> = (0..20).map(|_| round(&mut schedule)).collect();
        assert_eq!(rounds, (0..20).map(|_| round(&mut other)).collect::<Vec<_>>());
    }
}
