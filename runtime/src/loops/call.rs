//! One call of a parallel loop: find or make the plan, run it, and begin again if the pattern was another.
//!
//! # Why this is sound
//! A [`Call`] has the captures that its task was made for, and they stay borrowed as long as it lives: `new` asks for both.
#![allow(unsafe_code)]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use once_cell::unsync::OnceCell;

use crate::body::capture::{Adding, Captured, Handles, Kind};
use crate::body::lease::Lease;
use crate::body::outcome::{Failure, Outcome};
use crate::body::panics::{self, CaughtPanic};
use crate::body::task::{LoopTask, Task};
use crate::body::value::Values;
use crate::dds::relaxed::board::Board;
use crate::loops::backend::LoopBackend;
use crate::loops::execute::FirstFailure;
use crate::loops::plan_cache::{CachedPlan, Odd, PlanKey, Plans, bytes_of, part_of, serves_parts};
use crate::loops::record::{Depth, planned_shapes, record};
use crate::loops::replan::MISSPECULATIONS;
use crate::loops::sure::{computes_with_floats, needs_no_copies};
use crate::loops::tallied;
use crate::memory::codec::CodecError;
use crate::memory::element::Element;
use crate::memory::home::Poison;
use crate::memory::named::Maker;
use crate::planner::plan::{self, Facts, MAX_PARTS, Plan};
use crate::planner::recording::{CaptureShape, MAX_LEN, Recording};
use crate::session::clock::Instant;
use crate::session::dot;
use crate::session::error::{Error, LoopProblem, Result};
use crate::session::logging::warning;
use crate::session::options::{Bounds, Indices, LoopOptions, OnFailure, Order, Site, Strategy};
use crate::session::pool::Pool;
use crate::session::report::{Asked, Elsewhere, LoopReport, Sizes};
use crate::session::timeline::{Category, span};
use crate::session::{SessionInner, next_id, plan_file};

/// Why a plan runs the loop's own order.
const CONFIRMS: &str = "an iteration failed, which the loop's own order has to confirm";

/// What `async_parallel_for!` calls.
///
/// # Errors
/// As the macro says.
#[allow(clippy::too_many_arguments, reason = "a macro calls it")]
pub fn async_for<X, V, H, S, I, F, R>(
    site: &'static Site,
    options: LoopOptions,
    range: Bounds<X>,
    values: V,
    mut handles: H,
    scratch: I,
    body: F,
) -> Result<LoopReport>
where
    X: Indices,
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    let Bounds { iterations, rule } = range;
    let floats = options.floats.filter(|_| computes_with_floats::<X, V::Owned>());
    let options = LoopOptions { floats, columns: X::columns(rule), ..options };
    let task = LoopTask::<X, V, H, S, I, F, R>::new(rule, values, &handles, scratch, body);
    let mut rule_bytes = Vec::new();
    rule.encode(&mut rule_bytes);
    let captured = handles.describe();
    let (pack, watch, digests) = (|| task.pack(), task.watch(), || task.digests());
    let given = Given { captured: &captured, pack: &pack, digests: &digests };
    // SAFETY: the captures are those that the task was made for, and the handles keep them borrowed.
    let call = unsafe { Call::new(site, options, (iterations, rule_bytes), &task, given) };
    let result = call.and_then(Call::run).and_then(|report| watch.unchanged(&task.watch(), site).map(|()| report));
    // The borrows end here, not before.
    drop(handles);
    result
}

/// What a loop needs to run elsewhere: the address of its maker, and its values as bytes.
pub(crate) type Pack<'c> = &'c dyn Fn() -> std::result::Result<(&'static Maker, Vec<u8>), CodecError>;

/// What a loop captures: DDSs; its values as bytes; a number for each value.
#[derive(Clone, Copy)]
struct Given<'c> {
    captured: &'c [Captured],
    pack: Pack<'c>,
    digests: &'c dyn Fn() -> Vec<u64>,
}

pub(crate) struct Call<'c> {
    pub(crate) site: &'static Site,
    pub(crate) key: PlanKey,
    pub(crate) captured: &'c [Captured],
    pub(crate) task: &'c dyn Task,
    pub(crate) pack: Pack<'c>,
    pub(super) digests: &'c dyn Fn() -> Vec<u64>,
    pub(crate) session: &'c SessionInner,
    pub(super) backend: Arc<dyn LoopBackend>,
    /// The threads of this process.
    pub(crate) pool: Arc<Pool>,
    pub(crate) misspeculations: usize,
}

/// Why a loop did not end well.
pub(crate) enum LoopStopped {
    Failed(FirstFailure),
    Error(Error),
}

impl From<FirstFailure> for LoopStopped {
    fn from(failed: FirstFailure) -> LoopStopped {
        LoopStopped::Failed(failed)
    }
}

impl From<Error> for LoopStopped {
    fn from(error: Error) -> LoopStopped {
        LoopStopped::Error(error)
    }
}

impl<'c> Call<'c> {
    /// # Safety
    /// The captures are those that the task was made for, and stay borrowed as long as the call lives.
    unsafe fn new(
        site: &'static Site,
        options: LoopOptions,
        (range, rule): (std::result::Result<Range<usize>, LoopProblem>, Vec<u8>),
        task: &'c dyn Task,
        given: Given<'c>,
    ) -> Result<Self> {
        let Given { captured, pack, digests } = given;
        let problem = |problem| Error::Loop { site: site.to_string(), problem };
        if panics::inside_body() {
            return Err(problem(LoopProblem::Nested));
        }
        let Some(first) = captured.first() else { return Err(problem(LoopProblem::NothingCaptured)) };
        for (c, capture) in captured.iter().enumerate() {
            capture.usable()?;
            if !capture.session.is(&first.session) {
                return Err(problem(LoopProblem::TwoSessions { first: site.name(0), second: site.name(c) }));
            }
            let same = |other: &Captured| other.id == capture.id && other.is_added_to();
            if let Some(other) = captured[..c].iter().position(same) {
                return Err(problem(LoopProblem::CapturedTwice { first: site.name(other), second: site.name(c) }));
            }
        }
        let range = range.map_err(problem)?;
        // Rows and columns of a loop over pairs are numbers of 32 bits.
        let most = if options.columns.is_some() { u32::MAX as usize } else { MAX_LEN };
        if range.len() > most {
            return Err(problem(LoopProblem::TooLong { len: range.len(), max: most }));
        }
        if let Some(given) = options.parts.filter(|parts| !(1..=MAX_PARTS).contains(parts)) {
            return Err(problem(LoopProblem::Parts { given, max: MAX_PARTS }));
        }
        if options.grain == Some(0) {
            return Err(problem(LoopProblem::NoGrain));
        }
        if options.staleness == Some(0) {
            return Err(problem(LoopProblem::NoStaleness));
        }
        // A reduction may be a new one in each epoch: no plan depends on which it is.
        let identity = |capture: &Captured| match capture.kind {
            Kind::Vector { len, .. } => (capture.id, len),
            Kind::Reduction { .. } => (0, 0),
            Kind::Relaxed { len, .. } => (0, len),
        };
        let range = if range.is_empty() { range.start..range.start } else { range };
        let key = PlanKey {
            site: std::ptr::from_ref(site).addr(),
            body: task.type_id(),
            range,
            rule,
            options,
            captures: captured.iter().map(identity).collect(),
        };
        let backend = first.session.backend::<dyn LoopBackend>();
        let pool = backend.planners(&first.session)?;
        let session = &first.session;
        Ok(Call { site, key, captured, task, pack, digests, session, backend, pool, misspeculations: 0 })
    }

    fn run(mut self) -> Result<LoopReport> {
        let kept = self.kept();
        let mut reused = kept.is_some();
        let mut cached = match kept {
            Some(cached) => cached,
            None => self.make_plan(Depth::Sampled)?,
        };
        let mut trace = false;
        // The plan that later calls use, while this one runs in the loop's own order.
        let mut set_aside: Option<CachedPlan> = None;
        loop {
            let begun = Instant::now();
            match self.backend.run(&self, &cached.plan, &mut cached.installed, trace) {
                Ok(elsewhere) => {
                    cached.misspeculations_in_row = 0;
                    if reused && self.misspeculations == 0 {
                        self.found(&mut cached);
                    }
                    cached.odd.calls = if self.misspeculations > 0 { cached.odd.calls + 1 } else { 0 };
                    if let Some(misled) = &mut set_aside {
                        misled.misspeculations_in_row += 1;
                        self.misspeculations += 1;
                    }
                    let report = self.report(&cached, reused, begun.elapsed().as_secs_f64(), elsewhere);
                    self.deal_anew(&mut cached, &report);
                    self.store(self.to_keep(cached, set_aside));
                    return Ok(report);
                }
                Err(LoopStopped::Error(error)) => {
                    self.store(set_aside.unwrap_or(cached));
                    return Err(error);
                }
                Err(LoopStopped::Failed(failed)) if self.keeps_nothing(&cached.plan) => {
                    let error = self.in_some_iteration(failed, &cached.plan);
                    return self.failed(set_aside.unwrap_or(cached), error);
                }
                Err(LoopStopped::Failed(failed)) => {
                    if let Failure::Misspeculation { capture } = failed.failure {
                        let strayed = (capture, failed.iteration);
                        cached = self.after_straying(cached, strayed, &mut reused, &mut trace)?;
                        continue;
                    }
                    let whole = !matches!(failed.failure, Failure::Undoing(_));
                    let other_order = self.key.options.order == Order::Preserve && !cached.plan.keeps_order();
                    if whole && (other_order || self.overflowed(&cached, &failed.failure)) {
                        // An iteration before this one in the loop's order, which had not run yet, may fail as well, or
                        // change what this one failed on.
                        let own = self.own_order(Facts { reason: CONFIRMS.to_string(), ..Facts::default() })?;
                        set_aside = Some(std::mem::replace(&mut cached, own));
                        (trace, reused) = (true, false);
                        continue;
                    }
                    if whole && failed.iteration.is_none() && !trace {
                        // Everything is as it was: run it again and keep count, to name the iteration.
                        trace = true;
                        continue;
                    }
                    let error = self.error(failed);
                    return self.failed(set_aside.unwrap_or(cached), error);
                }
            }
        }
    }

    /// Whether a failure of this plan can't be undone.
    pub(crate) fn keeps_nothing(&self, plan: &Plan) -> bool {
        self.backend.is_one_process() && needs_no_copies(plan, self.captured, &self.key.options)
    }

    /// The loop has failed for good: what it writes can't be used any more, if it says so.
    fn failed(&self, kept: CachedPlan, error: Error) -> Result<LoopReport> {
        // Of a loop that fails recording tells too little, if iterations end early.
        if 2 * kept.plan.facts.cut_short <= kept.plan.range.len() {
            self.store(kept);
        }
        if self.key.options.on_failure == OnFailure::Poison {
            for (c, capture) in self.captured.iter().enumerate() {
                capture.poison(Poison { dds: self.site.name(c), site: self.site.to_string() }, next_id());
            }
        }
        Err(error)
    }

    /// The error of a failure in an iteration of a block that nobody counted, where the loop can't run again.
    fn in_some_iteration(&self, failed: FirstFailure, plan: &Arc<Plan>) -> Error {
        let problem = match &failed.failure {
            &Failure::Misspeculation { capture } => {
                format!("it uses another element of `{}` than its own", self.site.name(capture))
            }
            _ if failed.iteration.is_some() => return self.error(failed),
            Failure::Panic(note) => format!("{} ({})", note.message, note.location),
            &Failure::OutOfRange { capture, index } => {
                let (name, len) = (self.site.name(capture), self.key.captures[capture].1);
                format!("it uses `{name}[{index}]`, but `{name}` has {len} elements")
            }
            _ => return self.error(failed),
        };
        let part = part_of(plan, &self.key.range);
        let block = part.blocks[failed.block];
        let offsets = part.offsets.get(block.start..block.end).filter(|listed| !listed.is_empty());
        let bound = |listed: Option<&u32>, at: usize| part.range.start + listed.map_or(at, |&offset| offset as usize);
        let first = bound(offsets.and_then(|listed| listed.iter().min()), block.start);
        let last = bound(offsets.and_then(|listed| listed.iter().max()), block.end.saturating_sub(1));
        Error::SomeIteration { site: self.site.to_string(), first, last, problem }
    }

    /// Records the loop in this process. The lease must be of the loop's captures.
    pub(crate) fn record_here<'f>(&self, lease: &'f Lease<'c>, depth: Depth) -> (Recording<'f>, Depth) {
        assert!(std::ptr::eq(lease.captured(), self.captured), "a lease of other captures");
        let options = &self.key.options;
        let tables = self.backend.is_one_process() && options.order == Order::Preserve && !options.scratch;
        // SAFETY: the captures are those that the task was made for (`new`).
        unsafe { record(self.task, lease, self.key.range.clone(), depth, (options, tables), &self.pool) }
    }

    /// The loop ended well: the reductions get their values, and what was written is known to have changed.
    pub(crate) fn commit(&self, words: &[u64], board: &Board) {
        for (capture, &word) in self.captured.iter().zip(words) {
            capture.commit(word, next_id());
        }
        for (capture, values) in self.captured.iter().zip(board.total()) {
            if let Some(values) = values {
                capture.commit_relaxed(values);
            }
        }
    }

    pub(super) fn make_plan(&self, depth: Depth) -> Result<CachedPlan> {
        match self.make_plan_by(depth, true)? {
            Some(cached) => Ok(cached),
            // It takes the elements after all.
            None => match self.make_plan_by(depth, false)? {
                Some(cached) => Ok(cached),
                None => unreachable!("a recording with elements makes a plan"),
            },
        }
    }

    /// None where elements may be away, and the plan can't be made without them.
    fn make_plan_by(&self, depth: Depth, may_be_away: bool) -> Result<Option<CachedPlan>> {
        let begun = Instant::now();
        let options = &self.key.options;
        let (recorded, plan, depth_used);
        if options.strategy == Some(Strategy::Serial) || self.key.range.len() < 2 {
            (recorded, depth_used) = (begun, Depth::Concrete);
            let reason = match options.strategy {
                Some(Strategy::Serial) => "the loop says `strategy = Serial`".to_string(),
                _ => "fewer than two iterations".to_string(),
            };
            plan = Plan::serial(self.key.range.clone(), self.captured.len(), Facts { reason, ..Facts::default() });
        } else {
            // What rules point at stays lent until the plan is made.
            let lent = OnceCell::new();
            let recording_now = span(Category::Record, self.key.range.len() as u64);
            let (recording, depth) = self.backend.record(self, depth, (&lent, may_be_away))?;
            drop(recording_now);
            depth_used = depth;
            recorded = Instant::now();
            let mut planning = span(Category::Plan, 0);
            let shapes = planned_shapes(self.captured, &recording);
            let planned = match recording.survey() {
                Some(survey) => match self.planned_away(&recording, &shapes, survey)? {
                    None => return Ok(None),
                    planned => planned,
                },
                None => self.planned(&recording, &shapes),
            };
            let Some(mut made) = planned else { return self.make_plan(Depth::Symbolic).map(Some) };
            made.facts.cut_short = made.facts.cut_short.max(recording.cut_short);
            made.facts.summed_up_whole = tallied::many(&recording, &made, self.captured);
            planning.set(made.blocks.len() as u64);
            drop(planning);
            self.say_tallies(&mut made);
            plan = made;
        }
        if let Some(parts) = options.parts
            && plan.facts.too_many_groups
        {
            let problem = LoopProblem::PartsRefused { parts, reason: plan.facts.reason };
            return Err(Error::Loop { site: self.site.to_string(), problem });
        }
        let mut cached = self.cached(plan, depth_used)?;
        cached.seconds_recording = (recorded - begun).as_secs_f64();
        cached.seconds_planning = recorded.elapsed().as_secs_f64();
        self.explain(&cached)?;
        Ok(Some(cached))
    }

    /// None where too little was recorded for a plan.
    pub(super) fn planned(&self, recording: &Recording<'_>, shapes: &[CaptureShape]) -> Option<Plan> {
        let options = self.key.options.planning(self.backend.is_one_process());
        let mut plan = match recording.outline() {
            [] => plan::plan(recording, shapes, &options, &*self.pool),
            _ => plan::of_table(recording, shapes, &options, &*self.pool)?,
        };
        plan.facts.repeated = recording.repeated;
        Some(plan)
    }

    /// Says in a plan which DDSs are added up in tallies.
    fn say_tallies(&self, plan: &mut Plan) {
        let names = (0..self.captured.len()).filter(|&c| tallied::ops_of(plan, self.captured, c).is_some());
        let names: Vec<String> = names.map(|c| format!("`{}`", self.site.name(c))).collect();
        if !names.is_empty() {
            plan.facts.reason = format!("{}; {} added up in tallies", plan.facts.reason, names.join(" and "));
        }
        let addable =
            |&c: &usize| tallied::could(&self.captured[c], plan.usage[c], &self.key.options, self.key.range.len());
        plan.facts.addable = (0..self.captured.len()).filter(addable).collect();
    }

    pub(super) fn cached(&self, mut plan: Plan, depth: Depth) -> Result<CachedPlan> {
        if self.captured.iter().any(|capture| matches!(capture.kind, Kind::Relaxed { .. })) {
            plan.stratify(self.key.options.staleness);
        }
        let plan = Arc::new(plan);
        Ok(CachedPlan {
            installed: self.backend.install(self, &plan)?,
            values: (self.digests)(),
            sizes: Arc::new(self.sizes(&plan)),
            serves_parts: serves_parts(&plan, &self.key.options, self.captured, self.backend.is_one_process()),
            bytes: bytes_of(&plan, self.captured),
            odd: Odd::default(),
            by_data: false,
            stale: 0,
            for_all_others: false,
            plan,
            key: self.key.clone(),
            depth,
            misspeculations_in_row: 0,
            nanos: None,
            seconds_recording: 0.0,
            seconds_planning: 0.0,
        })
    }

    /// Whether a tally may have overflowed where the plain loop's sum doesn't: it misses what was there before.
    fn overflowed(&self, cached: &CachedPlan, failure: &Failure) -> bool {
        let is_overflow =
            |note: &CaughtPanic| note.message.starts_with("attempt to ") && note.message.ends_with("overflow");
        let tallied = || (0..self.captured.len()).any(|c| tallied::ops_of(&cached.plan, self.captured, c).is_some());
        matches!(failure, Failure::Panic(note) if is_overflow(note)) && tallied()
    }

    /// A plan that runs the loop in its own order.
    pub(super) fn own_order(&self, facts: Facts) -> Result<CachedPlan> {
        self.cached(Plan::serial(self.key.range.clone(), self.captured.len(), facts), Depth::Concrete)
    }

    /// What later calls run by, after one that ended well: the plan that was set aside, unless it was misled too often.
    fn to_keep(&self, ran: CachedPlan, set_aside: Option<CachedPlan>) -> CachedPlan {
        match set_aside {
            Some(misled) if misled.misspeculations_in_row < MISSPECULATIONS => misled,
            Some(_) => {
                warning!(
                    "{}: runs serially from now on, since iterations failed {MISSPECULATIONS} times in a row that don't \
                     fail in the loop's own order: they depend on what others write where nobody foresaw it",
                    self.site
                );
                ran
            }
            None => ran,
        }
    }

    pub(super) fn store(&self, cached: CachedPlan) {
        self.session.slot::<Plans>().put(cached);
    }

    pub(super) fn explain(&self, cached: &CachedPlan) -> Result<()> {
        if self.session.explains() {
            eprintln!("{}", self.report(cached, false, 0.0, Elsewhere::default()));
        }
        if let Some(path) = self.session.dot() {
            self.report(cached, false, 0.0, Elsewhere::default()).write_dot(&path)?;
        }
        Ok(())
    }

    fn report(&self, cached: &CachedPlan, reused: bool, seconds_running: f64, elsewhere: Elsewhere) -> LoopReport {
        let shares = self.backend.shares(&cached.installed);
        LoopReport {
            site: self.site,
            label: self.key.options.label.clone(),
            plan: part_of(&cached.plan, &self.key.range),
            misspeculations: self.misspeculations,
            reused,
            seconds_recording: cached.seconds_recording,
            seconds_planning: cached.seconds_planning,
            seconds_running,
            elsewhere: Elsewhere { shares, ..elsewhere },
            asked: self.asked(),
            sizes: Arc::clone(&cached.sizes),
            threads: self.pool.threads(),
        }
    }

    fn sizes(&self, plan: &Plan) -> Sizes {
        let mut sizes = Sizes { cut_anywhere: self.may_be_cut_anywhere(plan), ..Sizes::default() };
        for capture in self.captured {
            let (element, relaxed) = match &capture.kind {
                Kind::Vector { ops, .. } => (ops.size as u64, 0),
                Kind::Reduction { .. } => (0, 0),
                Kind::Relaxed { ops, len, .. } => (0, ((ops.element)().size * len) as u64),
            };
            sizes.elements.push(element);
            sizes.relaxed += relaxed;
        }
        sizes
    }

    /// Whether no bits depend on where blocks begin.
    pub(crate) fn may_be_cut_anywhere(&self, plan: &Plan) -> bool {
        let options = &self.key.options;
        let free = |(c, capture): (usize, &Captured)| match capture.kind {
            Kind::Vector { .. } => tallied::ops_of(plan, self.captured, c).is_none_or(|ops| ops.exact),
            Kind::Reduction { ops, .. } => !ops.ordered || options.order == Order::Preserve,
            Kind::Relaxed { .. } => false,
        };
        !options.scratch && self.captured.iter().enumerate().all(free)
    }

    fn asked(&self) -> Asked {
        let is_map = |capture: &Captured| matches!(capture.kind, Kind::Vector { ops, .. } if ops.by_key);
        let is_sum = |capture: &Captured| {
            matches!(capture.kind, Kind::Vector { adding: Some(Adding { declared: true, .. }), .. })
        };
        let of = |is: &dyn Fn(&Captured) -> bool| (0..self.captured.len()).filter(|&c| is(&self.captured[c])).collect();
        let LoopOptions { order, of_operator, .. } = self.key.options;
        Asked { preserve: order == Order::Preserve, of_operator, maps: of(&is_map), sums: of(&is_sum) }
    }

    fn error(&self, failed: FirstFailure) -> Error {
        let site = self.site.to_string();
        let iteration = failed.iteration.unwrap_or(self.key.range.start);
        match failed.failure {
            Failure::OutOfRange { capture, index } => {
                let (len, rows) = self.captured[capture].counted();
                Error::IndexOutOfRange { site, dds: self.site.name(capture), index, len, rows, iteration }
            }
            Failure::Body(source) => Error::Body { site, iteration, source },
            Failure::Panic(note) => Error::Panic { site, iteration, message: note.message, location: note.location },
            Failure::Undoing(note) => {
                let message = format!("{}, while the loop was undone and an element dropped", note.message);
                Error::Panic { site, iteration, message, location: note.location }
            }
            Failure::Difference { capture, index } => Error::Verification { site, dds: self.site.name(capture), index },
            Failure::Misspeculation { .. } | Failure::Stopped => {
                unreachable!("misspeculations are planned anew, and only rounds are stopped")
            }
        }
    }
}

impl FirstFailure {
    pub(crate) fn difference(capture: usize, index: usize) -> Self {
        FirstFailure::new(0, Some(0), Failure::Difference { capture, index })
    }
}

impl LoopReport {
    /// Writes the conflict graph of the plan's blocks in the DOT language.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_dot(&self, path: &Path) -> Result<()> {
        dot::write(self, path)
    }

    /// Writes the plan's blocks as JSON: what each costs and touches, how large that is, and how long this call took. No data.
    /// `stradsap simulate` plays such a file on other machines.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_plan(&self, path: &Path) -> Result<()> {
        plan_file::write(self, path)
    }
}
