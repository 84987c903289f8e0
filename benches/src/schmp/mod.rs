//! The programs of the scheduled-model-parallelism paper (STRADS, EuroSys 2016, section 5), drawn again: objective against
//! samples, samples against time, objective against time.

pub mod curve;
pub mod link;
pub mod pipeline;
pub mod plot;
pub mod programs;
pub mod regression;
pub mod statics;
pub mod study;
