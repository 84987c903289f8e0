//! What `#[stradsap::main]` expands to: a session, the user's function, and an exit code.

#[cfg(any(test, not(feature = "cluster")))]
mod alone;
mod launcher;
mod pmi;
pub(crate) mod roles;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(not(feature = "cluster"))]
use self::alone as processes;
#[cfg(feature = "cluster")]
use crate::cluster::launch as processes;
use crate::launch::roles::{DriverRole, Role};
use crate::session::error::Error;
use crate::session::{Session, record_launch};
use crate::session::{late, logging};

/// What a program's main function may return.
#[diagnostic::on_unimplemented(
    message = "`#[stradsap::main]` can't end a program with `{Self}`",
    note = "return `()` or a `Result<(), E>` whose error converts into `Box<dyn std::error::Error>`"
)]
pub trait MainOutcome {
    #[doc(hidden)]
    fn report(self) -> ExitCode;
}

impl MainOutcome for () {
    fn report(self) -> ExitCode {
        ExitCode::SUCCESS
    }
}

impl<E: Into<Box<dyn std::error::Error>>> MainOutcome for Result<(), E> {
    fn report(self) -> ExitCode {
        match self {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let error = error.into();
                eprintln!("error: {error}");
                ExitCode::from(error.downcast_ref::<Error>().map_or(1, Error::exit_code))
            }
        }
    }
}

/// Runs a program's main function with the session that the environment asks for; or, where this process is a worker or
/// a DDS server of a job, does what the job's driver says, and never enters that function.
pub fn launch<R: MainOutcome>(main: fn(&Session) -> R) -> ExitCode {
    record_launch();
    let role = roles::here();
    let name = match &role {
        Ok(Role::Driver(_)) | Err(_) => "driver",
        Ok(Role::Worker(_)) => "worker",
        Ok(Role::Server(_)) => "server",
    };
    // What is held back is written when everything else has ended.
    let (role, _logging) = match role.and_then(|role| Ok((role, logging::start(name)?))) {
        Ok(both) => both,
        Err(error) => return Err::<(), _>(error).report(),
    };
    let ended = match role {
        Role::Driver(role) => return drive(&role, main),
        Role::Worker(role) => processes::work(&role),
        Role::Server(role) => processes::serve(&role),
    };
    ended.unwrap_or_else(|error| Err::<(), _>(error).report())
}

fn drive<R: MainOutcome>(role: &DriverRole, main: fn(&Session) -> R) -> ExitCode {
    let session = Session::new().and_then(|session| {
        processes::start_workers(&session, role)?;
        if session.workers() == 0
            && let Some(path) = &role.trace
        {
            session.trace(path)?;
        }
        Ok(session)
    });
    match session {
        Ok(session) => {
            let ended = main(&session).report();
            drop(session);
            // What it wrote when it ended, and what the program has said so far.
            let said = std::io::stdout().flush();
            let said = said.map_err(|source| Error::File { path: PathBuf::from("standard output"), source });
            let told = [late::take().map_or(Ok(()), Err), said].map(MainOutcome::report);
            [ended].into_iter().chain(told).find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
        }
        Err(error) => Err::<(), _>(error).report(),
    }
}
