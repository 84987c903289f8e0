//! What the tests of many processes share: a runner for tests that need the program's own `main`, and other processes.

#![allow(dead_code)]

pub(crate) mod job;
pub(crate) mod minibatches;
pub(crate) mod operators;
pub(crate) mod processes;
pub(crate) mod runner;
pub(crate) mod scheduled;
pub(crate) mod sets;
pub(crate) mod slow;
pub(crate) mod written_once;
