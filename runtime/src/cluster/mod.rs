//! The same program on many processes.
#![allow(dead_code)]

pub(crate) mod children;
pub(crate) mod host;
pub(crate) mod launcher;
pub(crate) mod pmi;
pub(crate) mod rendezvous;
pub(crate) mod roles;
