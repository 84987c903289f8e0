//! Asynchronous loops: recording, plans that are kept, packing, running, undoing and verifying.

mod away;
pub(crate) mod backend;
pub(crate) mod call;
pub(crate) mod execute;
pub(crate) mod handoff;
pub(crate) mod old;
pub(crate) mod over;
pub(crate) mod pace;
pub(crate) mod pack;
pub(crate) mod plan_cache;
pub(crate) mod record;
pub(crate) mod replan;
pub(crate) mod residency;
pub(crate) mod results;
pub(crate) mod sure;
pub(crate) mod tallied;
pub(crate) mod tallies;
pub(crate) mod undo;
pub(crate) mod verify;
