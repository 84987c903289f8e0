//! Runs example programs as a person would.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An example program, which lies beside the folder of the test programs.
pub(crate) fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("the path of this test");
    let built = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join("examples").join(name);
    let built = built.with_extension(std::env::consts::EXE_EXTENSION);
    assert!(built.is_file(), "{} is missing: run `cargo build --examples` first", built.display());
    Command::new(built)
}

/// Runs an example, and expects it to succeed.
pub(crate) fn succeed(name: &str, arguments: &[&str]) -> Output {
    let output = example(name).args(arguments).output().expect("the example starts");
    assert!(output.status.success(), "{name} {arguments:?}: {}", stderr(&output));
    output
}

/// What a program said on standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The report of a run with these arguments.
pub(crate) fn report(name: &str, arguments: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("report.json");
    let path_text = path.to_str().expect("a UTF-8 path");
    succeed(name, &[arguments, &["--report", path_text]].concat());
    let text = std::fs::read_to_string(&path).expect("the report");
    serde_json::from_str(&text).expect("JSON")
}

/// Ratings of 40 users and 30 items, written as `user,item,rating` lines.
pub(crate) fn small_ratings(folder: &Path) -> PathBuf {
    let path = folder.join("small.csv");
    let mut text = String::from("user,item,rating\n");
    for n in 0..600u32 {
        let (user, item) = (n * 7 % 40, n * 11 % 30);
        text.push_str(&format!("u{user},i{item},{}\n", 1 + (user * item + n % 3) % 5));
    }
    std::fs::write(&path, text).expect("a temporary file");
    path
}
