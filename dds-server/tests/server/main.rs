//! All tests of this crate but one, which measures its process: one executable, since linking takes seconds.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod binary;
mod codec;
mod common;
mod frame;
mod heartbeat;
mod hello;
mod mutated;
mod sealed;
mod secret;
mod serving;
mod store;
