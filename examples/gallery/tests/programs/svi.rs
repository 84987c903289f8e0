//! Topics by variational inference: the parallel program beside its twin, known topics found again, and what is left behind.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stradsap::random::Stream;

use crate::common::{example, report, stderr, succeed};

const PROGRAMS: &[&str] = &["lda-svi", "lda-svi_sequential"];

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

fn objectives(report: &Value) -> Vec<f64> {
    report["epochs"].as_array().unwrap().iter().map(|epoch| epoch["objective"].as_f64().unwrap()).collect()
}

/// Topics of the corpus that is written below, and the words that each has for itself.
const TOPICS: usize = 4;
const WORDS: usize = 30;

/// Documents of one or two topics each, whose words are those of their topics, some of them often, most of them rarely.
/// Gives the corpus, and the perplexity of its words for who knows the topics' words and each document's topics.
fn known(folder: &Path) -> (PathBuf, f64) {
    let random = Stream::new(11, 1);
    let mut dice = random.sequence(0);
    let weights: Vec<f64> = (0..WORDS).map(|w| 1.0 / (w + 2) as f64).collect();
    let all: f64 = weights.iter().sum();
    let (mut lines, mut log, mut tokens) = (Vec::new(), 0.0, 0.0);
    for document in 0..400usize {
        let (first, second) = (document % TOPICS, (document / TOPICS) % TOPICS);
        let mut counts = vec![0u32; TOPICS * WORDS];
        for _ in 0..120 {
            let topic = if dice.unit() < 0.7 { first } else { second };
            let mut point = f64::from(dice.unit()) * all;
            let word = weights.iter().position(|w| {
                point -= w;
                point < 0.0
            });
            counts[topic * WORDS + word.unwrap_or(0)] += 1;
        }
        for (word, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            lines.push(format!("{} {} {count}", document + 1, word + 1));
            let share = |topic: usize, part| if word / WORDS == topic { part } else { 0.0 };
            let likelihood = (share(first, 0.7) + share(second, 0.3)) * weights[word % WORDS] / all;
            log -= f64::from(count) * likelihood.ln();
            tokens += f64::from(count);
        }
    }
    let path = folder.join("docword.known.txt");
    fs::write(&path, format!("400\n{}\n{}\n{}\n", TOPICS * WORDS, lines.len(), lines.join("\n"))).unwrap();
    let names: Vec<_> =
        (0..TOPICS * WORDS).map(|w| format!("{}{}", ["a", "b", "c", "d"][w / WORDS], w % WORDS)).collect();
    fs::write(folder.join("vocab.known.txt"), names.join("\n")).unwrap();
    (path, (log / tokens).exp())
}

#[test]
fn known_topics_are_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (data, best) = known(folder.path());
    let output = folder.path().join("model");
    for (program, more) in [("lda-svi_sequential", &[][..]), ("lda-svi", &["--threads", "3"])] {
        let arguments =
            ["--data", text(&data), "--topics", "4", "--epochs", "10", "--top-words", "5", "--output", text(&output)];
        let report = report(program, &[&arguments, more].concat());
        let reached = *objectives(&report).last().unwrap();
        // Half of each document says a little less about its topics than knowing them.
        assert!(reached < 1.06 * best && reached > 0.94 * best, "{program}: {reached}, at best {best}");
        let topics = fs::read_to_string(output.join("topics.txt")).unwrap();
        let mut found: Vec<&str> = Vec::new();
        for line in topics.lines() {
            let words: Vec<&str> = line.split(": ").nth(1).unwrap().split(' ').collect();
            assert_eq!(words.len(), 5, "{line}");
            assert!(words.iter().all(|word| word[..1] == words[0][..1]), "{program}: {topics}");
            found.push(&words[0][..1]);
        }
        found.sort_unstable();
        assert_eq!(found, ["a", "b", "c", "d"], "{program}");
        // A row a word, a column a topic: of the words of topic "a", one column has nearly all.
        let bytes = fs::read(output.join("words.npy")).unwrap();
        let header = String::from_utf8_lossy(&bytes[10..128]).into_owned();
        assert!(header.contains("'shape': (120, 4)"), "{header}");
        let numbers: Vec<f32> = bytes[128..].as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
        assert_eq!(numbers.len(), 480);
        let sums: Vec<f32> = (0..4).map(|k| (0..WORDS).map(|w| numbers[w * 4 + k]).sum()).collect();
        let most = sums.iter().copied().fold(0.0, f32::max);
        assert!(most > 0.95 * sums.iter().sum::<f32>(), "{sums:?}");
    }
}

#[test]
fn one_copy_has_the_bits_of_the_twin() {
    let folder = tempfile::tempdir().unwrap();
    let (data, _) = known(folder.path());
    // 21 topics: the last strip of a row is filled up.
    let common = ["--data", text(&data), "--topics", "21", "--epochs", "3"];
    let twin = report("lda-svi_sequential", &common);
    for policy in ["model-average", "bsp", "ssp", "hybrid"] {
        let own = report("lda-svi", &[&common[..], &["--threads", "1", "--sync", policy]].concat());
        assert_eq!(own["model_digest"], twin["model_digest"], "{policy}");
        for (own, twin) in objectives(&own).into_iter().zip(objectives(&twin)) {
            assert!((own / twin - 1.0).abs() < 1e-9, "{policy}: {own}, not {twin}");
        }
    }
}

#[test]
fn copies_are_the_same_on_threads_and_on_processes() {
    let folder = tempfile::tempdir().unwrap();
    let (data, _) = known(folder.path());
    let common = ["--data", text(&data), "--topics", "8", "--epochs", "3"];
    for policy in ["model-average", "bsp"] {
        let run = |more: &[&str]| report("lda-svi", &[&common[..], &["--sync", policy], more].concat());
        let (one, threads) = (run(&["--threads", "1"]), run(&["--threads", "2"]));
        let workers = run(&["--workers", "2", "--threads", "1"]);
        assert_eq!(threads["model_digest"], workers["model_digest"], "{policy}");
        assert_eq!(objectives(&threads), objectives(&workers), "{policy}");
        assert_ne!(threads["model_digest"], one["model_digest"], "{policy}");
        assert!(workers["epochs"][0]["bytes_sent"].as_u64().unwrap() > 0);
    }
    report("lda-svi", &[&common[..], &["--threads", "2", "--verify"]].concat());
}

#[test]
fn averages_are_as_good_as_the_twin() {
    let run = |program, more: &[&str]| {
        let common = ["--topics", "20", "--epochs", "4", "--top-words", "0"];
        *objectives(&report(program, &[&common, more].concat())).last().unwrap()
    };
    let twin = run("lda-svi_sequential", &[]);
    for threads in ["2", "3"] {
        let copies = run("lda-svi", &["--threads", threads]);
        assert!(copies < 1.01 * twin, "{threads} copies: {copies}, sequential {twin}");
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let ((data, _), kept) = (known(folder.path()), folder.path().join("kept"));
    let common = ["--data", text(&data), "--topics", "5", "--threads", "2"];
    let whole = report("lda-svi", &[&common[..], &["--epochs", "4"]].concat());
    let saving = ["--checkpoint", text(&kept)];
    report("lda-svi", &[&common[..], &saving, &["--epochs", "2"]].concat());
    let rest = report("lda-svi", &[&common[..], &saving, &["--epochs", "4", "--resume"]].concat());
    assert_eq!(rest["model_digest"], whole["model_digest"]);
    assert_eq!(objectives(&rest), objectives(&whole));
    let other = ["--epochs", "4", "--resume", "--eta", "0.2"];
    let output = example("lda-svi").args([&common[..], &saving, &other].concat()).output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("is of another run"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_trained_on_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (data, _) = known(folder.path());
    let bad = folder.path().join("docword.bad.txt");
    fs::write(&bad, "2\n3\n2\n1 1 1\n3 1 1\n").unwrap();
    let one = folder.path().join("docword.one.txt");
    fs::write(&one, "1\n3\n1\n1 1 1\n").unwrap();
    for program in PROGRAMS {
        let fails = |arguments: &[&str]| {
            let output = example(program).args(arguments).args(["--epochs", "2"]).output().unwrap();
            assert!(!output.status.success(), "{arguments:?}");
            let said = stderr(&output);
            said.lines().last().unwrap().to_owned()
        };
        assert_eq!(
            fails(&["--data", text(&bad)]),
            format!("error: {}:5:1: the document is 3; a number from 1 to 2 was expected", bad.display())
        );
        let told = fails(&["--data", text(&data), "--test-fraction", "0"]);
        assert_eq!(
            told,
            format!(
                "error: {}: no document of two words or more is kept for the test: expected more documents, or another \
                 --test-fraction",
                data.display()
            )
        );
        let told = fails(&["--data", text(&one), "--test-fraction", "0.9999999"]);
        assert_eq!(told, format!("error: {}: no document is left to train on (--test-fraction)", one.display()));
        assert_eq!(
            fails(&["--topics", "0"]),
            "error: invalid value '0' for '--topics <K>': expected a whole number of at least 1"
        );
        assert_eq!(
            fails(&["--kappa", "0.5"]),
            "error: invalid value '0.5' for '--kappa <KAPPA>': expected a number above 0.5 and up to 1"
        );
    }
}

#[test]
fn the_topics_words_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let (data, _) = known(folder.path());
    for program in PROGRAMS {
        let output = succeed(program, &["--data", text(&data), "--topics", "12", "--epochs", "1", "--top-words", "3"]);
        let lines = String::from_utf8(output.stdout).unwrap();
        assert_eq!(lines.lines().filter(|line| line.starts_with("topic ")).count(), 12, "{lines}");
        assert!(lines.starts_with("topic  0: ") && lines.contains("\ntopic 11: "), "{lines}");
    }
}
