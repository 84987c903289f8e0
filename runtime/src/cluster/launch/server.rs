//! This program as a DDS server, where no binary for that is at hand.

use std::process::ExitCode;

use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::server::{self, ServerConfig};

use crate::cluster::wire::join;
use crate::launch::roles::{Join, ServerRole};
use crate::session::error::{ClusterError, Error, Result};

/// The most bytes of snapshots that a server holds.
const MEMORY: u64 = 1 << 40;

/// A server from its start to its end.
pub(crate) fn run(role: &ServerRole) -> Result<ExitCode> {
    let problem = |what: &dyn std::fmt::Display| Error::Cluster(ClusterError::Join(what.to_string()));
    let Join::Address(address) = &role.join else {
        return Err(Error::usage("a DDS server joins at an address: STRADSAP_JOIN=HOST:PORT"));
    };
    let secret = Secret::from_environment().map_err(|error| problem(&error))?;
    let secret = secret.ok_or_else(|| Error::usage("a DDS server needs the job's secret: set STRADSAP_SECRET"))?;
    let config = ServerConfig {
        index: role.index,
        generation: u32::try_from(role.generation).unwrap_or(u32::MAX),
        explicit_secret: true,
        spill: server::spill(None, MEMORY).map_err(Error::usage)?,
        ..ServerConfig::new(address, secret, MEMORY)
    };
    join::runtime()?.block_on(server::run(config)).map_err(|error| problem(&error))?;
    Ok(ExitCode::SUCCESS)
}
