//! The same program on many processes: a driver that plans, workers that run blocks and hand parts to each other, and
//! homes for snapshots.
//!
//! - `driver`, `worker`: the two sides; what belongs together has the same name in both.
//! - `wire`: messages, connections, and what processes serve to each other.
//! - `launch`: which role this process has, and how others are started.

pub(crate) mod driver;
pub(crate) mod launch;
pub(crate) mod wire;
pub(crate) mod worker;
