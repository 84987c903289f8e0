//! What all calls on workers share, be it a loop, minibatches, an operator or a scheduled program: their captures are
//! registered and made ready, workers are asked, a failure is undone, and what has changed DDSs is noted to be run again
//! after a loss.
//!
//! One ladder of errors serves all: a call that the program's own code ends is [`Stop::Failed`]; a lost process is
//! [`Fault::Lost`], after which it begins again; anything else is an [`Error`], after which nobody knows what workers hold.

use std::pin::Pin;
use std::sync::Arc;

use crate::body::capture::{Captured, Kind};
use crate::cluster::driver::call::unnamed;
use crate::cluster::driver::remote_plan::Vector;
use crate::cluster::driver::{Cluster, Fault, State};
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{DRIVER, Holder, Node, Pull, RemoteTask, WorkerSeconds};
use crate::loops::call::Pack;
use crate::session::error::{ClusterError, Error, Result};
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

impl<F> Stop<F> {
    /// The same for a call that ended well before: it can't fail now.
    pub(crate) fn again(self, told: impl FnOnce(F) -> String) -> Fault {
        match self {
            Stop::Fault(fault) => fault,
            Stop::Failed(failed) => broken(told(failed)),
        }
    }
}

/// A call that ended well and has changed DDSs.
pub(crate) trait Logged: Send + Sync {
    /// Whether it touches a DDS.
    fn uses(&self, dds: u64) -> bool;
    /// Runs it once more, from the same state.
    fn replay<'r>(&'r self, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r>;
}

pub(crate) type Replay<'r> = Pin<Box<dyn Future<Output = std::result::Result<(), Fault>> + 'r>>;

/// The driver, or somebody it hears of, broke the protocol.
pub(crate) fn broken(what: impl std::fmt::Display) -> Fault {
    Fault::Error(ClusterError::Process { who: "the driver".to_string(), problem: what.to_string() }.into())
}

/// What the program packed, as workers find it.
pub(crate) fn remote_task(pack: Pack<'_>, site: impl std::fmt::Display, what: &str) -> Result<RemoteTask> {
    let (maker, values) = pack().map_err(|source| Error::Values { site: site.to_string(), source })?;
    Ok(RemoteTask { maker: naming::name_of(maker).ok_or_else(|| unnamed(what))?, values })
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

    /// Runs a call until no process is lost meanwhile.
    pub(crate) fn run_call<R, F, E: From<Error>>(
        &self,
        state: &mut State,
        mut once: impl AsyncFnMut(&Cluster, &mut State) -> std::result::Result<R, Stop<F>>,
        error: impl FnOnce(F) -> E,
    ) -> std::result::Result<R, E> {
        let mut failed = None;
        let done = self.retry(state, async |cluster, state| match once(cluster, state).await {
            Ok(done) => Ok(Some(done)),
            Err(Stop::Fault(fault)) => Err(fault),
            Err(Stop::Failed(why)) => {
                failed = Some(why);
                Ok(None)
            }
        })?;
        match (done, failed) {
            (Some(done), _) => Ok(done),
            (None, Some(failed)) => Err(error(failed)),
            (None, None) => unreachable!("a call without a result has failed"),
        }
    }

    /// Makes DDSs ready for a call that takes elements from where they stand: none is left in the order of a plan.
    pub(crate) async fn settle(
        &self,
        state: &mut State,
        ddss: impl IntoIterator<Item = u64>,
    ) -> std::result::Result<(), Fault> {
        for dds in ddss {
            if state.entries.get(&dds).is_some_and(|entry| entry.scattered.is_some()) {
                self.bring_home(state, dds).await?;
            }
        }
        Ok(())
    }

    /// The number of a new call.
    pub(crate) fn next_call(state: &mut State) -> u64 {
        state.next_call += 1;
        state.next_call
    }

    /// Has workers put back what a call has changed.
    pub(crate) async fn undo(
        &self,
        nodes: &[Node],
        generation: u32,
        call: u64,
    ) -> std::result::Result<Vec<u32>, Fault> {
        let undone =
            self.ask_all(nodes, |_, client, context| async move { client.undo(context, generation, call).await });
        Ok(undone.await?.concat())
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

    /// A call ended well. If it has changed DDSs, it is run again after a loss, until there is a snapshot: at once, if it
    /// would not have the same bits again.
    pub(crate) fn note_call(&self, state: &mut State, logged: Option<Arc<dyn Logged>>, same_again: bool) -> Result<()> {
        state.log.extend(logged);
        let due = move |cluster: &Cluster, state: &State| {
            state.log.len() >= cluster.options.every() || (!same_again && !state.log.is_empty())
        };
        if !due(self, state) {
            return Ok(());
        }
        self.retry(state, async |cluster, state| {
            // After a recovery there is a fresh one.
            if due(cluster, state) { cluster.snapshot(state).await } else { Ok(()) }
        })
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
