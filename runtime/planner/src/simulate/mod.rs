//! Simulates how long a plan would take on other machines: its own layout is played in simulated time.
//!
//! A block takes its cost in accesses times the duration of an access, as measured. Parts take time on the given links, one after
//! the other in each direction of a machine's link, and processor time at both ends. the other in each direction of a machine's link, and processor time at both ends. How processors slow each other down is simulated
//! where it was measured. The simulation leaves out other traffic, and disks.

mod table;

pub use table::{CutDds, ListedDds, Listing, Measured, PlanTable, TableError};

use crate::layout::events::{self, Costs, Machines, Moving, Spent};
use crate::plan::Plan;

/// Nanoseconds until a thread that sleeps runs, after what wakes it.
const WAKING: f64 = 20_000.0;
/// Nanoseconds that the network thread of a worker works to send a part and to receive one, with the kernel's share,
const MESSAGE: f64 = 10_000.0;
/// and for each byte.
const BYTE: f64 = 0.4;
/// Nanoseconds of a processor for each byte of a link that the kernel plays, where machines share processors: see `benches/links.sh`.
const PLAYED: f64 = 1.9;
/// Bytes on a link for each byte of a part: TCP's, IP's and Ethernet's headers in each packet.
const PACKED: f64 = 1514.0 / 1448.0;
/// Nanoseconds of the driver for each worker when a loop begins, and when it ends.
const CONTROL: f64 = 25_000.0;
/// How many threads are woken one after the other until a loop has begun on a worker: networks' on both sides, and the worker's own,
const BEGINNING: f64 = 3.0;
/// and until the driver knows that it has ended.
const ENDING: f64 = 3.0;
/// Seconds until a lost worker is noticed and another one has taken its place: as measured (`docs/reliability.md`).
const REPLACED: f64 = 0.4;

/// The machines that a plan is played on.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Worker processes.
    pub workers: usize,
    /// Threads in each.
    pub threads: usize,
    /// Processors of a machine,
    pub cores: usize,
    /// or of all machines together, where they are namespaces or containers of one.
    pub shared: bool,
    /// How many machines the workers are spread over; none: as many as are needed to have a processor for each thread, and where
    /// processors are shared one for each worker.
    pub machines: Option<usize>,
    /// What an access takes; the cost of a block is its number of accesses.
    pub access: Access,
    /// Bytes in a nanosecond, in each direction of a machine's link,
    pub bytes_a_nano: f64,
    /// and nanoseconds until they are there.
    pub latency: f64,
    /// Workers, from 0, that have this share of the others' speed.
    pub slow: Vec<(usize, f64)>,
    /// The share of the loop's time after which a worker is lost.
    pub lost: Option<f64>,
}

/// Nanoseconds for an access. Processors of one machine slow each other down: in memory, in shared caches, as threads of one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// While one processor is at work.
    pub alone: f64,
    /// While this many are, where that was measured; for other numbers on the line through both.
    pub crowded: Option<(usize, f64)>,
}

impl Access {
    /// While `busy` processors of a machine are at work.
    fn among(&self, busy: usize) -> f64 {
        match self.crowded {
            Some((most, nanos)) if most > 1 => {
                let each = (nanos - self.alone).max(0.0) / (most - 1) as f64;
                self.alone + each * busy.saturating_sub(1) as f64
            }
            _ => self.alone,
        }
    }
}

/// The result of a simulation. Shares are of the time of all threads, and add up to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From the loop's beginning to its end.
    pub seconds: f64,
    /// How much faster this is than one thread that sends nothing.
    pub speedup: f64,
    /// How many machines there are.
    pub machines: usize,
    /// Bytes sent from machine to machine,
    pub bytes_between: u64,
    /// and from worker to worker on one machine.
    pub bytes_within: u64,
    /// Share of the time in which threads ran blocks,
    pub computing: f64,
    /// waited for parts from other workers,
    pub parts: f64,
    /// waited for blocks of their own worker, or for the loop to begin,
    pub order: f64,
    /// had no processor,
    pub processors: f64,
    /// or had nothing left to do.
    pub done: f64,
    /// Of the chain of blocks and transfers that ends last: the shares of the loop's time in blocks,
    pub path_blocks: f64,
    /// and in transfers.
    pub path_transfers: f64,
}

impl Setup {
    /// How many workers share a machine, and how many machines there are.
    fn spread(&self) -> (usize, usize) {
        let workers = self.workers.max(1);
        let each = match self.machines {
            Some(machines) => workers.div_ceil(machines.max(1)),
            None if self.shared => 1,
            None => (self.cores / self.threads.max(1)).clamp(1, workers),
        };
        (each, workers.div_ceil(each))
    }
}

struct Timed<'s> {
    plan: &'s Plan,
    setup: &'s Setup,
}

impl Costs for Timed<'_> {
    fn block(&self, block: u32, worker: u32, busy: usize) -> u64 {
        let slow = self.setup.slow.iter().find(|&&(slow, _)| slow == worker as usize);
        let speed = slow.map_or(1.0, |&(_, speed)| speed.max(1e-9));
        (self.plan.graph.cost(block as usize) as f64 * self.setup.access.among(busy) / speed) as u64
    }

    fn moving(&self, bytes: u64, same_machine: bool) -> Moving {
        let bytes = bytes as f64;
        let (link, latency) = match same_machine {
            true => (0.0, 0.0),
            false => (PACKED * bytes / self.setup.bytes_a_nano.max(1e-9), self.setup.latency),
        };
        let played = if self.setup.shared && !same_machine { PLAYED } else { 0.0 };
        Moving {
            link: link as u64,
            latency: (latency + 2.0 * WAKING) as u64,
            sending: (MESSAGE + BYTE * bytes) as u64,
            receiving: (MESSAGE + (BYTE + played) * bytes) as u64,
        }
    }

    fn begins(&self, worker: u32) -> u64 {
        // In one process nobody has to be told.
        match self.setup.workers > 1 {
            true => (CONTROL * f64::from(worker + 1) + BEGINNING * WAKING + self.setup.latency) as u64,
            false => 0,
        }
    }
}

/// Plays one call of a loop by a plan that is there already: that of the table.
pub fn simulate(table: &PlanTable, plan: &Plan, setup: &Setup) -> Outcome {
    let layout = table.layout(plan, setup.workers);
    let laid = layout.plan(plan);
    let bytes = |resource| table.bytes_in(&layout, resource);
    let (workers, machines) = setup.spread();
    let (threads, cores) = (setup.threads.max(1), setup.cores.max(1));
    let costs = Timed { plan: laid, setup };
    let played = events::play(
        (laid, &layout),
        &bytes,
        table.relaxed,
        &costs,
        Machines { threads, cores, shared: setup.shared, workers },
    );
    let told = if setup.workers > 1 { CONTROL + ENDING * WAKING + setup.latency } else { 0.0 };
    let whole = played.makespan as f64 + told;
    let mut seconds = whole / 1e9;
    if let Some(at) = setup.lost {
        // What ran is lost, and all of it runs again on as many workers.
        seconds += at.clamp(0.0, 1.0) * seconds + REPLACED;
    }
    let sum = |of: fn(&Spent) -> u64| played.workers.iter().map(of).sum::<u64>() as f64;
    let all = (played.makespan as f64 * (layout.workers * threads) as f64).max(1.0);
    let alone = plan.graph.work() as f64 * setup.access.alone / 1e9;
    Outcome {
        seconds,
        speedup: if seconds > 0.0 { alone / seconds } else { 1.0 },
        machines,
        bytes_between: played.sent.0,
        bytes_within: played.sent.1,
        computing: sum(|spent| spent.computing) / all,
        parts: sum(|spent| spent.parts) / all,
        order: sum(|spent| spent.order) / all,
        processors: sum(|spent| spent.processors) / all,
        done: sum(|spent| spent.done) / all,
        path_blocks: played.path.0 as f64 / whole.max(1.0),
        path_transfers: played.path.1 as f64 / whole.max(1.0),
    }
}
