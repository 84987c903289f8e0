//! Shards that are with workers, as the driver's rounds see them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, mpsc};

use stradsap_dds_server::codec;
use stradsap_dds_server::frame::Header;
use tarpc::client::RpcError;

use crate::cluster::driver::Fault;
use crate::cluster::wire::links::{Links, Outgoing, Payload};
use crate::cluster::wire::protocol::{Node, Problem, ScheduleEnd};
use crate::cluster::wire::scheduled::Tag;
use crate::cluster::wire::scheduled::header;
use crate::scheduled::Program;
use crate::scheduled::drive::{Failed, Field, Round, What};
use crate::scheduled::wire::{self, Writer};
use crate::session::error::ClusterError;
use crate::session::locked;

/// A log of messages that is longer is not kept: a snapshot is taken instead.
const LONGEST_LOG: usize = 8 << 20;

/// The answer to the question that starts a worker's part; none if a process was lost meanwhile.
pub(super) type Answer = Option<Result<Result<ScheduleEnd, Problem>, RpcError>>;

/// What the network tells the driver's thread.
pub(crate) enum News {
    Message { worker: usize, tag: Tag, round: usize, payload: Vec<u8> },
    Ended { worker: usize, answer: Box<Answer> },
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
            // Whoever has left doesn't want it any more.
            let _left = inbox.news.send(News::Message { worker, tag, round, payload });
        }
    }
}

/// What a worker has given for a round.
type Given = (usize, Result<Vec<u8>, Failed>);

/// A worker, and what has come from it.
struct Worker {
    node: Node,
    own: Range<usize>,
    ready: bool,
    given: VecDeque<Given>,
    end: Option<ScheduleEnd>,
}

/// Shards that are with workers.
pub(super) struct Away<'a, P: Program> {
    program: &'a P,
    links: &'a Arc<Links>,
    epoch: u32,
    call: u64,
    all: usize,
    workers: Vec<Worker>,
    news: mpsc::Receiver<News>,
    writer: Writer,
    /// Everything that was told, if that is worth keeping.
    pub(super) log: Option<Vec<Vec<u8>>>,
    logged: usize,
    /// Makes a fault of an answer.
    understand: &'a dyn Fn(Node, Answer) -> Result<ScheduleEnd, Fault>,
    name: &'a dyn Fn(Node) -> String,
}

/// Why rounds can't go on.
pub(super) enum Stop {
    Failed(Failed),
    Fault(Fault),
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Stop {
        Stop::Failed(failed)
    }
}

impl<'a, P: Program> Away<'a, P> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        program: &'a P,
        links: &'a Arc<Links>,
        (epoch, call): (u32, u64),
        all: usize,
        workers: Vec<(Node, Range<usize>)>,
        news: mpsc::Receiver<News>,
        understand: &'a dyn Fn(Node, Answer) -> Result<ScheduleEnd, Fault>,
        name: &'a dyn Fn(Node) -> String,
    ) -> Self {
        let worker = |(node, own)| Worker { node, own, ready: false, given: VecDeque::new(), end: None };
        Away {
            program,
            links,
            epoch,
            call,
            all,
            workers: workers.into_iter().map(worker).collect(),
            news,
            writer: Writer::default(),
            log: Some(Vec::new()),
            logged: 0,
            understand,
            name,
        }
    }

    fn process(&self, worker: usize, problem: impl std::fmt::Display) -> Stop {
        let who = match self.workers.get(worker) {
            Some(worker) => (self.name)(worker.node),
            None => format!("worker {worker}"),
        };
        Stop::Fault(Fault::Error(ClusterError::Process { who, problem: problem.to_string() }.into()))
    }

    /// Waits for something to happen.
    fn hear(&mut self) -> Result<(), Stop> {
        let Ok(news) = self.news.recv() else { return Err(Stop::Fault(Fault::Lost)) };
        match news {
            News::Message { worker, tag, round, payload } => {
                let Some(from) = self.workers.get_mut(worker) else {
                    return Err(self.process(worker, "a message of nobody"));
                };
                match tag {
                    Tag::Ready => from.ready = true,
                    Tag::Round => from.given.push_back((round, Ok(payload))),
                    Tag::Failed => match codec::decode::<Failed>(&payload, codec::MAX_BYTES) {
                        Ok(failed) => from.given.push_back((round, Err(failed))),
                        Err(error) => return Err(self.process(worker, error)),
                    },
                    Tag::Last => return Err(self.process(worker, "a message that only the driver sends")),
                }
            }
            News::Ended { worker, answer } => {
                let end = (self.understand)(self.workers[worker].node, *answer).map_err(Stop::Fault)?;
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

    fn tell(&self, worker: usize, tag: Tag, payload: Vec<u8>) {
        let header = header(self.epoch, self.call, tag, worker, 0);
        self.links.push(self.workers[worker].node, Outgoing { header, payload: Payload::Bytes(payload) });
    }

    /// Tells the workers that there are no more rounds, and waits until all have ended.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        (0..self.workers.len()).for_each(|worker| self.tell(worker, Tag::Last, Vec::new()));
        while self.workers.iter().any(|worker| worker.end.is_none()) {
            self.hear()?;
        }
        Ok(())
    }

    /// What each worker said in the end.
    pub(super) fn ends(self) -> impl Iterator<Item = (Node, ScheduleEnd)> {
        self.workers.into_iter().filter_map(|worker| Some((worker.node, worker.end?)))
    }

    /// Which of several failures of a round is told: on the shards, what is applied comes before what is updated.
    fn first(&self, failures: impl Iterator<Item = (usize, Failed)>) -> Option<Failed> {
        let place = |(_, failed): &(usize, Failed)| (failed.round, failed.function, failed.job, failed.shard);
        let (worker, mut failed) = failures.min_by_key(place)?;
        if let What::Panic(note) = &mut failed.what {
            note.location = format!("{}; {}", note.location, (self.name)(self.workers[worker].node));
        }
        Some(failed)
    }
}

impl<P: Program> Field<P> for Away<'_, P> {
    type Stop = Stop;

    fn step(&mut self, settled: Option<&Round<P>>, fresh: Option<&mut Round<P>>) -> Result<(), Stop> {
        let written = self.writer.begin(self.program, settled, fresh.as_deref());
        if let Err(error) = written {
            let problem = format!("a job or a change can't be sent: {error}");
            return Err(Stop::Fault(Fault::Error(
                ClusterError::Process { who: "the driver".to_string(), problem }.into(),
            )));
        }
        for worker in 0..self.workers.len() {
            let message = self.writer.message(&self.workers[worker].own);
            self.tell(worker, Tag::Round, message);
        }
        if let Some(log) = &mut self.log {
            let message = self.writer.message(&(0..self.all));
            self.logged += message.len();
            log.push(message);
            if self.logged > LONGEST_LOG {
                self.log = None;
            }
        }
        Ok(())
    }

    fn collect(&mut self, round: &mut Round<P>) -> Result<(), Stop> {
        while self.workers.iter().any(|worker| worker.given.is_empty()) {
            self.hear()?;
            self.nobody_left()?;
        }
        let mut given = Vec::with_capacity(self.workers.len());
        for worker in 0..self.workers.len() {
            match self.workers[worker].given.pop_front() {
                Some((number, answer)) if number == round.number => given.push(answer),
                other => {
                    let found = other.map_or(0, |(number, _)| number);
                    return Err(self.process(worker, format!("round {found} came in place of {}", round.number)));
                }
            }
        }
        let failures =
            given.iter().enumerate().filter_map(|(worker, answer)| Some((worker, answer.as_ref().err()?.clone())));
        if let Some(failed) = self.first(failures) {
            return Err(Stop::Failed(failed));
        }
        let mut answers: Vec<(&[u8], Range<usize>)> = given
            .iter()
            .zip(&self.workers)
            .map(|(answer, worker)| (answer.as_deref().unwrap_or_default(), worker.own.clone()))
            .collect();
        wire::unite(self.program, round, self.all, &mut answers).map_err(|(worker, why)| self.process(worker, why))
    }

    fn finish(&mut self) -> Result<(), Stop> {
        self.end()?;
        let failures = self.workers.iter().enumerate();
        let failures = failures.filter_map(|(w, worker)| Some((w, worker.end.as_ref()?.failed.clone()?)));
        self.first(failures).map_or(Ok(()), |failed| Err(Stop::Failed(failed)))
    }
}
