//! Word vectors as a person gets them: the parallel program beside its twin, files, scores, and what is wrong with input.

#![allow(clippy::unwrap_used, reason = "what reads a report for a test is part of it")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stradsap::random::Stream;

use crate::common::{example, report, stderr, succeed};

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Sentences of 12 words, each about one of four topics: six words of the topic's nine, and six that are everywhere.
pub(crate) fn topics(folder: &Path, sentences: u64) -> PathBuf {
    let random = Stream::new(11, 1);
    let mut words = String::new();
    for sentence in 0..sentences {
        let topic = random.bits(sentence) % 4;
        for n in 0..12 {
            let bits = random.bits(1 << 32 | sentence << 8 | n) >> 20;
            let word =
                if n % 2 == 0 { format!("topic{topic}word{}", bits % 9) } else { format!("filler{}", bits % 30) };
            write!(words, "{word}{}", if n == 11 { '\n' } else { ' ' }).unwrap();
        }
    }
    let path = folder.join("topics.txt");
    fs::write(&path, words).unwrap();
    path
}

/// Words of one topic are alike, those of two are not.
fn topic_pairs(folder: &Path) -> PathBuf {
    let mut pairs = String::from("# word\tword\tscore\n");
    for n in 0..36 {
        let (topic, word) = (n % 4, n / 4);
        writeln!(pairs, "topic{topic}word{word}\tTopic{topic}Word{}\t10", (word + 1) % 9).unwrap();
        writeln!(pairs, "topic{topic}word{word}\ttopic{}word{word}\t0", (topic + 1) % 4).unwrap();
    }
    let path = folder.join("pairs.tsv");
    fs::write(&path, pairs).unwrap();
    path
}

const POLICIES: [&[&str]; 4] = [
    &["--sync", "bsp"],
    &["--sync", "ssp", "--staleness", "2"],
    &["--sync", "hybrid"],
    &["--sync", "model-average", "--average-every", "3"],
];

#[test]
fn one_copy_is_the_twin_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let data = topics(folder.path(), 300);
    let methods: [&[&str]; 4] = [
        &[],
        &["--negative", "3", "--sample", "0.01"],
        &["--cbow", "1", "--window", "3"],
        &["--cbow", "1", "--hs", "1", "--negative", "2"],
    ];
    for method in methods {
        let common = [&["--data", text(&data), "--size", "8", "--epochs", "2"], method].concat();
        let twin = report("word2vec_sequential", &common);
        for policy in POLICIES {
            for minibatch in ["1", "7", "10000"] {
                let alone = [&common[..], policy, &["--minibatch", minibatch, "--threads", "1"]].concat();
                let ours = report("word2vec", &alone);
                assert_eq!(ours["model_digest"], twin["model_digest"], "{alone:?}");
                for (ours, twin) in epochs(&ours).iter().zip(epochs(&twin)) {
                    assert_eq!(ours["predictions"], twin["predictions"]);
                    let (ours, twin) = (ours["objective"].as_f64().unwrap(), twin["objective"].as_f64().unwrap());
                    assert!((ours / twin - 1.0).abs() < 1e-9, "{ours}, sequential {twin}");
                }
            }
        }
    }
}

fn epochs(report: &Value) -> &[Value] {
    report["epochs"].as_array().unwrap()
}

#[test]
fn copies_agree_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let data = topics(folder.path(), 300);
    let common = ["--data", text(&data), "--size", "8", "--epochs", "2", "--negative", "2", "--hs", "1"];
    let twin = report("word2vec_sequential", &common)["model_digest"].clone();
    for policy in POLICIES {
        let run = |more: &[&str]| report("word2vec", &[&common, policy, &["--minibatch", "5"], more].concat());
        assert_eq!(run(&["--workers", "1", "--threads", "1"])["model_digest"], twin, "{policy:?}");
        if matches!(policy[1], "bsp" | "model-average") {
            let two = run(&["--threads", "2"])["model_digest"].clone();
            assert_ne!(two, twin, "{policy:?}");
            assert_eq!(run(&["--threads", "2"])["model_digest"], two, "{policy:?}");
            assert_eq!(run(&["--workers", "2", "--threads", "1"])["model_digest"], two, "{policy:?}");
        }
    }
}

#[test]
fn words_of_a_topic_come_to_be_alike() {
    let folder = tempfile::tempdir().unwrap();
    let (data, pairs) = (topics(folder.path(), 4000), topic_pairs(folder.path()));
    let vectors = folder.path().join("vectors.bin");
    let common = ["--data", text(&data), "--size", "8", "--epochs", "5", "--output", text(&vectors)];
    let mut scores = Vec::new();
    let mut check = |program: &str, more: &[&str]| {
        let trained = report(program, &[&common, more].concat());
        let losses: Vec<_> = epochs(&trained).iter().map(|epoch| epoch["objective"].as_f64().unwrap()).collect();
        assert!(losses[4] < losses[0], "{program} {more:?}: {losses:?}");
        let score = report("word2vec-eval", &["--vectors", text(&vectors), "--pairs", text(&pairs)]);
        assert_eq!((&score["pairs"][0]["pairs"], &score["pairs"][0]["skipped"]), (&72.into(), &0.into()));
        scores.push((format!("{program} {more:?}"), score["pairs"][0]["spearman"].as_f64().unwrap()));
    };
    for method in [&["--hs", "1"][..], &["--negative", "5"], &["--cbow", "1"], &["--cbow", "1", "--negative", "5"]] {
        check("word2vec_sequential", method);
    }
    for policy in POLICIES {
        check("word2vec", &[policy, &["--threads", "2"]].concat());
    }
    // Half of the judgements are equal, so that a perfect order scores 0.87.
    assert!(scores.iter().all(|(_, score)| *score > 0.8), "{scores:?}");
}

#[test]
fn both_formats_hold_the_same_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let (data, pairs) = (topics(folder.path(), 200), topic_pairs(folder.path()));
    let score = |name: &str, store: &[&str], read: &[&str]| {
        let path = folder.path().join(name);
        let common = ["--data", text(&data), "--size", "8", "--epochs", "1", "--output", text(&path)];
        succeed("word2vec_sequential", &[&common, store].concat());
        let score = report("word2vec-eval", &[&["--vectors", text(&path), "--pairs", text(&pairs)], read].concat());
        (fs::read(path).unwrap(), score["pairs"].clone())
    };
    let (written, expected) = score("a.txt", &[], &[]);
    assert!(written.starts_with(b"67 8\n</s> "), "{:?}", String::from_utf8_lossy(&written[..30]));
    let (binary, found) = score("a.bin", &[], &[]);
    assert!(binary.len() < written.len() && found == expected);
    assert_eq!(score("b", &["--format", "binary"], &["--format", "binary"]), (binary.clone(), expected.clone()));
    assert_eq!(score("b.bin", &["--format", "text"], &["--format", "text"]), (written, expected));

    fs::write(folder.path().join("short.bin"), &binary[..binary.len() - 10]).unwrap();
    let (status, said) = fail("word2vec-eval", &["--vectors", text(&folder.path().join("short.bin"))]);
    let at = format!("short.bin: byte {}: the file ends in the values of \"", binary.len() - 10);
    assert!(status == 1 && said.contains(&at), "{said}");
}

#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (data, kept) = (topics(folder.path(), 200), folder.path().join("kept"));
    let common = ["--data", text(&data), "--size", "8", "--threads", "2", "--sync", "bsp", "--epochs", "4"];
    let whole = report("word2vec", &common);
    let saving = ["--checkpoint", text(&kept), "--checkpoint-every", "3"];
    assert_eq!(report("word2vec", &[&common[..], &saving].concat())["model_digest"], whole["model_digest"]);
    let rest = report("word2vec", &[&common[..], &saving, &["--resume"]].concat());
    assert_eq!((&rest["model_digest"], epochs(&rest).len()), (&whole["model_digest"], 4));
    // The learning rate depends on the number of epochs: it is another run.
    let other = [&common[..6], &saving, &["--resume", "--epochs", "5"]].concat();
    let (_, said) = fail("word2vec", &other);
    assert!(said.contains("is of another run"), "{said}");
}

#[test]
fn bytes_that_are_no_text_are_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("broken.txt");
    let good = "one two three four five\n".repeat(20);
    fs::write(&data, [good.as_bytes(), b"six \xff\xfe seven\xf0 \n", good.as_bytes(), b"\xc3("].concat()).unwrap();
    for program in ["word2vec", "word2vec_sequential"] {
        let said = stderr(&succeed(program, &["--data", text(&data), "--size", "8", "--epochs", "1"]));
        let warnings: Vec<_> = said.lines().filter(|line| line.starts_with("warning")).collect();
        let skipped = "skipped 3 words with 4 bytes that aren't UTF-8, the first in line 21";
        assert_eq!(warnings, [format!("warning: {}: {skipped}", data.display())]);
    }
}

/// Runs a program that should fail; gives its exit status and the one line that it said.
fn fail(program: &str, arguments: &[&str]) -> (i32, String) {
    let output = example(program).args(arguments).output().expect("the example starts");
    let said = stderr(&output);
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(lines.len(), 1, "{program} {arguments:?} said {said:?}");
    (output.status.code().expect("an exit status"), lines[0].to_owned())
}

#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (rare, empty) = (folder.path().join("rare.txt"), folder.path().join("empty.txt"));
    fs::write(&rare, "each word once, but word").unwrap();
    fs::write(&empty, " \n\n").unwrap();
    for program in ["word2vec", "word2vec_sequential"] {
        let said = |arguments: &[&str]| fail(program, arguments);
        let few = "no word occurs 5 times or more (--min-count); the most frequent of 4 occurs 2 times";
        assert_eq!(said(&["--data", text(&rare)]), (1, format!("error: {}: {few}", rare.display())));
        let none = "no words; expected text with spaces or line ends between words";
        assert_eq!(said(&["--data", text(&empty)]), (1, format!("error: {}: {none}", empty.display())));
        let missing = text(folder.path()).to_owned() + "/missing";
        let (status, line) = said(&["--data", &missing]);
        assert!(status == 1 && line.starts_with(&format!("error: can't read {missing}: ")), "{line}");
        let nothing = "error: --hs: 0 leaves nothing to learn; give --negative N, or --hs 1";
        assert_eq!(said(&["--hs", "0"]), (2, nothing.to_owned()));
        for (option, value, problem) in [
            ("--size", "0", "expected a whole number of at least 1"),
            ("--window", "0", "0 is not in 1..=1000"),
            ("--sample", "-1", "expected a number of at least 0"),
            ("--alpha", "0", "expected a number above 0"),
            ("--cbow", "2", "expected 0 or 1"),
            ("--min-count", "x", "invalid digit"),
        ] {
            let (status, line) = said(&[&format!("{option}={value}")]);
            assert!(status == 2 && line.contains(option) && line.contains(problem), "{line}");
        }
        let (status, line) = said(&["--output", text(folder.path())]);
        assert!(status == 1 && line.starts_with("error: can't write "), "{line}");
    }
    let (status, line) = fail("word2vec", &["--minibatch", "0"]);
    assert!(status == 2 && line.contains("--minibatch"), "{line}");
}

#[test]
fn mistakes_in_tests_of_vectors_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        text(&path).to_owned()
    };
    let vectors = write("vectors.txt", "2 2\na 1 2\nb 3 4\n");
    let questions = write("questions.txt", ": s\na b a b\na b a\n");
    let pairs = write("pairs.tsv", "a\tb\t1\nb\tb\tmuch\n");
    let cut = write("cut.txt", "2 2\na 1 2\nb 3\n");
    let said = |arguments: &[&str]| fail("word2vec-eval", arguments);
    let four = "3 words; expected 4: a is to b as c is to d";
    assert_eq!(said(&["--vectors", &vectors, "--analogies", &questions]), (1, format!("error: {questions}:3: {four}")));
    let pair = "\"b\\tb\\tmuch\"; expected word TAB word TAB number";
    assert_eq!(said(&["--vectors", &vectors, "--pairs", &pairs]), (1, format!("error: {pairs}:2: {pair}")));
    assert_eq!(said(&["--vectors", &cut]), (1, format!("error: {cut}:3: 1 values of \"b\"; expected 2")));
    assert_eq!(said(&[]).0, 2);
}

const STEMS: u64 = 12;
const FORMS: u64 = 5;

/// Words that have a stem and a form, among words that go with the one, words that go with the other, and words that go with all.
/// Some stems and some of the last are frequent, others rare. A line has 360 words.
fn stems_and_forms(folder: &Path) {
    let random = Stream::new(5, 1);
    let mut words = String::new();
    for sentence in 0..6000 {
        let drawn = |n: u64, of: u64| (random.bits(sentence << 8 | n) >> 20) % of;
        let (stem, form) = (drawn(0, STEMS).min(drawn(1, 2 * STEMS)), drawn(2, FORMS));
        for n in [10, 20, 30] {
            let (of_stem, of_form) = (drawn(n, 5), drawn(n + 1, 5));
            let any = drawn(n + 2, 60) * drawn(n + 3, 60) * drawn(n + 4, 60) / 3600;
            write!(words, "of-stem{stem}-{of_stem} stem{stem}form{form} of-form{form}-{of_form} any{any} ").unwrap();
        }
        if sentence % 30 == 29 {
            words.push('\n');
        }
    }
    fs::write(folder.join("stems.txt"), words).unwrap();
}

/// A form is to another with one stem as it is with any other.
fn analogies(folder: &Path) {
    let mut questions = String::from(": forms\n");
    for (a, b) in (0..STEMS).flat_map(|a| (0..STEMS).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        for form in 0..FORMS {
            let other = (form + 1 + (a + b) % (FORMS - 1)) % FORMS;
            writeln!(questions, "stem{a}form{form} stem{a}form{other} stem{b}form{form} stem{b}form{other}").unwrap();
        }
    }
    fs::write(folder.join("analogies.txt"), questions).unwrap();
}

/// What a program learnt: the share of analogies that its vectors answer, and the last epoch's loss.
fn learnt(folder: &Path, method: &[&str], how: &[&str]) -> ([f64; 2], Value) {
    let (data, questions) = (folder.join("stems.txt"), folder.join("analogies.txt"));
    let vectors = folder.join(format!("{}.bin", [method, how].concat().concat()));
    let common = ["--data", text(&data), "--size", "12", "--window", "3", "--epochs", "2", "--sync", "bsp"];
    let trained = report("word2vec", &[&common[..], &["--output", text(&vectors)], method, how].concat());
    let scored = report("word2vec-eval", &["--vectors", text(&vectors), "--analogies", text(&questions)]);
    let scored = &scored["analogies"][0];
    assert_eq!(scored["total"], STEMS * (STEMS - 1) * FORMS);
    let share = scored["correct"].as_f64().unwrap() / scored["total"].as_f64().unwrap();
    ([share, epochs(&trained)[1]["objective"].as_f64().unwrap()], trained["model_digest"].clone())
}

/// Eight copies that combine their changes learn what one copy learns: in the mean of three seeds the vectors answer as many analogies,
/// and the loss is as small. If their changes are added up, they overshoot; if means are taken, or the rate isn't doubled, they lag behind.
#[test]
fn eight_copies_learn_what_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    stems_and_forms(folder);
    analogies(folder);
    let check = |method: &[&str]| {
        let mean = |copies: &str| {
            let seeds = ["1", "2", "3"].map(|seed| learnt(folder, method, &["--seed", seed, "--threads", copies]));
            let mean = |k: usize| seeds.iter().map(|(learnt, _)| learnt[k]).sum::<f64>() / 3.0;
            ([mean(0), mean(1)], seeds[0].1.clone())
        };
        let ((one, _), (eight, digest)) = (mean("1"), mean("8"));
        let (_, on_workers) = learnt(folder, method, &["--seed", "1", "--workers", "4", "--threads", "2"]);
        assert_eq!(on_workers, digest, "{method:?}");
        let case = format!("{method:?}: {eight:.3?}, one copy {one:.3?}");
        assert!(one[0] > 0.75 && eight[0] > one[0] - 0.03, "{case}");
        assert!(eight[1] < 1.01 * one[1], "{case}");
        case
    };
    let methods = [&["--hs", "1"][..], &["--negative", "5"], &["--cbow", "1"], &["--cbow", "1", "--negative", "5"]];
    std::thread::scope(|scope| {
        let checks = methods.map(|method| scope.spawn(move || check(method)));
        checks.into_iter().for_each(|checked| eprintln!("{}", checked.join().unwrap()));
    });
}
