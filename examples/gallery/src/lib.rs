//! What the example programs besides `sgdmf` share with their sequential twins and with each other: readers, models,
//! options and measures, a module a kind of program.

pub mod ccd;
pub mod graph;
pub mod libsvm;
pub mod linear;
pub mod lines;
pub mod pagerank;
pub mod regression;
pub mod rmat;
pub mod stored;
pub mod sync;
pub mod topics;
pub mod variational;
pub mod vectors;
pub mod words;
