//! Synchronous loops on workers: the driver's side (`drive`), a worker's (`work`), what workers send each other
//! (`exchange`, `wire`) and what they keep from call to call (`site`).

mod drive;
mod exchange;
mod site;
mod wire;
mod work;

pub(crate) use drive::{Sites, SyncLogged};
pub(crate) use exchange::Syncing;
pub(crate) use work::{SyncBench, begin, run};
