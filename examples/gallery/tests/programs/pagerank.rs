//! The PageRank programs: beside a dense reference, beside each other, and what they leave.

#![allow(clippy::unwrap_used, reason = "what reads a report for a test is part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use stradsap::random::Stream;

use crate::common::{example, report, stderr, succeed};

const PROGRAMS: &[&str] = &["pagerank", "pagerank_sequential"];

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Links between some of 0..pages, with hubs, repeated links, links to oneself and pages without links.
fn random_links(pages: u64, links: u64, seed: u64) -> Vec<(u64, u64)> {
    let stream = Stream::new(seed, 1);
    let place = |k: u64, below: u64| (stream.unit(k).powi(2) * below as f32) as u64;
    (0..links).map(|k| (place(2 * k, pages * 3 / 4), place(2 * k + 1, pages))).collect()
}

fn write_links(folder: &Path, links: &[(u64, u64)]) -> PathBuf {
    let path = folder.join("links.txt");
    let lines: String = links.iter().map(|(from, to)| format!("{from}\t{to}\n")).collect();
    fs::write(&path, format!("# FromNodeId\tToNodeId\n{lines}")).unwrap();
    path
}

/// Ranks by the power method with a dense matrix, iterated until nothing moves.
fn reference(links: &[(u64, u64)], damping: f64) -> BTreeMap<u64, f64> {
    let mut ids: Vec<u64> = links.iter().flat_map(|&(from, to)| [from, to]).collect();
    ids.sort_unstable();
    ids.dedup();
    let (n, place) = (ids.len(), |id: u64| ids.binary_search(&id).unwrap());
    let mut counts = vec![vec![0.0; n]; n];
    links.iter().for_each(|&(from, to)| counts[place(from)][place(to)] += 1.0);
    for row in &mut counts {
        let all: f64 = row.iter().sum();
        row.iter_mut().for_each(|x| *x = if all > 0.0 { *x / all } else { 1.0 / n as f64 });
    }
    let mut ranks = vec![1.0 / n as f64; n];
    for _ in 0..400 {
        let next = |to: usize| -> f64 { (0..n).map(|from| ranks[from] * counts[from][to]).sum() };
        ranks = (0..n).map(|to| (1.0 - damping) / n as f64 + damping * next(to)).collect();
    }
    ids.into_iter().zip(ranks).collect()
}

fn stored(folder: &Path) -> Vec<(u64, f64)> {
    let row = |line: &str| {
        let (id, rank) = line.split_once('\t').unwrap();
        (id.parse().unwrap(), rank.parse().unwrap())
    };
    fs::read_to_string(folder.join("ranks.tsv")).unwrap().lines().map(row).collect()
}

#[test]
fn ranks_are_those_of_a_dense_reference() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, pages, links, damping) in [(1, 60, 300, "0.85"), (2, 200, 400, "0.85"), (3, 40, 500, "0.5")] {
        let links = random_links(pages, links, seed);
        let data = write_links(folder.path(), &links);
        let expected = reference(&links, damping.parse().unwrap());
        let dangling = expected.keys().filter(|id| links.iter().all(|(from, _)| from != *id)).count();
        assert!(dangling > 0);
        for (program, options) in [
            ("pagerank_sequential", &[][..]),
            ("pagerank", &["--threads", "1"]),
            ("pagerank", &["--threads", "2"]),
            ("pagerank", &["--threads", "3", "--sync", "bsp"]),
            ("pagerank", &["--threads", "2", "--sync", "ssp"]),
            ("pagerank", &["--threads", "2", "--sync", "model-average"]),
            ("pagerank", &["--threads", "1", "--workers", "2"]),
            ("pagerank", &["--threads", "2", "--workers", "2", "--sync", "bsp"]),
        ] {
            let output = folder.path().join("ranks");
            let own = ["--data", text(&data), "--damping", damping, "--output", text(&output)];
            succeed(program, &[&own[..], options].concat());
            let ranks = stored(&output);
            assert_eq!(ranks.len(), expected.len());
            let off: f64 = ranks.iter().map(|(id, rank)| (rank - expected[id]).abs()).sum();
            assert!(off < 1e-9, "{program} {options:?}: {off}");
            assert!(ranks.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)));
        }
    }
}

#[test]
fn one_thread_has_the_bits_of_the_twin() {
    let run = |program, options: &[&str]| {
        let report = report(program, &[&["--scale", "12", "--epochs", "8"], options].concat());
        let changes: Vec<f64> =
            report["epochs"].as_array().unwrap().iter().map(|epoch| epoch["objective"].as_f64().unwrap()).collect();
        (report["model_digest"].clone(), changes)
    };
    let twin = run("pagerank_sequential", &[]);
    for policy in ["bsp", "ssp", "hybrid", "model-average"] {
        assert_eq!(run("pagerank", &["--threads", "1", "--sync", policy]), twin, "{policy}");
    }
    assert_ne!(run("pagerank_sequential", &["--seed", "2"]).0, twin.0);
}

#[test]
fn rounds_have_the_same_bits_each_time() {
    let run = |policy| {
        let words = ["--scale", "14", "--epochs", "6", "--threads", "3", "--sync", policy, "--minibatch", "1"];
        report("pagerank", &words)["model_digest"].clone()
    };
    for policy in ["bsp", "model-average"] {
        assert_eq!(run(policy), run(policy), "{policy}");
    }
}

#[test]
fn iteration_stops_when_ranks_stand() {
    for program in PROGRAMS {
        let report = report(program, &["--scale", "10", "--tolerance", "1e-6"]);
        let epochs = report["epochs"].as_array().unwrap();
        let change = |k: usize| epochs[k]["objective"].as_f64().unwrap();
        assert!(change(epochs.len() - 1) < 1e-6 && change(epochs.len() - 2) >= 1e-6, "{epochs:?}");
        assert!(epochs.len() < 100);
        let data = &report["data"];
        assert_eq!((&data["pages"], &data["links"]), (&1024.into(), &16384.into()));
        for count in ["dangling", "self_links", "repeated_links"] {
            assert!(data[count].as_u64().unwrap() > 0, "{count}");
        }
    }
}

#[test]
fn the_pages_of_highest_rank_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    // 30 gets all that 10 has, 20 half of what 5 has; 10 and 5 get nothing and are alike.
    let data = write_links(folder.path(), &[(10, 30), (5, 30), (5, 20)]);
    for program in PROGRAMS {
        let output = succeed(program, &["--data", text(&data), "--top", "3"]);
        let said = String::from_utf8(output.stdout).unwrap();
        let ids: Vec<_> =
            said.lines().take_while(|line| line.contains('\t')).map(|l| l.split_once('\t').unwrap().0).collect();
        assert_eq!(ids, ["30", "20", "5"], "{said}");
    }
}

#[test]
fn a_run_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let run = |epochs: &str, more: &[&str]| {
        let own = ["--scale", "11", "--threads", "1", "--epochs", epochs];
        report("pagerank", &[&own[..], more].concat())
    };
    let whole = run("9", &[]);
    run("4", &["--checkpoint", text(&kept)]);
    let resumed = run("9", &["--checkpoint", text(&kept), "--resume"]);
    assert_eq!(whole["model_digest"], resumed["model_digest"]);
    assert_eq!(resumed["epochs"].as_array().unwrap().len(), 9);
}

#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.txt");
    fs::write(&path, "1 2\n2 x\n").unwrap();
    let bad = format!("{}:2:3: the id is \"x\"; expected a whole number below 2^64", path.display());
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--data", text(&path)], 1, &bad),
        (&["--damping", "1"], 2, "invalid value '1' for '--damping <D>': expected a number of at least 0 and below 1"),
        (&["--tolerance=-1"], 2, "invalid value '-1' for '--tolerance <T>': expected a number of at least 0"),
        (&["--scale", "40"], 2, "invalid value '40' for '--scale <S>': 40 is not in 1..=28"),
        (&["--data", "x", "--scale", "4"], 2, "the argument '--data <PATH>' cannot be used with '--scale <S>'"),
    ];
    for program in PROGRAMS {
        for (arguments, status, expected) in cases {
            let output = example(program).args(*arguments).output().unwrap();
            assert_eq!(stderr(&output).trim_end(), format!("error: {expected}"));
            assert_eq!(output.status.code(), Some(*status));
        }
    }
}
