//! The role of this process, and how the processes of a job are started and find each other.

pub(crate) mod children;
pub(crate) mod host;
pub(crate) mod launcher;
pub(crate) mod pmi;
pub(crate) mod rendezvous;
pub(crate) mod roles;
pub(crate) mod server;
