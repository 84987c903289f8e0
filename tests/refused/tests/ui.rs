//! What the macros say about mistakes: `ui` has one program for every kind of mistake, with the messages beside it.
//!
//! Messages that come from rustc itself change with its version, so they are compared only under the version that they
//! were taken from. `TRYBUILD=overwrite cargo test -p stradsap-test-refused` writes them anew.
//!
//! A program that builds stands beside them, since some mistakes are found only by a build, which trybuild does if one passes.
//! The others that the macros accept are in `tests/tests/accepted`.

use std::env;
use std::process::Command;

/// The version of rustc whose messages stand in `ui`.
const RUSTC: &str = "rustc 1.95.";

/// The flags that trybuild gives to programs but not to what they depend on, which cargo would compile twice therefore.
const FLAGS: &str = "--cfg\x1ftrybuild\x1f--verbose\x1f-A\x1fdead_code\x1f--diagnostic-width=140";
const VARIABLE: &str = "CARGO_ENCODED_RUSTFLAGS";

#[test]
fn ui() {
    // Cargo prefers this variable to the options that trybuild gives it, and only a new process can safely have another one.
    if env::var(VARIABLE).as_deref() != Ok(FLAGS) {
        let again = env::current_exe().expect("this executable");
        let mut again = Command::new(again);
        // What is built is never looked at in a debugger.
        again.args(["--exact", "ui", "--nocapture"]).env(VARIABLE, FLAGS).env("CARGO_PROFILE_DEV_DEBUG", "0");
        let status = again.status();
        assert!(status.expect("this executable starts").success(), "see above");
        return;
    }
    let rustc = Command::new("rustc").arg("--version").output().expect("rustc is there, since this was built");
    let version = String::from_utf8_lossy(&rustc.stdout);
    if !version.starts_with(RUSTC) && env::var_os("TRYBUILD").is_none() {
        eprintln!("messages are not compared: they are those of {RUSTC}x, and this is {}", version.trim());
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    cases.compile_fail("ui/*.rs");
}
