//! `sync_parallel_for!`: minibatches over a DDS, each on a copy of what it writes, the copies synchronised by a policy
//! (STRADS-AP, section 2).
//!
//! - `policy`, `batch`, `schedule`: a loop's options, what its body gets, who runs what when.
//! - `new_entries`: what bodies add to maps.
//! - `table`: where a copy keeps a row, and how a body reaches it.
//! - `in_place`, `rounds`, `stale`: the three ways to run: one copy; rounds, after each of which all copies agree; clocks.
//! - `call`: one call in this process. `cluster::worker::minibatch` runs the same on workers.

pub(crate) mod backup;
mod batch;
mod cache;
mod call;
mod hot;
pub(crate) mod in_place;
mod input;
mod ledger;
mod meeting;
mod merging;
mod new_entries;
mod policy;
mod report;
mod rounds;
mod runner;
mod schedule;
mod stale;
mod table;
mod task;

pub use batch::Batch;
pub(crate) use cache::{SyncKey, next_stamps};
pub use call::sync_for;
pub(crate) use call::{MinibatchBackend, Ran, SyncCall, bases, caches, merges, tables};
pub(crate) use hot::Chosen;
pub use input::{LoopInput, MinibatchSize, input, minibatch};
pub(crate) use ledger::{Base, Ledger, THROUGH};
pub(crate) use merging::{At, List};
pub(crate) use new_entries::{NewByCapture, NewByPart};
pub use policy::{CachedRows, MergeRule, SyncOptions, SyncPolicy, policy};
pub(crate) use report::Counts;
pub use report::SyncReport;
pub(crate) use rounds::{OwnCopies, Peers, Rounds, Turn};
pub(crate) use runner::{Input, Outcomes, Runner, unite};
pub(crate) use schedule::Schedule;
pub(crate) use stale::{Changes, Ended, Observed, Stale, StalePeers};
pub(crate) use table::{Purpose, Runs, Source, Table, rows_of};
pub use task::typed_batch_body;
pub(crate) use task::{BatchTask, MakeBatchTask};
