//! Topics by Gibbs sampling: the parallel program beside its twin, the same bits wherever it runs, and what is left behind.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stradsap::random::Stream;

use crate::common::{example, report, stderr};

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Documents of one or two of four topics, each with words of its own.
pub(crate) fn known(folder: &Path) -> PathBuf {
    let mut dice = Stream::new(5, 2).sequence(0);
    let (documents, words) = (300usize, 160usize);
    let mut lines = Vec::new();
    for document in 0..documents {
        let mut counts = vec![0u32; words];
        for _ in 0..60 + document % 50 {
            let topic = if dice.unit() < 0.8 { document % 4 } else { document / 4 % 4 };
            let word = (dice.unit() * dice.unit() * (words / 4) as f32) as usize;
            counts[topic + 4 * word] += 1;
        }
        let there = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        lines.extend(there.map(|(word, count)| format!("{} {} {count}", document + 1, word + 1)));
    }
    let path = folder.join("docword.known.txt");
    fs::write(&path, format!("{documents}\n{words}\n{}\n{}\n", lines.len(), lines.join("\n"))).unwrap();
    path
}

fn objectives(report: &Value) -> Vec<f64> {
    report["epochs"].as_array().unwrap().iter().map(|epoch| epoch["objective"].as_f64().unwrap()).collect()
}

#[test]
fn threads_and_processes_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let data = known(folder.path());
    for topics in ["8", "300"] {
        // With --verify every loop is replayed, and tables, totals and assignments are compared after each epoch.
        let common = ["--data", text(&data), "--topics", topics, "--epochs", "3", "--parts", "5", "--verify"];
        let alone = report("lda", &[&common[..], &["--threads", "1"]].concat());
        assert_eq!(alone["loops"][0]["strategy"], "grid");
        for more in [
            &["--threads", "2"][..],
            &["--threads", "3"],
            &["--threads", "4"],
            &["--workers", "1", "--threads", "2"],
            &["--workers", "2", "--threads", "1"],
            &["--workers", "3", "--threads", "1", "--dds-servers", "1"],
            &["--workers", "2", "--threads", "2", "--dds-servers", "2", "--home", "servers"],
            &["--workers", "4", "--threads", "2"],
        ] {
            let other = report("lda", &[&common[..], more].concat());
            assert_eq!(other["model_digest"], alone["model_digest"], "{topics} topics, {more:?}");
            assert_eq!(objectives(&other), objectives(&alone));
            assert_eq!(other["epochs"][0]["s_error"], alone["epochs"][0]["s_error"]);
        }
    }
}

#[test]
fn one_part_is_the_twin() {
    let folder = tempfile::tempdir().unwrap();
    let data = known(folder.path());
    for topics in ["7", "270"] {
        let common = ["--data", text(&data), "--topics", topics, "--epochs", "3"];
        let twin = report("lda_sequential", &common);
        let own = report("lda", &[&common[..], &["--parts", "1"]].concat());
        assert_eq!(own["model_digest"], twin["model_digest"]);
        let (own, twin) = (objectives(&own), objectives(&twin));
        assert!(own.iter().zip(&twin).all(|(own, twin)| (own / twin - 1.0).abs() < 1e-12), "{own:?}, not {twin:?}");
    }
}

#[test]
fn the_likelihood_is_the_twin_s() {
    let folder = tempfile::tempdir().unwrap();
    let data = known(folder.path());
    let common = ["--data", text(&data), "--topics", "4", "--epochs", "40", "--alpha", "0.5"];
    let twin = *objectives(&report("lda_sequential", &common)).last().unwrap();
    for more in [&["--parts", "6"][..], &["--parts", "8", "--staleness", "100"]] {
        let own = report("lda", &[&common[..], more].concat());
        let reached = *objectives(&own).last().unwrap();
        assert!((reached / twin - 1.0).abs() < 0.01, "{more:?}: {reached}, the twin {twin}");
        let s_errors: Vec<f64> =
            own["epochs"].as_array().unwrap().iter().map(|epoch| epoch["s_error"].as_f64().unwrap()).collect();
        assert!(s_errors.iter().all(|&error| (0.0..=2.0).contains(&error)) && s_errors[0] > 0.0, "{s_errors:?}");
    }
}

#[test]
fn known_topics_are_found_and_stored() {
    let folder = tempfile::tempdir().unwrap();
    let data = known(folder.path());
    let output = folder.path().join("model");
    let arguments = ["--data", text(&data), "--topics", "4", "--epochs", "60", "--top-words", "6"];
    report("lda", &[&arguments[..], &["--output", text(&output)]].concat());
    let topics = fs::read_to_string(output.join("topics.txt")).unwrap();
    let mut found = Vec::new();
    for line in topics.lines() {
        let words: Vec<usize> = line
            .split(": ")
            .nth(1)
            .unwrap()
            .split(' ')
            .map(|word| (word.strip_prefix("word-").unwrap().parse::<usize>().unwrap() - 1) % 4)
            .collect();
        assert!(words.len() == 6 && words.iter().all(|&topic| topic == words[0]), "{topics}");
        found.push(words[0]);
    }
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3]);
    let tokens = |name: &str, header: &str| -> u64 {
        let text = fs::read_to_string(output.join(name)).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(header));
        lines.map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let in_documents = tokens("document-topics.tsv", "document\ttopic\tcount");
    assert_eq!(in_documents, tokens("word-topics.tsv", "word\ttopic\tcount"));
    assert_eq!(in_documents, (0..300u64).map(|d| 60 + d % 50).sum::<u64>());
}

#[test]
fn a_run_that_goes_on_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let data = known(folder.path());
    let saved = folder.path().join("saved");
    for topics in ["6", "280"] {
        let common = ["--data", text(&data), "--topics", topics, "--parts", "4"];
        let whole = report("lda", &[&common[..], &["--epochs", "5"]].concat());
        let _ = fs::remove_dir_all(&saved);
        report("lda", &[&common[..], &["--epochs", "2", "--checkpoint", text(&saved)]].concat());
        let rest = ["--epochs", "5", "--checkpoint", text(&saved), "--resume", "--workers", "2", "--threads", "1"];
        let resumed = report("lda", &[&common[..], &rest].concat());
        assert_eq!(resumed["model_digest"], whole["model_digest"]);
        assert_eq!(objectives(&resumed), objectives(&whole));
    }
}

#[test]
fn the_rotation_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let data = known(folder.path());
    let output = example("lda")
        .args(["--data", text(&data), "--epochs", "1", "--topics", "5", "--parts", "4", "--explain"])
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(said.contains("4 parts of `documents`, 4 parts of `words`, passed on in a rotation"), "{said}");
    assert!(said.contains("4 strata; reads of relaxed state lag behind by up to 2"), "{said}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (arguments, expected) in [
        (&["--topics", "0"][..], "1..=65534"),
        (&["--topics", "65535"], "1..=65534"),
        (&["--alpha", "0"], "a number above 0"),
        (&["--beta=-1"], "a number above 0"),
        (&["--staleness", "0"], "1.."),
        (&["--parts", "0"], "1..=256"),
    ] {
        let output = example("lda").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}
