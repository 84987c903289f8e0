//! The command `stradsap`: looks at the files that programs leave. `stradsap --help` says how.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    stradsap::__private::command_line(&words)
}
