//! The driver's side of a synchronous loop on workers: who runs which copies and keeps which rows, one message each to
//! start, and what the workers hold afterwards.

mod keeping;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::body::new_entries::NewEntryOps;
use crate::body::outcome::Failure;
use crate::body::panics;
use crate::body::sharing::shared_state;
use crate::cluster::driver::call::{remote_captures, unnamed, vector_of};
use crate::cluster::driver::minibatch::keeping::{KeptRows, KnownKeepers, pulls, record_kept};
use crate::cluster::driver::remote::{
    Asked, Dealing, Dealt, FailedThere, Finished, Logged, Noted, RemoteCall, Replay, Stop, broken, moved, remote_task,
};
use crate::cluster::driver::remote_plan::Vector;
use crate::cluster::driver::{Cluster, Fault, State};
use crate::cluster::wire::naming::{self, ElementName};
use crate::cluster::wire::protocol::{
    ControlClient, DRIVER, Fetching, Holder, INPUTS, InputFrom, InputJob, InputKey, Node, Pull, RemoteCapture,
    RemoteCause, RemoteTask, SyncEnd, SyncJob, SyncRan,
};
use crate::loops::execute::words;
use crate::memory::buffer::RawBuf;
use crate::minibatch::{
    Counts, MergeRule, MinibatchBackend, NewByCapture, NewByPart, Ran, Schedule, SyncCall, SyncKey, SyncPolicy,
    SyncReport, unite,
};
use crate::session::error::Result;
use crate::session::timeline::{Category, span};
use crate::session::verified::{Unverified, Verified};
use crate::session::{locked, next_id};

/// About this many bytes of an input travel together.
const DEALT_BYTES: usize = 8 << 20;

/// What the driver knows of the loops that ran.
#[derive(Default)]
pub(crate) struct Sites {
    known: Vec<Known>,
    /// The inputs that all workers have, in the order of their last use.
    inputs: Vec<InputKey>,
    /// By DDS, who keeps which rows, as the loop found best that first knew what its copies touch.
    keepers: BTreeMap<u64, KnownKeepers>,
}

struct Known {
    key: SyncKey,
    number: u64,
    /// All workers know which rows their minibatches touch.
    foreseen: bool,
}

/// How many loops are known at a time.
const KNOWN: usize = 16;

impl Sites {
    /// A generation has begun: workers know nothing.
    pub(crate) fn clear(&mut self) {
        self.inputs.clear();
        self.keepers.clear();
        self.known.iter_mut().for_each(|known| known.foreseen = false);
    }

    /// Forgets the loops that use a DDS, and says which they were.
    pub(crate) fn remove_users_of(&mut self, dds: u64) -> Vec<u64> {
        self.inputs.retain(|key| key.dds != dds);
        self.keepers.remove(&dds);
        let uses = |known: &mut Known| known.key.written.iter().any(|&(id, _)| id == dds);
        self.known.extract_if(.., uses).map(|known| known.number).collect()
    }

    /// Whether workers have an input, which they are about to use; they will have it then.
    fn use_input(&mut self, key: InputKey) -> bool {
        let at = self.inputs.iter().position(|&known| known == key);
        match at {
            Some(at) => drop(self.inputs.remove(at)),
            None if self.inputs.len() >= INPUTS => drop(self.inputs.remove(0)),
            None => {}
        }
        self.inputs.push(key);
        at.is_some()
    }
}

/// A synchronous loop, apart from where it is called.
pub(crate) struct SyncLogged {
    site: u64,
    task: RemoteTask,
    captures: Vec<RemoteCapture>,
    vectors: Vec<Option<Vector>>,
    before: Vec<u64>,
    policy: SyncPolicy,
    rule: MergeRule,
    schedule: Schedule,
    input: Vector,
    input_ops: ElementName,
    prefetch: bool,
    early: usize,
    caches: usize,
    checks: bool,
}

impl Logged for SyncLogged {
    fn uses(&self, dds: u64) -> bool {
        self.all().any(|vector| vector.id == dds)
    }

    fn replay<'r>(self: Arc<Self>, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r> {
        Box::pin(cluster.run_again(state, SyncRemote { logged: self, ops: Vec::new(), new: Vec::new() }))
    }
}

impl SyncLogged {
    /// The DVectors that it touches.
    fn all(&self) -> impl Iterator<Item = Vector> + '_ {
        self.vectors.iter().flatten().copied().chain([self.input])
    }

    fn written(&self) -> impl Iterator<Item = (usize, Vector)> + '_ {
        self.vectors.iter().enumerate().filter_map(|(c, vector)| Some((c, vector.filter(|v| v.writable)?)))
    }
}

/// What a run came to.
struct LoopResult {
    ran: Ran,
    workers: Vec<(Node, crate::cluster::wire::protocol::WorkerSeconds)>,
    preparing: f64,
    /// The type of a captured value that bodies changed.
    changed: Option<String>,
}

type MinibatchFailure = FailedThere<usize>;

/// How one run is dealt to the workers.
struct SyncDeal {
    copies: Vec<Range<usize>>,
    keepers: KeptRows,
    fetching: Fetching,
    /// The bytes of the rows that workers sent each other before, and of the input that they are to.
    exchanged: usize,
    /// By capture: whether it is to be found out who touches what.
    asked: Vec<bool>,
    /// By worker, unless all have the input.
    inputs: Option<Vec<InputFrom>>,
}

/// A synchronous loop to be run on workers.
struct SyncRemote {
    logged: Arc<SyncLogged>,
    /// How new entries are united. Nobody asks for them when the loop is run again: the map has them.
    ops: Vec<Option<&'static NewEntryOps>>,
    new: NewByCapture,
}

impl SyncRemote {
    /// Brings together what the workers' copies have added to maps.
    async fn bring_new(
        &self,
        cluster: &Cluster,
        state: &State,
        copies: &[Range<usize>],
        ended: &[Option<SyncRan>],
    ) -> std::result::Result<NewByCapture, Stop<MinibatchFailure>> {
        let parts = NewByPart::default();
        for ((ran, &node), copies) in ended.iter().zip(&state.workers).zip(copies) {
            let ran = ran.as_ref().ok_or_else(|| broken("a worker gave no answer"))?;
            if let Some(blob) = ran.new.filter(|_| self.ops.iter().any(Option::is_some)) {
                let bytes = cluster.blob(node, blob).await?;
                let decoded = panics::caught(|| parts.decode(&bytes, &self.ops, copies));
                decoded.map_err(|note| broken(note.message))?.map_err(broken)?;
            }
        }
        let logged = &self.logged;
        parts.unite(&self.ops, (logged.policy, logged.rule, logged.schedule)).map_err(|(place, note)| {
            let what = RemoteCause::Panic { message: note.message, location: note.location };
            Stop::Failed(FailedThere { place, what, worker: "the driver".to_string() })
        })
    }
}

impl RemoteCall for SyncRemote {
    const WHAT: &'static str = "a loop";
    type Deal = SyncDeal;
    type Answers = Vec<SyncRan>;
    type Done = LoopResult;
    type Failed = MinibatchFailure;

    fn ddss(&self) -> impl Iterator<Item = u64> {
        self.logged.all().map(|vector| vector.id)
    }

    fn changes(&self) -> Vec<u64> {
        self.logged.all().filter(|vector| vector.writable).map(|vector| vector.id).collect()
    }

    fn task(&self) -> &RemoteTask {
        &self.logged.task
    }

    /// Another loop over the DDS may have dealt out its rows.
    fn uses_kept(&self, state: &State, dds: u64, keepers: u64) -> bool {
        let written = self.logged.written().any(|(_, vector)| vector.id == dds) && self.logged.input.id != dds;
        let known = state.sites.keepers.get(&dds).is_some_and(|known| known.number == keepers);
        written && known && self.logged.fetching(state) != Fetching::All
    }

    /// Who runs which copies and keeps which rows, and what each worker is to fetch.
    async fn deal(&mut self, cluster: &Cluster, state: &mut State) -> Dealing<SyncDeal> {
        let logged = &*self.logged;
        let workers = state.workers.len();
        let copies: Vec<Range<usize>> = (0..workers).map(|w| logged.schedule.share(w, workers)).collect();
        let fetching = logged.fetching(state);
        let keepers = logged.keepers(state, &copies);
        let asked = logged.asked(state, fetching);
        let pulls = pulls(state, logged, &keepers, fetching);
        let inputs = cluster.deal_out(state, logged, &copies)?;
        let blobs = inputs.iter().flatten().flat_map(InputFrom::blobs).collect();
        let sent = inputs.iter().flatten().enumerate().map(|(w, from)| from.sent(state.workers[w], logged, &copies[w]));
        let sent: usize = sent.sum();
        let exchanged = sent + cluster.deal_rows(state, logged, (&keepers, fetching)).await?;
        let how = SyncDeal { copies, keepers, fetching, exchanged, asked, inputs };
        Ok(Dealt { call: Cluster::next_call(state), nodes: state.workers.clone(), pulls, blobs, how })
    }

    /// Gives what each worker answered, or the first failure by its minibatch, when all have ended.
    async fn ask(&mut self, cluster: &Cluster, state: &State, dealt: &Dealt<SyncDeal>) -> Asked<Self> {
        let _waiting = span(Category::Wait, 0);
        let logged = &*self.logged;
        let (generation, call, key) = (state.generation, dealt.call, input_key(state, logged));
        let deal = &dealt.how;
        let running = state.workers.iter().enumerate().map(|(w, &node)| {
            let from = deal.inputs.as_ref().map(|inputs| inputs[w].clone());
            let job = SyncJob {
                call,
                site: logged.site,
                task: logged.task.clone(),
                captures: logged.captures.clone(),
                before: logged.before.clone(),
                policy: logged.policy,
                rule: logged.rule,
                schedule: logged.schedule,
                copies: deal.copies.clone(),
                keepers: logged.kept_by(state, &deal.keepers),
                asked: deal.asked.clone(),
                input: InputJob { ops: logged.input_ops, key, from },
                pulls: dealt.pulls[w].clone(),
                fetching: deal.fetching,
                checks: logged.checks,
                early: logged.early,
                caches: logged.caches,
            };
            let end =
                cluster.ask(node, move |client, context| async move { client.sync(context, generation, job).await });
            async move { (w, end.await) }
        });
        let mut running: FuturesUnordered<_> = running.collect();
        let mut ended: Vec<Option<SyncRan>> = state.workers.iter().map(|_| None).collect();
        let mut failed: Option<MinibatchFailure> = None;
        while let Some((w, end)) = running.next().await {
            match end? {
                SyncEnd::Done(ran) => ended[w] = Some(ran),
                SyncEnd::Failed { minibatch, what } => {
                    let first = failed.is_none();
                    if failed.as_ref().is_none_or(|failed| minibatch < failed.place) {
                        let worker = cluster.hub.name(state.workers[w]);
                        failed = Some(FailedThere { place: minibatch, what, worker });
                    }
                    if first {
                        let halt = |_, client: ControlClient, context| async move {
                            client.halt(context, generation, call).await
                        };
                        cluster.ask_all(&state.workers, halt).await?;
                    }
                }
                SyncEnd::Stopped if failed.is_some() => {}
                SyncEnd::Stopped => return Err(broken("a worker stopped by itself").into()),
            }
        }
        if let Some(failed) = failed {
            return Err(Stop::Failed(failed));
        }
        self.new = self.bring_new(cluster, state, &deal.copies, &ended).await?;
        Ok(ended.into_iter().flatten().collect())
    }

    fn undone(&self, state: &mut State, dealt: &Dealt<SyncDeal>, _: &[u32]) {
        record_kept(state, &self.logged, &dealt.how.keepers, &[]);
    }

    async fn finish(
        &mut self,
        cluster: &Cluster,
        state: &mut State,
        dealt: &Dealt<SyncDeal>,
        ended: Vec<SyncRan>,
    ) -> Finished<Self> {
        let logged = &self.logged;
        let holds_all: Vec<bool> = ended.iter().map(|ran| ran.holds_all && logged.schedule.copies > 1).collect();
        record_kept(state, logged, &dealt.how.keepers, &holds_all);
        logged.deal_keepers(state, &dealt.how, &ended);
        for (_, vector) in logged.written() {
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                entry.version = next_id();
            }
        }
        if let Some(known) = state.sites.known.iter_mut().find(|known| known.number == logged.site) {
            known.foreseen = ended.iter().all(|ran| ran.foresees);
        }
        let vectors: Vec<Vector> = logged.all().collect();
        let moved = moved(dealt.pulls.iter().flatten(), &vectors) + dealt.how.exchanged as u64;
        let finished = finished(&dealt.nodes, logged, ended, (moved, std::mem::take(&mut self.new)))?;
        let own_threads = if logged.policy == SyncPolicy::Hybrid { cluster.threads() } else { 1 };
        let same_again = logged.policy.is_deterministic(logged.schedule.copies, own_threads);
        // What would not have the same bits again is never run again once it has been seen.
        let writes = logged.written().next().is_some();
        Ok((finished, writes.then(|| Noted { logged: Arc::clone(logged) as _, same_again })))
    }
}

impl Cluster {
    fn logged(&self, state: &mut State, call: &SyncCall<'_>) -> Result<SyncLogged> {
        self.register_all(state, call.captured.iter().chain([call.input]));
        let task = remote_task(call.pack, call.site, "the loop")?;
        let input = vector_of(call.input).ok_or_else(|| unnamed("the input"))?;
        let input_ops = naming::element_name(input.ops);
        // As many as there are to be, however many take part now: bits depend on it.
        let (threads, workers) = (self.threads(), self.options.workers());
        let copies = if call.policy == SyncPolicy::Hybrid { workers } else { workers * threads };
        let schedule = Schedule::new((input.len, call.minibatch), call.policy, call.options.interval, copies, threads);
        let key = call.key(copies);
        let site = match state.sites.known.iter().position(|known| known.key == key) {
            Some(at) => state.sites.known[at].number,
            None => {
                state.next_plan += 1;
                let number = state.next_plan;
                if state.sites.known.len() >= KNOWN {
                    let oldest = state.sites.known.remove(0);
                    locked(&self.gone_plans).push(oldest.number);
                }
                state.sites.known.push(Known { key, number, foreseen: false });
                number
            }
        };
        Ok(SyncLogged {
            site,
            task,
            captures: remote_captures(call.captured)?,
            vectors: call.captured.iter().map(vector_of).collect(),
            before: words(call.captured),
            policy: call.policy,
            rule: call.options.merge,
            schedule,
            input,
            input_ops: input_ops.ok_or_else(|| unnamed("an element type"))?,
            prefetch: call.options.prefetch,
            early: call.options.early,
            caches: call.options.caches,
            checks: call.session.verifies(),
        })
    }

    /// Says where each worker finds its minibatches, unless the workers have them. Those that are here are offered.
    fn deal_out(
        &self,
        state: &mut State,
        logged: &SyncLogged,
        copies: &[Range<usize>],
    ) -> std::result::Result<Option<Vec<InputFrom>>, Fault> {
        let key = input_key(state, logged);
        if state.sites.use_input(key) {
            return Ok(None);
        }
        let entry = state.entries.get(&logged.input.id).ok_or_else(|| broken("an unknown input"))?;
        if entry.placement.is_home() {
            let home = entry.home.lend();
            return Ok(Some(copies.iter().map(|copies| self.offer(logged, &home, copies)).collect()));
        }
        let (dds, all) = (logged.input.id, 0..logged.input.len);
        let of_worker = |(w, &node): (usize, &Node)| {
            let parts = entry.placement.of(&all).map(|(range, at)| {
                let there = at.iter().find(|&&holder| holder == Holder::memory(node));
                let from = there.or_else(|| at.get(w % at.len().max(1))).copied();
                Some(Pull { dds, range, from: from? })
            });
            parts.collect::<Option<Vec<Pull>>>().map(InputFrom::Holders)
        };
        let inputs: Option<Vec<InputFrom>> = state.workers.iter().enumerate().map(of_worker).collect();
        inputs.map(Some).ok_or_else(|| broken("an input that nobody has"))
    }

    /// Offers a worker the minibatches of its copies.
    fn offer(&self, logged: &SyncLogged, elements: &RawBuf, copies: &Range<usize>) -> InputFrom {
        let (mut bytes, mut n, mut offered) = (Vec::new(), 0, Vec::new());
        let each = (DEALT_BYTES / logged.input.ops.size.max(1)).max(1);
        for range in logged.schedule.elements_of(copies.clone()) {
            for start in range.clone().step_by(each) {
                let range = start..range.end.min(start + each);
                elements.encode_range(range.start, range.end, &mut bytes);
                n += range.len();
                if bytes.len() >= DEALT_BYTES {
                    offered.push((self.hub.offer(std::mem::take(&mut bytes)), std::mem::take(&mut n)));
                }
            }
        }
        if n > 0 {
            offered.push((self.hub.offer(bytes), n));
        }
        InputFrom::Driver(offered)
    }
}

impl InputFrom {
    fn blobs(&self) -> Vec<u64> {
        match self {
            InputFrom::Driver(blobs) => blobs.iter().map(|&(blob, _)| blob).collect(),
            InputFrom::Holders(_) => Vec::new(),
        }
    }

    /// The bytes that others than the driver send a worker for the minibatches of its copies.
    fn sent(&self, worker: Node, logged: &SyncLogged, copies: &Range<usize>) -> usize {
        let InputFrom::Holders(parts) = self else { return 0 };
        let wanted = logged.schedule.elements_of(copies.clone());
        let mut sent = 0;
        for part in parts.iter().filter(|part| ![worker, DRIVER].contains(&part.from.node)) {
            let first = wanted.partition_point(|range| range.end <= part.range.start);
            for range in wanted[first..].iter().take_while(|range| range.start < part.range.end) {
                sent += range.end.min(part.range.end) - range.start.max(part.range.start);
            }
        }
        sent * logged.input.ops.size
    }
}

fn input_key(state: &State, logged: &SyncLogged) -> InputKey {
    let version = state.entries.get(&logged.input.id).map_or(0, |entry| entry.version);
    InputKey { dds: logged.input.id, version, schedule: logged.schedule }
}

/// What the workers' answers come to.
fn finished(
    workers: &[Node],
    logged: &SyncLogged,
    ended: Vec<SyncRan>,
    (moved, new): (u64, NewByCapture),
) -> std::result::Result<LoopResult, Fault> {
    let mut counts = Counts { bytes_sent: moved, ..Counts::default() };
    let (mut totals, mut violations, mut preparing, mut changed) = (Vec::new(), 0, 0.0f64, None);
    let mut seconds = Vec::new();
    for (ran, &node) in ended.into_iter().zip(workers) {
        counts.touched += ran.counts.touched;
        counts.ahead += ran.counts.ahead;
        counts.on_demand += ran.counts.on_demand;
        counts.bytes_sent += ran.counts.bytes_sent;
        counts.cached = counts.cached.max(ran.counts.cached);
        counts.merging += ran.counts.merging;
        counts.reads += ran.counts.reads;
        counts.worst = counts.worst.max(ran.counts.worst);
        violations += ran.violations;
        preparing = preparing.max(ran.seconds_preparing);
        totals.extend(ran.totals);
        seconds.push((node, ran.time));
        changed = changed.or(ran.changed);
    }
    totals.sort_by_key(|&(minibatch, _)| minibatch);
    if totals.iter().any(|(_, total)| total.len() != logged.captures.len()) {
        return Err(broken("a worker's answer has another number of captures"));
    }
    Ok(LoopResult { ran: Ran { totals, counts, violations, new }, workers: seconds, preparing, changed })
}

impl MinibatchBackend for Cluster {
    fn run_minibatches(&self, call: &SyncCall<'_>) -> Result<SyncReport> {
        let begun = Instant::now();
        let mut state = locked(&self.state);
        let logged = Arc::new(self.logged(&mut state, call)?);
        let (schedule, threads) = (logged.schedule, self.threads() * state.workers.len());
        let sent_before = self.hub.links.sent();
        let failed = |failed: MinibatchFailure| {
            let (minibatch, failure) = match failed.failure() {
                (minibatch, Failure::Misspeculation { .. }) => (minibatch, Failure::Stopped),
                failed => failed,
            };
            call.failed(schedule, minibatch, failure)
        };
        let mut remote = SyncRemote { logged: Arc::clone(&logged), ops: call.task.new_entry_ops(), new: Vec::new() };
        let LoopResult { mut ran, workers, preparing, changed } = self.run_call(&mut state, &mut remote, failed)?;
        let alone = schedule.copies == 1;
        let after = unite(call.captured, &logged.before, alone && self.threads() == 1, &ran.totals);
        drop(state);
        call.commit(&after, std::mem::take(&mut ran.new));
        if let Some(of) = changed {
            return Err(shared_state(of, call.site));
        }
        call.within_bound(&ran)?;
        let mut counts = ran.counts;
        counts.bytes_sent += self.hub.links.sent() - sent_before;
        let workers = self.times(workers);
        let all = begun.elapsed().as_secs_f64();
        let verified = match call.policy {
            _ if !call.session.verifies() => Verified::NotAsked,
            SyncPolicy::Ssp { .. } if !alone => Verified::NotCompared(Unverified::Stale { reads: counts.reads }),
            _ => Verified::NotCompared(Unverified::OnWorkers),
        };
        let report = call.report(schedule, threads, (preparing.min(all), all - preparing.min(all)), counts, workers);
        Ok(SyncReport { verified, ..report })
    }
}
