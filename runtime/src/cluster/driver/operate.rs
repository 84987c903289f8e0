//! The driver's side of an operator on workers.

use std::ops::Range;
use std::sync::Arc;

use crate::body::capture::Captured;
use crate::cluster::driver::call::{remote_captures, unnamed, vector_of};
use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote::{self, Logged, Replay, broken, remote_task};
use crate::cluster::driver::remote_plan::Vector;
use crate::cluster::driver::{Cluster, Entry, Fault, State};
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{
    Node, OperateEnd, OperateJob, RemoteCapture, RemoteCause, RemoteTask, ShuffleJob, StoreJob,
};
use crate::memory::buffer::{ElementOps, RawBuf};
use crate::memory::home::Home;
use crate::operate::run::{ChunkFailure, Cut, Made, Operation, OperatorBackend};
use crate::operate::stage::{Items, Stage};
use crate::planner::recording::MAX_LEN;
use crate::session::error::{Error, Result};
use crate::session::timeline::{Category, span};
use crate::session::{locked, next_id};

/// An operator, apart from where it is called.
pub(crate) struct OperatorLogged {
    task: RemoteTask,
    sources: Vec<RemoteCapture>,
    captures: Vec<RemoteCapture>,
    vectors: Vec<Vector>,
    cut: Cut,
    partitions: Option<usize>,
    /// What it makes, if that stays with the workers.
    kept: Option<Stored>,
}

#[derive(Clone, Copy)]
struct Stored {
    dds: u64,
    ops: u64,
}

impl Logged for OperatorLogged {
    fn uses(&self, dds: u64) -> bool {
        self.vectors.iter().any(|vector| vector.id == dds) || self.kept.is_some_and(|kept| kept.dds == dds)
    }

    fn replay<'r>(&'r self, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r> {
        Box::pin(async move {
            let Some(kept) = self.kept else { return Ok(()) };
            let told = |(element, what, node): FailedThere| {
                let who = cluster.hub.name(node);
                format!("an operator that ended well before fails for element {element:?} on {who}: {what:?}")
            };
            let (call, items) = cluster.operate_once(state, self).await.map_err(|stop| stop.again(told))?;
            let len = items.iter().sum();
            let placement = cluster.store_results(state, call, kept, &items, len).await?;
            if let Some(entry) = state.entries.get_mut(&kept.dds) {
                entry.placement = placement;
            }
            Ok(())
        })
    }
}

/// A failure, and the worker on which it happened.
type FailedThere = (Option<usize>, RemoteCause, Node);

type Stop = remote::Stop<FailedThere>;

/// What all workers made: how many items of the result each has, and what each has dealt out to partitions.
type MadeThere = (Vec<usize>, Vec<Vec<(u64, usize)>>);

impl Cluster {
    fn operator(&self, state: &mut State, operation: &Operation<'_>, kept: Option<Stored>) -> Result<OperatorLogged> {
        self.register_all(state, operation.captured.iter().chain(operation.sources));
        let vectors = operation.sources.iter().chain(operation.captured).filter_map(|c: &Captured| vector_of(c));
        Ok(OperatorLogged {
            task: remote_task(operation.pack, operation.site, "the operator")?,
            sources: remote_captures(operation.sources)?,
            captures: remote_captures(operation.captured)?,
            vectors: vectors.collect(),
            cut: operation.cut(),
            partitions: operation.stage.shuffles().then(|| operation.stage.partitions()),
            kept,
        })
    }

    /// Runs an operator once. Gives the number of the call, and how many items of the result each worker has.
    async fn operate_once(
        &self,
        state: &mut State,
        logged: &OperatorLogged,
    ) -> std::result::Result<(u64, Vec<usize>), Stop> {
        self.forget_gone(state).await?;
        self.settle(state, logged.vectors.iter().map(|vector| vector.id)).await?;
        let (call, generation, workers) = (Self::next_call(state), state.generation, state.workers.len());
        let _waiting = span(Category::Wait, call);
        let chunks = logged.cut.chunks();
        let share = |w: usize| chunks * w / workers..chunks * (w + 1) / workers;
        let cuts: Vec<usize> = match logged.partitions {
            Some(partitions) => (0..=workers).map(|w| partitions * w / workers).collect(),
            None => Vec::new(),
        };
        let jobs: Vec<OperateJob> = (0..workers)
            .map(|w| OperateJob {
                call,
                task: logged.task.clone(),
                sources: logged.sources.clone(),
                captures: logged.captures.clone(),
                pulls: self.pulls_of(state, logged, w, &logged.cut.elements(&share(w))),
                cut: logged.cut,
                chunks: share(w),
                cuts: cuts.clone(),
            })
            .collect();
        let pulled: Vec<_> = jobs.iter().map(|job| job.pulls.clone()).collect();
        let ends = self
            .ask_all(&state.workers, |w, client, context| {
                let job = jobs[w].clone();
                async move { client.operate(context, generation, job).await }
            })
            .await?;
        for (pulls, node) in pulled.iter().zip(state.workers.clone()) {
            Self::note_pulled(state, node, pulls);
        }
        let (items, dealt) = all_done(&state.workers, ends)?;
        if cuts.is_empty() {
            return Ok((call, items));
        }
        if dealt.iter().any(|dealt| dealt.len() != cuts[workers]) {
            return Err(broken("a worker has dealt out another number of partitions").into());
        }
        let from =
            |p: usize| state.workers.iter().zip(&dealt).map(|(&node, dealt)| (node, dealt[p].0, dealt[p].1)).collect();
        let ends = self
            .ask_all(&state.workers, |w, client, context| {
                let partitions = cuts[w]..cuts[w + 1];
                let job = ShuffleJob { call, from: partitions.clone().map(from).collect(), partitions };
                async move { client.shuffle(context, generation, job).await }
            })
            .await?;
        let (items, _) = all_done(&state.workers, ends)?;
        Ok((call, items))
    }

    /// What a worker must fetch for its elements of the sources, and all of the captures.
    fn pulls_of(
        &self,
        state: &State,
        logged: &OperatorLogged,
        w: usize,
        elements: &Range<usize>,
    ) -> Vec<crate::cluster::wire::protocol::Pull> {
        let mut pulls = Vec::new();
        for (k, vector) in logged.vectors.iter().enumerate() {
            let Some(entry) = state.entries.get(&vector.id) else { continue };
            let range = if k < logged.sources.len() { elements.clone() } else { 0..vector.len };
            pulls.extend(entry.placement.missing(vector.id, &range, state.workers[w], w));
        }
        pulls
    }

    async fn store_results(
        &self,
        state: &State,
        call: u64,
        kept: Stored,
        items: &[usize],
        len: usize,
    ) -> std::result::Result<Placement, Fault> {
        let mut ends = 0;
        let ranges: Vec<Range<usize>> = items
            .iter()
            .map(|&items| {
                let start = ends;
                ends += items;
                start..ends
            })
            .collect();
        let generation = state.generation;
        self.ask_all(&state.workers, |w, client, context| {
            let dds = RemoteCapture::Vector { id: kept.dds, len, ops: kept.ops, writable: true };
            let job = StoreJob { call, dds, start: ranges[w].start };
            async move { client.store(context, generation, job).await }
        })
        .await?;
        if len == 0 {
            return Ok(Placement::home(0));
        }
        Ok(Placement::of_ranges(ranges.into_iter().zip(state.workers.iter().copied())))
    }

    async fn fetch_results(
        &self,
        state: &State,
        call: u64,
        stage: &dyn Stage,
        items: &[usize],
    ) -> std::result::Result<Vec<Box<dyn Items>>, Fault> {
        let generation = state.generation;
        let blobs = self
            .ask_all(&state.workers, |_, client, context| async move { client.give(context, generation, call).await })
            .await?;
        let mut lists = Vec::with_capacity(blobs.len());
        for ((blob, &node), &n) in blobs.into_iter().zip(&state.workers).zip(items) {
            let bytes = self.blob(node, blob).await?;
            lists.push(stage.returned(n, &bytes).map_err(broken)?);
        }
        Ok(lists)
    }

    fn operator_error(&self, operation: &Operation<'_>, (element, what, node): FailedThere) -> Error {
        let failed: ChunkFailure = (element, self.failure_of(what, node));
        operation.error(failed)
    }
}

/// What these workers answered, or the first failure by the order of the elements.
fn all_done(workers: &[Node], ends: Vec<OperateEnd>) -> std::result::Result<MadeThere, Stop> {
    let mut failed: Option<FailedThere> = None;
    let (mut items, mut dealt) = (Vec::new(), Vec::new());
    for (end, &node) in ends.into_iter().zip(workers) {
        match end {
            OperateEnd::Done { items: here, dealt: out } => {
                items.push(here);
                dealt.push(out);
            }
            OperateEnd::Failed { element, what } => {
                if failed.as_ref().is_none_or(|&(other, ..)| element < other) {
                    failed = Some((element, what, node));
                }
            }
            OperateEnd::Stopped => return Err(broken("a worker stopped by itself").into()),
        }
    }
    failed.map_or(Ok((items, dealt)), |failed| Err(Stop::Failed(failed)))
}

impl OperatorBackend for Cluster {
    fn give(&self, operation: &Operation<'_>) -> Result<Vec<Box<dyn Items>>> {
        let mut state = locked(&self.state);
        let logged = self.operator(&mut state, operation, None)?;
        let stage = operation.stage;
        let once = async |cluster: &Cluster, state: &mut State| {
            let (call, items) = cluster.operate_once(state, &logged).await?;
            Ok(cluster.fetch_results(state, call, stage, &items).await?)
        };
        self.run_call(&mut state, once, |failed| self.operator_error(operation, failed))
    }

    fn store(&self, operation: &Operation<'_>, ops: &'static ElementOps) -> Result<Made> {
        let (dds, home) = (next_id(), Home::new(RawBuf::new(ops, 0), next_id()));
        let mut state = locked(&self.state);
        let name = naming::name_of(std::ptr::from_ref(ops).expose_provenance());
        let kept = Stored { dds, ops: name.ok_or_else(|| unnamed("an element type"))? };
        let logged = Arc::new(self.operator(&mut state, operation, Some(kept))?);
        let once = async |cluster: &Cluster, state: &mut State| {
            let (call, items) = cluster.operate_once(state, &logged).await?;
            match items.iter().sum() {
                len if len > MAX_LEN => Err(Fault::Error(Error::TooLong { len, max: MAX_LEN }).into()),
                len => Ok((cluster.store_results(state, call, kept, &items, len).await?, len)),
            }
        };
        let made = self.run_call(&mut state, once, |failed| self.operator_error(operation, failed));
        let (placement, len) = made?;
        let entry = Entry {
            home: home.clone(),
            len,
            placement,
            scattered: None,
            version: next_id(),
            base: Placement::nowhere(),
            base_version: 0,
            dropped: false,
        };
        state.entries.insert(dds, entry);
        locked(&self.hub.homes).insert(dds, home.clone());
        self.note_call(&mut state, Some(logged), true)?;
        Ok(Made::Elsewhere { dds, home, len })
    }
}
