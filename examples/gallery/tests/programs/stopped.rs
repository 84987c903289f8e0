//! Runs that are asked to end at any moment, and go on: with the bits of one that nobody disturbed.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-gallery --test programs stopped` asks at 20 moments of each run instead of 2.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stradsap::random::Stream;

use crate::common::{example, report, small_ratings};

const SIGTERM: i32 = 15;

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Runs a program and asks all of its processes to end after a while. It says how to go on, if it has not ended
/// before.
fn ask_to_end(program: &str, words: &[&str], after: Duration) {
    let mut run = example(program);
    run.args(words).process_group(0).stdout(Stdio::null()).stderr(Stdio::piped());
    let run = run.spawn().unwrap();
    std::thread::sleep(after);
    // It may have ended by now.
    let group = format!("-{}", run.id());
    let _told = Command::new("kill").args(["-TERM", "--", &group]).stderr(Stdio::null()).status().unwrap();
    let ended = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    match (ended.status.code(), ended.status.signal()) {
        (Some(0), None) => {}
        (Some(143), None) => {
            assert!(said.contains("the same command with --resume goes on"), "{program} {words:?}: {said}");
            assert!(said.ends_with("error: stopped by SIGTERM\n"), "{program} {words:?}: {said}");
        }
        // Before it had got as far as its session.
        (None, Some(SIGTERM)) => {}
        _ => panic!("{program} {words:?}: {}: {said}", ended.status),
    }
}

#[test]
fn a_run_that_is_asked_to_end_at_any_moment_goes_on_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let ratings = small_ratings(folder.path());
    let documents = crate::lda::known(folder.path());
    let words = crate::words::topics(folder.path(), 400);
    let rows = crate::sparse::Data::new(60, 90, 2, 0.3).write(folder.path(), "data");
    let programs: [(&str, &[&str]); 4] = [
        ("sgdmf", &["--data", text(&ratings), "--rank", "8", "--epochs", "60"]),
        ("lda", &["--data", text(&documents), "--topics", "6", "--parts", "4", "--epochs", "30"]),
        ("word2vec", &["--data", text(&words), "--size", "8", "--sync", "bsp", "--epochs", "12"]),
        ("lasso", &["--data", text(&rows), "--lambda-ratio", "0.01", "--tolerance", "1e-12", "--epochs", "30"]),
    ];
    let moments = if std::env::var_os("STRADSAP_LONG").is_some_and(|long| long == "1") { 20 } else { 2 };
    let mut random = Stream::new(7, 1).sequence(0);
    for (program, own) in programs {
        for workers in ["0", "3"] {
            let own = [own, &["--threads", "1", "--workers", workers]].concat();
            let since = Instant::now();
            let whole = report(program, &own);
            let takes = since.elapsed();
            for moment in 0..moments {
                let kept = folder.path().join(format!("{program}-{workers}-{moment}"));
                let saving = ["--checkpoint", text(&kept), "--checkpoint-every", "1000", "--resume"];
                let words = [&own[..], &saving].concat();
                let after = takes.mul_f32(random.unit());
                ask_to_end(program, &words, after);
                let resumed = report(program, &words);
                let case = format!("{program}, {workers} workers, after {after:?} of {takes:?}");
                assert_eq!(resumed["model_digest"], whole["model_digest"], "{case}");
                assert_eq!(
                    resumed["epochs"].as_array().unwrap().len(),
                    whole["epochs"].as_array().unwrap().len(),
                    "{case}"
                );
            }
        }
    }
}
