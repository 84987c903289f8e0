//! What a scheduled program is: functions over shards, apart from the schedule that says when they run on what.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory::element::Element;

/// A program with a schedule of its own (STRADS, section 3.1). `update` runs on all shards of the data in parallel, `aggregate`
/// changes the model by their results, and `apply` brings the shards up to date. A separate [`Schedule`] says which jobs each round
/// has, so either can be exchanged without the other.
///
/// The value itself holds constants. They are sent to each worker once in each call.
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
    /// A part of the data: an element of the DVector of shards. No round changes it.
    type Shard: Element;
    /// What a shard keeps between rounds: the element with the same index in another DVector.
    type Local: Element;
    /// The parameters, which the program's own process holds. A call keeps a clone of them, to restore it if something fails.
    type Model: Clone;
    /// What a round updates: a parameter, or a set of parameters.
    type Job: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;
    /// What `update` computes from one shard.
    type Partial: Serialize + DeserializeOwned + Send + 'static;
    /// What `aggregate` tells the shards.
    type Change: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Computes one shard's part of a job. It runs on the session's threads or workers, in parallel with other updates.
    fn update(&self, job: &Self::Job, shard: &Self::Shard, local: &Self::Local) -> Self::Partial;

    /// Changes the model by the shards' results, which come in the order of the shards. It is called for one job after the other,
    /// in the schedule's order.
    fn aggregate(
        &self,
        job: &Self::Job,
        partials: Partials<'_, Self::Partial>,
        model: &mut Self::Model,
    ) -> Self::Change;

    /// Brings a shard's local up to date.
    fn apply(&self, job: &Self::Job, change: &Self::Change, shard: &Self::Shard, local: &mut Self::Local);

    /// The shards on which a job is updated: all by default.
    fn updated_on(&self, _job: &Self::Job) -> Shards {
        Shards::All
    }

    /// The shards to which a job's change is applied: all by default. In a rotation it may be the shard that has the parameters
    /// next.
    fn applied_to(&self, _job: &Self::Job) -> Shards {
        Shards::All
    }

    /// About how long an update takes, in any unit. The heaviest updates of a round are begun first. No result depends on it.
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
    /// All shards.
    All,
    /// The shard with this number.
    One(usize),
    /// No shard.
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

/// The shards' results for a job, in the order of the shards.
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

/// Says which jobs each round has. It may have state. A call keeps a clone of it, to restore it if something fails.
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
    /// A call begins, with a pipeline of this depth. Nothing is in flight.
    fn begin(&mut self, _pipeline: usize) {}

    /// Adds the jobs of a round to an empty list. Rounds are counted from 0 in each call. The model has the changes of rounds up to
    /// `round - pipeline`. A round may have no jobs.
    fn schedule(&mut self, round: usize, model: &M, jobs: &mut Vec<J>);

    /// A job has been aggregated. Jobs are observed in the order in which they were scheduled.
    fn observe(&mut self, _job: &J, _change: &C) {}
}
