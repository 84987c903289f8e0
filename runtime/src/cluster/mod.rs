//! The same program on many processes: a driver that plans, workers that run blocks and hand parts to each other, and
//! homes for snapshots.

mod access;
mod call;
pub(crate) mod children;
mod collecting;
mod dispatch;
pub(crate) mod driver;
pub(crate) mod host;
pub(crate) mod hub;
mod join;
pub(crate) mod launcher;
pub(crate) mod layout;
mod links;
pub(crate) mod loops;
pub(crate) mod naming;
pub(crate) mod operate;
mod pager;
mod placement;
pub(crate) mod pmi;
pub(crate) mod protocol;
mod ranges;
mod recover;
pub(crate) mod remote_plan;
pub(crate) mod rendezvous;
pub(crate) mod roles;
mod running;
pub(crate) mod scheduled;
mod serve;
pub(crate) mod server;
pub(crate) mod shard;
mod shares;
pub(crate) mod sync;
mod work;
pub(crate) mod worker;
