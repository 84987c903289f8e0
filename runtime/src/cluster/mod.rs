//! The same program on many processes: a driver that plans, workers that run blocks and hand parts to each other, and
//! homes for snapshots.

pub(crate) mod children;
mod dispatch;
pub(crate) mod host;
pub(crate) mod launcher;
pub(crate) mod layout;
mod join;
mod links;
pub(crate) mod naming;
mod pager;
pub(crate) mod pmi;
pub(crate) mod protocol;
mod ranges;
pub(crate) mod rendezvous;
pub(crate) mod roles;
mod running;
mod serve;
mod shard;
mod work;
pub(crate) mod worker;
