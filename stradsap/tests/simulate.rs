//! The command `stradsap simulate`, as a person runs it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stradsap::prelude::*;

/// What the command says: exit code, standard output, standard error.
fn simulate(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_stradsap")).arg("simulate").args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Factorises made-up ratings once to plan and once to measure; gives the plan's file.
fn plan(folder: &Path) -> String {
    let session = Session::builder().threads(1).build().unwrap();
    let ratings = DVector::from_fn(&session, 200_000, |n| (n * 7919 % 3000, n * 104_729 % 2000)).unwrap();
    let mut users = DVector::from_fn(&session, 3000, |_| [0.1f32; 16]).unwrap();
    let mut items = DVector::from_fn(&session, 2000, |_| [0.1f32; 16]).unwrap();
    let path = folder.join("plan.json");
    for _ in 0..2 {
        let report = async_parallel_for!(0..ratings.len(), [&ratings, &mut users, &mut items], |n| {
            let (user, item) = ratings[n];
            for k in 0..16 {
                let step = 0.01 * (1.0 - users[user][k] * items[item][k]);
                users[user][k] += step;
                items[item][k] += step;
            }
        });
        report.unwrap().write_plan(&path).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

#[test]
fn more_workers_are_faster_until_parts_or_the_order_hold_them_up() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let (json, svg) = (folder.path().join("table.json"), folder.path().join("picture.svg"));
    let words = [&*plan, "--workers", "1,2,4,8", "--json", json.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let (code, out, err) = simulate(&words);
    assert_eq!((code, &*err), (0, ""), "{out}");
    assert!(out.contains("simulate.rs:") && out.contains(": grid, "), "{out}");
    let table: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let speedups: Vec<f64> = rows.iter().map(|row| row["speedup"].as_f64().unwrap()).collect();
    assert!((speedups[0] - 1.0).abs() < 0.01 && speedups.is_sorted() && speedups[3] <= 8.0, "{speedups:?}");
    assert_eq!(rows[0]["bytes_within_machines"], 0);
    assert!(rows[3]["bytes_within_machines"].as_u64().unwrap() > 0, "{table}");
    for row in rows {
        let shares = ["computing", "waiting_for_parts", "waiting_for_order", "waiting_for_processors", "nothing_left"];
        let all: f64 = shares.iter().map(|share| row[share].as_f64().unwrap()).sum();
        assert!((all - 1.0).abs() < 1e-6, "{row}");
    }
    assert!(fs::read_to_string(&svg).unwrap().starts_with("<svg"));
}

#[test]
fn slow_links_slow_workers_and_lost_ones_take_time() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let json = folder.path().join("table.json");
    let seconds = |words: &[&str]| {
        let (code, _, err) = simulate(&[&[&*plan, "--workers", "4", "--json", json.to_str().unwrap()], words].concat());
        assert_eq!((code, &*err), (0, ""));
        let table: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        table["rows"][0]["seconds"].as_f64().unwrap()
    };
    let even = seconds(&["--cores", "1"]);
    assert!(seconds(&["--cores", "1", "--link", "10Mbit"]) > 2.0 * even);
    assert!(seconds(&["--cores", "1", "--latency", "20ms"]) > even + 0.02);
    assert!(seconds(&["--cores", "1", "--slow", "2=0.25"]) > 1.5 * even);
    assert!(seconds(&["--cores", "1", "--lose", "3@0.5"]) > 1.5 * even);
    assert!((seconds(&["--cores", "1", "--lose", "5@0.5"]) - even).abs() < 1e-9, "there is no worker 5");
    // Four workers on one processor are no faster than one.
    assert!(seconds(&["--machines", "1", "--cores", "1"]) > 3.0 * seconds(&["--machines", "1", "--cores", "4"]));
}

#[test]
fn machines_that_share_processors_take_them_from_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let json = folder.path().join("table.json");
    let row = |words: &[&str]| {
        let (code, _, err) = simulate(&[&[&*plan, "--workers", "4", "--json", json.to_str().unwrap()], words].concat());
        assert_eq!((code, &*err), (0, ""));
        let table: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        table["rows"][0].clone()
    };
    let seconds = |row: &Value| row["seconds"].as_f64().unwrap();
    let [one, four, many] = ["1", "4", "64"].map(|cores| row(&["--shared-cores", cores]));
    assert_eq!([&one, &four, &many].map(|row| row["machines"].as_u64().unwrap()), [4; 3], "one for each worker");
    assert!(four["bytes_between_machines"].as_u64().unwrap() > 0 && four["bytes_within_machines"] == 0, "{four}");
    assert!(seconds(&one) > 2.5 * seconds(&many), "{one} {many}");
    // With a processor for each block, sending and receiving still have to interrupt blocks.
    assert!(seconds(&four) > seconds(&many), "{four} {many}");
    assert!(four["waiting_for_processors"].as_f64().unwrap() > 0.0, "{four}");
    assert_eq!(many["waiting_for_processors"].as_f64().unwrap(), 0.0, "{many}");
    // The links are as slow as they are between machines that share nothing.
    let slow = row(&["--shared-cores", "64", "--link", "10Mbit"]);
    assert!(seconds(&slow) > 2.0 * seconds(&many), "{slow} {many}");
}

#[test]
fn processors_slow_each_other_down_as_measured() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let json = folder.path().join("table.json");
    let seconds = |words: &[&str]| {
        let all = [&[&*plan, "--workers", "1", "--json", json.to_str().unwrap()], words].concat();
        let (code, _, err) = simulate(&all);
        assert_eq!((code, &*err), (0, ""));
        let table: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        table["rows"][0]["seconds"].as_f64().unwrap()
    };
    let threads = |threads: &str, more: &[&str]| seconds(&[&["--threads", threads, "--cores", "8"], more].concat());
    // Four threads took twice as long as they should have.
    let mut table: Value = serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    table["measured"]["seconds"] = (2.0 * threads("4", &[])).into();
    table["measured"]["threads"] = 4.into();
    let crowded = folder.path().join("crowded.json");
    fs::write(&crowded, table.to_string()).unwrap();
    let crowded = crowded.to_str().unwrap();
    let slower = |n: &str| threads(n, &["--crowded", crowded]) / threads(n, &[]);
    let [one, two, four, eight] = ["1", "2", "4", "8"].map(slower);
    assert!((one - 1.0).abs() < 1e-9, "{one}");
    assert!((four - 2.0).abs() < 0.1, "{four}");
    assert!(1.2 < two && two < 1.4 && eight > 2.5, "on the line through both: {two} {eight}");

    let (code, _, err) = simulate(&[&*plan, "--crowded", &*plan]);
    assert!(code == 1 && err.contains("plan.json: measured on no more threads than the plan itself"), "{err}");
    table["costs"][0] = 1.into();
    let other = folder.path().join("other.json");
    fs::write(&other, table.to_string()).unwrap();
    let (code, _, err) = simulate(&[&*plan, "--crowded", other.to_str().unwrap()]);
    assert!(code == 1 && err.contains("other.json: the plan of another loop"), "{err}");
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let of = |words: &[&str]| simulate(words);
    for (words, code, problem) in [
        (vec![], 2, "the file of a plan was expected after it"),
        (vec![&*plan, "--worker", "3"], 2, "there is no `--worker`; did you mean `--workers`?"),
        (vec![&*plan, "--workers", "0"], 2, "a number from 1 to 16384 was expected, not `0`"),
        (vec![&*plan, "--shared-cores", "0"], 2, "a number from 1 to 1024 was expected, not `0`"),
        (vec![&*plan, "--link", "fast"], 2, "a rate as 10Gbit or 800Mbit was expected, not `fast`"),
        (vec![&*plan, "--lose", "1@2"], 2, "a worker and a share of the time as 7@0.4 was expected, not `1@2`"),
        (vec![&*plan, "--svg"], 2, "stradsap simulate --svg: a value was expected after it"),
        (vec!["missing.json"], 1, "missing.json: "),
    ] {
        let (status, out, err) = of(&words);
        assert!(status == code && out.is_empty() && err.contains(problem), "{words:?}: {status} {err}");
    }
    let text = fs::read_to_string(&plan).unwrap();
    for (from, to, problem) in [
        ("\"version\":1", "\"version\":9", "a table of version 9"),
        ("\"costs\":[", "\"costs\":[1,", "costs, and touches of"),
        ("\"strategy\"", "\"way\"", "not the table of a plan: "),
    ] {
        let path = folder.path().join("bad.json");
        assert!(text.contains(from));
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let (status, _, err) = of(&[path.to_str().unwrap()]);
        assert!(status == 1 && err.contains("bad.json: ") && err.contains(problem), "{err}");
    }
}
