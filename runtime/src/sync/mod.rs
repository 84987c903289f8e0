//! `sync_parallel_for!`: minibatches over a DDS, each on a copy of what it writes, the copies synchronised by a policy
//! (STRADS-AP, section 2).
//!
//! - `policy`, `batch`, `schedule`: what a loop is told, what its body gets, who runs what when.
//! - `view`, `table`: how a body reaches a row, and where a copy keeps it.
//! - `in_place`, `rounds`, `stale`: the three ways to run: one copy; rounds, after each of which all copies agree; clocks.
//! - `call`: one call in this process. `cluster::sync` runs the same on workers.

mod backup;
mod batch;
mod cache;
mod call;
mod in_place;
mod lanes;
mod ledger;
mod meeting;
mod merging;
mod policy;
mod report;
mod rounds;
mod schedule;
mod stale;
mod table;
mod task;
mod view;

pub use batch::Batch;
pub(crate) use cache::SyncCache;
pub(crate) use call::SyncCall;
pub use call::sync_for;
pub use policy::{SyncOptions, SyncPolicy, minibatch, policy};
pub use report::SyncReport;
pub use task::typed_batch_body;
pub(crate) use view::SharedSlot;
pub use view::SharedView;
