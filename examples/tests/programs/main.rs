//! The first program and its twin as a person meets them, and what all programs share.

mod checkpoints;
mod command_line;
mod common;
mod npy;
#[cfg(unix)]
mod outputs;
mod reader;
mod twin;
mod workers;
