//! Loops that take longer than processes live.
//!
//! A loop that is lost after a while is cut in two halves of its plan's serial order, a half that is lost again in two, and so on. Each
//! part that has ended well is kept by a snapshot, so it isn't done again. No bit depends on that: blocks and their
//! order are the plan's. Should the program's own code fail in a later part, what the loop writes is put back from copies that the driver
//! has made before the first.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::driver::call::first_failure;
use crate::cluster::driver::loops::{BlockFailure, LoopCall, LoopLogged};
use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote_plan::{RemotePlan, Spreading, Vector};
use crate::cluster::driver::results::LoopResult;
use crate::cluster::driver::{Cluster, State};
use crate::cluster::wire::protocol::{Before, RemoteCapture};
use crate::loops::call::LoopStopped;
use crate::memory::buffer::RawBuf;
use crate::planner::plan::Plan;
use crate::session::error::{Error, Result};
use crate::session::options::Strategy;
use crate::session::{locked, next_id};

/// What is lost after this long is not tried again as a whole.
pub(crate) const LONG: Duration = Duration::from_secs(1);

/// Why workers did not run a loop to its end.
#[derive(Debug)]
pub(crate) enum NotRun {
    /// A block failed.
    Failed(BlockFailure),
    /// It was lost when it had run for long.
    TooLong,
}

/// The same for the caller.
pub(crate) enum Ended {
    Stopped(LoopStopped),
    TooLong,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Stopped(error.into())
    }
}

impl From<NotRun> for Ended {
    fn from(why: NotRun) -> Ended {
        match why {
            NotRun::Failed(failed) => Ended::Stopped(first_failure(failed)),
            NotRun::TooLong => Ended::TooLong,
        }
    }
}

/// What DDSs held before a loop.
type Copies = Vec<(u64, RawBuf)>;

impl LoopLogged {
    /// Two halves, to be run one after the other. None where it can't be cut.
    pub(crate) fn halves(&self, cluster: &Cluster, state: &mut State) -> Option<[Arc<LoopLogged>; 2]> {
        let whole = &self.plan;
        // Blocks of a half are places in the order of the whole.
        if whole.plan.offsets.sorting().is_some() {
            return None;
        }
        let part = if whole.plan.range == self.range { None } else { Some(whole.plan.within(&self.range)?) };
        let halves = part.as_ref().unwrap_or(&whole.plan).halves(self.within_blocks)?;
        Some(halves.map(|plan| {
            let (captures, vectors, range) = (whole.captures.clone(), whole.vectors.clone(), plan.range.clone());
            let plan = cluster.remote_plan(state, Arc::new(plan), captures, vectors, whole.spreading);
            let by_index = locked(&whole.state).by_index.clone();
            locked(&plan.state).by_index = by_index;
            self.by(plan, range)
        }))
    }

    /// The same loop on one worker, where it was on several: there its blocks stand in the plan's own order, which says what fails first.
    pub(crate) fn together(&self, cluster: &Cluster, state: &mut State) -> Option<Arc<LoopLogged>> {
        let whole = &self.plan;
        if locked(&whole.state).layout.as_ref().is_none_or(|layout| layout.spread.is_none()) {
            return None;
        }
        let (captures, vectors) = (whole.captures.clone(), whole.vectors.clone());
        let plan = cluster.remote_plan(state, Arc::clone(&whole.plan), captures, vectors, Spreading::Never);
        let by_index = locked(&whole.state).by_index.clone();
        locked(&plan.state).by_index = by_index;
        Some(self.by(plan, self.range.clone()))
    }

    /// The same loop by another plan.
    fn by(&self, plan: Arc<RemotePlan>, range: Range<usize>) -> Arc<LoopLogged> {
        let (task, before) = (self.task.clone(), self.before.clone());
        Arc::new(LoopLogged { plan, range, task, before, order: self.order, within_blocks: self.within_blocks })
    }

    /// The same loop with other values of its reductions before it.
    fn beginning_with(&self, words: &[u64]) -> Arc<LoopLogged> {
        let before = Before { words: words.to_vec(), ..self.before.clone() };
        let (plan, range, task) = (Arc::clone(&self.plan), self.range.clone(), self.task.clone());
        Arc::new(LoopLogged { plan, range, task, before, order: self.order, within_blocks: self.within_blocks })
    }
}

impl Cluster {
    /// Runs a loop in parts. On failure all is as it was before the loop.
    pub(crate) fn run_in_parts(
        &self,
        state: &mut State,
        logged: &Arc<LoopLogged>,
        trace: bool,
    ) -> std::result::Result<LoopResult, LoopStopped> {
        if !state.log.is_empty() {
            self.retry(state, async |cluster, state| cluster.snapshot(state).await)?;
        }
        self.retry(state, async |cluster, state| cluster.bring_order(state, &logged.plan).await)?;
        let before = self.copies_of_written(state, &logged.plan)?;
        let ended = self.run_each_part(state, logged, trace);
        if ended.is_err() {
            Self::put_back(state, before);
        }
        ended
    }

    /// Runs parts one after the other, and halves of those that are lost after a while. The log is empty before and after each.
    fn run_each_part(
        &self,
        state: &mut State,
        logged: &Arc<LoopLogged>,
        trace: bool,
    ) -> std::result::Result<LoopResult, LoopStopped> {
        let mut words = logged.before.words.clone();
        let mut all = LoopResult::default();
        let mut parts = VecDeque::new();
        self.cut_into(state, Arc::clone(logged), &mut parts);
        while let Some((part, may_be_cut)) = parts.pop_front() {
            let plan = Arc::clone(&part.plan.plan);
            // Its one block goes on from what was there before.
            let serial = plan.strategy == Strategy::Serial;
            let part = if serial { part.beginning_with(&words) } else { part };
            let mut call = LoopCall::new(Arc::clone(&part), trace, may_be_cut);
            match self.run_call(state, &mut call, Ended::from) {
                Ok(done) => {
                    if let Some(last) = done.totals.last().filter(|_| serial) {
                        words = last.to_vec();
                    }
                    all.append(done);
                }
                Err(Ended::TooLong) => {
                    // Nothing was done since.
                    state.in_vain = call.in_vain;
                    self.cut_into(state, part, &mut parts);
                }
                Err(Ended::Stopped(LoopStopped::Failed(mut failed))) => {
                    failed.block = plan.number(failed.block);
                    return Err(failed.into());
                }
                Err(Ended::Stopped(error)) => return Err(error),
            }
            if !state.log.is_empty() {
                self.retry(state, async |cluster, state| cluster.snapshot(state).await)?;
            }
        }
        Ok(all)
    }

    /// Puts a loop's halves before other parts, or the loop itself where it can't be cut.
    fn cut_into(&self, state: &mut State, logged: Arc<LoopLogged>, parts: &mut VecDeque<(Arc<LoopLogged>, bool)>) {
        match logged.halves(self, state) {
            Some([first, second]) => {
                tracing::info!(blocks = logged.plan.plan.blocks.len(), "goes on in halves");
                parts.push_front((second, true));
                parts.push_front((first, true));
            }
            None => parts.push_front((logged, false)),
        }
    }

    /// Copies of all that a loop may write.
    fn copies_of_written(&self, state: &mut State, plan: &RemotePlan) -> Result<Copies> {
        let written = plan.vectors.iter().flatten().filter(|vector| vector.writable);
        let mut copies = Vec::new();
        for vector in written {
            let (id, len) = (vector.id, vector.len);
            copies.push((id, self.retry(state, async |cluster, state| cluster.fetch(state, id, 0..len).await)?));
        }
        Ok(copies)
    }

    /// Makes copies of DDSs what these hold, here and in the last snapshot.
    fn put_back(state: &mut State, copies: Copies) {
        for (dds, elements) in copies {
            let Some(entry) = state.entries.get_mut(&dds) else { continue };
            entry.home.replace(elements);
            entry.scattered = None;
            entry.placement = Placement::home(entry.len);
            entry.base = Placement::home(entry.len);
            entry.version = next_id();
            entry.base_version = entry.version;
        }
        // A part that no snapshot has.
        state.log.clear();
    }

    /// A plan as workers know it.
    pub(crate) fn remote_plan(
        &self,
        state: &mut State,
        plan: Arc<Plan>,
        captures: Vec<RemoteCapture>,
        vectors: Vec<Option<Vector>>,
        spreading: Spreading,
    ) -> Arc<RemotePlan> {
        state.next_plan += 1;
        let forget = Arc::clone(&self.gone_plans);
        Arc::new(RemotePlan::new(state.next_plan, plan, captures, vectors, (spreading, forget)))
    }
}
