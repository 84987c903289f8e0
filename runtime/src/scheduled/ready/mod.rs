//! Schedules to be used as they are.

mod dynamic;
mod random;
mod ring;
mod robin;
mod rotation;
mod tree;

pub use dynamic::{DynRegr, Magnitude, Pick, schedule_dyn_regr};
pub use ring::Rotation;
pub use robin::{RoundRobin, schedule_round_robin};
pub use rotation::{Block, StaticRota, schedule_static_rota};
