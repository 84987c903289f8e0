//! What `#[stradsap::main]` expands to: a session, the user's function, and an exit code.

use std::process::ExitCode;

use crate::error::Error;
use crate::session::Session;

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

/// Runs a program's main function with the session that the environment asks for.
pub fn launch<R: MainOutcome>(main: fn(&Session) -> R) -> ExitCode {
    match Session::new() {
        Ok(session) => main(&session).report(),
        Err(error) => Err::<(), _>(error).report(),
    }
}
