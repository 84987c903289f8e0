//! What the macros accept, and what they say about mistakes: `ui/pass` holds programs that must build and run,
//! `ui` one program for every kind of mistake, with the messages beside it.
//!
//! Messages that come from rustc itself change with its version, so they are compared only under the version that they
//! were taken from. `TRYBUILD=overwrite cargo test -p stradsap-tests --test ui` writes them anew.

use std::process::Command;

/// The version of rustc whose messages stand in `ui`.
const RUSTC: &str = "rustc 1.95.";

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    let rustc = Command::new("rustc").arg("--version").output().expect("rustc is there, since this was built");
    let version = String::from_utf8_lossy(&rustc.stdout);
    if version.starts_with(RUSTC) || std::env::var_os("TRYBUILD").is_some() {
        cases.compile_fail("ui/*.rs");
    } else {
        eprintln!("messages are not compared: they are those of {RUSTC}x, and this is {}", version.trim());
    }
}
