//! What the driver asks of its workers. Small messages, a constant number of them for each loop that runs; whatever is
//! large is fetched over the data connections (`links`).

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::body::panics::CaughtPanic;
use crate::cluster::wire::keepers::{Keepers, Touches};
use crate::cluster::wire::naming::ElementName;
use crate::loops::results::Additions;
use crate::minibatch::{Counts, MergeRule, Schedule, SyncPolicy};
use crate::operate::run::Chunking;
pub(crate) use crate::planner::placement::{DRIVER, Holder, Node, Pull, Segment};
use crate::planner::survey::{Question, Sorting, Survey};
use crate::scheduled::drive::RoundFailure;
use crate::session::options::Order;
use crate::session::slow_bodies::Unit;

/// Who takes part, from now on. What was under way is over, and what workers hold of DDSs is void.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) generation: u32,
    /// The number of the worker that reads this.
    pub(crate) you: Node,
    /// The workers in the order in which plans number them.
    pub(crate) workers: Vec<Peer>,
    /// Where else data are kept.
    pub(crate) others: Vec<Peer>,
    pub(crate) timeline: bool,
    pub(crate) memory: Option<MemoryLimit>,
}

/// What each process may have in memory, and the folder for the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: u64,
    pub(crate) folder: PathBuf,
}

/// Another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) node: Node,
    pub(crate) address: String,
}

/// A loop body, apart from where it is called.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RemoteTask {
    /// The name of its maker in the executable.
    pub(crate) maker: u64,
    pub(crate) values: Vec<u8>,
    /// Where it stands in the program: for the driver's own messages.
    #[serde(skip)]
    pub(crate) site: Arc<str>,
}

/// A captured DDS or reduction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RemoteCapture {
    /// With the operations on its tallies, and whether the loop says `sum x`, where its body only adds to it.
    Vector {
        id: u64,
        len: usize,
        ops: ElementName,
        writable: bool,
        adding: Option<(u64, bool)>,
    },
    Reduction {
        ops: u64,
    },
    Relaxed {
        ops: u64,
        len: usize,
    },
}

/// Iterations to run virtually.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordJob {
    pub(crate) task: RemoteTask,
    pub(crate) captures: Vec<RemoteCapture>,
    /// Where the elements are that the body may read.
    pub(crate) held: Vec<Vec<Segment>>,
    /// The values of relaxed state, by capture.
    pub(crate) relaxed: Vec<Vec<u8>>,
    /// The captures that will be tallied.
    pub(crate) tallied: Vec<bool>,
    pub(crate) slices: Vec<Range<usize>>,
    pub(crate) concrete: bool,
}

/// The logs of a recording, to be fetched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedLogs {
    /// Blobs of `Vec<Vec<CaptureLog>>`, in the order of the slices.
    pub(crate) blobs: Vec<u64>,
    /// Of threads, for making them.
    pub(crate) nanos: u64,
}

/// A question about the iterations of some slices, whose elements the worker fetches as far as it lacks them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SurveyJob {
    pub(crate) captures: Vec<RemoteCapture>,
    pub(crate) asked: Asked,
    pub(crate) slices: Range<usize>,
    pub(crate) pulls: Vec<Pull>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Asked {
    Question(Survey, Question),
    /// Deals iterations, and elements of captures, out to the workers that run these blocks; the number is that of the workers.
    Deal(Sorting, Vec<u32>, usize, Vec<Option<usize>>),
}

/// What workers have dealt out for one of them, in the order of the iterations; whether places far apart in a block take turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DealtOut {
    pub(crate) from: Vec<(Node, u64)>,
    pub(crate) turns: bool,
}

/// A worker's share of a plan, to be fetched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Install {
    pub(crate) plan: u64,
    pub(crate) captures: Vec<RemoteCapture>,
    /// The blob of the `Share`; none where the plan is there already.
    pub(crate) share: Option<u64>,
    /// The iterations of its blocks, where workers have sorted them.
    pub(crate) offsets: Option<DealtOut>,
}

/// What a worker must hold before a loop begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) plan: u64,
    pub(crate) pulls: Vec<Pull>,
    /// Elements in the order in which the worker's blocks run: capture, blob, version.
    pub(crate) laid_out: Vec<(usize, u64, u64)>,
    /// The same from other workers: capture, blobs, version.
    pub(crate) dealt: Vec<(usize, DealtOut, u64)>,
}

/// A loop to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunJob {
    /// Counts the runs of the job; never the same twice.
    pub(crate) call: u64,
    pub(crate) plan: u64,
    /// The plan's, or a part of it.
    pub(crate) range: Range<usize>,
    pub(crate) task: RemoteTask,
    pub(crate) before: Before,
    pub(crate) order: Order,
    pub(crate) trace: bool,
    /// What comes while the first blocks run.
    pub(crate) fetches: Vec<Fetch>,
    /// Transfers of what isn't here when the loop begins: who awaits them fetches it.
    pub(crate) unsent: Vec<u32>,
    /// What doesn't stay here.
    pub(crate) returned: Option<Returned>,
}

/// What a worker stores in a snapshot as soon as a loop's blocks have done with it, and doesn't keep. It is nowhere else but where
/// nobody changes it when the loop begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Returned {
    pub(crate) snapshot: u64,
    pub(crate) to: [Node; 2],
    /// The captures whose elements are.
    pub(crate) captures: Vec<usize>,
    /// Their parts that the loop writes,
    pub(crate) written: Vec<u32>,
    /// and those that this worker has in the end; both in ascending order.
    pub(crate) own: Vec<u32>,
}

/// Elements that nobody changes where they are while a loop runs, and that a worker fetches meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fetch {
    pub(crate) pulls: Vec<Pull>,
    /// The transfer in whose place they come; none if no other worker would send them.
    pub(crate) transfer: Option<u32>,
    /// The last block in the whole plan that needs them as they are: it is the first to change them.
    pub(crate) until: u32,
}

/// What is added to in a loop, before it, by capture: reductions and relaxed state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Before {
    pub(crate) words: Vec<u64>,
    pub(crate) relaxed: Vec<Vec<u8>>,
}

/// How a worker's share of a loop ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum RunEnd {
    Done(Ran),
    /// A block failed, by its place in the whole plan. Blocks before it may still be running.
    Failed {
        block: u32,
    },
    /// The driver ended it.
    Stopped,
}

/// What a worker's blocks came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// For each of its blocks a total for each capture, and single additions where a block has some.
    pub(crate) totals: Vec<u64>,
    pub(crate) additions: Vec<(u32, Additions)>,
    /// The blob of what its blocks have added to relaxed state, block by block.
    pub(crate) relaxed: Option<u64>,
    /// The blob of its tallies.
    pub(crate) tallies: Option<u64>,
    /// The type of a captured value that its bodies changed.
    pub(crate) changed: Option<String>,
    pub(crate) time: WorkerSeconds,
    pub(crate) bytes_sent: u64,
}

/// Where a worker's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerSeconds {
    pub(crate) computing: f64,
    pub(crate) waiting: f64,
    pub(crate) transferring: f64,
}

/// The first failure among a worker's blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RemoteFailure {
    pub(crate) block: u32,
    pub(crate) iteration: Option<usize>,
    pub(crate) what: RemoteCause,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum RemoteCause {
    Misspeculation {
        capture: usize,
    },
    OutOfRange {
        capture: usize,
        index: usize,
    },
    Body {
        message: String,
    },
    Panic {
        message: String,
        location: String,
    },
    /// The destructor of an element panicked while the loop was undone.
    Undoing {
        message: String,
        location: String,
    },
}

/// Which rows of other processes a synchronous loop's worker gets without asking for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fetching {
    /// All, at first, and then all that change.
    All,
    /// Those that its minibatches touched in an earlier call.
    Foreseen,
    /// None.
    OnDemand,
}

/// A worker's minibatches, to be fetched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InputJob {
    /// The name of the elements' operations, and how many there are.
    pub(crate) ops: ElementName,
    /// Tells inputs apart: DDS, its version, and how it is dealt out.
    pub(crate) key: InputKey,
    /// None if the worker has them.
    pub(crate) from: Option<InputFrom>,
}

/// Where a worker finds its minibatches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum InputFrom {
    /// Blobs of the driver with this many elements each.
    Driver(Vec<(u64, usize)>),
    /// The parts of the whole input, one after the other.
    Holders(Vec<Pull>),
}

/// An input as it is dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InputKey {
    pub(crate) dds: u64,
    pub(crate) version: u64,
    pub(crate) schedule: Schedule,
}

/// How many inputs a worker keeps.
pub(crate) const INPUTS: usize = 4;

/// A synchronous loop to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SyncJob {
    /// Counts the runs of the job, with those of other loops.
    pub(crate) call: u64,
    /// The loop's number: what workers keep of it from call to call.
    pub(crate) site: u64,
    pub(crate) task: RemoteTask,
    pub(crate) captures: Vec<RemoteCapture>,
    pub(crate) before: Vec<u64>,
    pub(crate) policy: SyncPolicy,
    pub(crate) rule: MergeRule,
    pub(crate) schedule: Schedule,
    /// The copies of each worker.
    pub(crate) copies: Vec<Range<usize>>,
    /// By capture, who keeps which rows; none for what isn't written.
    pub(crate) keepers: Vec<Option<KeptBy>>,
    pub(crate) input: InputJob,
    pub(crate) pulls: Vec<Pull>,
    pub(crate) fetching: Fetching,
    /// Whether reads are checked against the bound of `Ssp`.
    pub(crate) checks: bool,
    /// How much of what a round touches is there before it begins, in hundredths.
    pub(crate) early: usize,
    /// How many rows of a DDS a thread caches at most.
    pub(crate) caches: usize,
    /// By capture, whether the driver asks how often its rows are touched.
    pub(crate) asked: Vec<bool>,
}

/// Who keeps which rows of a DDS.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum KeptBy {
    /// The receiver forgets it after the call.
    Once(Keepers),
    /// It remembers it under this number.
    New(u64, Keepers),
    Known(u64),
}

/// How a worker's part of a synchronous loop ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SyncEnd {
    Done(SyncRan),
    Failed { minibatch: usize, what: RemoteCause },
    Stopped,
}

/// What a worker's minibatches came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SyncRan {
    pub(crate) totals: Vec<(usize, Vec<u64>)>,
    /// The type of a captured value that its bodies changed.
    pub(crate) changed: Option<String>,
    pub(crate) time: WorkerSeconds,
    pub(crate) counts: Counts,
    pub(crate) violations: u64,
    /// Whether it has every row as it is now.
    pub(crate) holds_all: bool,
    /// Whether it knows what its minibatches touch, and that is worth going by.
    pub(crate) foresees: bool,
    /// By capture, how often its rows are touched, where the driver asked for that.
    pub(crate) touches: Vec<Touches>,
    /// The blob of what its copies have added to maps.
    pub(crate) new: Option<u64>,
    pub(crate) seconds_preparing: f64,
}

/// An operator to be run over some chunks of its source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OperateJob {
    /// Counts the runs of the job, with those of loops.
    pub(crate) call: u64,
    /// The stage and its values.
    pub(crate) task: RemoteTask,
    pub(crate) sources: Vec<RemoteCapture>,
    pub(crate) captures: Vec<RemoteCapture>,
    pub(crate) pulls: Vec<Pull>,
    /// Of the captured DDSs that aren't brought as a whole.
    pub(crate) held: Vec<Held>,
    pub(crate) cut: Chunking,
    pub(crate) chunks: Range<usize>,
    /// Which worker handles which partitions: where each one's begin, and the end. Empty if nothing is shuffled.
    pub(crate) cuts: Vec<usize>,
}

/// A DDS of which workers fetch what they look at.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) dds: u64,
    /// Where its elements are.
    pub(crate) segments: Vec<Segment>,
    /// Whether joins look it up, so that elements can be fetched one by one, many at a time.
    pub(crate) by_list: bool,
}

/// How a worker's share of an operator ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum OperateEnd {
    /// How many items the result has here; where partitions are shuffled, a blob and a number of items for each.
    Done {
        items: usize,
        dealt: Vec<(u64, usize)>,
    },
    Failed {
        element: Option<usize>,
        what: RemoteCause,
    },
    Stopped,
}

/// Partitions to be shuffled: for each of them what every worker has dealt out, a blob and a number of items.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ShuffleJob {
    pub(crate) call: u64,
    pub(crate) partitions: Range<usize>,
    pub(crate) from: Vec<Vec<(Node, u64, usize)>>,
}

/// What an operator made is to be part of a DVector.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoreJob {
    pub(crate) call: u64,
    pub(crate) dds: RemoteCapture,
    pub(crate) start: usize,
    /// How many buckets each partition is to become, if the items are the entries of a map.
    pub(crate) buckets: Option<usize>,
}

/// A worker's part of a scheduled program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ScheduleJob {
    /// Counts the runs of the job, with those of loops.
    pub(crate) call: u64,
    /// By which number the worker is to introduce itself.
    pub(crate) worker: usize,
    pub(crate) task: RemoteTask,
    pub(crate) shards: RemoteCapture,
    pub(crate) locals: RemoteCapture,
    /// The shards that it has.
    pub(crate) own: Range<usize>,
    pub(crate) pulls: Vec<Pull>,
    /// Whether the call has ended well before, so that changes are only to be applied.
    pub(crate) replay: bool,
}

/// How a worker's part of a scheduled program ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ScheduleEnd {
    /// What failed after the last round.
    pub(crate) failed: Option<RoundFailure>,
    pub(crate) time: WorkerSeconds,
    pub(crate) bytes_sent: u64,
}

/// Elements of a DDS that workers have, to be handed out to those that are to have them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HandOut {
    pub(crate) dds: u64,
    pub(crate) left: Left,
    /// Who is to have which: each worker a range, or the rows that it keeps.
    pub(crate) to: KeptBy,
    /// What the receiver fetches first.
    pub(crate) pulls: Vec<Pull>,
}

/// Which elements a worker hands out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Left {
    /// Those of its iterations in this plan, or those that it owns, of this capture.
    ByPlan(u64, usize),
    /// The rows that it keeps under this number.
    Kept(u64),
    /// These ranges, which it has, to others than those that hold them, too.
    Ranges(Vec<Segment>),
}

/// What workers have handed out for one of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TakeIn {
    pub(crate) dds: u64,
    pub(crate) to: KeptBy,
    pub(crate) from: Vec<(Node, u64)>,
}

/// Ranges to be stored under a snapshot's number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SnapshotJob {
    pub(crate) snapshot: u64,
    /// DDS, range, and where to store it.
    pub(crate) parts: Vec<(u64, Range<usize>, Node)>,
    /// Parts of older snapshots of which one copy is left.
    pub(crate) duplicates: Vec<Duplicate>,
}

/// No process has more of a snapshot in memory twice than about this number of bytes.
pub(crate) const PIECE: usize = 2 << 20;
/// How many bytes of a capture a worker fetches at once that looks at few of its elements.
pub(crate) const LOOKED_AT: usize = 4 << 10;
/// (Its length in a snapshot has 4 bytes.)
pub(crate) const TOO_LARGE: &str = "an element takes 4 GiB or more: snapshots can't hold it";

/// A part of an older snapshot, whose elements have `size` bytes each or what they take, to be stored once more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Duplicate {
    pub(crate) pull: Pull,
    pub(crate) size: Option<usize>,
    pub(crate) to: Node,
}

/// Why a worker could not do what it was asked.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Problem {
    #[error("process {node} can't be reached: {why}")]
    Peer { node: Node, why: String },
    #[error("stopped by the driver")]
    Stopped,
    #[error("generation {theirs} is over: this is generation {ours}")]
    OldEpoch { theirs: u32, ours: u32 },
    /// The worker can't take part.
    #[error("{0}")]
    Unfit(String),
    #[error("{0}")]
    Broken(String),
}

/// What a worker serves to its driver.
#[tarpc::service]
pub(crate) trait Control {
    /// Begins a generation.
    async fn join(membership: Membership) -> Result<(), Problem>;
    async fn record(generation: u32, job: RecordJob) -> Result<RecordedLogs, Problem>;
    /// Answers a question about iterations: blobs.
    async fn survey(generation: u32, job: SurveyJob) -> Result<Vec<u64>, Problem>;
    async fn install(generation: u32, job: Install) -> Result<(), Problem>;
    async fn prepare(generation: u32, job: Prepare) -> Result<(), Problem>;
    async fn run(generation: u32, job: RunJob) -> Result<RunEnd, Problem>;
    /// Runs no block from this place in the plan on; answers when all before it have ended.
    async fn settle(generation: u32, call: u64, cut: u32) -> Result<Option<RemoteFailure>, Problem>;
    /// Puts back what the run changed. Answers with the blocks that had been started, by their places in the plan, and with what
    /// the first of the elements' destructors said that panicked meanwhile.
    async fn undo(generation: u32, call: u64) -> Result<(Vec<u32>, Option<CaughtPanic>), Problem>;
    async fn sync(generation: u32, job: SyncJob) -> Result<SyncEnd, Problem>;
    /// Ends a synchronous loop that failed elsewhere.
    async fn halt(generation: u32, call: u64) -> Result<(), Problem>;
    async fn operate(generation: u32, job: OperateJob) -> Result<OperateEnd, Problem>;
    /// Makes one piece of each partition; answers as `operate`.
    async fn shuffle(generation: u32, job: ShuffleJob) -> Result<OperateEnd, Problem>;
    /// Moves what an operator made to its place in a DVector.
    async fn store(generation: u32, job: StoreJob) -> Result<(), Problem>;
    /// Offers what an operator made: a blob.
    async fn give(generation: u32, call: u64) -> Result<u64, Problem>;
    /// Runs a worker's part of a scheduled program, whose rounds come over the data connections.
    async fn scheduled(generation: u32, job: ScheduleJob) -> Result<ScheduleEnd, Problem>;
    async fn snapshot(generation: u32, job: SnapshotJob) -> Result<u64, Problem>;
    /// Offers each worker what it is to have of this one's elements. Gives for each worker a blob, and its bytes.
    async fn hand_out(generation: u32, job: HandOut) -> Result<Vec<(u64, usize)>, Problem>;
    async fn take_in(generation: u32, job: TakeIn) -> Result<(), Problem>;
    /// Forgets DDSs and plans that nobody will ask for again.
    async fn forget(generation: u32, ddss: Vec<u64>, plans: Vec<u64>) -> Result<(), Problem>;
    /// Has the worker keep near a limit of memory from now on.
    async fn limit_memory(generation: u32, limit: MemoryLimit) -> Result<(), Problem>;
    /// Frees the memory of these DDSs' elements, which others have.
    async fn free(generation: u32, ddss: Vec<u64>) -> Result<(), Problem>;
    /// The job is over: the end of the connection that follows is no loss.
    async fn bye();
    /// Offers the events of the timeline since the last time: a blob.
    async fn timeline(generation: u32) -> Result<u64, Problem>;
    /// What has run for longest, if that is as long as this, and for how long: in seconds.
    async fn slowest(generation: u32, limit: u64) -> Result<Option<(Unit, u64)>, Problem>;
    /// The worker's time, in nanoseconds since its own zero.
    async fn clock() -> Result<u64, Problem>;
}
