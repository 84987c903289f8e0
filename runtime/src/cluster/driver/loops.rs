//! Running a loop on the workers: installing shares, moving elements to where they are needed, and one message each to
//! start; after a failure, finding the first one in the serial order and putting everything back.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use stradsap_dds_server::codec;
use tokio::time::Instant;

use crate::body::panics::CaughtPanic;
use crate::cluster::driver::ahead::Ahead;
use crate::cluster::driver::in_parts::{LONG, NotRun};
use crate::cluster::driver::remote::{
    Asked, Dealing, Dealt, FailedThere, Finished, Logged, Noted, RemoteCall, Replay, Stop, broken, moved,
};
use crate::cluster::driver::remote_plan::{RemotePlan, Vector, place};
use crate::cluster::driver::results::{LoopResult, Totals};
use crate::cluster::driver::returning::Meanwhile;
use crate::cluster::driver::{Cluster, Fault, Scattered, State, join_all};
use crate::cluster::wire::protocol::{
    Before, Node, Prepare, Ran, RemoteCause, RemoteFailure, RemoteTask, RunEnd, RunJob,
};
use crate::loops::pack::copy_each;
use crate::memory::buffer::RawBuf;
use crate::memory::buffer::give_freed_back;
use crate::planner::layout::Layout;
use crate::planner::recording::Usage;
use crate::session::options::Order;
use crate::session::timeline::{Category, span};
use crate::session::{locked, next_id};

/// A loop, apart from where it is called.
pub(crate) struct LoopLogged {
    pub(crate) plan: Arc<RemotePlan>,
    /// The plan's, or a part of it.
    pub(crate) range: Range<usize>,
    pub(crate) task: RemoteTask,
    pub(crate) before: Before,
    pub(crate) order: Order,
    /// Whether no bits depend on where its blocks begin.
    pub(crate) within_blocks: bool,
}

impl Logged for LoopLogged {
    fn uses(&self, dds: u64) -> bool {
        self.plan.ddss().any(|id| id == dds)
    }

    fn replay<'r>(self: Arc<Self>, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r> {
        Box::pin(cluster.run_again(state, LoopCall::new(self, false, false)))
    }

    fn halves(&self, cluster: &Cluster, state: &mut State) -> Option<[Arc<dyn Logged>; 2]> {
        let [first, second] = LoopLogged::halves(self, cluster, state)?;
        Some([first, second])
    }
}

/// A loop to be run on workers.
pub(crate) struct LoopCall {
    pub(crate) logged: Arc<LoopLogged>,
    pub(crate) trace: bool,
    /// Whether it ends as [`NotRun::TooLong`] where it was lost after a while, and how long it has run in vain.
    may_be_cut: bool,
    lost: Duration,
    /// See [`State::in_vain`], where it ends so.
    pub(crate) in_vain: [usize; 2],
}

impl LoopCall {
    pub(crate) fn new(logged: Arc<LoopLogged>, trace: bool, may_be_cut: bool) -> LoopCall {
        LoopCall { logged, trace, may_be_cut, lost: Duration::ZERO, in_vain: [0; 2] }
    }
}

/// How a loop is dealt to the workers.
pub(crate) struct LoopDeal {
    layout: Arc<Layout>,
    /// The workers with blocks, by their numbers in the layout.
    active: Vec<usize>,
    /// How many bytes the driver had sent before.
    sent_before: u64,
    /// How many bytes others send for what workers lack.
    moved: u64,
    /// What workers fetch while it runs, and what they store.
    ahead: Ahead,
    meanwhile: Option<Meanwhile>,
}

/// A block failed on a worker: the block, and the iteration if it is known.
pub(crate) type BlockFailure = FailedThere<(u32, Option<usize>)>;

impl RemoteCall for LoopCall {
    const WHAT: &'static str = "a loop";
    type Deal = LoopDeal;
    type Answers = Vec<Option<Ran>>;
    type Done = LoopResult;
    type Failed = NotRun;

    fn ddss(&self) -> impl Iterator<Item = u64> {
        self.logged.plan.ddss()
    }

    fn task(&self) -> &RemoteTask {
        &self.logged.task
    }

    fn plan(&self) -> Option<&Arc<RemotePlan>> {
        Some(&self.logged.plan)
    }

    fn changes(&self) -> Vec<u64> {
        let written = self.logged.plan.vectors.iter().flatten().filter(|vector| vector.writable);
        written.map(|vector| vector.id).collect()
    }

    async fn deal(&mut self, cluster: &Cluster, state: &mut State) -> Dealing<LoopDeal> {
        let mut how = cluster.deal_loop(state, &self.logged.plan).await?;
        if cluster.options.homes_on_servers() {
            how.meanwhile = Meanwhile::new(state, &self.logged.plan, &how.layout);
        }
        let nodes = how.active.iter().map(|&w| state.workers[w]).collect();
        // What they lack they have fetched already, or ask for as they run.
        Ok(Dealt { call: Cluster::next_call(state), nodes, pulls: Vec::new(), blobs: Vec::new(), how })
    }

    async fn ask(&mut self, cluster: &Cluster, state: &State, dealt: &Dealt<LoopDeal>) -> Asked<Self> {
        if self.may_be_cut && self.lost >= LONG {
            self.in_vain = state.in_vain;
            return Err(Stop::Failed(NotRun::TooLong));
        }
        let begun = Instant::now();
        let answered = self.ask_workers(cluster, state, dealt).await;
        if let Err(Stop::Fault(_)) = &answered {
            self.lost = begun.elapsed();
        }
        answered
    }

    /// Parts are with their first writers, as far as these had begun.
    fn undone(&self, state: &mut State, dealt: &Dealt<LoopDeal>, started: &[u32]) {
        let plan = &self.logged.plan;
        if dealt.how.layout.spread.is_some() {
            // What is owned is with its owners again.
            plan.scatter(state, &dealt.how.layout);
        }
        plan.each_undone(&dealt.how.layout, started, |worker, capture, range| {
            let (Some(vector), node) = (plan.vectors[capture], state.workers[worker as usize]) else { return };
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                place(&mut entry.placement, &range, node, true);
            }
        });
        dealt.how.meanwhile.iter().for_each(|meanwhile| meanwhile.undone(state, plan, &dealt.how.layout));
    }

    fn undoing_panicked(&self, failed: &mut NotRun, note: CaughtPanic, worker: String) {
        if let NotRun::Failed(failed) = failed
            && !matches!(failed.what, RemoteCause::Undoing { .. })
        {
            failed.what = RemoteCause::Undoing { message: note.message, location: note.location };
            failed.worker = worker;
        }
    }

    async fn finish(
        &mut self,
        cluster: &Cluster,
        state: &mut State,
        dealt: &Dealt<LoopDeal>,
        answers: Vec<Option<Ran>>,
    ) -> Finished<Self> {
        let (plan, deal) = (&self.logged.plan, &dealt.how);
        let bytes_sent = deal.moved + cluster.hub.links.sent() - deal.sent_before;
        let finished = cluster.finished(state, plan, &deal.layout, answers, bytes_sent).await?;
        deal.ahead.pulls().for_each(|(w, pulls)| Cluster::note_pulled(state, state.workers[w], pulls));
        cluster.record_written(state, plan, &deal.layout);
        deal.meanwhile.iter().for_each(|meanwhile| meanwhile.done(state, plan, &deal.layout));
        // A loop that only reads leaves nothing to be done again.
        let writes = plan.vectors.iter().flatten().any(|vector| vector.writable);
        let noted = writes.then(|| Noted { logged: Arc::clone(&self.logged) as _, same_again: true });
        Ok((finished, noted))
    }
}

impl RemotePlan {
    /// Notes that elements are with the workers that ran their iterations, or that own them.
    fn scatter(self: &Arc<Self>, state: &mut State, layout: &Layout) {
        for (c, vector) in self.vectors.iter().enumerate().filter(|&(c, _)| self.is_scattered(layout, c)) {
            let Some(vector) = vector.filter(|vector| vector.writable) else { continue };
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                entry.scattered = Some(Scattered::ByPlan(Arc::clone(self), c));
            }
        }
    }
}

impl LoopCall {
    /// Gives what each worker with blocks answered, or the failure that comes first.
    async fn ask_workers(&self, cluster: &Cluster, state: &State, dealt: &Dealt<LoopDeal>) -> Asked<Self> {
        let LoopCall { logged, trace, .. } = self;
        let (generation, call) = (state.generation, dealt.call);
        let waiting = span(Category::Wait, 0);
        let running = dealt.how.active.iter().map(|&w| {
            let run = RunJob {
                call,
                plan: logged.plan.id,
                range: logged.range.clone(),
                task: logged.task.clone(),
                before: logged.before.clone(),
                order: logged.order,
                trace: *trace,
                fetches: dealt.how.ahead.fetches[w].clone(),
                unsent: dealt.how.ahead.unsent[w].clone(),
                returned: dealt.how.meanwhile.as_ref().map(|meanwhile| meanwhile.of(state, &dealt.how.layout, w)),
            };
            let end = cluster.ask(state.workers[w], move |client, context| async move {
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
        let settling = std::pin::pin!(cluster.first_failure(&dealt.nodes, generation, call, block));
        match select(std::pin::pin!(others), settling).await {
            Either::Left((fault, _)) => Err(fault.into()),
            Either::Right((settled, _)) => Err(Stop::Failed(NotRun::Failed(settled?))),
        }
    }
}

impl Cluster {
    /// Installs a plan, and moves elements to where its loop expects them.
    pub(crate) async fn get_ready(&self, state: &mut State, plan: &Arc<RemotePlan>) -> Result<(), Fault> {
        self.forget_gone(state).await?;
        let ddss: Vec<u64> = plan.ddss().filter(|&dds| !plan.has_left(state, dds)).collect();
        self.settle(state, ddss.into_iter()).await?;
        self.deal_loop(state, plan).await.map(drop)
    }

    async fn deal_loop(&self, state: &mut State, plan: &Arc<RemotePlan>) -> Result<LoopDeal, Fault> {
        let layout = self.install(state, plan).await?;
        let sent_before = self.hub.links.sent();
        let (moved, ahead) = self.prepare(state, plan, &layout).await?;
        let active = (0..state.workers.len()).filter(|&w| layout.worker_of.contains(&(w as u32))).collect();
        Ok(LoopDeal { layout, active, sent_before, moved, ahead, meanwhile: None })
    }

    /// What the workers' answers come to.
    async fn finished(
        &self,
        state: &State,
        plan: &RemotePlan,
        layout: &Layout,
        ended: Vec<Option<Ran>>,
        mut bytes_sent: u64,
    ) -> Result<LoopResult, Fault> {
        let mut totals = Totals::new(layout.worker_of.len(), plan.captures.len());
        let mut seconds = Vec::new();
        let (mut relaxed, mut tallied, mut changed) = (Vec::new(), Vec::new(), None);
        for (w, ran) in ended.into_iter().enumerate() {
            let Some(ran) = ran else { continue };
            let own: Vec<usize> = (0..layout.worker_of.len()).filter(|&b| layout.worker_of[b] == w as u32).collect();
            let fits = totals.put(&own, &ran.totals, ran.additions);
            fits.ok_or_else(|| broken("a worker's answer has another number of blocks or captures"))?;
            if let Some(blob) = ran.relaxed {
                let node = state.workers[w];
                let bytes = self.blob(node, blob).await?;
                relaxed.push((own, bytes));
            }
            if let Some(blob) = ran.tallies {
                tallied.push(self.blob(state.workers[w], blob).await?);
            }
            seconds.push((state.workers[w], ran.time));
            bytes_sent += ran.bytes_sent;
            changed = changed.or(ran.changed);
        }
        Ok(LoopResult { totals, relaxed, tallied, workers: seconds, bytes_sent, changed })
    }

    /// The failure that comes first in the serial order, when all blocks before it have ended.
    async fn first_failure(
        &self,
        nodes: &[Node],
        generation: u32,
        call: u64,
        block: u32,
    ) -> Result<BlockFailure, Fault> {
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
            let (RemoteFailure { block, iteration, what }, node) =
                first.ok_or_else(|| broken("a failure that no worker knows of"))?;
            return Ok(FailedThere { place: (block, iteration), what, worker: self.hub.name(node) });
        }
    }

    /// Sees to it that every worker has its share of a plan.
    async fn install(&self, state: &mut State, plan: &Arc<RemotePlan>) -> Result<Arc<Layout>, Fault> {
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
        let away = plan.plan.offsets.sorting().is_some();
        locked(&plan.state).laid_out = vec![0; plan.captures.len()];
        // Elements that are away are laid out at once, as the iterations are sorted.
        let captures: Vec<usize> = (0..plan.captures.len()).filter(|&c| away && plan.is_laid_out(c)).collect();
        let installed = self.lay_out_there(state, plan, &layout, (&captures, Some(&blobs))).await;
        blobs.iter().for_each(|&blob| self.hub.withdraw(blob));
        installed?;
        // What the plan was made of was larger than the plan.
        give_freed_back();
        if away {
            state.sorted.push(Arc::downgrade(plan));
        }
        let mut installed = locked(&plan.state);
        installed.generation = generation;
        installed.layout = Some(Arc::clone(&layout));
        installed.shares = None;
        Ok(layout)
    }

    pub(crate) async fn forget_gone(&self, state: &mut State) -> Result<(), Fault> {
        self.forget_snapshots(state).await;
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

    /// Moves elements to where the loop expects them when it begins, but for those that come while it runs; says how many bytes others
    /// than the driver send for both. Asks nobody for anything where all are there.
    async fn prepare(
        &self,
        state: &mut State,
        plan: &Arc<RemotePlan>,
        layout: &Arc<Layout>,
    ) -> Result<(u64, Ahead), Fault> {
        let mut jobs: Vec<Prepare> =
            state.workers.iter().map(|_| Prepare { plan: plan.id, ..Prepare::default() }).collect();
        let mut ahead = Ahead::new(state.workers.len());
        plan.each_needed(layout, |needed| {
            let there = |vector: &Vector| plan.has_left(state, vector.id);
            let Some(vector) = plan.vectors[needed.capture].filter(|vector| !there(vector)) else { return };
            let Some(entry) = state.entries.get(&vector.id) else { return };
            let (placement, worker) = (&entry.placement, needed.worker as usize);
            let missing = placement.missing(vector.id, &needed.range, state.workers[worker], worker);
            if !missing.is_empty() && !ahead.takes((plan, layout), &needed, &vector, (placement, &state.workers)) {
                jobs[worker].pulls.extend(missing);
            }
        });
        let mut blobs = Vec::new();
        for c in (0..plan.vectors.len()).filter(|&c| plan.is_laid_out(c)) {
            let Some(vector) = plan.vectors[c] else { continue };
            let version = state.entries.get(&vector.id).map_or(0, |entry| entry.version);
            if locked(&plan.state).laid_out[c] == version {
                continue;
            }
            if self.lay_out_there(state, plan, layout, (&[c], None)).await? {
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
        let later = ahead.pulls().flat_map(|(_, pulls)| pulls);
        let moved = moved(jobs.iter().flat_map(|job| &job.pulls).chain(later), &vectors);
        for (w, job) in jobs.iter().enumerate() {
            Self::note_pulled(state, state.workers[w], &job.pulls);
        }
        Ok((moved, ahead))
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
        plan.each_needed(layout, |needed| {
            let Some(vector) = plan.vectors[needed.capture].filter(|_| needed.written) else { return };
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                place(&mut entry.placement, &needed.range, state.workers[needed.worker as usize], true);
            }
        });
        for vector in plan.vectors.iter().flatten().filter(|vector| vector.writable) {
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                entry.version = next_id();
            }
        }
        plan.scatter(state, layout);
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
