//! What a loop call says of itself.

use std::fmt;
use std::sync::Arc;

use crate::planner::plan::Plan;
use crate::session::options::{Site, Strategy};
use crate::session::verified::Verified;

/// The numbers of threads for which a speed-up is predicted.
const THREADS: [usize; 5] = [2, 4, 8, 16, 64];

/// What a call of an asynchronous loop did: how it found parallelism, what conflicted, and how long it took.
///
/// `Display` prints it for people to read.
#[derive(Clone)]
pub struct LoopReport {
    pub(crate) site: &'static Site,
    pub(crate) label: Option<String>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) misspeculations: usize,
    pub(crate) reused: bool,
    pub(crate) seconds_recording: f64,
    pub(crate) seconds_planning: f64,
    pub(crate) seconds_running: f64,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) asked: Asked,
    pub(crate) sizes: Arc<Sizes>,
    /// How many threads this process, or each worker, has.
    pub(crate) threads: usize,
}

/// Bytes of what a loop captures, and whether its plan may be cut otherwise.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// Of each capture, those of an element.
    pub(crate) elements: Vec<u64>,
    /// Of all relaxed state.
    pub(crate) relaxed: u64,
    /// Whether no bits depend on where blocks begin.
    pub(crate) cut_anywhere: bool,
}

/// What the loop said and captured, as far as advice depends on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// `order = Preserve`
    pub(crate) preserve: bool,
    /// It is an operator's, which has no options.
    pub(crate) of_operator: bool,
    /// The captures that are maps,
    pub(crate) maps: Vec<usize>,
    /// and those captured as `sum x`.
    pub(crate) sums: Vec<usize>,
}

/// What a run adds to the report: mostly what it did on other processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elsewhere {
    pub(crate) bytes_sent: u64,
    pub(crate) workers: Vec<WorkerTime>,
    pub(crate) shares: Option<Arc<WorkerShares>>,
    /// By capture, of relaxed state.
    pub(crate) staleness: Vec<Option<RelaxedError>>,
    /// Whether too many elements were saved one by one: saving ranges of them takes less time.
    pub(crate) crowded: bool,
    /// Nanoseconds for which threads of this process were busy, all together; 0 on workers.
    pub(crate) busy: u64,
    /// In a session that verifies: the captures that were compared with the replay's.
    pub(crate) compared: Option<Vec<usize>>,
}

/// The s-error of one run (STRADS, supplement section 1): the distance (L1) of a block's copy from what the blocks before
/// it in the serial order and it itself have made of the state, over the size (L1) of the state at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RelaxedError {
    pub(crate) mean: f64,
    pub(crate) max: f64,
}

/// How a plan is laid out over the workers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkerShares {
    /// The work of the busiest in average ones.
    pub(crate) imbalance: f64,
    pub(crate) bytes_moved: u64,
    pub(crate) workers: Vec<WorkerShare>,
}

/// One worker's share of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerShare {
    /// Which worker: its number in the job, its machine and process number.
    pub worker: String,
    /// How many blocks the worker runs in each call.
    pub blocks: usize,
    /// Their estimated cost, in accesses.
    pub work: u64,
    /// Bytes of parts that other workers send it.
    pub bytes_in: u64,
    /// Bytes of parts that it sends to other workers.
    pub bytes_out: u64,
}

/// How a worker spent its time in one loop.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerTime {
    /// Which worker: its number in the job, its machine and process number.
    pub worker: String,
    /// Seconds that its threads ran blocks, on average.
    pub computing: f64,
    /// Seconds that its threads waited for parts or for each other, on average.
    pub waiting: f64,
    /// Seconds that its network spent on receiving parts, most of them while its threads computed.
    pub transferring: f64,
}

/// A DDS whose elements make iterations conflict.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Its name in the capture list.
    pub dds: &'static str,
    /// How many accesses the iterations make to it.
    pub accesses: usize,
    /// The elements that most iterations touch: index, and how many iterations.
    pub elements: Vec<(usize, u32)>,
    /// Of these the element that most iterations write, and how many iterations do. These run one after the other. So at most
    /// (iterations / that number) workers can have work.
    pub most_written: Option<(usize, u32)>,
    /// Whether these numbers are estimated from a sample, as they are for long loops.
    pub estimated: bool,
}

/// How stale reads of relaxed state were in one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Staleness {
    /// The state's name in the capture list.
    pub name: &'static str,
    /// By how many strata of blocks reads may lag behind: the loop's option `staleness`.
    pub strata: usize,
    /// The mean of the s-error over all blocks (STRADS, supplement section 1). The s-error of a block is the L1 distance between
    /// its copy of the state and the state that the serial order gives at that point, divided by the L1 norm of the state at the
    /// end.
    pub mean_error: f64,
    /// The largest s-error of a block.
    pub max_error: f64,
}

impl LoopReport {
    /// File and line of the loop.
    pub fn site(&self) -> String {
        self.site.to_string()
    }

    /// The column of the loop, which tells apart loops on one line.
    pub fn column(&self) -> u32 {
        self.site.column()
    }

    /// Whether the accesses were inferred from a sample of the iterations and the data, instead of running every iteration
    /// virtually.
    pub fn inferred(&self) -> bool {
        self.plan.facts.inferred
    }

    /// The loop's `label`.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// How the plan found parallelism.
    pub fn strategy(&self) -> Strategy {
        self.plan.strategy
    }

    /// Why the planner chose this strategy.
    pub fn reason(&self) -> &str {
        &self.plan.facts.reason
    }

    /// The number of iterations of the loop.
    pub fn iterations(&self) -> usize {
        self.plan.range.len()
    }

    /// The number of blocks that the iterations form.
    pub fn blocks(&self) -> usize {
        self.plan.blocks.len()
    }

    /// The estimated cost of all blocks, in accesses.
    pub fn work(&self) -> u64 {
        self.plan.graph.work()
    }

    /// The estimated cost of the longest chain of blocks that must follow each other, in accesses.
    pub fn critical_path(&self) -> u64 {
        self.plan.graph.critical_path()
    }

    /// Work over critical path: how many threads could be kept busy.
    pub fn parallelism(&self) -> f64 {
        (self.work() as f64 / self.critical_path().max(1) as f64).max(1.0)
    }

    /// Predicted speed-ups: a number of threads, and how much faster than one thread they should be.
    pub fn predicted_speedups(&self) -> Vec<(usize, f64)> {
        let work = self.work().max(1) as f64;
        THREADS.iter().map(|&threads| (threads, work / self.plan.graph.makespan(threads).max(1) as f64)).collect()
    }

    /// The DDSs that make iterations conflict.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let conflict = |hot: &crate::planner::plan::HotDds| Conflict {
            dds: self.site.name(hot.capture),
            accesses: hot.accesses,
            elements: hot.elements.clone(),
            most_written: hot
                .elements
                .iter()
                .zip(&hot.written)
                .map(|(&(index, _), &n)| (index, n))
                .max_by_key(|at| at.1),
            estimated: hot.estimated,
        };
        self.plan.facts.hot.iter().map(conflict).collect()
    }

    /// Seconds that recording took, in this call or, if the plan was reused, in the call that made it.
    pub fn seconds_recording(&self) -> f64 {
        self.seconds_recording
    }

    /// Seconds that planning and packing took, in this call or, if the plan was reused, in the call that made it.
    pub fn seconds_planning(&self) -> f64 {
        self.seconds_planning
    }

    /// Seconds that the iterations took.
    pub fn seconds_running(&self) -> f64 {
        self.seconds_running
    }

    /// Bytes that processes sent each other for this call: parts, elements that were packed anew, and shares of a new plan. 0 if
    /// the loop ran in one process.
    pub fn bytes_sent(&self) -> u64 {
        self.elsewhere.bytes_sent
    }

    /// How the workers spent their time; empty if the loop ran in one process.
    pub fn workers(&self) -> &[WorkerTime] {
        &self.elsewhere.workers
    }

    /// Each worker's share of the plan; empty if the loop ran in one process.
    pub fn shares(&self) -> &[WorkerShare] {
        self.elsewhere.shares.as_ref().map_or(&[], |shares| &shares.workers)
    }

    /// How many strata the plan's blocks form; 0 if the loop has no relaxed state. Each stratum sees additions of earlier strata to
    /// relaxed state.
    pub fn strata(&self) -> usize {
        if self.plan.strata.blocks() == 0 { 0 } else { self.plan.strata.count() }
    }

    /// How stale the reads of relaxed state were; empty if the loop has none.
    pub fn staleness(&self) -> Vec<Staleness> {
        let strata = self.plan.strata.staleness();
        let errors = self.elsewhere.staleness.iter().enumerate();
        errors
            .filter_map(|(c, error)| {
                error.map(|error| Staleness {
                    name: self.site.name(c),
                    strata,
                    mean_error: error.mean,
                    max_error: error.max,
                })
            })
            .collect()
    }

    /// What was compared with a replay, in a session that [verifies](crate::Session::verify).
    pub fn verified(&self) -> Verified {
        match &self.elsewhere.compared {
            Some(compared) => Verified::Compared(compared.iter().map(|&c| self.site.name(c)).collect()),
            None => Verified::NotAsked,
        }
    }

    /// True if the plan of an earlier call was used again.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// How often this call was undone and begun again because an iteration touched an element that the plan didn't foresee.
    pub fn misspeculations(&self) -> usize {
        self.misspeculations
    }

    /// The most bytes of memory that recording and plan took together.
    pub fn planning_peak_bytes(&self) -> usize {
        self.plan.facts.peak_bytes
    }

    /// The serial order that the result is equal to, as numbers of iterations. Running the body in this order on one thread gives
    /// the same bits.
    ///
    /// # Cost
    /// Four bytes for each iteration. Where workers have sorted the iterations of a long loop, this process works out the order when it is
    /// first asked for, and fetches the elements that it follows from.
    ///
    /// # Panics
    /// If these elements no longer exist: their DVector or the workers are gone. A program that needs the order asks for it earlier.
    pub fn serial_order(&self) -> impl Iterator<Item = usize> + '_ {
        let first = self.plan.range.start;
        (0..self.iterations()).map(move |place| first + self.plan.offset(place))
    }
}

impl LoopReport {
    fn write_recorded(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.inferred() { " (a sample; the rest follows from the data)" } else { "" };
        write!(f, "  recorded in {:.3} s{how}, planned in {:.3} s", self.seconds_recording, self.seconds_planning)?;
        if self.misspeculations > 0 {
            write!(f, "; undone and planned again {} times", self.misspeculations)?;
        }
        if self.plan.facts.cut_short > 0 {
            write!(
                f,
                "\n  {} iterations ended early while the loop was recorded: they panicked, or went on without end, on values from before it",
                self.plan.facts.cut_short
            )?;
        }
        Ok(())
    }
}

/// A number of things, of which there may be one.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

impl fmt::Display for LoopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loop {}", self.site)?;
        if let Some(label) = &self.label {
            write!(f, " ({label})")?;
        }
        writeln!(f, ": {}, {}", self.strategy(), self.reason())?;
        writeln!(
            f,
            "  {} in {}; work {}, longest chain {}: parallelism {:.1}",
            counted(self.iterations() as u64, "iteration"),
            counted(self.blocks() as u64, "block"),
            self.work(),
            self.critical_path(),
            self.parallelism()
        )?;
        let parts = &self.plan.facts.parts;
        if !parts.is_empty() {
            let parts: Vec<String> = parts
                .iter()
                .map(|&(c, n)| format!("{} of `{}`", counted(n as u64, "part"), self.site.name(c)))
                .collect();
            let order = if self.plan.facts.rotation { ", passed on in a rotation" } else { "" };
            writeln!(f, "  {}{order}", parts.join(", "))?;
        }
        if self.strata() > 0 {
            let (strata, stale) = (self.strata(), self.plan.strata.staleness());
            writeln!(f, "  {strata} strata; reads of relaxed state lag behind by up to {stale}")?;
        }
        let speedups: Vec<String> =
            self.predicted_speedups().iter().map(|(threads, speedup)| format!("{threads}: {speedup:.1}")).collect();
        writeln!(f, "  predicted speed-up by threads: {}", speedups.join(", "))?;
        for conflict in self.conflicts() {
            let elements: Vec<String> =
                conflict.elements.iter().map(|(index, count)| format!("[{index}] {count}")).collect();
            writeln!(
                f,
                "  `{}`: {} accesses; most iterations touch {}{}{}",
                conflict.dds,
                conflict.accesses,
                elements.join(", "),
                if conflict.estimated { " (estimated)" } else { "" },
                conflict.cap(self.iterations())
            )?;
        }
        if let Some(shares) = &self.elsewhere.shares {
            writeln!(f, "{shares}")?;
        }
        self.write_recorded(f)?;
        if self.elsewhere.compared.is_some() {
            write!(f, "\n  {}", self.verified())?;
        }
        if let Some(advice) = self.advice() {
            write!(f, "\n  advice: {advice}")?;
        }
        Ok(())
    }
}

impl Conflict {
    /// How many workers the element that most iterations write leaves something to do.
    fn cap(&self, iterations: usize) -> String {
        let Some((index, written)) = self.most_written.filter(|&(_, written)| written > 0) else {
            return String::new();
        };
        let (most, share) = (iterations / written as usize, 100.0 * f64::from(written) / iterations.max(1) as f64);
        format!("; {share:.2} % write [{index}]: at most {}", counted(most.max(1) as u64, "worker"))
    }
}

impl fmt::Display for WorkerShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  on {} workers: the busiest has {:.2} times the average work, {} bytes move each time",
            self.workers.len(),
            self.imbalance,
            self.bytes_moved
        )?;
        for WorkerShare { worker, blocks, work, bytes_in, bytes_out } in &self.workers {
            let blocks = counted(*blocks as u64, "block");
            write!(f, "\n    {worker}: {blocks}, work {work}; {bytes_in} bytes in, {bytes_out} bytes out")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LoopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopReport")
            .field("site", &self.site())
            .field("strategy", &self.strategy())
            .field("blocks", &self.blocks())
            .field("reused", &self.reused)
            .finish_non_exhaustive()
    }
}
