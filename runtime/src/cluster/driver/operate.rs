//! The driver's side of an operator on workers.

use std::ops::Range;
use std::sync::Arc;

use crate::body::capture::{Captured, Kind};
use crate::cluster::driver::call::{remote_captures, unnamed, vector_of};
use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote_plan::Vector;
use crate::cluster::driver::{Cluster, Entry, Fault, Logged, State};
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{
    GatherJob, Holder, KeepJob, Node, OperateEnd, OperateJob, RemoteCapture, RemoteTask, What,
};
use crate::memory::buffer::ElementOps;
use crate::memory::home::Home;
use crate::operate::run::{Cut, Failed, Operation};
use crate::operate::stage::{Piece, Stage};
use crate::planner::recording::MAX_LEN;
use crate::session::error::{ClusterError, Error, Result};
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
    kept: Option<Kept>,
}

#[derive(Clone, Copy)]
struct Kept {
    dds: u64,
    ops: u64,
}

impl OperatorLogged {
    /// The DDSs that it touches.
    pub(crate) fn ddss(&self) -> impl Iterator<Item = u64> + '_ {
        self.vectors.iter().map(|vector| vector.id).chain(self.kept.map(|kept| kept.dds))
    }
}

fn broken(what: impl std::fmt::Display) -> Fault {
    Fault::Error(ClusterError::Process { who: "the driver".to_string(), problem: what.to_string() }.into())
}

/// A failure, and the worker on which it happened.
type FailedThere = (Option<usize>, What, Node);

impl Cluster {
    /// Runs an operator whose result the program wants to have.
    pub(crate) fn operate_here(&self, operation: &Operation<'_>) -> Result<Vec<Box<dyn Piece>>> {
        let mut state = locked(&self.state);
        let logged = self.operator(&mut state, operation, None)?;
        let stage = operation.stage;
        let given =
            self.insist(&mut state, async |cluster, state| match cluster.operate_once(state, &logged).await? {
                Ok((call, items)) => cluster.fetch_results(state, call, stage, &items).await.map(Ok),
                Err(failed) => Ok(Err(failed)),
            })?;
        given.map_err(|failed| self.operator_error(operation, failed))
    }

    /// Runs an operator whose result stays with the workers, as a DVector of this number. Gives its length.
    pub(crate) fn operate_there(
        &self,
        operation: &Operation<'_>,
        dds: u64,
        home: &Home,
        ops: &'static ElementOps,
    ) -> Result<usize> {
        let mut state = locked(&self.state);
        let name = naming::name_of(std::ptr::from_ref(ops).expose_provenance());
        let kept = Kept { dds, ops: name.ok_or_else(|| unnamed("an element type"))? };
        let logged = Arc::new(self.operator(&mut state, operation, Some(kept))?);
        let made =
            self.insist(&mut state, async |cluster, state| match cluster.operate_once(state, &logged).await? {
                Ok((call, items)) => match items.iter().sum() {
                    len if len > MAX_LEN => Err(Fault::Error(Error::TooLong { len, max: MAX_LEN })),
                    len => Ok(Ok((cluster.keep_results(state, call, kept, &items, len).await?, len))),
                },
                Err(failed) => Ok(Err(failed)),
            })?;
        let (placement, len) = made.map_err(|failed| self.operator_error(operation, failed))?;
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
        state.log.push(Logged::Operator(logged));
        if state.log.len() >= self.options.every() {
            self.insist(&mut state, async |cluster, state| cluster.snapshot(state).await)?;
        }
        Ok(len)
    }

    /// Runs an operator again that ended well before.
    pub(crate) async fn replay_operator(
        &self,
        state: &mut State,
        logged: &OperatorLogged,
    ) -> std::result::Result<(), Fault> {
        let Some(kept) = logged.kept else { return Ok(()) };
        match self.operate_once(state, logged).await? {
            Ok((call, items)) => {
                let len = items.iter().sum();
                let placement = self.keep_results(state, call, kept, &items, len).await?;
                if let Some(entry) = state.entries.get_mut(&kept.dds) {
                    entry.placement = placement;
                }
                Ok(())
            }
            Err((element, what, node)) => {
                let who = self.hub.name(node);
                Err(broken(format!(
                    "an operator that ended well before fails for element {element:?} on {who}: {what:?}"
                )))
            }
        }
    }

    fn operator(&self, state: &mut State, operation: &Operation<'_>, kept: Option<Kept>) -> Result<OperatorLogged> {
        for capture in operation.captured.iter().chain(operation.sources) {
            if let (Kind::Vector { len, .. }, Some(home)) = (&capture.kind, capture.home()) {
                self.register(state, capture.id, home, *len);
            }
        }
        let packed = (operation.pack)();
        let (maker, values) = packed.map_err(|source| Error::Values { site: operation.site.to_string(), source })?;
        let vectors = operation.sources.iter().chain(operation.captured).filter_map(|c: &Captured| vector_of(c));
        Ok(OperatorLogged {
            task: RemoteTask { maker: naming::name_of(maker).ok_or_else(|| unnamed("the operator"))?, values },
            sources: remote_captures(operation.sources)?,
            captures: remote_captures(operation.captured)?,
            vectors: vectors.collect(),
            cut: operation.cut(),
            partitions: operation.stage.gathers().then(|| operation.stage.partitions()),
            kept,
        })
    }

    /// Runs an operator once. Gives the number of the call, and how many items of the result each worker has.
    async fn operate_once(
        &self,
        state: &mut State,
        logged: &OperatorLogged,
    ) -> std::result::Result<std::result::Result<(u64, Vec<usize>), FailedThere>, Fault> {
        self.forget_gone(state).await?;
        for vector in &logged.vectors {
            if state.entries.get(&vector.id).is_some_and(|entry| entry.scattered.is_some()) {
                self.bring_home(state, vector.id).await?;
            }
        }
        state.next_call += 1;
        let (call, epoch, workers) = (state.next_call, state.epoch, state.workers.len());
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
                async move { client.operate(context, epoch, job).await }
            })
            .await?;
        for (pulls, &node) in pulled.iter().zip(&state.workers) {
            for pull in pulls {
                if let Some(entry) = state.entries.get_mut(&pull.dds) {
                    entry.placement.copied(&pull.range, Holder::memory(node));
                }
            }
        }
        let (items, dealt) = match self.all_done(state, ends)? {
            Ok(done) => done,
            Err(failed) => return Ok(Err(failed)),
        };
        if cuts.is_empty() {
            return Ok(Ok((call, items)));
        }
        if dealt.iter().any(|dealt| dealt.len() != cuts[workers]) {
            return Err(broken("a worker has dealt out another number of partitions"));
        }
        let from =
            |p: usize| state.workers.iter().zip(&dealt).map(|(&node, dealt)| (node, dealt[p].0, dealt[p].1)).collect();
        let ends = self
            .ask_all(&state.workers, |w, client, context| {
                let partitions = cuts[w]..cuts[w + 1];
                let job = GatherJob { call, from: partitions.clone().map(from).collect(), partitions };
                async move { client.gather(context, epoch, job).await }
            })
            .await?;
        Ok(self.all_done(state, ends)?.map(|(items, _)| (call, items)))
    }

    /// What all workers answered, or the first failure by the order of the elements.
    #[allow(clippy::type_complexity)]
    fn all_done(
        &self,
        state: &State,
        ends: Vec<OperateEnd>,
    ) -> std::result::Result<std::result::Result<(Vec<usize>, Vec<Vec<(u64, usize)>>), FailedThere>, Fault> {
        let mut failed: Option<FailedThere> = None;
        let (mut items, mut dealt) = (Vec::new(), Vec::new());
        for (end, &node) in ends.into_iter().zip(&state.workers) {
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
                OperateEnd::Stopped => return Err(broken("a worker stopped by itself")),
            }
        }
        Ok(failed.map_or(Ok((items, dealt)), Err))
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

    async fn keep_results(
        &self,
        state: &State,
        call: u64,
        kept: Kept,
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
        let epoch = state.epoch;
        self.ask_all(&state.workers, |w, client, context| {
            let dds = RemoteCapture::Vector { id: kept.dds, len, ops: kept.ops, writable: true };
            let job = KeepJob { call, dds, start: ranges[w].start };
            async move { client.keep(context, epoch, job).await }
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
    ) -> std::result::Result<Vec<Box<dyn Piece>>, Fault> {
        let epoch = state.epoch;
        let blobs = self
            .ask_all(&state.workers, |_, client, context| async move { client.give(context, epoch, call).await })
            .await?;
        let mut pieces = Vec::with_capacity(blobs.len());
        for ((blob, &node), &n) in blobs.into_iter().zip(&state.workers).zip(items) {
            let bytes = self.hub.links.blob(node, blob).await.map_err(|error| {
                self.hub.lose(node, &error.to_string());
                Fault::Lost
            })?;
            pieces.push(stage.returned(n, &bytes).map_err(broken)?);
        }
        Ok(pieces)
    }

    fn operator_error(&self, operation: &Operation<'_>, (element, what, node): FailedThere) -> Error {
        let failed: Failed = (element, self.failure_of(what, node));
        operation.error(failed)
    }
}
