//! The clock by which loops are measured where that decides how they are dealt. In a simulation (the feature) it is the world's.

#[cfg(not(feature = "simulation"))]
pub(crate) use std::time::Instant;

#[cfg(feature = "simulation")]
pub(crate) use tokio::time::Instant;
