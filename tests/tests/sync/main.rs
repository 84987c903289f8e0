//! Synchronous loops in one process.

mod policies;
