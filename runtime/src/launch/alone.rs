//! A program that was built without the feature `cluster`: it is the only process, and says so where more are asked for.

use std::process::ExitCode;

use crate::launch::roles::{DriverRole, ServerRole, WorkerRole, Workers};
use crate::session::Session;
use crate::session::error::{Error, Result};

fn refused<T>(asked: &str) -> Result<T> {
    Err(Error::usage(format!("{asked}, but this program was built without the feature `cluster` of stradsap")))
}

pub(super) fn start_workers(_: &Session, role: &DriverRole) -> Result<()> {
    match role.workers {
        Workers::None => Ok(()),
        Workers::Spawn(n) => refused(&format!("STRADSAP_WORKERS asks for {n} worker processes")),
        Workers::Join(n) => refused(&format!("this process is to drive {n} workers that join it")),
    }
}

pub(super) fn work(_: &WorkerRole) -> Result<ExitCode> {
    refused("this process is to be a worker (--join, STRADSAP_ROLE or a launcher says so)")
}

pub(super) fn serve(_: &ServerRole) -> Result<ExitCode> {
    refused("this process is to be a DDS server (STRADSAP_ROLE says so)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::roles::{Role, role};

    /// What comes of a command line and an environment.
    fn said(line: &str, variables: &[(&str, &str)]) -> Result<()> {
        let args = line.split_whitespace().map(Into::into);
        let env = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        match role(args, &env)? {
            Role::Driver(role) => start_workers(&Session::new()?, &role),
            Role::Worker(role) => work(&role).map(drop),
            Role::Server(role) => serve(&role).map(drop),
        }
    }

    #[test]
    fn who_asks_for_processes_that_cannot_be_is_told() {
        let rank =
            |n| [("OMPI_COMM_WORLD_SIZE", "3"), ("OMPI_COMM_WORLD_RANK", n), ("STRADSAP_JOB", "j"), ("HOME", "/")];
        for (line, variables) in [
            ("", &[("STRADSAP_WORKERS", "2")][..]),
            ("", &[("STRADSAP_WORKERS", "cores")]),
            ("", &[("STRADSAP_WORKERS", "2"), ("STRADSAP_LISTEN", "h:9")]),
            ("", &[("STRADSAP_ROLE", "worker"), ("STRADSAP_JOIN", "h:9")]),
            ("", &[("STRADSAP_ROLE", "server"), ("STRADSAP_JOIN", "h:9")]),
            ("--join h:9", &[]),
            ("", &rank("0")),
            ("", &rank("1")),
        ] {
            let error = said(line, variables).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().ends_with("was built without the feature `cluster` of stradsap"), "{error}");
        }
        for variables in [&[][..], &[("STRADSAP_WORKERS", "0")], &[("STRADSAP_TRACE", "t.json")]] {
            said("", variables).unwrap();
        }
    }
}
