//! Shards that are with workers, as the driver's rounds see them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, mpsc};

use stradsap_dds_server::codec;
use stradsap_dds_server::frame::Header;

use crate::cluster::driver::remote::{self, broken};
use crate::cluster::driver::{Answer, Cluster, Fault};
use crate::cluster::wire::links::{Outgoing, Payload};
use crate::cluster::wire::protocol::{Node, ScheduleEnd};
use crate::cluster::wire::scheduled::Tag;
use crate::cluster::wire::scheduled::header;
use crate::scheduled::backend::{OfRange, ShardsAway, Stopped};
use crate::scheduled::drive::{RoundCause, RoundFailure};
use crate::session::error::ClusterError;
use crate::session::locked;

/// A log of messages that is longer is not kept: a snapshot is taken instead.
const LONGEST_LOG: usize = 8 << 20;

/// What the network tells the driver's thread.
pub(crate) enum News {
    Message {
        worker: usize,
        tag: Tag,
        round: usize,
        payload: Vec<u8>,
    },
    /// The answer to the question that starts a worker's part; none if a process was lost meanwhile.
    Ended {
        worker: usize,
        answer: Box<Option<Answer<ScheduleEnd>>>,
    },
}

/// Where messages of the call that is under way go.
pub(crate) struct Inbox {
    pub(super) call: u64,
    pub(super) news: mpsc::Sender<News>,
}

/// The driver's place for one.
#[derive(Default)]
pub(crate) struct Inboxes {
    current: Mutex<Option<Inbox>>,
}

impl Inboxes {
    pub(super) fn open(&self, inbox: Inbox) {
        *locked(&self.current) = Some(inbox);
    }

    pub(super) fn close(&self) {
        *locked(&self.current) = None;
    }

    /// Whether anybody waits for a message.
    pub(crate) fn wants(&self, header: &Header) -> bool {
        Tag::of(header.tag).is_some() && locked(&self.current).as_ref().is_some_and(|inbox| inbox.call == header.call)
    }

    pub(crate) fn take(&self, header: &Header, payload: Vec<u8>) {
        let Some(tag) = Tag::of(header.tag) else { return };
        if let Some(inbox) = locked(&self.current).as_ref().filter(|inbox| inbox.call == header.call) {
            let (worker, round) = (header.dds as usize, header.lo as usize);
            // A process that has left doesn't want it any more.
            let _left = inbox.news.send(News::Message { worker, tag, round, payload });
        }
    }
}

/// What a worker has given for a round.
type Given = (usize, Result<Vec<u8>, RoundFailure>);

/// A worker, and what has come from it.
struct Worker {
    node: Node,
    own: Range<usize>,
    ready: bool,
    given: VecDeque<Given>,
    end: Option<ScheduleEnd>,
}

/// Shards that are with workers.
pub(super) struct Away<'a> {
    hearing: Hearing<'a>,
    workers: Vec<Worker>,
    /// Everything that was sent, if that is worth keeping.
    pub(super) log: Option<Vec<Vec<u8>>>,
    logged: usize,
    /// Why rounds can't go on, where it isn't the program.
    fault: Option<Fault>,
}

/// Why rounds can't go on.
type Stop = remote::Stop<RoundFailure>;

/// A call, its messages, and what to make of them.
pub(super) struct Hearing<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) generation: u32,
    pub(super) call: u64,
    /// How many shards there are.
    pub(super) all: usize,
    pub(super) news: mpsc::Receiver<News>,
}

impl<'a> Away<'a> {
    pub(super) fn new(hearing: Hearing<'a>, workers: impl Iterator<Item = (Node, Range<usize>)>) -> Self {
        let worker = |(node, own)| Worker { node, own, ready: false, given: VecDeque::new(), end: None };
        let workers = workers.map(worker).collect();
        Away { hearing, workers, log: Some(Vec::new()), logged: 0, fault: None }
    }

    fn process(&self, worker: usize, problem: impl std::fmt::Display) -> Stop {
        let who = match self.workers.get(worker) {
            Some(worker) => self.hearing.cluster.hub.name(worker.node),
            None => format!("worker {worker}"),
        };
        Stop::Fault(Fault::Error(ClusterError::Process { who, problem: problem.to_string() }.into()))
    }

    /// Waits for something to happen.
    fn hear(&mut self) -> Result<(), Stop> {
        let Ok(news) = self.hearing.news.recv() else { return Err(Stop::Fault(Fault::Lost)) };
        match news {
            News::Message { worker, tag, round, payload } => {
                let Some(from) = self.workers.get_mut(worker) else {
                    return Err(self.process(worker, "a message of nobody"));
                };
                match tag {
                    Tag::Ready => from.ready = true,
                    Tag::Round => from.given.push_back((round, Ok(payload))),
                    Tag::Failed => match codec::decode::<RoundFailure>(&payload, codec::MAX_BYTES) {
                        Ok(failed) => from.given.push_back((round, Err(failed))),
                        Err(error) => return Err(self.process(worker, error)),
                    },
                    Tag::Last => return Err(self.process(worker, "a message that only the driver sends")),
                }
            }
            News::Ended { worker, answer } => {
                let end = self.hearing.cluster.understand(self.workers[worker].node, *answer).map_err(Stop::Fault)?;
                self.workers[worker].end = Some(end);
            }
        }
        Ok(())
    }

    /// Waits until all workers have what they need.
    pub(super) fn ready(&mut self) -> Result<(), Stop> {
        while self.workers.iter().any(|worker| !worker.ready) {
            self.hear()?;
            self.nobody_left()?;
        }
        Ok(())
    }

    /// A worker that has ended gives no more rounds.
    fn nobody_left(&self) -> Result<(), Stop> {
        match self.workers.iter().position(|worker| worker.end.is_some()) {
            Some(worker) => Err(self.process(worker, "it ended its part of a scheduled program by itself")),
            None => Ok(()),
        }
    }

    fn send(&self, worker: usize, tag: Tag, payload: Vec<u8>) {
        let header = header(self.hearing.generation, self.hearing.call, tag, worker, 0);
        self.hearing
            .cluster
            .hub
            .links
            .push(self.workers[worker].node, Outgoing { header, payload: Payload::Bytes(payload) });
    }

    /// Tells the workers that there are no more rounds, and waits until all have ended.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        (0..self.workers.len()).for_each(|worker| self.send(worker, Tag::Last, Vec::new()));
        while self.workers.iter().any(|worker| worker.end.is_none()) {
            self.hear()?;
        }
        Ok(())
    }

    /// What each worker said in the end.
    pub(super) fn ends(self) -> impl Iterator<Item = (Node, ScheduleEnd)> {
        self.workers.into_iter().filter_map(|worker| Some((worker.node, worker.end?)))
    }

    /// Which of several failures of a round is reported: on the shards, what is applied comes before what is updated.
    fn first(&self, failures: impl Iterator<Item = (usize, RoundFailure)>) -> Option<RoundFailure> {
        let place = |(_, failed): &(usize, RoundFailure)| (failed.round, failed.function, failed.job, failed.shard);
        let (worker, mut failed) = failures.min_by_key(place)?;
        if let RoundCause::Panic(note) = &mut failed.what {
            note.location = format!("{}; {}", note.location, self.hearing.cluster.hub.name(self.workers[worker].node));
        }
        Some(failed)
    }
}

impl Away<'_> {
    /// Waits for what each worker has given for a round.
    fn collected(&mut self, round: usize) -> Result<Vec<OfRange>, Stop> {
        while self.workers.iter().any(|worker| worker.given.is_empty()) {
            self.hear()?;
            self.nobody_left()?;
        }
        let mut given = Vec::with_capacity(self.workers.len());
        for worker in 0..self.workers.len() {
            match self.workers[worker].given.pop_front() {
                Some((number, answer)) if number == round => given.push(answer),
                other => {
                    let found = other.map_or(0, |(number, _)| number);
                    return Err(self.process(worker, format!("round {found} came in place of {round}")));
                }
            }
        }
        let failures =
            given.iter().enumerate().filter_map(|(worker, answer)| Some((worker, answer.as_ref().err()?.clone())));
        if let Some(failed) = self.first(failures) {
            return Err(Stop::Failed(failed));
        }
        let own = self.workers.iter().map(|worker| worker.own.clone());
        Ok(given.into_iter().map(Result::unwrap_or_default).zip(own).collect())
    }

    fn finished(&mut self) -> Result<(), Stop> {
        self.end()?;
        let failures = self.workers.iter().enumerate();
        let failures = failures.filter_map(|(w, worker)| Some((w, worker.end.as_ref()?.failed.clone()?)));
        self.first(failures).map_or(Ok(()), |failed| Err(Stop::Failed(failed)))
    }

    fn stopped(&mut self, stop: Stop) -> Stopped {
        match stop {
            Stop::Failed(failed) => Stopped::Failed(failed),
            Stop::Fault(fault) => {
                self.fault = Some(fault);
                Stopped::Backend
            }
        }
    }

    /// Why rounds can't go on, as they were told.
    pub(super) fn stop(&mut self, stopped: Stopped) -> Stop {
        match stopped {
            Stopped::Failed(failed) => Stop::Failed(failed),
            Stopped::Backend => Stop::Fault(self.fault.take().unwrap_or(Fault::Lost)),
        }
    }
}

impl ShardsAway for Away<'_> {
    fn tell(&mut self, message: &dyn Fn(&Range<usize>) -> Vec<u8>) {
        for worker in 0..self.workers.len() {
            self.send(worker, Tag::Round, message(&self.workers[worker].own));
        }
        if let Some(log) = &mut self.log {
            let message = message(&(0..self.hearing.all));
            self.logged += message.len();
            log.push(message);
            if self.logged > LONGEST_LOG {
                self.log = None;
            }
        }
    }

    fn collect(&mut self, round: usize) -> Result<Vec<OfRange>, Stopped> {
        self.collected(round).map_err(|stop| self.stopped(stop))
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        self.finished().map_err(|stop| self.stopped(stop))
    }

    fn give_up(&mut self, range: Option<usize>, problem: String) -> Stopped {
        let stop = match range {
            Some(worker) => self.process(worker, problem),
            None => broken(problem).into(),
        };
        self.stopped(stop)
    }
}
