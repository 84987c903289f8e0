//! A training run that ends early and goes on, as a person meets it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stradsap::Checkpoint;

use crate::common::{example, report, small_ratings, stderr, succeed};

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// The newest checkpoint's file.
fn newest(folder: &Path) -> Option<std::path::PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension().is_some_and(|extension| extension == "checkpoint")).max()
}

#[test]
fn a_resumed_run_ends_with_the_same_bits_and_the_whole_report() {
    let folder = tempfile::tempdir().unwrap();
    let (data, kept) = (small_ratings(folder.path()), folder.path().join("kept"));
    let common = ["--data", text(&data), "--rank", "8"];
    let whole = report("sgdmf", &[&common[..], &["--epochs", "7"]].concat());

    let saving = ["--checkpoint", text(&kept), "--checkpoint-every", "2"];
    let half = report("sgdmf", &[&common[..], &saving, &["--epochs", "5", "--threads", "1"]].concat());
    assert_ne!(half["model_digest"], whole["model_digest"]);
    let rest = report("sgdmf", &[&common[..], &saving, &["--epochs", "7", "--threads", "3", "--resume"]].concat());
    assert_eq!(rest["model_digest"], whole["model_digest"]);
    let objectives = |report: &serde_json::Value| -> Vec<_> {
        report["epochs"].as_array().unwrap().iter().map(|e| (e["epoch"].clone(), e["objective"].clone())).collect()
    };
    assert_eq!(objectives(&rest), objectives(&whole));

    // A newest file that is cut short costs two epochs, and is named.
    let newest = newest(&kept).unwrap();
    assert!(newest.ends_with("step-000000000006.checkpoint"));
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    let words = [&common[..], &saving, &["--epochs", "7", "--resume"]].concat();
    let said = stderr(&succeed("sgdmf", &words));
    assert!(said.contains(&format!("skipped a checkpoint: {}: damaged or cut short", newest.display())), "{said}");
    assert!(said.contains("going on after epoch 4 with"), "{said}");
    // The time may be another, and the times in the history are.
    Checkpoint::open(&newest).unwrap();
    assert_eq!(report("sgdmf", &words)["model_digest"], whole["model_digest"]);

    // Nothing is left to train.
    let done = report("sgdmf", &[&common[..], &saving, &["--epochs", "6", "--resume"]].concat());
    assert_eq!(done["epochs"].as_array().unwrap().len(), 6);
}

#[test]
fn a_killed_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (data, kept) = (small_ratings(folder.path()), folder.path().join("kept"));
    let words =
        ["--data", text(&data), "--rank", "8", "--checkpoint", text(&kept), "--checkpoint-every", "3", "--resume"];
    let mut run = example("sgdmf").args(words).args(["--epochs", "1000000"]).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while newest(&kept).is_none() {
        assert!(since.elapsed() < Duration::from_secs(60), "no checkpoint appears");
        std::thread::sleep(Duration::from_millis(1));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let step: u32 = newest(&kept).unwrap().file_stem().unwrap().to_str().unwrap()[5..].parse().unwrap();
    let epochs = (step + 4).to_string();
    let resumed = report("sgdmf", &[&words[..], &["--epochs", &epochs]].concat());
    let whole = report("sgdmf", &["--data", text(&data), "--rank", "8", "--epochs", &epochs]);
    assert_eq!(resumed["model_digest"], whole["model_digest"]);
    let mut names = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.ends_with(".unfinished")));
}

/// To all processes of the job, as a terminal and batch systems do.
fn tell(run: &Child, signal: &str) {
    let told = Command::new("kill").args([signal, "--", &format!("-{}", run.id())]).status().unwrap();
    assert!(told.success(), "kill {signal}");
}

/// Starts a run that would take for ever, waits for the end of an epoch, and sends it these signals. Gives its exit code, and what
/// it said.
fn told(words: &[&str], epoch: u32, signals: &[&str]) -> (Option<i32>, String) {
    let mut run = example("sgdmf");
    run.args(words).args(["--epochs", "1000000"]).process_group(0).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(run.stderr.take().unwrap());
    while !said.contains(&format!("epoch {epoch:>3}/")) {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    for signal in signals {
        tell(&run, signal);
        std::thread::sleep(Duration::from_millis(50));
    }
    lines.read_to_string(&mut said).unwrap();
    (run.wait().unwrap().code(), said)
}

#[test]
fn a_run_that_is_asked_to_end_keeps_its_last_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let common = ["--data", text(&data), "--rank", "8"];
    for (n, (signal, code, workers)) in
        [("-TERM", 143, "0"), ("-INT", 130, "2"), ("-USR1", 138, "0"), ("-TERM", 143, "2")].into_iter().enumerate()
    {
        let kept = folder.path().join(format!("kept {n}"));
        let saving = ["--checkpoint", text(&kept), "--checkpoint-every", "1000000", "--workers", workers];
        let words = [&common[..], &saving, &["--resume"]].concat();
        let (ended, said) = told(&words, 3, &[signal]);
        assert_eq!(ended, Some(code), "{said}");
        let last: Vec<&str> = said.lines().rev().take(2).collect();
        assert_eq!(last[0], format!("error: stopped by SIG{}", &signal[1..]), "{said}");
        let done: u32 = last[1].split_once(' ').unwrap().0.parse().unwrap();
        assert_eq!(
            last[1],
            format!("{done} epochs kept in {}: the same command with --resume goes on", kept.display())
        );
        assert!(done >= 3 && said.contains(&format!("epoch {done:>3}/")), "{said}");
        let epochs = (done + 4).to_string();
        let resumed = report("sgdmf", &[&words[..], &["--epochs", &epochs]].concat());
        let whole = report("sgdmf", &[&common[..], &["--epochs", &epochs]].concat());
        assert_eq!(resumed["model_digest"], whole["model_digest"], "{signal} with {workers} workers");
    }
    let (ended, said) = told(&common, 2, &["-TERM"]);
    assert_eq!(ended, Some(143));
    assert!(said.contains("epochs are lost: --checkpoint DIR would have kept them"), "{said}");
}

#[test]
fn a_second_signal_ends_a_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (data, kept) = (folder.path().join("many.csv"), folder.path().join("kept"));
    let rows = (0..250_000u64).map(|n| format!("u{},i{},3\n", n * 7919 % 4001, n * 104_729 % 3001));
    fs::write(&data, ["user,item,rating\n".to_string()].into_iter().chain(rows).collect::<String>()).unwrap();
    // An epoch takes longer than the pause between the two.
    let words = ["--data", text(&data), "--rank", "1000", "--checkpoint", text(&kept), "--checkpoint-every", "1000000"];
    // Within an epoch: a run that takes its time after the line of the first may end with it, and shows nothing.
    let told_within_an_epoch = |signals: &[&str]| loop {
        let (ended, said) = told(&words, 1, signals);
        if !said.contains("1 epoch kept in") {
            break (ended, said);
        }
        fs::remove_dir_all(&kept).unwrap();
    };
    for (signals, code) in [(["-TERM", "-TERM"], 143), (["-INT", "-TERM"], 143), (["-TERM", "-INT"], 130)] {
        let (ended, said) = told_within_an_epoch(&signals);
        assert_eq!(ended, Some(code), "{said}");
        assert!(!said.contains("kept in") && newest(&kept).is_none(), "{said}");
    }
    // A warning is no order.
    let (ended, said) = told_within_an_epoch(&["-USR1", "-TERM"]);
    assert_eq!(ended, Some(143), "{said}");
    assert!(said.contains("kept in") && newest(&kept).is_some(), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_is_for_one_job_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let refused = |kept: &Path, more: &[&str]| {
        let words = ["--data", text(&data), "--rank", "8", "--epochs", "3", "--checkpoint", text(kept)];
        let output = example("sgdmf").args(words).args(more).output().unwrap();
        (output.status.code(), stderr(&output).lines().last().unwrap_or_default().to_owned())
    };
    for round in 0..3 {
        // Two that start at the same moment.
        let kept = folder.path().join(format!("kept-{round}"));
        let words =
            ["--data", text(&data), "--rank", "8", "--checkpoint", text(&kept), "--resume", "--epochs", "1000000"];
        let start = || example("sgdmf").args(words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut both = [start(), start()];
        let since = Instant::now();
        let loser = loop {
            let ended = both.iter_mut().position(|run| run.try_wait().unwrap().is_some());
            match ended {
                Some(loser) if newest(&kept).is_some() => break loser,
                _ => assert!(since.elapsed() < Duration::from_secs(60), "nobody is refused"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let [first, second] = both;
        let (loser, mut winner) = if loser == 0 { (first, second) } else { (second, first) };
        let loser = loser.wait_with_output().unwrap();
        let holder = format!("{} is in use by process {} on ", kept.display(), winner.id());
        let said = stderr(&loser);
        assert!(loser.status.code() == Some(2) && said.contains(&holder), "{said}");
        for more in [&[][..], &["--resume"]] {
            let (status, said) = refused(&kept, more);
            assert!(status == Some(2) && said.contains(&holder), "{said}");
        }
        // Reading needs no lock, and the job goes on.
        Checkpoint::open(newest(&kept).unwrap()).ok();
        assert!(winner.try_wait().unwrap().is_none());
        // However the holder ends, the folder is free.
        winner.kill().unwrap();
        winner.wait().unwrap();
        let step: u32 = newest(&kept).unwrap().file_stem().unwrap().to_str().unwrap()[5..].parse().unwrap();
        let epochs = (step + 1).to_string();
        succeed("sgdmf", &[&words[..7], &["--epochs", &epochs]].concat());
        assert!(!kept.join(".stradsap.lock").exists());
    }
}

#[test]
fn checkpoints_of_another_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (data, kept) = (small_ratings(folder.path()), folder.path().join("kept"));
    let words = ["--data", text(&data), "--rank", "8", "--epochs", "2", "--checkpoint", text(&kept)];
    // The same command line begins and goes on, as in the script of a batch system.
    let said = stderr(&succeed("sgdmf", &[&words[..], &["--resume"]].concat()));
    assert!(said.contains("yet: beginning with epoch 1"), "{said}");

    let fail = |more: &[&str]| {
        let output = example("sgdmf").args(words).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        stderr(&output).lines().last().unwrap().to_owned()
    };
    assert!(fail(&[]).ends_with("holds checkpoints up to step 2: resume from them, or give a folder without any"));
    let said = fail(&["--resume", "--seed", "2"]);
    assert!(said.contains("is of another run: ") && said.contains("--seed 1; this one: "), "{said}");
}
