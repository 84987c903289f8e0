//! What a scheduled program is: functions over shards, apart from the schedule that says when they run on what.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory::element::Element;

/// A program with a schedule of its own (STRADS, section 3.1): `update` runs on every shard of the data side by side,
/// `aggregate` makes of what they give a new model, `apply` hands the shards what has changed. Which jobs there are in which
/// round is the matter of a [`Schedule`], so that either can be changed without the other.
///
/// The value itself holds the constants, which travel to each worker once a call.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use serde::{Deserialize, Serialize};
/// use stradsap::{DVector, Partials, Program, Session, schedule_round_robin, scheduled};
///
/// /// Least squares by coordinate descent: `y = x b`. A shard is some rows, its state what `x b` leaves of `y`.
/// #[derive(Serialize, Deserialize)]
/// struct LeastSquares {
///     norms: Vec<f64>,
/// }
///
/// impl Program for LeastSquares {
///     type Shard = Vec<[f64; 2]>;
///     type Local = Vec<f64>;
///     type Model = Vec<f64>;
///     type Job = usize; // a coefficient
///     type Partial = f64;
///     type Change = f64;
///
///     fn update(&self, &j: &usize, rows: &Self::Shard, residual: &Self::Local) -> f64 {
///         rows.iter().zip(residual).map(|(row, r)| row[j] * r).sum()
///     }
///     fn aggregate(&self, &j: &usize, partials: Partials<'_, f64>, b: &mut Vec<f64>) -> f64 {
///         let step = partials.sum::<f64>() / self.norms[j];
///         b[j] += step;
///         step
///     }
///     fn apply(&self, &j: &usize, step: &f64, rows: &Self::Shard, residual: &mut Self::Local) {
///         rows.iter().zip(residual).for_each(|(row, r)| *r -= row[j] * step);
///     }
/// }
///
/// let session = Session::builder().threads(1).build()?;
/// let rows = DVector::from_vec(&session, vec![vec![[1.0, 0.0], [1.0, 1.0]], vec![[1.0, 2.0]]])?;
/// let mut left = DVector::from_vec(&session, vec![vec![1.0, 3.0], vec![5.0]])?; // y, since b is 0
/// let program = LeastSquares { norms: vec![3.0, 5.0] };
/// let mut b = vec![0.0; 2];
/// let mut schedule = schedule_round_robin(2, 1);
/// let report = scheduled(&session, &program).run(&mut schedule, &mut b, &rows, &mut left, 200)?;
/// assert!((b[0] - 1.0).abs() < 1e-9 && (b[1] - 2.0).abs() < 1e-9);
/// assert_eq!((report.rounds(), report.jobs(), report.staleness_max()), (200, 200, 0));
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
pub trait Program: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// A part of the data, which no round changes: an element of the DVector of shards.
    type Shard: Element;
    /// What a shard keeps between rounds: the element of the same number of another DVector.
    type Local: Element;
    /// The parameters, in the process that schedules. A call keeps a clone of them, to go back to if something fails.
    type Model: Clone;
    /// What is to be updated.
    type Job: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;
    /// What `update` makes of one shard.
    type Partial: Serialize + DeserializeOwned + Send + 'static;
    /// What `aggregate` has the shards know.
    type Change: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// One shard's part in a job. Runs on the threads, side by side with the others.
    fn update(&self, job: &Self::Job, shard: &Self::Shard, local: &Self::Local) -> Self::Partial;

    /// Unites what the shards gave, in their order, into the model. Jobs follow each other in the schedule's order.
    fn aggregate(
        &self,
        job: &Self::Job,
        partials: Partials<'_, Self::Partial>,
        model: &mut Self::Model,
    ) -> Self::Change;

    /// Brings what a shard keeps up to date.
    fn apply(&self, job: &Self::Job, change: &Self::Change, shard: &Self::Shard, local: &mut Self::Local);

    /// On which shards a job is updated: all of them by default.
    fn updated_on(&self, _job: &Self::Job) -> Shards {
        Shards::All
    }

    /// Which shards its change is applied to: all of them by default. In a rotation it may be the one that has the
    /// parameters next.
    fn applied_to(&self, _job: &Self::Job) -> Shards {
        Shards::All
    }

    /// About how long an update takes, in any unit: of a round's updates the heaviest are begun first. No result depends
    /// on it.
    fn weight(&self, _job: &Self::Job, _shard: &Self::Shard) -> u64 {
        1
    }
}

/// Some of the shards.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Shards;
///
/// let only_the_third = Shards::One(2);
/// assert_ne!(only_the_third, Shards::All);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// Every one.
    All,
    /// The one of this number.
    One(usize),
    /// None.
    None,
}

impl Shards {
    /// Their numbers, of this many.
    #[inline(always)]
    pub(crate) fn range(self, shards: usize) -> Result<std::ops::Range<usize>, usize> {
        match self {
            Shards::All => Ok(0..shards),
            Shards::One(shard) if shard < shards => Ok(shard..shard + 1),
            Shards::One(shard) => Err(shard),
            Shards::None => Ok(0..0),
        }
    }
}

/// What the shards made of a job, in their order.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Partials;
///
/// fn mean(partials: Partials<'_, f64>) -> f64 {
///     let shards = partials.len();
///     partials.sum::<f64>() / shards as f64
/// }
/// ```
#[derive(Debug)]
pub struct Partials<'p, R> {
    slots: std::slice::IterMut<'p, Option<R>>,
}

impl<'p, R> Partials<'p, R> {
    #[inline(always)]
    pub(crate) fn new(slots: &'p mut [Option<R>]) -> Self {
        Partials { slots: slots.iter_mut() }
    }
}

/// For a caller of `aggregate` without an engine, such as a test: every slot holds something.
impl<'p, R> From<&'p mut [Option<R>]> for Partials<'p, R> {
    fn from(slots: &'p mut [Option<R>]) -> Self {
        Partials::new(slots)
    }
}

impl<R> Iterator for Partials<'_, R> {
    type Item = R;

    #[inline(always)]
    fn next(&mut self) -> Option<R> {
        self.slots.next()?.take()
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl<R> ExactSizeIterator for Partials<'_, R> {}

/// Says which jobs each round has. Its state is its own: a call keeps a clone of it, to go back to if something fails.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Schedule;
///
/// /// The parameter that is largest, over and over.
/// #[derive(Clone)]
/// struct Largest;
///
/// impl Schedule<Vec<f64>, usize, f64> for Largest {
///     fn schedule(&mut self, _round: usize, model: &Vec<f64>, jobs: &mut Vec<usize>) {
///         jobs.extend((0..model.len()).max_by(|&a, &b| model[a].total_cmp(&model[b])));
///     }
/// }
/// ```
pub trait Schedule<M, J, C>: Clone {
    /// A call begins whose pipeline is so deep; nothing is in flight.
    fn begin(&mut self, _pipeline: usize) {}

    /// Adds the jobs of a round, counted from the call's first, to an empty list. Of earlier rounds those up to
    /// `round - pipeline` are in the model. None is allowed.
    fn schedule(&mut self, round: usize, model: &M, jobs: &mut Vec<J>);

    /// A job has been aggregated, in the order in which they were scheduled.
    fn observe(&mut self, _job: &J, _change: &C) {}
}
