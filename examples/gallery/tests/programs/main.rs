//! The programs as a person meets them, and the readers of their input.

mod baselines;
mod ccdmf;
mod claims;
#[path = "../../../tests/programs/common.rs"]
mod common;
mod graph;
mod lasso;
mod lda;
mod libsvm;
mod logistic;
mod pagerank;
mod short;
mod sparse;
#[cfg(unix)]
mod stopped;
mod svi;
mod svm;
mod topics;
mod using;
mod words;
