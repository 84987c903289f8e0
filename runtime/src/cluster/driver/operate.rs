//! The driver's side of an operator on workers.

use std::ops::Range;
use std::sync::Arc;

use crate::body::capture::Captured;
use crate::cluster::driver::call::{remote_captures, unnamed, vector_of};
use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote::{
    self, Asked, Dealing, Dealt, FailedThere, Finished, Logged, Noted, RemoteCall, Replay, broken, remote_task,
};
use crate::cluster::driver::remote_plan::Vector;
use crate::cluster::driver::{Cluster, Entry, Fault, State};
use crate::cluster::wire::naming::{self, ElementName};
use crate::cluster::wire::protocol::{
    ControlClient, Held, Holder, LOOKED_AT, Node, OperateEnd, OperateJob, Pull, RemoteCapture, RemoteCause, RemoteTask,
    ShuffleJob, StoreJob,
};
use crate::dds::chunks::check_len;
use crate::dds::dmap::buckets_for;
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::home::Home;
use crate::operate::run::{Chunking, Made, Operation, OperatorBackend};
use crate::operate::stage::{Items, Stage};
use crate::session::error::Result;
use crate::session::timeline::{Category, span};
use crate::session::{locked, next_id};

/// An operator, apart from where it is called.
pub(crate) struct OperatorLogged {
    task: RemoteTask,
    sources: Vec<RemoteCapture>,
    captures: Vec<RemoteCapture>,
    /// Which of these are maps in which joins look up keys.
    looked_up: Vec<usize>,
    vectors: Vec<Vector>,
    cut: Chunking,
    partitions: Option<usize>,
    /// What it makes, if that stays with the workers.
    kept: Option<Stored>,
    /// See [`Operation`].
    again: bool,
}

#[derive(Clone)]
struct Stored {
    dds: u64,
    ops: ElementName,
    home: Home,
    /// Of a map, whose elements are buckets: for how many times as many entries it has room.
    map: Option<usize>,
}

impl Logged for OperatorLogged {
    fn uses(&self, dds: u64) -> bool {
        self.vectors.iter().any(|vector| vector.id == dds) || self.kept.as_ref().is_some_and(|kept| kept.dds == dds)
    }

    fn makes(&self) -> Option<u64> {
        self.kept.as_ref().map(|kept| kept.dds)
    }

    fn replay<'r>(self: Arc<Self>, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r> {
        Box::pin(cluster.run_again(state, OperatorCall { logged: self, stage: None, held: Vec::new() }))
    }
}

impl OperatorLogged {
    /// How many buckets each partition is, if a map is made: with this many entries.
    fn buckets(&self, entries: usize) -> Result<Option<usize>> {
        let room = self.kept.as_ref().and_then(|kept| kept.map);
        match (room, self.partitions) {
            (Some(room), Some(partitions)) => Ok(Some(buckets_for(entries, room)? / partitions)),
            _ => Ok(None),
        }
    }
}

/// To fetch a piece of [`LOOKED_AT`] bytes by itself takes as long as this many pieces of a whole.
const ALONE: usize = 16;
/// To fetch an element of many by itself takes as long as this many of a whole.
const LISTED: usize = 8;
/// No worker fetches the whole of a map that is larger than this many bytes, if joins do nothing but look it up.
const WHOLE: usize = 1 << 30;

impl OperatorLogged {
    /// Of the captured DDSs that take longer to fetch than what a worker's items are likely to look at, in this call and those
    /// before it: where their elements are.
    fn held(&self, state: &mut State) -> Vec<Held> {
        let n = self.cut.len.div_ceil(state.workers.len().max(1));
        let (sources, captures) = self.vectors.split_at(self.sources.len());
        let mut held = |(k, vector): (usize, &Vector)| {
            if captures[..k].iter().any(|other| other.id == vector.id) {
                return None;
            }
            let entry = state.entries.get_mut(&vector.id)?;
            let segments = entry.placement.segments();
            let looked_up =
                (0..captures.len()).filter(|&k| captures[k].id == vector.id).all(|k| self.looked_up.contains(&k));
            let by_list = looked_up && segments.iter().all(|part| part.at.iter().any(|holder| holder.snapshot == 0));
            let bytes = vector.len.saturating_mul(vector.ops.size);
            // In bytes of a whole.
            let each = if by_list { LISTED * vector.ops.size } else { ALONE * LOOKED_AT };
            let before = if entry.looked_at.0 == entry.version { entry.looked_at.1 } else { 0 };
            let looked = before.saturating_add(n.saturating_mul(each));
            let is_less = looked < bytes || by_list && bytes > WHOLE;
            if !is_less || sources.iter().any(|source| source.id == vector.id) {
                return None;
            }
            let segments = segments.to_vec();
            let has_all = |node: &Node| segments.iter().all(|part| part.at.contains(&Holder::memory(*node)));
            if state.workers.iter().all(has_all) {
                return None;
            }
            entry.looked_at = (entry.version, looked);
            // Workers forget what they have fetched, and with it what a loop has left in the same places.
            state.leave_in_ranges(vector.id);
            Some(Held { dds: vector.id, segments, by_list })
        };
        captures.iter().enumerate().filter_map(&mut held).collect()
    }
}

/// The partitions that each worker handles.
fn cuts_of(partitions: usize, workers: usize) -> Vec<usize> {
    (0..=workers).map(|w| partitions * w / workers).collect()
}

/// An operator to be run on workers.
struct OperatorCall<'c> {
    logged: Arc<OperatorLogged>,
    /// What makes a result of bytes, where the program wants to have it.
    stage: Option<&'c dyn Stage>,
    /// The captured DDSs that workers fetch as they look at them.
    held: Vec<Held>,
}

/// The element for which it failed, or none where items were brought together.
type ElementFailure = FailedThere<Option<usize>>;

type Stop = remote::Stop<ElementFailure>;

/// What all workers made: how many items of the result each has, and what each has dealt out to partitions.
type MadeThere = (Vec<usize>, Vec<Vec<(u64, usize)>>);

/// What an operator came to.
struct Operated {
    /// Empty if the items stay with the workers,
    given: Vec<Box<dyn Items>>,
    /// where they are this many elements.
    len: usize,
    items: usize,
}

impl RemoteCall for OperatorCall<'_> {
    const WHAT: &'static str = "an operator";
    /// What it makes is nobody's until it has ended well.
    const WRITES: bool = false;
    /// The chunks of each worker.
    type Deal = Vec<Range<usize>>;
    /// How many items of the result each worker has.
    type Answers = Vec<usize>;
    type Done = Operated;
    type Failed = ElementFailure;

    fn ddss(&self) -> impl Iterator<Item = u64> {
        self.logged.vectors.iter().map(|vector| vector.id)
    }

    fn task(&self) -> &RemoteTask {
        &self.logged.task
    }

    async fn deal(&mut self, _: &Cluster, state: &mut State) -> Dealing<Vec<Range<usize>>> {
        let (cut, workers) = (self.logged.cut, state.workers.len());
        let share = |w: usize| cut.chunks() * w / workers..cut.chunks() * (w + 1) / workers;
        let chunks: Vec<Range<usize>> = (0..workers).map(share).collect();
        self.held = self.logged.held(state);
        let pulls = chunks.iter().enumerate().map(|(w, own)| pulls_of(state, self, w, &cut.elements(own)));
        let pulls = pulls.collect();
        Ok(Dealt {
            call: Cluster::next_call(state),
            nodes: state.workers.clone(),
            pulls,
            blobs: Vec::new(),
            how: chunks,
        })
    }

    async fn ask(&mut self, cluster: &Cluster, state: &State, dealt: &Dealt<Vec<Range<usize>>>) -> Asked<Self> {
        let _waiting = span(Category::Wait, dealt.call);
        let (logged, held) = (&*self.logged, &self.held);
        let (call, generation, workers) = (dealt.call, state.generation, state.workers.len());
        let cuts: Vec<usize> = match logged.partitions {
            Some(partitions) => cuts_of(partitions, workers),
            None => Vec::new(),
        };
        let operate = |w: usize, client: ControlClient, context| {
            let job = OperateJob {
                call,
                task: logged.task.clone(),
                sources: logged.sources.clone(),
                captures: logged.captures.clone(),
                pulls: dealt.pulls[w].clone(),
                held: held.clone(),
                cut: logged.cut,
                chunks: dealt.how[w].clone(),
                cuts: cuts.clone(),
            };
            async move { client.operate(context, generation, job).await }
        };
        let ends = cluster.ask_all(&state.workers, operate).await?;
        let (items, out) = cluster.all_done(&state.workers, ends)?;
        if cuts.is_empty() {
            return Ok(items);
        }
        if out.iter().any(|out| out.len() != cuts[workers]) {
            return Err(broken("a worker has dealt out another number of partitions").into());
        }
        let from = |p: usize| state.workers.iter().zip(&out).map(|(&node, out)| (node, out[p].0, out[p].1)).collect();
        let shuffle = |w: usize, client: ControlClient, context| {
            let partitions = cuts[w]..cuts[w + 1];
            let job = ShuffleJob { call, from: partitions.clone().map(from).collect(), partitions };
            async move { client.shuffle(context, generation, job).await }
        };
        let ends = cluster.ask_all(&state.workers, shuffle).await?;
        Ok(cluster.all_done(&state.workers, ends)?.0)
    }

    fn in_words(failed: &ElementFailure) -> String {
        match &failed.what {
            RemoteCause::Body { message } => format!("{message} ({})", failed.worker),
            what => format!("{what:?}"),
        }
    }

    async fn finish(
        &mut self,
        cluster: &Cluster,
        state: &mut State,
        dealt: &Dealt<Vec<Range<usize>>>,
        items: Vec<usize>,
    ) -> Finished<Self> {
        let made = items.iter().sum();
        if let Some(stage) = self.stage {
            let given = cluster.fetch_results(state, dealt.call, stage, &items).await?;
            return Ok((Operated { given, len: made, items: made }, None));
        }
        let Some(kept) = &self.logged.kept else { return Err(broken("a result that nobody wants")) };
        let buckets = self.logged.buckets(made).map_err(Fault::Error)?;
        let own: Vec<usize> = match (buckets, self.logged.partitions) {
            (Some(each), Some(partitions)) => {
                cuts_of(partitions, items.len()).windows(2).map(|cut| (cut[1] - cut[0]) * each).collect()
            }
            _ => items,
        };
        let len = own.iter().sum();
        check_len(len, kept.home.ops().size).map_err(Fault::Error)?;
        let placement = cluster.store_results(state, dealt.call, kept, &own, buckets).await?;
        let home = &kept.home;
        let entry = state.entries.entry(kept.dds).or_insert_with(|| {
            locked(&cluster.hub.homes).insert(kept.dds, home.clone());
            Entry {
                home: home.clone(),
                len,
                placement: Placement::nowhere(),
                scattered: None,
                in_ranges: false,
                version: next_id(),
                base: Placement::nowhere(),
                base_version: 0,
                stored: std::collections::BTreeSet::new(),
                dropped: false,
                looked_at: (0, 0),
            }
        });
        entry.placement = placement;
        Ok((
            Operated { given: Vec::new(), len, items: made },
            Some(Noted { logged: Arc::clone(&self.logged) as _, same_again: self.logged.again }),
        ))
    }
}

impl Cluster {
    fn operator(&self, state: &mut State, operation: &Operation<'_>, kept: Option<Stored>) -> Result<OperatorLogged> {
        self.register_all(state, operation.captured.iter().chain(operation.sources));
        let vectors = operation.sources.iter().chain(operation.captured).filter_map(|c: &Captured| vector_of(c));
        Ok(OperatorLogged {
            task: remote_task(operation.pack, operation.site, "the operator")?,
            sources: remote_captures(operation.sources)?,
            captures: remote_captures(operation.captured)?,
            looked_up: operation.looked_up.to_vec(),
            vectors: vectors.collect(),
            cut: operation.cut(),
            partitions: operation.stage.shuffles().then(|| operation.stage.partitions()),
            kept,
            again: operation.again,
        })
    }

    async fn store_results(
        &self,
        state: &State,
        call: u64,
        kept: &Stored,
        own: &[usize],
        buckets: Option<usize>,
    ) -> std::result::Result<Placement, Fault> {
        let mut len = 0;
        let ranges: Vec<Range<usize>> = own
            .iter()
            .map(|&own| {
                let start = len;
                len += own;
                start..len
            })
            .collect();
        let generation = state.generation;
        self.ask_all(&state.workers, |w, client, context| {
            let dds = RemoteCapture::Vector { id: kept.dds, len, ops: kept.ops, writable: true, adding: None };
            let job = StoreJob { call, dds, start: ranges[w].start, buckets };
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

    /// What these workers answered, or the first failure by the order of the elements.
    fn all_done(&self, workers: &[Node], ends: Vec<OperateEnd>) -> std::result::Result<MadeThere, Stop> {
        let mut failed: Option<ElementFailure> = None;
        let (mut items, mut dealt) = (Vec::new(), Vec::new());
        for (end, &node) in ends.into_iter().zip(workers) {
            match end {
                OperateEnd::Done { items: here, dealt: out } => {
                    items.push(here);
                    dealt.push(out);
                }
                OperateEnd::Failed { element, what } => {
                    if failed.as_ref().is_none_or(|failed| element < failed.place) {
                        failed = Some(FailedThere { place: element, what, worker: self.hub.name(node) });
                    }
                }
                OperateEnd::Stopped => return Err(broken("a worker stopped by itself").into()),
            }
        }
        failed.map_or(Ok((items, dealt)), |failed| Err(Stop::Failed(failed)))
    }

    /// Runs an operator. What it makes is given to its stage, or kept where it was made.
    fn operated(&self, operation: &Operation<'_>, kept: Option<Stored>) -> Result<Operated> {
        let mut state = locked(&self.state);
        let stage = if kept.is_none() { Some(operation.stage) } else { None };
        let logged = Arc::new(self.operator(&mut state, operation, kept)?);
        let mut call = OperatorCall { logged, stage, held: Vec::new() };
        self.run_call(&mut state, &mut call, |failed| operation.error(failed.failure()))
    }
}

/// What a worker must fetch for its elements of the sources, and all of the captures that aren't fetched as they are looked at.
fn pulls_of(state: &State, call: &OperatorCall<'_>, w: usize, elements: &Range<usize>) -> Vec<Pull> {
    let (logged, mut pulls) = (&*call.logged, Vec::new());
    for (k, vector) in logged.vectors.iter().enumerate() {
        let Some(entry) = state.entries.get(&vector.id) else { continue };
        if call.held.iter().any(|held| held.dds == vector.id) {
            continue;
        }
        let range = if k < logged.sources.len() { elements.clone() } else { 0..vector.len };
        pulls.extend(entry.placement.missing(vector.id, &range, state.workers[w], w));
    }
    pulls
}

impl OperatorBackend for Cluster {
    fn give(&self, operation: &Operation<'_>) -> Result<Vec<Box<dyn Items>>> {
        Ok(self.operated(operation, None)?.given)
    }

    fn store(&self, operation: &Operation<'_>, ops: &'static ElementOps) -> Result<Made> {
        let (dds, home) = (next_id(), Home::new(RawBuf::new(ops, 0), next_id()));
        let ops = naming::element_name(ops).ok_or_else(|| unnamed("an element type"))?;
        let kept = Stored { dds, ops, home: home.clone(), map: operation.stage.makes_map() };
        let Operated { len, items, .. } = self.operated(operation, Some(kept))?;
        Ok(Made::Elsewhere { dds, home, len, items })
    }
}
