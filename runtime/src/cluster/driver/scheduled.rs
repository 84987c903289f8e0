//! The driver's side of a scheduled program on workers: who has which shards, and what they hold afterwards.

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use futures_util::future::{Either, select};

use crate::body::capture::Captured;
use crate::cluster::driver::away::{Answer, Away, Hearing, Inbox, News};
use crate::cluster::driver::call::{remote_captures, unnamed, vector_of};
use crate::cluster::driver::remote::{Logged, Replay, Stop, broken, moved, remote_task};
use crate::cluster::driver::remote_plan::Vector;
use crate::cluster::driver::{Cluster, Fault, PATIENCE, State};
use crate::cluster::wire::links::{Outgoing, Payload};
use crate::cluster::wire::protocol::{
    Holder, Node, RemoteCapture, RemoteTask, ScheduleEnd, ScheduleJob, WorkerSeconds,
};
use crate::cluster::wire::scheduled::Tag;
use crate::cluster::wire::scheduled::header;
use crate::scheduled::backend::{Ended, ProgramCall, ScheduledBackend, Unfinished};
use crate::scheduled::drive::{Done, RoundFailure};
use crate::session::error::{Error, Result};
use crate::session::timeline::{Category, span};
use crate::session::{locked, next_id};

/// A scheduled program, apart from where it is called.
#[derive(Clone)]
struct Told {
    task: RemoteTask,
    /// Shards and locals.
    captures: [RemoteCapture; 2],
    vectors: [Vector; 2],
}

/// A call that ended well, to be run again.
pub(crate) struct ScheduledLogged {
    told: Told,
    /// What the rounds were sent, as it is sent to a worker that has all shards.
    messages: Vec<Vec<u8>>,
}

impl Logged for ScheduledLogged {
    fn uses(&self, dds: u64) -> bool {
        self.told.vectors.iter().any(|vector| vector.id == dds)
    }

    fn replay<'r>(&'r self, cluster: &'r Cluster, state: &'r mut State) -> Replay<'r> {
        Box::pin(cluster.replay_scheduled(state, self))
    }
}

/// What one attempt came to.
struct Ran {
    done: Done,
    prepared: Instant,
    bytes_sent: u64,
    workers: Vec<(Node, WorkerSeconds)>,
    /// None if it has been stored otherwise.
    log: Option<Vec<Vec<u8>>>,
}

impl Cluster {
    fn told(&self, state: &mut State, call: &dyn ProgramCall) -> Result<Told> {
        let both = call.captures();
        self.register_all(state, &both);
        let capture = |capture: &Captured| {
            let [remote]: [RemoteCapture; 1] =
                remote_captures(std::slice::from_ref(capture))?.try_into().map_err(|_| unnamed("an element type"))?;
            Ok::<_, Error>((remote, vector_of(capture).ok_or_else(|| unnamed("an element type"))?))
        };
        let ((shards, of_shards), (locals, of_locals)) = (capture(&both[0])?, capture(&both[1])?);
        Ok(Told {
            task: remote_task(&|| call.pack(), call.site(), "the program")?,
            captures: [shards, locals],
            vectors: [of_shards, of_locals],
        })
    }

    /// Runs a call once. If a function fails, everything is as it was, schedule and model apart.
    async fn scheduled_once(
        &self,
        state: &mut State,
        told: &Told,
        program: &mut dyn ProgramCall,
    ) -> std::result::Result<Ran, Stop<RoundFailure>> {
        let jobs = self.schedule_jobs(state, told, false).await?;
        let (generation, call, all) = (state.generation, state.next_call, told.vectors[0].len);
        let (sender, news) = mpsc::channel();
        self.hub.scheduled.open(Inbox { call, news: sender.clone() });
        let members: Vec<(Node, Range<usize>)> = jobs.iter().map(|(node, job)| (*node, job.own.clone())).collect();
        let moved = moved(jobs.iter().flat_map(|(_, job)| &job.pulls), &told.vectors);
        for (worker, (node, job)) in jobs.into_iter().enumerate() {
            self.ask_apart(worker, node, generation, job, sender.clone())?;
        }
        drop(sender);
        let understand = |node: Node, answer: Answer| match answer {
            Some(answer) => self.understand(node, answer),
            None => Err(Fault::Lost),
        };
        let name = |node: Node| self.hub.name(node);
        let links = &self.hub.links;
        let hearing = Hearing { links, generation, call, all, news, understand: &understand, name: &name };
        let mut away = Away::new(hearing, members.clone());
        let ran = away.ready().and_then(|()| {
            let prepared = Instant::now();
            let _waiting = span(Category::Wait, call);
            // The network has a thread of its own, so that this one may block.
            let done = program.run_away(&mut away).map_err(|stopped| away.stop(stopped))?;
            Ok((done, prepared))
        });
        for (node, own) in &members {
            for vector in &told.vectors {
                if let Some(entry) = state.entries.get_mut(&vector.id) {
                    entry.placement.copied(own, Holder::memory(*node));
                }
            }
        }
        let (done, prepared) = match ran {
            Ok(ran) => ran,
            Err(Stop::Fault(fault)) => return Err(fault.into()),
            Err(Stop::Failed(failed)) => {
                if let Err(Stop::Fault(fault)) = away.end() {
                    return Err(fault.into());
                }
                let nodes: Vec<Node> = members.iter().map(|&(node, _)| node).collect();
                self.undo(&nodes, generation, call).await?;
                return Err(Stop::Failed(failed));
            }
        };
        let log = away.log.take();
        let (mut bytes_sent, mut workers) = (moved, Vec::new());
        for (node, end) in away.ends() {
            bytes_sent += end.bytes_sent;
            workers.push((node, end.time));
        }
        self.record_applied(state, told, &members);
        if log.is_none() {
            // What is too long to be sent again must not have to be.
            self.snapshot(state).await?;
        }
        Ok(Ran { done, prepared, bytes_sent, workers, log })
    }

    /// What each worker that has shards is asked.
    async fn schedule_jobs(
        &self,
        state: &mut State,
        told: &Told,
        replay: bool,
    ) -> std::result::Result<Vec<(Node, ScheduleJob)>, Fault> {
        self.forget_gone(state).await?;
        self.settle(state, told.vectors.iter().map(|vector| vector.id)).await?;
        let (call, all, workers) = (Self::next_call(state), told.vectors[0].len, state.workers.len());
        let mut jobs = Vec::new();
        for (w, &node) in state.workers.iter().enumerate() {
            let own = all * w / workers..all * (w + 1) / workers;
            if own.is_empty() {
                continue;
            }
            let mut pulls = Vec::new();
            for vector in &told.vectors {
                let entry = state.entries.get(&vector.id).ok_or_else(|| broken("an unknown DDS"))?;
                pulls.extend(entry.placement.missing(vector.id, &own, node, w));
            }
            let [shards, locals] = told.captures.clone();
            let worker = jobs.len();
            jobs.push((
                node,
                ScheduleJob { call, worker, task: told.task.clone(), shards, locals, own, pulls, replay },
            ));
        }
        Ok(jobs)
    }

    /// Asks a worker for its part. What it answers is news.
    fn ask_apart(
        &self,
        worker: usize,
        node: Node,
        generation: u32,
        job: ScheduleJob,
        news: mpsc::Sender<News>,
    ) -> std::result::Result<(), Fault> {
        let Some(client) = self.hub.client(node) else { return Err(Fault::Lost) };
        let mut lost = self.hub.lost.subscribe();
        let before = *lost.borrow_and_update();
        self.handle.spawn(async move {
            let mut context = tarpc::context::current();
            context.deadline = Instant::now() + PATIENCE;
            let lost = async move {
                while *lost.borrow_and_update() == before {
                    if lost.changed().await.is_err() {
                        break;
                    }
                }
            };
            let question = std::pin::pin!(client.scheduled(context, generation, job));
            let answer = match select(question, std::pin::pin!(lost)).await {
                Either::Left((answer, _)) => Some(answer),
                Either::Right(_) => None,
            };
            // Where the call has ended nobody wants to know.
            let _over = news.send(News::Ended { worker, answer: Box::new(answer) });
        });
        Ok(())
    }

    fn record_applied(&self, state: &mut State, told: &Told, members: &[(Node, Range<usize>)]) {
        if let Some(entry) = state.entries.get_mut(&told.vectors[1].id) {
            for (node, own) in members {
                entry.placement.written(own, Holder::memory(*node));
            }
            entry.version = next_id();
        }
    }

    /// Applies once more what a call that ended well has told.
    pub(crate) async fn replay_scheduled(
        &self,
        state: &mut State,
        logged: &ScheduledLogged,
    ) -> std::result::Result<(), Fault> {
        let jobs = self.schedule_jobs(state, &logged.told, true).await?;
        let (generation, call) = (state.generation, state.next_call);
        let (nodes, jobs): (Vec<Node>, Vec<ScheduleJob>) = jobs.into_iter().unzip();
        let members: Vec<(Node, Range<usize>)> =
            nodes.iter().zip(&jobs).map(|(&node, job)| (node, job.own.clone())).collect();
        for (worker, &node) in nodes.iter().enumerate() {
            let told = logged.messages.iter().map(|message| (Tag::Round, message.clone()));
            for (tag, message) in told.chain([(Tag::Last, Vec::new())]) {
                let header = header(generation, call, tag, worker, 0);
                self.hub.links.push(node, Outgoing { header, payload: Payload::Bytes(message) });
            }
        }
        let asked = self.ask_all(&nodes, |w, client, context| {
            let job = jobs[w].clone();
            async move { client.scheduled(context, generation, job).await }
        });
        let ends: Vec<ScheduleEnd> = asked.await?;
        if let Some(failed) = ends.into_iter().find_map(|end| end.failed) {
            return Err(broken(format!("a scheduled program that ended well before fails: {failed:?}")));
        }
        self.record_applied(state, &logged.told, &members);
        Ok(())
    }
}

impl ScheduledBackend for Cluster {
    fn run_scheduled(&self, call: &mut dyn ProgramCall) -> std::result::Result<Ended, Unfinished> {
        let mut state = locked(&self.state);
        let told = self.told(&mut state, call)?;
        let sent_before = self.hub.links.sent();
        let mut begins_again = false;
        let once = async |cluster: &Cluster, state: &mut State| {
            if std::mem::replace(&mut begins_again, true) {
                call.begin_again();
            }
            let ran = cluster.scheduled_once(state, &told, call).await;
            cluster.hub.scheduled.close();
            ran
        };
        let ran = self.run_call(&mut state, once, Unfinished::Failed);
        // DVectors that the program's own functions have dropped.
        let late = std::mem::take(&mut *locked(&self.late));
        late.into_iter().for_each(|dds| self.dropped_now(&mut state, dds));
        let ran = ran?;
        let logged = ran.log.map(|messages| Arc::new(ScheduledLogged { told, messages }) as _);
        self.note_call(&mut state, logged, true)?;
        let threads = self.threads() * ran.workers.len();
        drop(state);
        call.committed();
        Ok(Ended {
            done: ran.done,
            bytes_sent: ran.bytes_sent + self.hub.links.sent() - sent_before,
            threads,
            prepared: ran.prepared,
            workers: self.times(ran.workers),
        })
    }
}
