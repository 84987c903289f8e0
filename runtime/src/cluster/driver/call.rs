//! A loop's call, on workers: recording, planning's other half, and running until no process is lost meanwhile.

use std::ops::Range;
use std::sync::Arc;

use once_cell::unsync::OnceCell;
use stradsap_dds_server::codec;

use crate::body::capture::{Adding, Captured, Kind};
use crate::body::lease::Lease;
use crate::body::outcome::Failure;
use crate::body::sharing::shared_state;
use crate::cluster::driver::in_parts::Ended;
use crate::cluster::driver::loops::{BlockFailure, LoopCall, LoopLogged};
use crate::cluster::driver::remote::remote_task;
use crate::cluster::driver::remote_plan::{RemotePlan, Spreading, Vector};
use crate::cluster::driver::results::LoopResult;
use crate::cluster::driver::{Cluster, Fault, State};
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{Before, RecordJob, RemoteCapture};
use crate::dds::relaxed::board::{self, Board};
use crate::loops::backend::{Installed, LoopBackend};
use crate::loops::call::{Call, LoopStopped};
use crate::loops::execute::{FirstFailure, Run, words};
use crate::loops::plan_cache::part_of;
use crate::loops::record::{Depth, any_relaxed, fields, recording, shapes, slices};
use crate::loops::results::unite;
use crate::loops::tallied;
use crate::loops::tallies::Tallies;
use crate::loops::verify::Verifier;
use crate::memory::buffer::RawBuf;
use crate::memory::home::Home;
use crate::planner::inference;
use crate::planner::plan::{self, Plan, beforehand};
use crate::planner::recording::{CaptureLog, LONGEST_LISTED, Recording, Usage};
use crate::planner::survey::{Answer, Question, Sorting, Survey};
use crate::session::error::{ClusterError, Error, Result};
use crate::session::pool::Pool;
use crate::session::report::{Elsewhere, WorkerShares};
use crate::session::{SessionInner, locked};

pub(crate) fn vector_of(capture: &Captured) -> Option<Vector> {
    match capture.kind {
        Kind::Vector { len, ops, writable, .. } => Some(Vector { id: capture.id, len, ops, writable }),
        Kind::Reduction { .. } | Kind::Relaxed { .. } => None,
    }
}

pub(crate) fn unnamed(what: &str) -> Error {
    let problem =
        format!("{what} is not part of the program's own executable: loops of shared libraries can't run on workers");
    ClusterError::Process { who: "the driver".to_string(), problem }.into()
}

pub(crate) fn remote_captures(captured: &[Captured]) -> Result<Vec<RemoteCapture>> {
    captured
        .iter()
        .map(|capture| match capture.kind {
            Kind::Vector { len, ops, writable, adding, .. } => {
                let ops = naming::element_name(ops).ok_or_else(|| unnamed("an element type"))?;
                let named = |adding: Adding| {
                    let name = naming::name(adding.ops);
                    Ok::<_, Error>((name.ok_or_else(|| unnamed("an element type"))?, adding.declared))
                };
                let adding = adding.map(named).transpose()?;
                Ok(RemoteCapture::Vector { id: capture.id, len, ops, writable, adding })
            }
            Kind::Reduction { ops, .. } => {
                let name = naming::name(ops);
                Ok(RemoteCapture::Reduction { ops: name.ok_or_else(|| unnamed("a reduction"))? })
            }
            Kind::Relaxed { ops, len, .. } => {
                let name = naming::name(ops);
                Ok(RemoteCapture::Relaxed { ops: name.ok_or_else(|| unnamed("relaxed state"))?, len })
            }
        })
        .collect()
}

impl Cluster {
    fn record_slices(
        &self,
        state: &mut State,
        call: &Call<'_>,
        (slices, tallied): (&[Range<usize>], &[bool]),
        concrete: bool,
    ) -> Result<Recording<'static>> {
        let (task, captures) = (remote_task(call.pack, call.site, "the loop")?, remote_captures(call.captured)?);
        let relaxed = board::to_bytes(&board::before(call.captured));
        let (logs, nanos) = self.retry(state, async |cluster, state| {
            cluster.settle(state, call.captured.iter().map(|capture| capture.id)).await?;
            // Workers forget elements that they fetch to record, and with them what a loop has left in the same places.
            call.captured.iter().for_each(|capture| state.leave_in_ranges(capture.id));
            let held: Vec<_> = call
                .captured
                .iter()
                .map(|capture| state.entries.get(&capture.id).map(|entry| entry.placement.segments().to_vec()))
                .map(Option::unwrap_or_default)
                .collect();
            let workers = state.workers.len();
            let share = |w: usize| slices[slices.len() * w / workers..slices.len() * (w + 1) / workers].to_vec();
            let generation = state.generation;
            let _watched = cluster.name_slow_bodies(generation, &state.workers, &task);
            let recorded = cluster
                .ask_all(&state.workers, |w, client, context| {
                    let job = RecordJob {
                        task: task.clone(),
                        captures: captures.clone(),
                        held: held.clone(),
                        relaxed: relaxed.clone(),
                        tallied: tallied.to_vec(),
                        slices: share(w),
                        concrete,
                    };
                    async move { client.record(context, generation, job).await }
                })
                .await?;
            let mut logs: Vec<Vec<CaptureLog>> = Vec::with_capacity(slices.len());
            for (recorded, &node) in recorded.iter().zip(&state.workers) {
                for &blob in &recorded.blobs {
                    let got = cluster.blob(node, blob).await?;
                    let part: Vec<Vec<CaptureLog>> = codec::decode(&got, codec::MAX_BYTES).map_err(|error| {
                        let (who, problem) = (cluster.hub.name(node), error.to_string());
                        Fault::Error(ClusterError::Process { who, problem }.into())
                    })?;
                    logs.extend(part);
                }
            }
            let nanos = recorded.iter().fold(0u64, |sum, recorded| sum.saturating_add(recorded.nanos));
            Ok((logs, nanos))
        })?;
        if logs.len() != slices.len() || logs.iter().any(|slice| slice.len() != call.captured.len()) {
            let problem = "the workers' logs are not those of this loop".to_string();
            return Err(ClusterError::Process { who: "the driver".to_string(), problem }.into());
        }
        Ok(recording(&call.key.range, logs, nanos, call.captured))
    }

    /// The memory of the captures, with the elements that rules could be read from.
    fn with_elements_in_step<'c>(
        &self,
        state: &mut State,
        call: &Call<'c>,
        sampled: &Recording<'_>,
    ) -> Result<Lease<'c>> {
        let mut fetched = Vec::with_capacity(call.captured.len());
        for (c, capture) in call.captured.iter().enumerate() {
            fetched.push(match (&capture.kind, sampled.usage[c]) {
                (&Kind::Vector { len, .. }, Usage::InStep { written: false, .. })
                    if state.entries.get(&capture.id).is_some_and(|entry| !entry.placement.is_home()) =>
                {
                    let id = capture.id;
                    Some(self.retry(state, async |cluster, state| cluster.fetch(state, id, 0..len).await)?)
                }
                _ => None,
            });
        }
        // Only now: what was fetched may have been brought home on the way.
        Ok(Lease::of(call.captured).with(fetched))
    }

    /// What all captured DDSs hold, in this process's memory.
    fn copies(&self, state: &mut State, captured: &[Captured]) -> Result<Vec<Option<RawBuf>>> {
        let mut copies = Vec::new();
        for capture in captured {
            let copy = match vector_of(capture) {
                Some(Vector { id, len, .. }) => {
                    Some(self.retry(state, async |cluster, state| cluster.fetch(state, id, 0..len).await)?)
                }
                None => None,
            };
            copies.push(copy);
        }
        Ok(copies)
    }

    /// Replays the claimed order here. Gives the captures that were compared, or the first difference.
    fn check(
        &self,
        state: &mut State,
        call: &Call<'_>,
        plan: &RemotePlan,
        before: Vec<Option<RawBuf>>,
        (words, board, tallies): (&[u64], &Arc<Board>, &Tallies),
    ) -> Result<std::result::Result<Vec<usize>, FirstFailure>> {
        let left = self.copies(state, call.captured)?;
        let lease = Lease::nothing(call.captured).with(left);
        let part = part_of(&plan.plan, &call.key.range);
        let run = Run {
            plan: &part,
            task: call.task,
            lease: &lease,
            packed: &[],
            order: call.key.options.order,
            trace: false,
            before: crate::loops::execute::words(call.captured),
            board: Arc::clone(board),
            tallies,
            apart: None,
        };
        let verifier = Verifier::of(call.captured, before);
        let _held = self.hold_state();
        Ok(verifier.check(&run, words).map_err(|(capture, index)| FirstFailure::difference(capture, index)))
    }
}

impl Cluster {
    /// Brings the DDSs here to which the loop's tallies will be added. They stay while what this gives lives.
    fn bring_tallied(&self, state: &mut State, call: &Call<'_>, tallies: &Tallies) -> Result<Vec<Arc<RawBuf>>> {
        let tallied = call.captured.iter().enumerate().filter(|(c, _)| tallies.has(*c));
        let bring = |(_, capture): (usize, &Captured)| {
            self.bring_to_change(state, capture.id)?;
            Ok(capture.home().map(Home::lend))
        };
        Ok(tallied.map(bring).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Adds what workers have tallied to the DDSs, which are here.
    fn unite(
        &self,
        state: &mut State,
        call: &Call<'_>,
        tallies: &Tallies,
        tallied: &[Vec<u8>],
    ) -> std::result::Result<(), LoopStopped> {
        if tallies.is_empty() {
            return Ok(());
        }
        if !tallied.iter().all(|bytes| tallies.decode(bytes)) {
            let problem = "a worker's tallies are not those of its blocks".to_string();
            return Err(Error::from(ClusterError::Process { who: "the driver".to_string(), problem }).into());
        }
        let lease = Lease::of(call.captured);
        let tallied = || (0..call.captured.len()).filter(|&c| tallies.has(c));
        if tallied().any(|c| lease.vector(c).is_none()) {
            let problem = "a DDS to which tallies are to be added is not here".to_string();
            return Err(Error::from(ClusterError::Process { who: "the driver".to_string(), problem }).into());
        }
        let united = tallies.unite(&lease, &*self.pool);
        tallied().for_each(|c| Self::changed(state, call.captured[c].id));
        let last = call.key.range.end - 1;
        Ok(united.map_err(|note| FirstFailure::new(0, Some(last), Failure::Panic(note)))?)
    }
}

impl Cluster {
    /// Runs a loop, in parts or on one worker if need be.
    fn run_logged(
        &self,
        state: &mut State,
        mut logged: Arc<LoopLogged>,
        trace: bool,
    ) -> std::result::Result<LoopResult, LoopStopped> {
        if trace && let Some(together) = logged.together(self, state) {
            logged = together;
        }
        let mut loops = LoopCall::new(Arc::clone(&logged), trace, true);
        loop {
            let ended = match self.run_call(state, &mut loops, Ended::from) {
                Ok(finished) => Ok(finished),
                Err(Ended::TooLong) => {
                    state.in_vain = loops.in_vain;
                    self.run_in_parts(state, &logged, trace)
                }
                Err(Ended::Stopped(stopped)) => Err(stopped),
            };
            match ended {
                Ok(finished) => return Ok(finished),
                Err(LoopStopped::Failed(FirstFailure { failure: Failure::Misspeculation { capture }, .. }))
                    if by_index_now(&logged.plan, capture) =>
                {
                    // What is read in step is reached by other means than `x[i]`: the workers must keep count.
                }
                Err(ended @ LoopStopped::Failed(_)) => {
                    // It fails in any case: on one worker it does so where the plan's order says.
                    let Some(together) = logged.together(self, state) else { return Err(ended) };
                    logged = together;
                    loops = LoopCall::new(Arc::clone(&logged), trace, true);
                }
                Err(ended) => return Err(ended),
            }
        }
    }
}

impl LoopBackend for Cluster {
    fn is_one_process(&self) -> bool {
        false
    }

    fn planners(&self, _: &SessionInner) -> Result<Arc<Pool>> {
        Ok(Arc::clone(&self.pool))
    }

    fn record<'c, 'f>(
        &self,
        call: &Call<'c>,
        depth: Depth,
        (lent, may_be_away): (&'f OnceCell<Lease<'c>>, bool),
    ) -> Result<(Recording<'f>, Depth)> {
        let mut state = locked(&self.state);
        self.register_all(&mut state, call.captured);
        let (range, options) = (call.key.range.clone(), &call.key.options);
        let mut tallied = tallied::beforehand(call.captured, options, range.len());
        if depth == Depth::Sampled
            && let Some(few) = inference::few(&range)
        {
            let mut sampled = self.record_slices(&mut state, call, (&few, &tallied), false)?;
            tallied::leave_out(&mut sampled, &mut tallied.clone(), call.captured, (options, false));
            let shapes = shapes(call.captured);
            if inference::is_long(&sampled) && beforehand::is_serial(&sampled, &shapes, &options.planning(false)) {
                return Ok((sampled, Depth::Sampled));
            }
        }
        if depth == Depth::Sampled
            && let Some(samples) = inference::samples(&range)
        {
            let mut sampled = self.record_slices(&mut state, call, (&samples, &tallied), false)?;
            tallied::leave_out(&mut sampled, &mut tallied, call.captured, (options, false));
            let shapes = shapes(call.captured);
            if beforehand::is_serial(&sampled, &shapes, &options.planning(false)) {
                return Ok((sampled, Depth::Sampled));
            }
            if plan::are_in_rows(&sampled, &samples, &shapes, &options.planning(false)) {
                return Ok((sampled.as_outline(&samples), Depth::Sampled));
            }
            if !any_relaxed(call.captured) && beforehand::is_narrow(&sampled, &shapes, &options.planning(false)) {
                return Ok((sampled.as_narrow(), Depth::Sampled));
            }
            if may_be_away && let Some(recording) = self.surveyed(&mut state, call, &sampled, &samples)? {
                return Ok((recording, Depth::Sampled));
            }
            // Where nothing conflicts no rule is needed.
            let fields = match sampled.shared().is_empty() {
                true => vec![None; call.captured.len()],
                false => {
                    let lease = lent.get_or_try_init(|| self.with_elements_in_step(&mut state, call, &sampled))?;
                    fields(&sampled, lease, &self.pool)
                }
            };
            if let Some(recording) =
                inference::infer(&sampled, &samples, &shapes, (&fields, options.columns), &*self.pool)
            {
                return Ok((recording, Depth::Sampled));
            }
        }
        if range.len() > LONGEST_LISTED {
            let samples = inference::samples(&range).unwrap_or_default();
            let sampled = self.record_slices(&mut state, call, (&samples, &tallied), false)?;
            return Ok((sampled.and_no_more(), Depth::Concrete));
        }
        let concrete = depth == Depth::Concrete;
        let slices = slices(&range, call.captured, options.scratch);
        let mut recording = self.record_slices(&mut state, call, (&slices, &tallied), concrete)?;
        tallied::leave_out(&mut recording, &mut tallied, call.captured, (options, depth != Depth::Sampled));
        Ok((recording, if concrete { Depth::Concrete } else { Depth::Symbolic }))
    }

    fn stretches(&self) -> usize {
        locked(&self.state).workers.len().max(1)
    }

    fn survey(
        &self,
        call: &Call<'_>,
        survey: &Survey,
        stretches: usize,
        question: &dyn Fn(usize) -> Question,
    ) -> Result<Vec<Answer>> {
        self.answers(call, survey, stretches, question)
    }

    fn order(&self, sorting: &Sorting, ids: &[Option<u64>]) -> Result<Vec<u32>> {
        self.order_by(sorting, ids)
    }

    fn install(&self, call: &Call<'_>, plan: &Arc<Plan>) -> Result<Installed> {
        let mut state = locked(&self.state);
        self.register_all(&mut state, call.captured);
        // What is tallied stays here: workers have tallies alone.
        let known = |(c, capture)| vector_of(capture).filter(|_| tallied::ops_of(plan, call.captured, c).is_none());
        let vectors = call.captured.iter().enumerate().map(known).collect();
        let captures = remote_captures(call.captured)?;
        let by = if call.may_be_cut_anywhere(plan) { Spreading::ByIterations } else { Spreading::ByBlocks };
        let plan = self.remote_plan(&mut state, Arc::clone(plan), captures, vectors, by);
        // Its shares are sent, and the elements that are laid out by it.
        self.retry(&mut state, async |cluster, state| cluster.get_ready(state, &plan).await)?;
        Ok(Box::new(plan))
    }

    fn run(
        &self,
        call: &Call<'_>,
        plan: &Arc<Plan>,
        installed: &mut Installed,
        trace: bool,
    ) -> std::result::Result<Elsewhere, LoopStopped> {
        if !installed.is::<Arc<RemotePlan>>() {
            *installed = self.install(call, plan)?;
        }
        let Some(plan) = installed.downcast_ref::<Arc<RemotePlan>>() else { unreachable!("made just now") };
        let task = remote_task(call.pack, call.site, "the loop")?;
        let mut state = locked(&self.state);
        self.register_all(&mut state, call.captured);
        let relaxed = board::before(call.captured);
        let before = Before { words: words(call.captured), relaxed: board::to_bytes(&relaxed) };
        let board = Arc::new(Board::new(call.captured, relaxed, &plan.plan.strata));
        let tallies = Tallies::new(&plan.plan, call.captured);
        let tallied_here = self.bring_tallied(&mut state, call, &tallies)?;
        let shadows = match call.session.verifies() {
            true => {
                self.retry(&mut state, async |cluster, state| cluster.bring_order(state, plan).await)?;
                Some(self.copies(&mut state, call.captured)?)
            }
            false => None,
        };
        let order = call.key.options.order;
        let (range, within_blocks) = (call.key.range.clone(), call.may_be_cut_anywhere(&plan.plan));
        let logged = Arc::new(LoopLogged { plan: Arc::clone(plan), range, task, before, order, within_blocks });
        let (before, ran) = (logged.before.words.clone(), self.run_logged(&mut state, logged, trace)?);
        let LoopResult { totals, relaxed, tallied, workers, bytes_sent, changed } = ran;
        self.unite(&mut state, call, &tallies, &tallied)?;
        drop(tallied_here);
        for (blocks, bytes) in relaxed {
            let mut rest = bytes.as_slice();
            if !blocks.into_iter().all(|block| board.decode(block, &mut rest)) || !rest.is_empty() {
                let problem = "a worker's relaxed state is not that of its blocks".to_string();
                return Err(Error::from(ClusterError::Process { who: "the driver".to_string(), problem }).into());
            }
        }
        let after = unite(&plan.plan, call.captured, order, &before, totals.results());
        let checked = match shadows {
            Some(shadows) => self.check(&mut state, call, plan, shadows, (&after, &board, &tallies))?.map(Some),
            None => Ok(None),
        };
        drop(state);
        call.commit(&after, &board);
        if let Some(of) = changed {
            return Err(shared_state(of, call.site).into());
        }
        let compared = checked?;
        let workers = self.times(workers);
        Ok(Elsewhere { bytes_sent, workers, staleness: board.errors(), compared, ..Elsewhere::default() })
    }

    fn shares(&self, installed: &Installed) -> Option<Arc<WorkerShares>> {
        installed.downcast_ref::<Arc<RemotePlan>>().map(|plan| self.shares_of(plan))
    }
}

pub(crate) fn first_failure(failed: BlockFailure) -> LoopStopped {
    let ((block, iteration), failure) = failed.failure();
    LoopStopped::Failed(FirstFailure::new(block as usize, iteration, failure))
}

/// Whether this is news: that a capture's elements are reached by other means than `x[i]`.
fn by_index_now(plan: &RemotePlan, capture: usize) -> bool {
    if !plan.is_laid_out(capture) {
        return false;
    }
    let mut installed = locked(&plan.state);
    installed.generation = 0;
    !std::mem::replace(&mut installed.by_index[capture], true)
}
