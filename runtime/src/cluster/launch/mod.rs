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
use crate::session::logging::warning;

/// Starts or awaits the workers that a driver's role asks for.
pub(crate) fn start_workers(session: &Session, role: &DriverRole) -> Result<()> {
    if let Some(options) = ClusterOptions::of_role(role) {
        return session.start_workers(&options);
    }
    for (given, name) in [(role.listen.is_some(), "STRADSAP_LISTEN"), (role.servers > 0, "STRADSAP_DDS_SERVERS")] {
        if given {
            warning!("{name} is ignored: STRADSAP_WORKERS doesn't ask for workers");
        }
    }
    Ok(())
}

#[cfg(test)]
mod launcher_tests;
