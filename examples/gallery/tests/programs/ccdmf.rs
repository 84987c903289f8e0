//! Cyclic coordinate descent: the scheduled program beside its twin, known factors found again, and what is left behind.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stradsap::random::Stream;

use crate::common::{example, report, small_ratings, stderr};

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

fn of(report: &Value, name: &str) -> Vec<f64> {
    report["epochs"].as_array().unwrap().iter().map(|epoch| epoch[name].as_f64().unwrap()).collect()
}

/// Most of the inner products of 60 and 50 rows of three numbers.
fn low_rank(folder: &Path) -> PathBuf {
    let path = folder.join("low-rank.tsv");
    let random = Stream::new(5, 5);
    let row = |n: u64| -> [f32; 3] { std::array::from_fn(|k| 2.0 * random.unit(n * 3 + k as u64) - 0.5) };
    let mut lines = String::new();
    for (user, item) in (0..60u64).flat_map(|user| (0..50u64).map(move |item| (user, item))) {
        if random.unit(1_000_000 + user * 50 + item) < 0.8 {
            let product: f32 = row(user).iter().zip(row(100 + item)).map(|(a, b)| a * b).sum();
            lines += &format!("u{user}\ti{item}\t{product}\n");
        }
    }
    fs::write(&path, lines).unwrap();
    path
}

/// A matrix of numpy's.
fn npy(path: &Path) -> (Vec<usize>, Vec<f32>) {
    let bytes = fs::read(path).unwrap();
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
    let shape = header.split('(').nth(1).unwrap().split(')').next().unwrap();
    let shape = shape.split(", ").map(|n| n.parse().unwrap()).collect();
    (shape, bytes[10 + length..].as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect())
}

#[test]
fn one_shard_has_the_bits_of_the_twin_and_more_come_close() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    for order in ["matrix", "feature"] {
        let common = ["--data", text(&data), "--rank", "7", "--epochs", "4", "--regularisation", "2", "--order", order];
        let run = |program, more: &[&str]| report(program, &[&common[..], more].concat());
        let twin = run("ccdmf_sequential", &[]);
        let one = run("ccdmf", &["--shards", "1", "--threads", "2"]);
        assert_eq!(one["model_digest"], twin["model_digest"], "{order}");
        for name in ["objective", "train_rmse", "test_rmse"] {
            for (own, twin) in of(&one, name).into_iter().zip(of(&twin, name)) {
                assert!((own / twin - 1.0).abs() < 1e-9, "{order} {name}: {own}, not {twin}");
            }
        }
        for shards in ["2", "5", "13"] {
            let more = run("ccdmf", &["--shards", shards]);
            for (own, twin) in of(&more, "objective").into_iter().zip(of(&twin, "objective")) {
                assert!((own / twin - 1.0).abs() < 1e-4, "{order}, {shards} shards: {own}, not {twin}");
            }
        }
    }
}

#[test]
fn threads_and_processes_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let common = ["--data", text(&data), "--rank", "5", "--epochs", "3", "--shards", "5"];
    let run = |more: &[&str]| report("ccdmf", &[&common[..], more].concat());
    let one = run(&["--threads", "1"]);
    assert_eq!(one["loops"][1]["blocks"], 5, "{one}");
    for places in
        [&["--threads", "3"][..], &["--workers", "2", "--threads", "1"], &["--workers", "3", "--threads", "2"]]
    {
        let other = run(places);
        assert_eq!(other["model_digest"], one["model_digest"], "{places:?}");
        assert_eq!(of(&other, "objective"), of(&one, "objective"), "{places:?}");
    }
}

#[test]
fn the_objective_never_grows() {
    for (program, order) in [("ccdmf", "matrix"), ("ccdmf", "feature"), ("ccdmf_sequential", "matrix")] {
        let report = report(program, &["--rank", "6", "--epochs", "6", "--order", order]);
        let objectives = of(&report, "objective");
        assert!(objectives.is_sorted_by(|a, b| a > b), "{program} {order}: {objectives:?}");
    }
}

#[test]
fn known_factors_are_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = low_rank(folder.path());
    for order in ["matrix", "feature"] {
        let arguments = ["--data", text(&data), "--rank", "3", "--regularisation", "0.001", "--epochs", "200"];
        let report = report("ccdmf", &[&arguments[..], &["--order", order, "--shards", "3"]].concat());
        let (train, test) = (of(&report, "train_rmse"), of(&report, "test_rmse"));
        assert!(train.last().unwrap() < &0.01 && test.last().unwrap() < &0.02, "{order}: {train:?} {test:?}");
    }
}

#[test]
fn stored_factors_have_the_errors_that_were_told() {
    let folder = tempfile::tempdir().unwrap();
    let (data, output) = (low_rank(folder.path()), folder.path().join("model"));
    let ratings = fs::read_to_string(&data).unwrap();
    let stars = ratings.lines().map(|line| line.rsplit('\t').next().unwrap().parse::<f64>().unwrap());
    let level = (stars.sum::<f64>() / ratings.lines().count() as f64 / 4.0).sqrt();
    let centres = [("zero", 0.0), ("mean", level)];
    for (program, (name, centre)) in ["ccdmf", "ccdmf_sequential"].into_iter().flat_map(|p| centres.map(|c| (p, c))) {
        let common = ["--data", text(&data), "--rank", "4", "--epochs", "30", "--test-fraction", "0"];
        let more = ["--regularisation", "0.5", "--centre", name, "--output", text(&output)];
        let report = report(program, &[&common[..], &more].concat());
        let ((p_shape, p), (q_shape, q)) = (npy(&output.join("p.npy")), npy(&output.join("q.npy")));
        assert_eq!((p_shape, q_shape), (vec![60, 4], vec![50, 4]));
        let ids = |name| -> Vec<String> {
            fs::read_to_string(output.join(name)).unwrap().lines().map(str::to_owned).collect()
        };
        let (users, items) = (ids("users.txt"), ids("items.txt"));
        let mut squares = 0.0;
        for line in ratings.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let at = |ids: &[String], id: &str| ids.iter().position(|other| other == id).unwrap() * 4;
            let (w, h) = (&p[at(&users, fields[0])..][..4], &q[at(&items, fields[1])..][..4]);
            let product: f64 = w.iter().zip(h).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            squares += (fields[2].parse::<f64>().unwrap() - product).powi(2);
        }
        let distances: f64 = p.iter().chain(&q).map(|&x| (f64::from(x) - centre).powi(2)).sum();
        let (told, rmse) = (*of(&report, "objective").last().unwrap(), *of(&report, "train_rmse").last().unwrap());
        let found = squares + 0.5 * distances;
        assert!((told / found - 1.0).abs() < 1e-4, "{program} {name}: {told}, not {found}");
        let root = (squares / ratings.lines().count() as f64).sqrt();
        assert!((rmse / root - 1.0).abs() < 1e-3, "{program}: {rmse}, not {root}");
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (data, kept) = (small_ratings(folder.path()), folder.path().join("kept"));
    let common = ["--data", text(&data), "--rank", "5", "--shards", "3"];
    let whole = report("ccdmf", &[&common[..], &["--epochs", "5"]].concat());
    let saving = ["--checkpoint", text(&kept), "--checkpoint-every", "2"];
    report("ccdmf", &[&common[..], &saving, &["--epochs", "3", "--threads", "1"]].concat());
    let rest = report("ccdmf", &[&common[..], &saving, &["--epochs", "5", "--threads", "2", "--resume"]].concat());
    assert_eq!(rest["model_digest"], whole["model_digest"]);
    assert_eq!(of(&rest, "objective"), of(&whole, "objective"));
}

#[test]
fn bad_input_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.csv");
    fs::write(&bad, "user,item,rating\na,b,3\na,c,many\n").unwrap();
    for program in ["ccdmf", "ccdmf_sequential"] {
        let fails = |arguments: &[&str]| {
            let output = example(program).args(arguments).output().unwrap();
            assert!(!output.status.success(), "{arguments:?}");
            stderr(&output)
        };
        let told = format!("error: {}:3: field 3 (rating) is \"many\"; expected a finite number\n", bad.display());
        assert_eq!(fails(&["--data", text(&bad)]), told, "{program}");
        let told = fails(&["--rank", "0"]);
        assert_eq!(told, "error: invalid value '0' for '--rank <K>': expected a whole number of at least 1\n");
    }
}
