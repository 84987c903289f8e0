//! What tests share: jobs in processes of their own, to which tests do something; a runner for tests that need the program's own `main`;
//! numbers that look random. It is a package so that its loops are optimised, as unoptimised ones they took a third of the time of tests with workers.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "for tests alone, which fail by panicking"
)]

pub mod common;
pub mod job;
pub mod minibatches;
pub mod operators;
pub mod processes;
pub mod runner;
pub mod scheduled;
pub mod sets;
pub mod slow;
pub mod written_once;
