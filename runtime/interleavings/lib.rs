//! Those modules of the runtime that hand blocks to threads, with loom's locks: their tests run in every interleaving.
//! A package of its own, so that nothing else is compiled anew for them.

#![cfg(test)]
#![allow(dead_code, unreachable_pub, reason = "who uses the rest of the modules is not here")]
#![allow(clippy::reversed_empty_ranges, reason = "no thread looks before it sleeps, under loom")]

extern crate stradsap_planner as planner;

#[path = "../src/cluster/worker/dispatch.rs"]
mod dispatch;
#[path = "../src/loops/handoff.rs"]
mod handoff;

/// Where the runtime has it.
mod loops {
    pub(crate) use super::handoff;
}
