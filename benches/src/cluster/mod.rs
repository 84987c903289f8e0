//! What the benchmark of worker processes needs beside the contestants: turns, processes and their memory, what frames
//! cost, and a lost worker.

pub mod entrant;
pub mod memory;
pub mod processes;
pub mod ranks;
pub mod recovery;
pub mod serialisation;

/// The rank of the factors.
pub const RANK: usize = 64;
