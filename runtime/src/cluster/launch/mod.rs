//! How the processes of a job are started and find each other.

pub(crate) mod children;
pub(crate) mod host;
pub(crate) mod rendezvous;
pub(crate) mod server;
mod stderr;

pub(crate) use crate::cluster::launch::server::run as serve;
pub(crate) use crate::cluster::worker::run as work;

use crate::cluster::driver::ClusterOptions;
use crate::launch::roles::DriverRole;
use crate::session::Session;
use crate::session::error::Result;

/// Starts or awaits the workers that a driver's role asks for.
pub(crate) fn start_workers(session: &Session, role: &DriverRole) -> Result<()> {
    ClusterOptions::of_role(role).map_or(Ok(()), |options| session.start_workers(&options))
}

#[cfg(test)]
mod launcher_tests;
