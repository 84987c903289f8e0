//! One call of a scheduled program.

use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use super::backend::{Away, ProgramCall, ProgramOutcome, ScheduledBackend, ShardsAway, Stopped, Unfinished};
use super::drive::{Course, DEEPEST, Done, RoundCause, RoundFailure, drive};
use super::here::LocalShards;
use super::program::{Program, Schedule};
use super::remote::pack;
use super::report::ScheduledReport;
use super::wire::Writer;
use crate::body::capture::Captured;
use crate::body::panics;
use crate::body::sharing::Watch;
use crate::dds::dvector::DVector;
use crate::memory::codec::CodecError;
use crate::memory::element::Element;
use crate::memory::named::Maker;
use crate::session::error::{Error, LoopProblem, Result, RoundProblem};
use crate::session::pool::Pool;
use crate::session::verified::Verified;
use crate::session::{Session, SessionInner, next_id};

/// A call of a [`Program`] that [`scheduled`] begins: configure it, then run it.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use serde::{Deserialize, Serialize};
/// use stradsap::{DVector, Partials, Program, Session, schedule_round_robin, scheduled};
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
///
/// # Determinism
/// The bits depend on the program, the schedule, the shards and the depth of the pipeline, not on the number of threads or workers.
#[must_use = "nothing happens before `run` or `run_until`"]
pub struct Scheduled<'s, P> {
    pub(crate) session: Arc<SessionInner>,
    pub(crate) program: &'s P,
    pipeline: usize,
    label: Option<String>,
    site: &'static Location<'static>,
}

/// One call, with what it is given.
struct Call<'a, P: Program, S, U> {
    session: &'a SessionInner,
    program: &'a P,
    schedule: &'a mut S,
    model: &'a mut P::Model,
    /// Both as they were before the call.
    kept: &'a (S, P::Model),
    shards: &'a DVector<P::Shard>,
    locals: &'a mut DVector<P::Local>,
    course: Course<U>,
    site: String,
}

impl<P, S, U> ProgramCall for Call<'_, P, S, U>
where
    P: Program,
    S: Schedule<P::Model, P::Job, P::Change>,
    U: FnMut(usize, &P::Model) -> bool,
{
    fn captures(&self) -> [Captured; 2] {
        [self.shards.describe(false), self.locals.describe(true)]
    }

    fn site(&self) -> &str {
        &self.site
    }

    fn pack(&self) -> std::result::Result<(&'static Maker, Vec<u8>), CodecError> {
        pack(self.program)
    }

    fn begin_again(&mut self) {
        (*self.schedule, *self.model) = self.kept.clone();
    }

    fn run_here(&mut self) -> std::result::Result<ProgramOutcome, Unfinished> {
        let pool = self.session.pool()?;
        let (program, n) = (self.program, self.shards.len());
        let data = self.shards.elements(0..n)?;
        let (schedule, model, course) = (&mut *self.schedule, &mut *self.model, &mut self.course);
        let (ran, prepared) = self.locals.change(|locals| {
            let kept = locals.to_vec();
            let prepared = Instant::now();
            let mut here = LocalShards::new(program, data.as_slice(), locals, 0, n, &pool);
            let ran = panics::quietly(|| drive(program, schedule, model, &mut here, course));
            if ran.is_err() {
                locals.iter_mut().zip(kept).for_each(|(local, kept)| *local = kept);
            }
            (ran, prepared)
        })?;
        let (threads, workers) = (pool.threads(), Vec::new());
        let done = ran.map_err(Unfinished::Failed)?;
        Ok(ProgramOutcome { done, bytes_sent: 0, threads, prepared, workers })
    }

    fn run_away(&mut self, shards: &mut dyn ShardsAway) -> std::result::Result<Done, Stopped> {
        let (program, all) = (self.program, self.shards.len());
        let mut away = Away { program, all, writer: Writer::default(), shards };
        panics::quietly(|| drive(program, self.schedule, self.model, &mut away, &mut self.course))
    }

    fn committed(&self) {
        self.locals.describe(true).commit(0, next_id());
    }
}

/// Begins a call of a program on the session's threads or workers. [`Program`] and [`Scheduled`] have complete examples.
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
    /// Sets how many rounds are in flight. The updates of round `t` see exactly the changes of rounds up to `t - depth`. With 1,
    /// the default, nothing is stale. A deeper pipeline hides the time that messages take.
    pub fn pipeline(mut self, depth: usize) -> Self {
        self.pipeline = depth;
        self
    }

    /// A name for the report.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Runs this many rounds.
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
        self.call(schedule, model, shards, locals, (rounds, |_: usize, _: &P::Model| false))
    }

    /// Runs rounds until `until` returns `true`. It is called after each aggregated round, with the number of aggregated rounds and
    /// the model. Rounds that are in flight at that moment are aggregated and applied, too.
    ///
    /// If a worker is lost, the call begins again, and calls `until` again from the first round on.
    ///
    /// # Cost
    /// Each call clones the schedule, the model and the locals. In one process a round of one light job costs about 100 ns beyond
    /// the program's functions. On workers a round costs one message to each worker and one back. A session that
    /// [verifies](Session::verify) runs all rounds once more, one update after the other.
    ///
    /// # Errors
    /// [`Error::Round`] if one of the program's functions panics or names a shard that doesn't exist; [`Error::Loop`] if shards and
    /// locals don't fit together; [`Error::Usage`] if the depth of the pipeline isn't allowed. Schedule, model and locals are then
    /// as they were. [`Error::Verification`] if another order of updates leaves other bits, which happens if functions use more
    /// than their arguments.
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
        self.call(schedule, model, shards, locals, (usize::MAX, until))
    }

    fn call<S, U>(
        self,
        schedule: &mut S,
        model: &mut P::Model,
        shards: &DVector<P::Shard>,
        locals: &mut DVector<P::Local>,
        (rounds, until): (usize, U),
    ) -> Result<ScheduledReport>
    where
        S: Schedule<P::Model, P::Job, P::Change>,
        U: FnMut(usize, &P::Model) -> bool,
    {
        self.check(shards, locals)?;
        let begun = Instant::now();
        let kept = (schedule.clone(), model.clone());
        let watch = Watch::of(self.program);
        let before = if self.session.verifies() { Some(locals.to_vec()?) } else { None };
        let mut call = Call {
            session: &self.session,
            program: self.program,
            schedule,
            model,
            kept: &kept,
            shards,
            locals,
            course: Course { shards: shards.len(), depth: self.pipeline, rounds, until },
            site: self.site(),
        };
        let ran = self.session.backend::<dyn ScheduledBackend>().run_scheduled(&mut call);
        let failed = |unfinished| match unfinished {
            Unfinished::Failed(failed) => self.error(failed, shards.len()),
            Unfinished::Error(error) => error,
        };
        let ended = match ran.map_err(failed) {
            Ok(ended) => ended,
            Err(error) => {
                (*schedule, *model) = kept;
                return Err(error);
            }
        };
        watch.unchanged(&Watch::of(self.program), &self.site())?;
        let mut report = self.report(shards.len(), ended, begun);
        if let Some(before) = before {
            self.verify(kept, before, report.rounds(), shards, locals)?;
            report.verified = Verified::Compared(vec!["locals"]);
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
        shards.describe(false).usable()?;
        locals.describe(true).usable()?;
        if shards.len() != locals.len() {
            return problem(LoopProblem::Locals { shards: shards.len(), locals: locals.len() });
        }
        if !(1..=DEEPEST).contains(&self.pipeline) {
            return Err(Error::usage(format!(
                "the pipeline's depth must be from 1 to {DEEPEST}, not {}",
                self.pipeline
            )));
        }
        Ok(())
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
        let (pool, n) = (Pool::one(), shards.len());
        let data = shards.elements(0..n)?;
        let mut here = LocalShards::new(self.program, data.as_slice(), &mut replayed, 0, n, &pool);
        let until = |_: usize, _: &P::Model| false;
        let mut course = Course { shards: n, depth: self.pipeline, rounds, until };
        let program = self.program;
        let ran = panics::quietly(|| drive(program, &mut schedule, &mut model, &mut here, &mut course));
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

    fn report(&self, shards: usize, ended: ProgramOutcome, begun: Instant) -> ScheduledReport {
        let ProgramOutcome { done, bytes_sent, threads, prepared, workers } = ended;
        ScheduledReport {
            site: self.site(),
            label: self.label.clone(),
            pipeline: self.pipeline,
            shards,
            threads,
            done,
            bytes_sent,
            seconds_preparing: (prepared - begun).as_secs_f64(),
            seconds_running: prepared.elapsed().as_secs_f64(),
            workers,
            verified: Verified::NotAsked,
        }
    }

    fn site(&self) -> String {
        format!("{}:{}", self.site.file(), self.site.line())
    }

    fn error(&self, failed: RoundFailure, shards: usize) -> Error {
        let RoundFailure { round, function, job, shard, what } = failed;
        let problem = match what {
            RoundCause::Panic(note) => RoundProblem::Panic { message: note.message, location: note.location },
            RoundCause::NoSuchShard => RoundProblem::NoSuchShard { shards },
        };
        Error::Round { site: self.site(), round, function: function.name(), job, shard, problem: Box::new(problem) }
    }
}
