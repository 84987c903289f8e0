//! Running a loop on the workers: installing shares, moving elements to where they are needed, and one message each to
//! start; after a failure, finding the first one in the serial order and putting everything back.

use std::sync::Arc;

use futures_util::future::{Either, join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use stradsap_dds_server::codec;

use crate::cluster::driver::remote::{self, Logged, Replay, broken, moved};
use crate::cluster::driver::remote_plan::{RemotePlan, Vector, place};
use crate::cluster::driver::{Cluster, Fault, State};
use crate::cluster::wire::protocol::{
    Before, Install, Node, Prepare, Ran, RemoteFailure, RemoteTask, RunEnd, RunJob, WorkerSeconds,
};
use crate::loops::execute::BlockResult;
use crate::loops::pack::copy_each;
use crate::memory::buffer::RawBuf;
use crate::planner::layout::Layout;
use crate::planner::recording::Usage;
use crate::session::options::Order;
use crate::session::timeline::{Category, span};
use crate::session::{locked, next_id};

/// A loop to be run on workers.
pub(crate) struct Job<'j> {
    pub(crate) plan: &'j Arc<RemotePlan>,
    pub(crate) task: &'j RemoteTask,
    pub(crate) before: &'j Before,
    pub(crate) order: Order,
    pub(crate) trace: bool,
}

/// What a loop came to.
pub(crate) struct Finished {
    /// In the plan's serial order.
    pub(crate) results: Vec<BlockResult>,
    /// What blocks have added to relaxed state, as bytes, one after the other.
    pub(crate) relaxed: Vec<(Vec<usize>, Vec<u8>)>,
    pub(crate) workers: Vec<(Node, WorkerSeconds)>,
    pub(crate) bytes_sent: u64,
}

/// A loop that ended well, to be run again.
pub(crate) struct LoopLogged {
    pub(crate) plan: Arc<RemotePlan>,
    pub(crate) task: RemoteTask,
    pub(crate) before: Before,
    pub(crate) order: Order,
}

impl Logged for LoopLogged {
    fn uses(&self, dds: u64) -> bool {
        self.plan.vectors.iter().flatten().any(|vector| vector.id == dds)
    }

    fn replay<'r>(&'r self, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r> {
        Box::pin(async move {
            let LoopLogged { plan, task, before, order } = self;
            let ran = cluster.run_once(state, &Job { plan, task, before, order: *order, trace: false }).await;
            let told = |(failure, node): (RemoteFailure, Node)| {
                let who = cluster.hub.name(node);
                format!("a loop that ended well before fails on {who}: {:?}", failure.what)
            };
            ran.map(drop).map_err(|stop| stop.again(told))
        })
    }
}

/// Why a loop did not end well: a block failed, on a worker.
type Stop = remote::Stop<(RemoteFailure, Node)>;

impl Cluster {
    /// Runs a loop once. What the workers hold afterwards is known, however it ended, unless a process was lost.
    pub(crate) async fn run_once(&self, state: &mut State, job: &Job<'_>) -> Result<Finished, Stop> {
        let layout = self.install(state, job.plan).await?;
        let sent_before = self.hub.links.sent();
        let moved = self.prepare(state, job.plan, &layout).await?;
        let call = Self::next_call(state);
        let active: Vec<usize> = (0..state.workers.len()).filter(|&w| layout.worker_of.contains(&(w as u32))).collect();
        let ended = match self.run_blocks(state, job, call, &active).await {
            Ok(ended) => ended,
            Err(stop) => {
                if let Stop::Failed(_) = &stop {
                    self.put_back(state, job.plan, &layout, call, &active).await?;
                }
                return Err(stop);
            }
        };
        let bytes_sent = moved + self.hub.links.sent() - sent_before;
        let finished = self.finished(state, job.plan, &layout, ended, bytes_sent).await?;
        self.record_written(state, job.plan, &layout);
        Ok(finished)
    }

    /// Has the workers with blocks run them. Gives what each worker answered, or the failure that comes first.
    async fn run_blocks(
        &self,
        state: &State,
        job: &Job<'_>,
        call: u64,
        active: &[usize],
    ) -> Result<Vec<Option<Ran>>, Stop> {
        let generation = state.generation;
        let waiting = span(Category::Wait, 0);
        let running =
            active.iter().map(|&w| {
                let run = RunJob {
                    call,
                    plan: job.plan.id,
                    task: job.task.clone(),
                    before: job.before.clone(),
                    order: job.order,
                    trace: job.trace,
                };
                let end = self.ask(state.workers[w], move |client, context| async move {
                    client.run(context, generation, run).await
                });
                async move { (w, end.await) }
            });
        let mut running: FuturesUnordered<_> = running.collect();
        let mut ended: Vec<Option<Ran>> = state.workers.iter().map(|_| None).collect();
        let mut cut = None;
        while let Some((w, end)) = running.next().await {
            match end? {
                RunEnd::Done(ran) => ended[w] = Some(ran),
                RunEnd::Failed { block } => {
                    cut = Some(block);
                    break;
                }
                RunEnd::Stopped => return Err(broken("a worker stopped by itself").into()),
            }
        }
        drop(waiting);
        let Some(block) = cut else { return Ok(ended) };
        // The questions stay open until the blocks before the failure have ended. An answer may have come before the
        // next worker was asked at all: that is done now.
        let others = async {
            while let Some((_, end)) = running.next().await {
                if let Err(fault) = end {
                    return fault;
                }
            }
            std::future::pending().await
        };
        let nodes: Vec<Node> = active.iter().map(|&w| state.workers[w]).collect();
        let settling = std::pin::pin!(self.first_failure(&nodes, generation, call, block));
        match select(std::pin::pin!(others), settling).await {
            Either::Left((fault, _)) => Err(fault.into()),
            Either::Right((settled, _)) => Err(Stop::Failed(settled?)),
        }
    }

    /// After a failure: parts are with their first writers, as far as these had begun.
    async fn put_back(
        &self,
        state: &mut State,
        plan: &RemotePlan,
        layout: &Layout,
        call: u64,
        active: &[usize],
    ) -> Result<(), Fault> {
        let nodes: Vec<Node> = active.iter().map(|&w| state.workers[w]).collect();
        let started = self.undo(&nodes, state.generation, call).await?;
        plan.each_undone(layout, &started, |worker, capture, range| {
            let (Some(vector), node) = (plan.vectors[capture], state.workers[worker as usize]) else { return };
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                place(&mut entry.placement, &range, node, true);
            }
        });
        Ok(())
    }

    /// What the workers' answers come to.
    async fn finished(
        &self,
        state: &State,
        plan: &RemotePlan,
        layout: &Layout,
        ended: Vec<Option<Ran>>,
        mut bytes_sent: u64,
    ) -> Result<Finished, Fault> {
        let mut results: Vec<BlockResult> = plan.plan.blocks.iter().map(|_| BlockResult::default()).collect();
        let mut seconds = Vec::new();
        let mut relaxed = Vec::new();
        for (w, ran) in ended.into_iter().enumerate() {
            let Some(ran) = ran else { continue };
            let own = (0..results.len()).filter(|&b| layout.worker_of[b] == w as u32);
            if let Some(blob) = ran.relaxed {
                let node = state.workers[w];
                let bytes = self.blob(node, blob).await?;
                relaxed.push((own.clone().collect(), bytes));
            }
            for ((b, totals), additions) in own.zip(ran.totals).zip(ran.additions) {
                results[b].totals = totals;
                results[b].additions = additions;
            }
            seconds.push((state.workers[w], ran.time));
            bytes_sent += ran.bytes_sent;
        }
        if results.iter().any(|result| result.totals.len() != plan.captures.len()) {
            return Err(broken("a worker's answer has another number of blocks or captures"));
        }
        Ok(Finished { results, relaxed, workers: seconds, bytes_sent })
    }

    /// Installs a plan, and moves elements to where its loop expects them.
    pub(crate) async fn get_ready(&self, state: &mut State, plan: &Arc<RemotePlan>) -> Result<(), Fault> {
        let layout = self.install(state, plan).await?;
        self.prepare(state, plan, &layout).await.map(|_| ())
    }

    /// The failure that comes first in the serial order, when all blocks before it have ended.
    async fn first_failure(
        &self,
        nodes: &[Node],
        generation: u32,
        call: u64,
        block: u32,
    ) -> Result<(RemoteFailure, Node), Fault> {
        let mut cut = block;
        'settle: loop {
            let settling = nodes.iter().map(|&node| {
                let answer = self.ask(node, move |client, context| async move {
                    client.settle(context, generation, call, cut).await
                });
                async move { (answer.await, node) }
            });
            let mut settling: FuturesUnordered<_> = settling.collect();
            let mut first: Option<(RemoteFailure, Node)> = None;
            while let Some((answer, node)) = settling.next().await {
                let Some(failure) = answer? else { continue };
                if failure.block < cut {
                    // Then those before it count. The others hear of it now: they may wait for what this worker won't send.
                    cut = failure.block;
                    continue 'settle;
                }
                if first.as_ref().is_none_or(|(first, _)| failure.block < first.block) {
                    first = Some((failure, node));
                }
            }
            return first.ok_or_else(|| broken("a failure that no worker knows of"));
        }
    }

    /// Sees to it that every worker has its share of a plan.
    async fn install(&self, state: &mut State, plan: &Arc<RemotePlan>) -> Result<Arc<Layout>, Fault> {
        self.forget_gone(state).await?;
        let by_index = {
            let installed = locked(&plan.state);
            if installed.generation == state.generation
                && let Some(layout) = &installed.layout
            {
                return Ok(Arc::clone(layout));
            }
            installed.by_index.clone()
        };
        let _span = span(Category::Install, plan.id);
        let layout = Arc::new(plan.layout(state.workers.len()));
        let shares =
            self.pool.map(state.workers.len(), |w| codec::encode(&plan.plan.share(&layout, w as u32, &by_index)));
        let mut blobs = Vec::new();
        for share in shares {
            blobs.push(self.hub.offer(share.map_err(broken)?));
        }
        let generation = state.generation;
        let installed = self
            .ask_all(&state.workers, |w, client, context| {
                let job = Install { plan: plan.id, captures: plan.captures.clone(), share: Some(blobs[w]) };
                async move { client.install(context, generation, job).await }
            })
            .await;
        blobs.iter().for_each(|&blob| self.hub.withdraw(blob));
        installed?;
        let mut installed = locked(&plan.state);
        installed.generation = generation;
        installed.layout = Some(Arc::clone(&layout));
        installed.shares = None;
        installed.laid_out = vec![0; plan.captures.len()];
        Ok(layout)
    }

    pub(crate) async fn forget_gone(&self, state: &mut State) -> Result<(), Fault> {
        let plans = std::mem::take(&mut *locked(&self.gone_plans));
        let ddss = std::mem::take(&mut state.gone_ddss);
        if plans.is_empty() && ddss.is_empty() {
            return Ok(());
        }
        let generation = state.generation;
        self.ask_all(&state.workers, |_, client, context| {
            let (plans, ddss) = (plans.clone(), ddss.clone());
            async move { client.forget(context, generation, ddss, plans).await }
        })
        .await?;
        Ok(())
    }

    /// Moves elements to where the loop expects them when it begins, and says how many bytes others than the driver sent
    /// for that. Asks nobody for anything where all are there.
    async fn prepare(&self, state: &mut State, plan: &Arc<RemotePlan>, layout: &Arc<Layout>) -> Result<u64, Fault> {
        for (c, vector) in plan.vectors.iter().enumerate() {
            let Some(vector) = vector else { continue };
            let scattered = state.entries.get(&vector.id).and_then(|entry| entry.scattered.clone());
            if let Some((by, capture)) = scattered
                && !(Arc::ptr_eq(&by, plan) && capture == c)
            {
                self.bring_home(state, vector.id).await?;
            }
        }
        let mut jobs: Vec<Prepare> =
            state.workers.iter().map(|_| Prepare { plan: plan.id, ..Prepare::default() }).collect();
        plan.each_needed(layout, |worker, capture, range, _| {
            let Some(entry) = plan.vectors[capture].and_then(|vector| state.entries.get(&vector.id)) else { return };
            if entry.scattered.is_some() {
                return;
            }
            let (Some(vector), me) = (plan.vectors[capture], state.workers[worker as usize]) else { return };
            let missing = entry.placement.missing(vector.id, &range, me, worker as usize);
            jobs[worker as usize].pulls.extend(missing);
        });
        let mut blobs = Vec::new();
        for c in (0..plan.vectors.len()).filter(|&c| plan.is_laid_out(c)) {
            let Some(vector) = plan.vectors[c] else { continue };
            let version = state.entries.get(&vector.id).map_or(0, |entry| entry.version);
            if locked(&plan.state).laid_out[c] == version {
                continue;
            }
            for (w, bytes) in self.laid_out(state, plan, layout, c).await?.into_iter().enumerate() {
                let blob = self.hub.offer(bytes);
                blobs.push(blob);
                jobs[w].laid_out.push((c, blob, version));
            }
            locked(&plan.state).laid_out[c] = version;
        }
        let generation = state.generation;
        let asked = jobs.iter().enumerate().filter(|(_, job)| !job.pulls.is_empty() || !job.laid_out.is_empty());
        let asked = asked.map(|(w, job)| {
            let job = job.clone();
            self.ask(
                state.workers[w],
                move |client, context| async move { client.prepare(context, generation, job).await },
            )
        });
        let ranges = jobs.iter().map(|job| job.pulls.len() + job.laid_out.len()).sum::<usize>();
        let _span = span(Category::Prepare, ranges as u64);
        let prepared: Result<Vec<()>, Fault> = join_all(asked).await.into_iter().collect();
        blobs.iter().for_each(|&blob| self.hub.withdraw(blob));
        prepared?;
        let vectors: Vec<Vector> = plan.vectors.iter().flatten().copied().collect();
        let moved = moved(jobs.iter().flat_map(|job| &job.pulls), &vectors);
        for (w, job) in jobs.iter().enumerate() {
            Self::note_pulled(state, state.workers[w], &job.pulls);
        }
        Ok(moved)
    }

    /// For each worker a DDS's elements in the order in which it runs its iterations.
    #[allow(unsafe_code)]
    async fn laid_out(
        &self,
        state: &mut State,
        plan: &Arc<RemotePlan>,
        layout: &Arc<Layout>,
        capture: usize,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let (Some(vector), Usage::InStep { offset, .. }) = (plan.vectors[capture], plan.plan.usage[capture]) else {
            return Ok(Vec::new());
        };
        let first = plan.plan.range.start.wrapping_add(offset);
        let size = vector.ops.size;
        let lay_out = |elements: &RawBuf| {
            // SAFETY: `first` is an element of the DDS (the recording checked both ends of the range).
            let source = Shared(unsafe { elements.as_ptr().add(first * size) });
            self.pool.map(layout.workers, |w| {
                let len: usize = plan.offsets_of(layout, w as u32).map(<[u32]>::len).sum();
                let mut bytes = vec![0u8; len * size];
                let mut at = 0;
                for offsets in plan.offsets_of(layout, w as u32) {
                    // SAFETY: every offset is below the number of iterations, so that `first` plus it is an element;
                    // there is room for all of them, and plain elements are their bytes.
                    unsafe { copy_each(source.get(), bytes.as_mut_ptr().add(at), size, offsets) };
                    at += offsets.len() * size;
                }
                bytes
            })
        };
        let entry = state.entries.get(&vector.id);
        match entry.filter(|entry| entry.placement.is_home()).map(|entry| entry.home.lend()) {
            Some(home) => Ok(lay_out(&home)),
            None => Ok(lay_out(&self.fetch(state, vector.id, 0..vector.len).await?)),
        }
    }

    /// What workers hold after a loop that ended well.
    fn record_written(&self, state: &mut State, plan: &Arc<RemotePlan>, layout: &Layout) {
        plan.each_needed(layout, |worker, capture, range, written| {
            let Some(vector) = plan.vectors[capture].filter(|_| written) else { return };
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                place(&mut entry.placement, &range, state.workers[worker as usize], true);
            }
        });
        for (c, vector) in plan.vectors.iter().enumerate() {
            let Some(vector) = vector.filter(|vector| vector.writable) else { continue };
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                entry.version = next_id();
                if plan.is_scattered(c) {
                    entry.scattered = Some((Arc::clone(plan), c));
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Shared(*const u8);
// SAFETY: the pool's threads read the one range, and write buffers of their own.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}
// SAFETY: the pool's threads read the one range, and write buffers of their own.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

impl Shared {
    fn get(self) -> *const u8 {
        self.0
    }
}
