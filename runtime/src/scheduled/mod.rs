//! Programs with schedules of their own: `schedule`, `update`, `aggregate` (STRADS, sections 2 to 4).
//!
//! - `program`: what the user writes. `call`: what it is run with.
//! - `drive`: the order of things, which is the same wherever the shards are. `here`: shards in this process;
//!   `backend`: shards that are elsewhere.
//! - `ready`: schedules to be used as they are.

pub(crate) mod backend;
mod call;
#[cfg(test)]
mod cost;
pub(crate) mod drive;
pub(crate) mod here;
mod program;
mod ready;
pub(crate) mod remote;
mod report;
pub(crate) mod wire;

pub use call::{Scheduled, scheduled};
pub use program::{Partials, Program, Schedule, Shards};
pub use ready::{
    Block, DynRegr, Magnitude, Pick, Rotation, RoundRobin, StaticRota, schedule_dyn_regr, schedule_round_robin,
    schedule_static_rota,
};
pub use report::ScheduledReport;
