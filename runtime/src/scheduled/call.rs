//! One call of a scheduled program.

use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use super::drive::{DEEPEST, Done, End, Failed, What, drive};
use super::here::Here;
use super::program::{Program, Schedule};
use super::report::ScheduledReport;
use crate::body::capture::Captured;
use crate::body::panics;
use crate::cluster::driver::Cluster;
use crate::dds::dvector::DVector;
use crate::memory::element::Element;
use crate::session::error::{Error, LoopProblem, Result, RoundProblem};
use crate::session::pool::Pool;
use crate::session::{Session, SessionInner};

/// A call of a [`Program`], to be told more of and to be run: [`scheduled`].
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use stradsap_runtime::{DVector, Partials, Program, Session, schedule_round_robin, scheduled};
///
/// /// Brings all shards to their mean, one digit of it at a time.
/// #[derive(Serialize, Deserialize)]
/// struct Meet;
///
/// impl Program for Meet {
///     type Shard = ();
///     type Local = f64;
///     type Model = f64;
///     type Job = usize;
///     type Partial = f64;
///     type Change = f64;
///
///     fn update(&self, _: &usize, _: &(), local: &f64) -> f64 {
///         *local
///     }
///     fn aggregate(&self, _: &usize, partials: Partials<'_, f64>, mean: &mut f64) -> f64 {
///         *mean = partials.sum::<f64>() / 4.0;
///         *mean
///     }
///     fn apply(&self, _: &usize, mean: &f64, _: &(), local: &mut f64) {
///         *local += 0.5 * (mean - *local);
///     }
/// }
///
/// let session = Session::builder().threads(2).build()?;
/// let shards = DVector::from_fn(&session, 4, |_| ())?;
/// let mut locals = DVector::from_vec(&session, vec![1.0, 3.0, 5.0, 7.0])?;
/// let mut mean = 0.0;
/// let report = scheduled(&session, &Meet).pipeline(2).label("meet").run_until(
///     &mut schedule_round_robin(1, 1),
///     &mut mean,
///     &shards,
///     &mut locals,
///     |settled, _mean| settled == 30,
/// )?;
/// assert_eq!((mean, report.rounds()), (4.0, 31)); // one was in flight when the 30th had settled
/// assert!(locals.iter()?.all(|x| (x - 4.0f64).abs() < 1e-3));
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
#[must_use = "nothing happens before `run` or `run_until`"]
pub struct Scheduled<'s, P> {
    pub(crate) session: Arc<SessionInner>,
    pub(crate) program: &'s P,
    pipeline: usize,
    label: Option<String>,
    site: &'static Location<'static>,
}

/// What a call asks of workers.
pub(crate) struct Asked<'a, P: Program, S, U> {
    pub(crate) program: &'a P,
    pub(crate) schedule: &'a mut S,
    pub(crate) model: &'a mut P::Model,
    /// Both as they were before the call.
    pub(crate) kept: &'a (S, P::Model),
    pub(crate) shards: Captured,
    pub(crate) locals: Captured,
    pub(crate) depth: usize,
    pub(crate) end: &'a mut End<U>,
    pub(crate) site: String,
}

/// Begins a call of a program over the session's threads or workers: [`Program`] and [`Scheduled`] have whole ones.
///
/// ```
/// # use stradsap_runtime::{DVector, Program, Result, Schedule, Session, scheduled};
/// fn epoch<P: Program>(
///     session: &Session,
///     program: &P,
///     mut schedule: impl Schedule<P::Model, P::Job, P::Change>,
///     model: &mut P::Model,
///     shards: &DVector<P::Shard>,
///     locals: &mut DVector<P::Local>,
/// ) -> Result<usize> {
///     let call = scheduled(session, program).pipeline(3);
///     Ok(call.run(&mut schedule, model, shards, locals, 100)?.rounds())
/// }
/// ```
#[track_caller]
pub fn scheduled<'s, P: Program>(session: &Session, program: &'s P) -> Scheduled<'s, P> {
    Scheduled { session: session.inner(), program, pipeline: 1, label: None, site: Location::caller() }
}

impl<P: Program> Scheduled<'_, P> {
    /// How many rounds are in flight: the updates of round `t` see exactly the changes of rounds up to `t - depth`. With 1,
    /// which it is unless told, nothing is stale; more hide how long messages take.
    pub fn pipeline(mut self, depth: usize) -> Self {
        self.pipeline = depth;
        self
    }

    /// A name for the report.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Runs so many rounds.
    ///
    /// # Errors
    /// As for [`run_until`](Scheduled::run_until).
    pub fn run<S>(
        self,
        schedule: &mut S,
        model: &mut P::Model,
        shards: &DVector<P::Shard>,
        locals: &mut DVector<P::Local>,
        rounds: usize,
    ) -> Result<ScheduledReport>
    where
        S: Schedule<P::Model, P::Job, P::Change>,
    {
        self.call(schedule, model, shards, locals, End { rounds, until: |_: usize, _: &P::Model| false })
    }

    /// Runs rounds until a condition holds, which is asked after each round that has been aggregated: how many have been,
    /// and the model. What is in flight then is aggregated and applied, too.
    ///
    /// After a worker was lost the call begins again, and with it the condition's questions.
    ///
    /// # Cost
    /// A clone of the schedule, the model and the locals a call. A round of one light job costs about 100 ns beyond the
    /// program's functions in one process, and a message each way a worker on several. A session that
    /// [verifies](Session::verify) runs all rounds once more, one update after the other.
    ///
    /// # Errors
    /// [`Error::Round`] if one of the program's functions panics or names a shard that isn't there, [`Error::Loop`] for what
    /// can't be run, [`Error::Usage`] for a pipeline that isn't offered. Schedule, model and locals are then as they were.
    /// [`Error::Verification`] if another order of updates leaves other bits, as functions do that use more than they are given.
    pub fn run_until<S>(
        self,
        schedule: &mut S,
        model: &mut P::Model,
        shards: &DVector<P::Shard>,
        locals: &mut DVector<P::Local>,
        until: impl FnMut(usize, &P::Model) -> bool,
    ) -> Result<ScheduledReport>
    where
        S: Schedule<P::Model, P::Job, P::Change>,
    {
        self.call(schedule, model, shards, locals, End { rounds: usize::MAX, until })
    }

    fn call<S, U>(
        self,
        schedule: &mut S,
        model: &mut P::Model,
        shards: &DVector<P::Shard>,
        locals: &mut DVector<P::Local>,
        mut end: End<U>,
    ) -> Result<ScheduledReport>
    where
        S: Schedule<P::Model, P::Job, P::Change>,
        U: FnMut(usize, &P::Model) -> bool,
    {
        self.check(shards, locals)?;
        let begun = Instant::now();
        let kept = (schedule.clone(), model.clone());
        let before = if self.session.verifies() { Some(locals.to_vec()?) } else { None };
        let ran = match self.session.cluster() {
            Some(cluster) => self.run_away(&cluster, schedule, model, &kept, shards, locals, &mut end, begun),
            None => self.run_here(schedule, model, shards, locals, &mut end, begun),
        };
        let report = match ran {
            Ok(report) => report,
            Err(error) => {
                (*schedule, *model) = kept;
                return Err(error);
            }
        };
        if let Some(before) = before {
            self.verify(kept, before, report.rounds(), shards, locals)?;
        }
        if self.session.explains() {
            eprintln!("{report}");
        }
        Ok(report)
    }

    fn check(&self, shards: &DVector<P::Shard>, locals: &DVector<P::Local>) -> Result<()> {
        let problem = |problem| Err(Error::Loop { site: self.site(), problem });
        if panics::inside_body() {
            return problem(LoopProblem::Nested);
        }
        for (dds, name) in [(shards.session(), "shards"), (locals.session(), "locals")] {
            if !dds.is(&self.session) {
                return problem(LoopProblem::TwoSessions { first: "the call", second: name });
            }
        }
        if shards.len() != locals.len() {
            return problem(LoopProblem::Locals { shards: shards.len(), locals: locals.len() });
        }
        if !(1..=DEEPEST).contains(&self.pipeline) {
            return Err(Error::usage(format!(
                "a pipeline of depth {} is not offered: give a number from 1 to {DEEPEST}",
                self.pipeline
            )));
        }
        Ok(())
    }

    fn run_here<S, U>(
        &self,
        schedule: &mut S,
        model: &mut P::Model,
        shards: &DVector<P::Shard>,
        locals: &mut DVector<P::Local>,
        end: &mut End<U>,
        begun: Instant,
    ) -> Result<ScheduledReport>
    where
        S: Schedule<P::Model, P::Job, P::Change>,
        U: FnMut(usize, &P::Model) -> bool,
    {
        let pool = self.session.pool()?;
        let data = shards.elements(0..shards.len())?;
        let n = shards.len();
        let (ran, prepared) = locals.change(|locals| {
            let kept = locals.to_vec();
            let prepared = Instant::now();
            let mut here = Here::new(self.program, data.as_slice(), locals, 0, n, &pool);
            let ran = panics::quietly(|| drive(self.program, schedule, model, &mut here, n, self.pipeline, end));
            if ran.is_err() {
                locals.iter_mut().zip(kept).for_each(|(local, kept)| *local = kept);
            }
            (ran, prepared)
        })?;
        let done = ran.map_err(|failed| self.error(failed, n))?;
        Ok(self.report(n, pool.threads(), done, begun, prepared))
    }

    #[allow(clippy::too_many_arguments)]
    fn run_away<S, U>(
        &self,
        cluster: &Cluster,
        schedule: &mut S,
        model: &mut P::Model,
        kept: &(S, P::Model),
        shards: &DVector<P::Shard>,
        locals: &mut DVector<P::Local>,
        end: &mut End<U>,
        begun: Instant,
    ) -> Result<ScheduledReport>
    where
        S: Schedule<P::Model, P::Job, P::Change>,
        U: FnMut(usize, &P::Model) -> bool,
    {
        let n = shards.len();
        let mut asked = Asked {
            program: self.program,
            schedule,
            model,
            kept,
            shards: shards.describe(false),
            locals: locals.describe(true),
            depth: self.pipeline,
            end,
            site: self.site(),
        };
        let ended = cluster.run_scheduled(&mut asked)?.map_err(|failed| self.error(failed, n))?;
        let report = self.report(n, ended.threads, ended.done, begun, ended.prepared);
        Ok(ScheduledReport { bytes_sent: ended.bytes_sent, workers: ended.workers, ..report })
    }

    /// Runs the same rounds once more, one update after the other in this process, and compares the locals.
    fn verify<S>(
        &self,
        (mut schedule, mut model): (S, P::Model),
        mut replayed: Vec<P::Local>,
        rounds: usize,
        shards: &DVector<P::Shard>,
        locals: &DVector<P::Local>,
    ) -> Result<()>
    where
        S: Schedule<P::Model, P::Job, P::Change>,
    {
        let differs = |index| Error::Verification { site: self.site(), dds: "locals", index };
        let (pool, n) = (Pool::new(1)?, shards.len());
        let data = shards.elements(0..n)?;
        let mut here = Here::new(self.program, data.as_slice(), &mut replayed, 0, n, &pool);
        let mut end = End { rounds, until: |_: usize, _: &P::Model| false };
        let (program, depth) = (self.program, self.pipeline);
        let ran = panics::quietly(|| drive(program, &mut schedule, &mut model, &mut here, n, depth, &mut end));
        ran.map_err(|_| differs(0))?;
        let encoded = |local: &P::Local| {
            let mut bytes = Vec::new();
            local.encode(&mut bytes);
            bytes
        };
        let left = locals.elements(0..n)?;
        let left: &[P::Local] = left.as_slice();
        match left.iter().zip(&replayed).position(|(left, replayed)| encoded(left) != encoded(replayed)) {
            Some(index) => Err(differs(index)),
            None => Ok(()),
        }
    }

    fn report(&self, shards: usize, threads: usize, done: Done, begun: Instant, prepared: Instant) -> ScheduledReport {
        ScheduledReport {
            site: self.site(),
            label: self.label.clone(),
            pipeline: self.pipeline,
            shards,
            threads,
            done,
            bytes_sent: 0,
            seconds_preparing: (prepared - begun).as_secs_f64(),
            seconds_running: prepared.elapsed().as_secs_f64(),
            workers: Vec::new(),
        }
    }

    fn site(&self) -> String {
        format!("{}:{}", self.site.file(), self.site.line())
    }

    fn error(&self, failed: Failed, shards: usize) -> Error {
        let Failed { round, function, job, shard, what } = failed;
        let problem = match what {
            What::Panic(note) => RoundProblem::Panic { message: note.message, location: note.location },
            What::NoSuchShard => RoundProblem::NoSuchShard { shards },
        };
        Error::Round { site: self.site(), round, function: function.name(), job, shard, problem: Box::new(problem) }
    }
}
