//! What the benchmarks share: rating sets read or generated, the contestants, and the harness that times them
//! in alternation and prints what came out.

pub mod cluster;
pub mod data;
pub mod generate;
pub mod harness;
pub mod model;
pub mod peers;
pub mod report;
pub mod schmp;
pub mod table;
