//! A worker's part of a scheduled program, from the driver's question to its answer.
//!
//! # Why this is sound
//! Names of code and constants come from the driver alone (see `naming`). Reservations live as long as what points at them (`PreparedProgram`
//! holds them). The driver has had every element of this worker's range brought here before the program runs, lets nothing
//! else run meanwhile, and asks nobody for the locals.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use stradsap_dds_server::codec;
use stradsap_dds_server::frame::Header;

use crate::body::panics;
use crate::cluster::wire::links::{Links, Outgoing, Payload};
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{DRIVER, Problem, RemoteCapture, ScheduleEnd, ScheduleJob, WorkerSeconds};
use crate::cluster::wire::scheduled::Tag;
use crate::cluster::wire::scheduled::header;
use crate::cluster::worker::bench::Workbench;
use crate::memory::buffer::RawBuf;
use crate::memory::reservation::Reservation;
use crate::scheduled::drive::RoundFailure;
use crate::scheduled::remote::{Left, Port, RemoteProgram, ShardMemory};
use crate::session::locked;

fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::Broken(what.to_string())
}

/// Of which call, and what lay where.
type Saved = (u64, Arc<Reservation>, Range<usize>, RawBuf);

/// What a worker keeps of scheduled programs: what the last call changed, as it was before.
#[derive(Default)]
pub(crate) struct ScheduleBench {
    last: Mutex<Option<Saved>>,
}

impl ScheduleBench {
    pub(crate) fn clear(&self) {
        *locked(&self.last) = None;
    }

    /// Puts back what a call changed.
    pub(crate) fn undo(&self, call: u64) {
        let Some((_, reservation, range, saved)) = locked(&self.last).take_if(|(last, ..)| *last == call) else {
            return;
        };
        // SAFETY: nothing runs; the elements were cloned from there.
        unsafe { reservation.move_in(range, saved) };
    }
}

/// The call that is under way, as the network sees it.
pub(crate) struct Scheduling {
    pub(crate) call: u64,
    messages: mpsc::Sender<Option<Vec<u8>>>,
    stopped: AtomicBool,
}

impl Scheduling {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        let _over = self.messages.send(None);
    }

    /// Whether a message is one of a scheduled program.
    pub(crate) fn is_one(header: &Header) -> bool {
        Tag::of(header.tag).is_some()
    }

    pub(crate) fn take(&self, header: &Header, payload: Vec<u8>) {
        let message = match Tag::of(header.tag) {
            Some(Tag::Round) => Some(payload),
            Some(Tag::Last) => None,
            Some(Tag::Ready | Tag::Failed) | None => return,
        };
        let _over = self.messages.send(message);
    }
}

/// A call that is about to run.
pub(crate) struct PreparedProgram {
    program: Box<dyn RemoteProgram>,
    shards: Arc<Reservation>,
    locals: Arc<Reservation>,
    messages: mpsc::Receiver<Option<Vec<u8>>>,
    pub(crate) scheduling: Arc<Scheduling>,
}

/// Makes the program from what the driver sent, and room for its shards.
pub(crate) fn begin(bench: &Workbench, job: &ScheduleJob) -> Result<PreparedProgram, Problem> {
    let maker = naming::program_maker(job.task.maker).ok_or_else(|| broken("a program of another executable"))?;
    let program = maker(&job.task.values).map_err(broken)?;
    let room = |capture: &RemoteCapture| {
        let _described = bench.captured(std::slice::from_ref(capture))?;
        let reservation = bench.reservations_of(std::slice::from_ref(capture)).into_iter().flatten().next();
        reservation.ok_or_else(|| broken("shards that are no DVector"))
    };
    let (shards, locals) = (room(&job.shards)?, room(&job.locals)?);
    if !program.fits(shards.ops(), locals.ops()) {
        return Err(broken("shards of another type than the program's"));
    }
    if shards.len() != locals.len() || job.own.start > job.own.end || job.own.end > shards.len() {
        return Err(broken(format!("shards {:?} of {} with {} locals", job.own, shards.len(), locals.len())));
    }
    let (sender, messages) = mpsc::channel();
    let scheduling = Scheduling { call: job.call, messages: sender, stopped: AtomicBool::new(false) };
    Ok(PreparedProgram { program, shards, locals, messages, scheduling: Arc::new(scheduling) })
}

/// The driver, as the running program sees it.
struct ToDriver<'d> {
    prepared: &'d PreparedProgram,
    links: &'d Arc<Links>,
    generation: u32,
    worker: usize,
}

impl ToDriver<'_> {
    fn say(&self, tag: Tag, round: usize, payload: Vec<u8>) {
        let header = header(self.generation, self.prepared.scheduling.call, tag, self.worker, round);
        self.links.push(DRIVER, Outgoing { header, payload: Payload::Bytes(payload) });
    }
}

impl Port for ToDriver<'_> {
    fn next(&mut self) -> Option<Vec<u8>> {
        let message = self.prepared.messages.recv().ok()?;
        message.filter(|_| !self.prepared.scheduling.stopped.load(Relaxed))
    }

    fn answer(&mut self, round: usize, answer: Result<Vec<u8>, RoundFailure>) {
        match answer {
            Ok(partials) => self.say(Tag::Round, round, partials),
            Err(failed) => self.say(Tag::Failed, round, codec::encode(&failed).unwrap_or_default()),
        }
    }
}

/// Runs a worker's part.
pub(crate) fn run(
    prepared: &PreparedProgram,
    job: &ScheduleJob,
    bench: &Workbench,
    links: &Arc<Links>,
    generation: u32,
) -> Result<ScheduleEnd, Problem> {
    let pool = bench.pool().map_err(broken)?;
    let (first, size) = (job.own.start, prepared.locals.ops().size);
    let locals = prepared.locals.base().wrapping_add(first * size);
    let mut saved = RawBuf::new(prepared.locals.ops(), job.own.len());
    // SAFETY: see the module's argument.
    let cloned = panics::caught(|| unsafe { saved.push_clones(locals, job.own.len()) });
    cloned.map_err(|note| broken(format!("locals can't be cloned: {} ({})", note.message, note.location)))?;
    *locked(&bench.schedule.last) = Some((job.call, Arc::clone(&prepared.locals), job.own.clone(), saved));
    let mut port = ToDriver { prepared, links, generation, worker: job.worker };
    if !job.replay {
        port.say(Tag::Ready, 0, Vec::new());
    }
    let place = ShardMemory {
        shards: prepared.shards.base().wrapping_add(first * prepared.shards.ops().size),
        locals,
        own: job.own.clone(),
        all: prepared.shards.len(),
        replay: job.replay,
        pool: &pool,
    };
    let since = Instant::now();
    // SAFETY: see the module's argument; the types were compared when the call began.
    let Left { failed, computing } = unsafe { prepared.program.run(&place, &mut port) }.map_err(broken)?;
    if prepared.scheduling.stopped.load(Relaxed) {
        return Err(Problem::Stopped);
    }
    let waiting = (since.elapsed().as_secs_f64() - computing).max(0.0);
    Ok(ScheduleEnd { failed, time: WorkerSeconds { computing, waiting, transferring: 0.0 }, bytes_sent: 0 })
}
