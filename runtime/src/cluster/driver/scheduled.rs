//! The driver's side of a scheduled program on workers: who has which shards, and what they hold afterwards.

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use crate::body::capture::Captured;
use crate::cluster::driver::away::{Away, Hearing, Inbox, News};
use crate::cluster::driver::call::{remote_captures, unnamed, vector_of};
use crate::cluster::driver::remote::{
    Asked, Dealing, Dealt, Finished, Logged, Noted, RemoteCall, Replay, Stop, broken, moved, remote_task,
};
use crate::cluster::driver::remote_plan::Vector;
use crate::cluster::driver::{Cluster, State};
use crate::cluster::wire::links::{Outgoing, Payload};
use crate::cluster::wire::protocol::{
    ControlClient, Holder, Node, RemoteCapture, RemoteTask, ScheduleEnd, ScheduleJob, WorkerSeconds,
};
use crate::cluster::wire::scheduled::Tag;
use crate::cluster::wire::scheduled::header;
use crate::scheduled::backend::{ProgramCall, ProgramOutcome, ScheduledBackend, Unfinished};
use crate::scheduled::drive::{Done, RoundFailure};
use crate::session::error::{Error, Result};
use crate::session::timeline::{Category, span};
use crate::session::{locked, next_id};

/// A scheduled program, apart from where it is called.
#[derive(Clone)]
struct CallSetup {
    task: RemoteTask,
    /// Shards and locals.
    captures: [RemoteCapture; 2],
    vectors: [Vector; 2],
}

/// A call that ended well, to be run again.
pub(crate) struct ScheduledLogged {
    setup: CallSetup,
    /// What the rounds were sent, as it is sent to a worker that has all shards.
    messages: Vec<Vec<u8>>,
}

impl Logged for ScheduledLogged {
    fn uses(&self, dds: u64) -> bool {
        self.setup.vectors.iter().any(|vector| vector.id == dds)
    }

    fn replay<'r>(self: Arc<Self>, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r> {
        Box::pin(cluster.run_again(state, Repetition(self)))
    }
}

/// What one attempt came to.
struct Ran {
    done: Done,
    prepared: Instant,
    bytes_sent: u64,
    workers: Vec<(Node, WorkerSeconds)>,
}

/// The shards of each worker.
type Owned = Vec<Range<usize>>;

impl CallSetup {
    fn ddss(&self) -> impl Iterator<Item = u64> {
        self.vectors.iter().map(|vector| vector.id)
    }

    /// Gives each worker its part of the shards, if there is one.
    fn deal(&self, state: &mut State) -> Dealing<Owned> {
        let (all, workers) = (self.vectors[0].len, state.workers.len());
        let mut dealt =
            Dealt { call: Cluster::next_call(state), nodes: vec![], pulls: vec![], blobs: vec![], how: vec![] };
        for (w, &node) in state.workers.iter().enumerate() {
            let own = all * w / workers..all * (w + 1) / workers;
            if own.is_empty() {
                continue;
            }
            let mut pulls = Vec::new();
            for vector in &self.vectors {
                let entry = state.entries.get(&vector.id).ok_or_else(|| broken("an unknown DDS"))?;
                pulls.extend(entry.placement.missing(vector.id, &own, node, w));
            }
            dealt.nodes.push(node);
            dealt.pulls.push(pulls);
            dealt.how.push(own);
        }
        Ok(dealt)
    }

    fn job(&self, dealt: &Dealt<Owned>, worker: usize, replay: bool) -> ScheduleJob {
        let ([shards, locals], task) = (self.captures.clone(), self.task.clone());
        let (own, pulls) = (dealt.how[worker].clone(), dealt.pulls[worker].clone());
        ScheduleJob { call: dealt.call, worker, task, shards, locals, own, pulls, replay }
    }

    fn record_applied(&self, state: &mut State, dealt: &Dealt<Owned>) {
        if let Some(entry) = state.entries.get_mut(&self.vectors[1].id) {
            for (&node, own) in dealt.nodes.iter().zip(&dealt.how) {
                entry.placement.written(own, Holder::memory(node));
            }
            entry.version = next_id();
        }
    }
}

/// A scheduled program to be run on workers.
struct Running<'c> {
    setup: CallSetup,
    program: &'c mut dyn ProgramCall,
    begun: bool,
}

type Messages = Option<Vec<Vec<u8>>>;

impl RemoteCall for Running<'_> {
    const WHAT: &'static str = "a scheduled program";
    type Deal = Owned;
    /// Also what the rounds were sent, unless it is too much to be kept.
    type Answers = (Ran, Messages);
    type Done = Ran;
    type Failed = RoundFailure;

    fn ddss(&self) -> impl Iterator<Item = u64> {
        self.setup.ddss()
    }

    fn task(&self) -> &RemoteTask {
        &self.setup.task
    }

    async fn deal(&mut self, _: &Cluster, state: &mut State) -> Dealing<Owned> {
        if std::mem::replace(&mut self.begun, true) {
            self.program.begin_again();
        }
        self.setup.deal(state)
    }

    async fn ask(&mut self, cluster: &Cluster, state: &State, dealt: &Dealt<Owned>) -> Asked<Self> {
        let ran = cluster.run_rounds(state.generation, self, dealt);
        cluster.hub.scheduled.close();
        ran
    }

    async fn finish(
        &mut self,
        cluster: &Cluster,
        state: &mut State,
        dealt: &Dealt<Owned>,
        (mut ran, messages): (Ran, Messages),
    ) -> Finished<Self> {
        ran.bytes_sent += moved(dealt.pulls.iter().flatten(), &self.setup.vectors);
        self.setup.record_applied(state, dealt);
        let Some(messages) = messages else {
            // What is too long to be sent again must not have to be.
            cluster.snapshot(state).await?;
            return Ok((ran, None));
        };
        let logged = Arc::new(ScheduledLogged { setup: self.setup.clone(), messages });
        Ok((ran, Some(Noted { logged, same_again: true })))
    }
}

/// What a call that ended well has sent its workers, to be applied once more.
struct Repetition(Arc<ScheduledLogged>);

impl RemoteCall for Repetition {
    const WHAT: &'static str = "a scheduled program";
    type Deal = Owned;
    type Answers = ();
    type Done = ();
    type Failed = RoundFailure;

    fn ddss(&self) -> impl Iterator<Item = u64> {
        self.0.setup.ddss()
    }

    fn task(&self) -> &RemoteTask {
        &self.0.setup.task
    }

    async fn deal(&mut self, _: &Cluster, state: &mut State) -> Dealing<Owned> {
        self.0.setup.deal(state)
    }

    async fn ask(&mut self, cluster: &Cluster, state: &State, dealt: &Dealt<Owned>) -> Asked<Self> {
        let ScheduledLogged { setup, messages } = &*self.0;
        let generation = state.generation;
        for (worker, &node) in dealt.nodes.iter().enumerate() {
            let rounds = messages.iter().map(|message| (Tag::Round, message.clone()));
            for (tag, message) in rounds.chain([(Tag::Last, Vec::new())]) {
                let header = header(generation, dealt.call, tag, worker, 0);
                cluster.hub.links.push(node, Outgoing { header, payload: Payload::Bytes(message) });
            }
        }
        let apply = |worker, client: ControlClient, context| {
            let job = setup.job(dealt, worker, true);
            async move { client.scheduled(context, generation, job).await }
        };
        let ends: Vec<ScheduleEnd> = cluster.ask_all(&dealt.nodes, apply).await?;
        let failed = ends.into_iter().find_map(|end| end.failed);
        failed.map_or(Ok(()), |failed| Err(Stop::Failed(failed)))
    }

    async fn finish(&mut self, _: &Cluster, state: &mut State, dealt: &Dealt<Owned>, (): ()) -> Finished<Self> {
        self.0.setup.record_applied(state, dealt);
        Ok(((), None))
    }
}

impl Cluster {
    fn call_setup(&self, state: &mut State, call: &dyn ProgramCall) -> Result<CallSetup> {
        let both = call.captures();
        self.register_all(state, &both);
        let capture = |capture: &Captured| {
            let [remote]: [RemoteCapture; 1] =
                remote_captures(std::slice::from_ref(capture))?.try_into().map_err(|_| unnamed("an element type"))?;
            Ok::<_, Error>((remote, vector_of(capture).ok_or_else(|| unnamed("an element type"))?))
        };
        let ((shards, of_shards), (locals, of_locals)) = (capture(&both[0])?, capture(&both[1])?);
        Ok(CallSetup {
            task: remote_task(&|| call.pack(), call.site(), "the program")?,
            captures: [shards, locals],
            vectors: [of_shards, of_locals],
        })
    }

    /// Runs the program's rounds on the workers' shards. The network has a thread of its own, so that this one may block.
    fn run_rounds(&self, generation: u32, running: &mut Running<'_>, dealt: &Dealt<Owned>) -> Asked<Running<'_>> {
        let (setup, call) = (&running.setup, dealt.call);
        let (sender, news) = mpsc::channel();
        self.hub.scheduled.open(Inbox { call, news: sender.clone() });
        for (worker, &node) in dealt.nodes.iter().enumerate() {
            let job = setup.job(dealt, worker, false);
            let asked = self
                .pose(node, move |client, context| async move { client.scheduled(context, generation, job).await })?;
            let news = sender.clone();
            self.handle.spawn(async move {
                let answer = Box::new(asked.await);
                // Where the call has ended nobody wants to know.
                let _over = news.send(News::Ended { worker, answer });
            });
        }
        drop(sender);
        let hearing = Hearing { cluster: self, generation, call, all: setup.vectors[0].len, news };
        let mut away = Away::new(hearing, dealt.nodes.iter().copied().zip(dealt.how.iter().cloned()));
        let ran = away.ready().and_then(|()| {
            let prepared = Instant::now();
            let _waiting = span(Category::Wait, call);
            let _held = self.hold_state();
            let done = running.program.run_away(&mut away).map_err(|stopped| away.stop(stopped))?;
            Ok((done, prepared))
        });
        let (done, prepared) = match ran {
            Ok(ran) => ran,
            Err(Stop::Fault(fault)) => return Err(fault.into()),
            Err(Stop::Failed(failed)) => {
                if let Err(Stop::Fault(fault)) = away.end() {
                    return Err(fault.into());
                }
                return Err(Stop::Failed(failed));
            }
        };
        let messages = away.log.take();
        let (mut bytes_sent, mut workers) = (0, Vec::new());
        for (node, end) in away.ends() {
            bytes_sent += end.bytes_sent;
            workers.push((node, end.time));
        }
        Ok((Ran { done, prepared, bytes_sent, workers }, messages))
    }
}

impl ScheduledBackend for Cluster {
    fn run_scheduled(&self, call: &mut dyn ProgramCall) -> std::result::Result<ProgramOutcome, Unfinished> {
        let mut state = locked(&self.state);
        let setup = self.call_setup(&mut state, call)?;
        let sent_before = self.hub.links.sent();
        let mut running = Running { setup, program: &mut *call, begun: false };
        let ran = self.run_call(&mut state, &mut running, Unfinished::Failed);
        // DVectors that the program's own functions have dropped.
        let late = std::mem::take(&mut *locked(&self.late));
        late.into_iter().for_each(|dds| self.dropped_now(&mut state, dds));
        let ran = ran?;
        let threads = self.threads() * ran.workers.len();
        drop(state);
        call.committed();
        Ok(ProgramOutcome {
            done: ran.done,
            bytes_sent: ran.bytes_sent + self.hub.links.sent() - sent_before,
            threads,
            prepared: ran.prepared,
            workers: self.times(ran.workers),
        })
    }
}
