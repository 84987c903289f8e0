//! The planner's promises: plans stay as they are, random loops get right plans, and layouts work in every interleaving.

#![allow(clippy::unwrap_used)]

mod cluster;
mod golden;
mod loops;
mod play;
mod random;
mod spread;
mod tables;
mod turns;
