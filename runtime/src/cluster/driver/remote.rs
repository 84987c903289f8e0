//! The one skeleton of all calls on workers, be it a loop, minibatches, an operator or a scheduled program: DDSs are made
//! ready, workers are asked, a failure is undone, and what has changed DDSs is noted to be run again after a loss.
//!
//! One ladder of errors serves all: a call that the program's own code ends is [`Stop::Failed`]; a lost process is
//! [`Fault::Lost`], after which it begins again; anything else is an [`Error`], after which nobody knows what workers hold.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::body::capture::{Captured, Kind};
use crate::body::outcome::Failure;
use crate::body::panics::CaughtPanic;
use crate::cluster::driver::call::unnamed;
use crate::cluster::driver::remote_plan::{RemotePlan, Vector};
use crate::cluster::driver::{Cluster, Fault, Scattered, State};
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{
    ControlClient, DRIVER, Holder, Node, Pull, RemoteCause, RemoteTask, WorkerSeconds,
};
use crate::loops::call::Pack;
use crate::session::error::{BodyError, ClusterError, Error, Result};
use crate::session::report::WorkerTime;

/// Why a call that ran once did not end well.
pub(crate) enum Stop<F> {
    Fault(Fault),
    /// The program's own code failed; everything is as it was before the call.
    Failed(F),
}

impl<F> From<Fault> for Stop<F> {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// A call on workers: what differs between loops, minibatches, operators and scheduled programs.
pub(crate) trait RemoteCall: Sized {
    /// As messages name it.
    const WHAT: &'static str;
    /// Whether it changes elements that workers hold, so that a failure has to be undone.
    const WRITES: bool = true;
    /// How it is dealt to the workers.
    type Deal;
    type Answers;
    type Done;
    /// How the program's own code fails in it.
    type Failed: fmt::Debug;

    /// The DDSs that it touches.
    fn ddss(&self) -> impl Iterator<Item = u64>;

    /// The DDSs that it may change.
    fn changes(&self) -> Vec<u64> {
        if Self::WRITES { self.ddss().collect() } else { Vec::new() }
    }

    /// What its bodies are.
    fn task(&self) -> &RemoteTask;

    /// The plan by which it is run, and by which elements may lie already.
    fn plan(&self) -> Option<&Arc<RemotePlan>> {
        None
    }

    /// Whether it can use a DDS where the keepers with this number have its elements.
    fn uses_kept(&self, _: &State, _dds: u64, _keepers: u64) -> bool {
        false
    }

    /// Says who does what, and makes workers ready where that takes messages of its own.
    async fn deal(&mut self, cluster: &Cluster, state: &mut State) -> Dealing<Self::Deal>;

    /// Has the workers run it.
    async fn ask(&mut self, cluster: &Cluster, state: &State, dealt: &Dealt<Self::Deal>) -> Asked<Self>;

    /// Workers have put back what it had changed; these blocks had been started.
    fn undone(&self, _: &mut State, _: &Dealt<Self::Deal>, _started: &[u32]) {}

    /// Why it can't be run again.
    fn in_words(failed: &Self::Failed) -> String {
        format!("{failed:?}")
    }

    /// The destructor of an element that was put aside panicked on a worker. All is put back nevertheless.
    fn undoing_panicked(&self, _: &mut Self::Failed, _: CaughtPanic, _worker: String) {}

    /// It has ended well: notes where elements are now, and says what is to be run again after a loss.
    async fn finish(
        &mut self,
        cluster: &Cluster,
        state: &mut State,
        dealt: &Dealt<Self::Deal>,
        answers: Self::Answers,
    ) -> Finished<Self>;
}

pub(crate) type Asked<C> = std::result::Result<<C as RemoteCall>::Answers, Stop<<C as RemoteCall>::Failed>>;

pub(crate) type Finished<C> = std::result::Result<(<C as RemoteCall>::Done, Option<Noted>), Fault>;

/// A call as the workers are asked for it.
pub(crate) struct Dealt<D> {
    pub(crate) call: u64,
    /// Who runs it.
    pub(crate) nodes: Vec<Node>,
    /// What each of them fetches as it begins.
    pub(crate) pulls: Vec<Vec<Pull>>,
    /// What is offered until it has ended.
    pub(crate) blobs: Vec<u64>,
    pub(crate) how: D,
}

pub(crate) type Dealing<D> = std::result::Result<Dealt<D>, Fault>;

/// What has changed DDSs, to be run again after a loss.
pub(crate) struct Noted {
    pub(crate) logged: Arc<dyn Logged>,
    /// Whether it can be run again with the same bits; otherwise there is a snapshot at once.
    pub(crate) same_again: bool,
}

/// A call that ended well and has changed DDSs.
pub(crate) trait Logged: Send + Sync {
    /// Whether it touches a DDS.
    fn uses(&self, dds: u64) -> bool;
    /// The DDS that it makes, where it changes no other.
    fn makes(&self) -> Option<u64> {
        None
    }
    /// Two that do one after the other what it does, where it can be cut.
    fn halves(&self, _: &Cluster, _: &mut State) -> Option<[Arc<dyn Logged>; 2]> {
        None
    }
    /// Runs it once more, from the same state.
    fn replay<'r>(self: Arc<Self>, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r>;
}

pub(crate) type Replay<'r> = Pin<Box<dyn Future<Output = std::result::Result<(), Fault>> + 'r>>;

/// What failed on a worker, and for what: an iteration, a minibatch, an element.
#[derive(Debug)]
pub(crate) struct FailedThere<P> {
    pub(crate) place: P,
    pub(crate) what: RemoteCause,
    pub(crate) worker: String,
}

/// What a body returned on a worker.
#[derive(Debug, thiserror::Error)]
#[error("{message} ({worker})")]
struct OnWorker {
    message: String,
    worker: String,
}

impl<P> FailedThere<P> {
    /// The same as the program's process reports it.
    pub(crate) fn failure(self) -> (P, Failure) {
        let worker = self.worker;
        let failure = match self.what {
            RemoteCause::Misspeculation { capture } => Failure::Misspeculation { capture },
            RemoteCause::OutOfRange { capture, index } => Failure::OutOfRange { capture, index },
            RemoteCause::Body { message } => {
                let error: BodyError = Box::new(OnWorker { message, worker });
                Failure::Body(error)
            }
            RemoteCause::Panic { message, location } => {
                Failure::Panic(CaughtPanic { message, location: format!("{location}; {worker}") })
            }
            RemoteCause::Undoing { message, location } => {
                Failure::Undoing(CaughtPanic { message, location: format!("{location}; {worker}") })
            }
        };
        (self.place, failure)
    }
}

/// The driver, or somebody it hears of, broke the protocol.
pub(crate) fn broken(what: impl std::fmt::Display) -> Fault {
    Fault::Error(ClusterError::Process { who: "the driver".to_string(), problem: what.to_string() }.into())
}

/// What the program packed, as workers find it.
pub(crate) fn remote_task(pack: Pack<'_>, site: impl std::fmt::Display, what: &str) -> Result<RemoteTask> {
    let (maker, values) = pack().map_err(|source| Error::Values { site: site.to_string(), source })?;
    Ok(RemoteTask { maker: naming::name(maker).ok_or_else(|| unnamed(what))?, values, site: site.to_string().into() })
}

/// Whether a call can use scattered elements of a DDS where they are.
fn is_used_there(call: &impl RemoteCall, state: &State, dds: u64) -> bool {
    match state.entries.get(&dds).and_then(|entry| entry.scattered.as_ref()) {
        Some(Scattered::ByPlan(by, _)) => call.plan().is_some_and(|plan| Arc::ptr_eq(plan, by)),
        Some(Scattered::Kept(number)) => call.uses_kept(state, dds, *number),
        None => false,
    }
}

/// The bytes that workers send each other for these elements, about.
pub(crate) fn moved<'p>(pulls: impl IntoIterator<Item = &'p Pull>, vectors: &[Vector]) -> u64 {
    let size = |dds: u64| vectors.iter().find(|vector| vector.id == dds).map_or(0, |vector| vector.ops.size);
    let elsewhere = pulls.into_iter().filter(|pull| pull.from.node != DRIVER);
    elsewhere.map(|pull| (pull.range.len() * size(pull.dds)) as u64).sum()
}

impl Cluster {
    /// Registers the DDSs that a call captures.
    pub(crate) fn register_all<'c>(&self, state: &mut State, captured: impl IntoIterator<Item = &'c Captured>) {
        for capture in captured {
            if let (Kind::Vector { len, .. }, Some(home)) = (&capture.kind, capture.home()) {
                self.register(state, capture.id, home, *len);
            }
        }
    }

    /// Does something until no process is lost meanwhile.
    pub(crate) fn retry<R>(
        &self,
        state: &mut State,
        mut f: impl AsyncFnMut(&Cluster, &mut State) -> std::result::Result<R, Fault>,
    ) -> Result<R> {
        let once = async |cluster: &Cluster, state: &mut State| Ok(f(cluster, state).await?);
        self.until_ended(state, once, |never: Infallible| match never {})
    }

    /// Runs a call until no process is lost meanwhile, and notes it: it is run again after a loss, until there is a
    /// snapshot.
    pub(crate) fn run_call<C: RemoteCall, E: From<Error>>(
        &self,
        state: &mut State,
        call: &mut C,
        error: impl FnOnce(C::Failed) -> E,
    ) -> std::result::Result<C::Done, E> {
        self.keep_orders(state, &call.changes())?;
        let once = async |cluster: &Cluster, state: &mut State| cluster.run_once(state, call).await;
        let (done, noted) = self.until_ended(state, once, error)?;
        let (same_again, changed) = (noted.as_ref().is_none_or(|noted| noted.same_again), noted.is_some());
        state.log.extend(noted.map(|noted| noted.logged));
        let due = move |cluster: &Cluster, state: &State| {
            let every = if cluster.options.homes_on_servers() { 1 } else { cluster.options.every() };
            state.log.len() >= every || (!same_again && !state.log.is_empty())
        };
        if due(self, state) {
            // After a recovery there is a fresh one.
            let snapshot = async |cluster: &Cluster, state: &mut State| {
                if due(cluster, state) { cluster.snapshot(state).await } else { Ok(()) }
            };
            self.retry(state, snapshot)?;
        }
        if changed && self.options.homes_on_servers() {
            self.return_elements(state)?;
        }
        self.give_up_homes(state)?;
        Ok(done)
    }

    /// Does something, and again after each loss, until it has ended well or failed.
    fn until_ended<R, F, E: From<Error>>(
        &self,
        state: &mut State,
        mut once: impl AsyncFnMut(&Cluster, &mut State) -> std::result::Result<R, Stop<F>>,
        failed: impl FnOnce(F) -> E,
    ) -> std::result::Result<R, E> {
        if let Some(problem) = state.owed.values().next() {
            let (who, problem) = ("the driver".to_string(), problem.clone());
            return Err(Error::from(ClusterError::Process { who, problem }).into());
        }
        self.wait(async {
            loop {
                self.try_again(state);
                // After an error nobody knows what the workers hold.
                if state.tainted || self.hub.lost.get() != state.seen_losses {
                    self.recover(state).await?;
                    state.tainted = false;
                } else if self.change_members(state).await? {
                    continue;
                }
                let ended = match once(self, state).await {
                    Ok(done) => Ok(done),
                    Err(Stop::Failed(why)) => Err(failed(why)),
                    Err(Stop::Fault(fault)) => {
                        state.tainted = true;
                        match fault {
                            Fault::Lost => continue,
                            Fault::Error(error) => return Err(error.into()),
                        }
                    }
                };
                state.in_vain = [0; 2];
                return ended;
            }
        })
    }

    /// Runs a call once. What workers hold afterwards is known, however it ended, unless a process was lost.
    async fn run_once<C: RemoteCall>(
        &self,
        state: &mut State,
        call: &mut C,
    ) -> std::result::Result<(C::Done, Option<Noted>), Stop<C::Failed>> {
        self.forget_gone(state).await?;
        let ddss: Vec<u64> = call.ddss().filter(|&dds| !is_used_there(call, state, dds)).collect();
        self.settle(state, ddss.iter().copied()).await?;
        for dds in call.changes() {
            // From here on its elements are in ranges, or in an order of a loop's own.
            if let Some(entry) = state.entries.get_mut(&dds) {
                entry.in_ranges = false;
                entry.scattered.take_if(|_| ddss.contains(&dds));
            }
        }
        let dealt = call.deal(self, state).await?;
        let watched = self.name_slow_bodies(state.generation, &dealt.nodes, call.task());
        let answered = call.ask(self, state, &dealt).await;
        drop(watched);
        dealt.blobs.iter().for_each(|&blob| self.hub.withdraw(blob));
        if let Ok(_) | Err(Stop::Failed(_)) = &answered {
            dealt.nodes.iter().zip(&dealt.pulls).for_each(|(&node, pulls)| Self::note_pulled(state, node, pulls));
        }
        match answered {
            Ok(answers) => Ok(call.finish(self, state, &dealt, answers).await?),
            Err(Stop::Failed(mut failed)) if C::WRITES => {
                let (generation, number) = (state.generation, dealt.call);
                let undo =
                    |_, client: ControlClient, context| async move { client.undo(context, generation, number).await };
                let mut started = Vec::new();
                for ((there, note), &node) in self.ask_all(&dealt.nodes, undo).await?.into_iter().zip(&dealt.nodes) {
                    started.extend(there);
                    if let Some(note) = note {
                        call.undoing_panicked(&mut failed, note, self.hub.name(node));
                    }
                }
                call.undone(state, &dealt, &started);
                Err(Stop::Failed(failed))
            }
            Err(stop) => Err(stop),
        }
    }

    /// Runs once more what ended well before: it can't fail now.
    pub(crate) async fn run_again<C: RemoteCall>(
        &self,
        state: &mut State,
        mut call: C,
    ) -> std::result::Result<(), Fault> {
        match self.run_once(state, &mut call).await {
            Ok(_) => Ok(()),
            Err(Stop::Fault(fault)) => Err(fault),
            Err(Stop::Failed(failed)) => {
                Err(broken(format!("{} that ended well before fails: {}", C::WHAT, C::in_words(&failed))))
            }
        }
    }

    /// The number of a new call.
    pub(crate) fn next_call(state: &mut State) -> u64 {
        state.next_call += 1;
        state.next_call
    }

    /// Bytes that a worker offers.
    pub(crate) async fn blob(&self, node: Node, blob: u64) -> std::result::Result<Vec<u8>, Fault> {
        self.hub.links.blob(node, blob).await.map_err(|error| {
            self.hub.lose(node, &error.to_string());
            Fault::Lost
        })
    }

    /// A worker has fetched copies.
    pub(crate) fn note_pulled(state: &mut State, node: Node, pulls: &[Pull]) {
        for pull in pulls {
            if let Some(entry) = state.entries.get_mut(&pull.dds) {
                entry.placement.copied(&pull.range, Holder::memory(node));
            }
        }
    }

    /// What workers did with their time, as reports name them.
    pub(crate) fn times(&self, workers: impl IntoIterator<Item = (Node, WorkerSeconds)>) -> Vec<WorkerTime> {
        let time = |(node, time): (Node, WorkerSeconds)| WorkerTime {
            worker: self.hub.name(node),
            computing: time.computing,
            waiting: time.waiting,
            transferring: time.transferring,
        };
        workers.into_iter().map(time).collect()
    }
}
