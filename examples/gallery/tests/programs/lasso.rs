//! The Lasso: beside optima found by trying all signs, the sequential twin, and itself on any number of threads and workers.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{example, report, stderr, succeed};
use crate::sparse::{Data, last, number, solved};

const SCHEDULES: [&str; 5] = ["working-set", "cyclic", "random", "priority", "priority+dependency"];

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// The coefficients with the least objective: of all choices of signs the one that fulfils the conditions of Karush, Kuhn
/// and Tucker.
fn best(rows: &[Vec<f64>], labels: &[f64], lambda: f64) -> (f64, Vec<f64>) {
    let columns = rows[0].len();
    let product = |a: usize, b: usize| rows.iter().map(|row| row[a] * row[b]).sum::<f64>();
    let with_labels = |a: usize| rows.iter().zip(labels).map(|(row, y)| row[a] * y).sum::<f64>();
    for choice in 0..3usize.pow(columns as u32) {
        let sign = |j: usize| (choice / 3usize.pow(j as u32) % 3) as f64 - 1.0;
        let used: Vec<usize> = (0..columns).filter(|&j| sign(j) != 0.0).collect();
        let system = used.iter().map(|&a| used.iter().map(|&b| product(a, b)).collect()).collect();
        let right = used.iter().map(|&a| with_labels(a) - lambda * sign(a)).collect();
        let Some(solution) = solved(system, right) else { continue };
        let mut b = vec![0.0; columns];
        used.iter().zip(&solution).for_each(|(&j, x)| b[j] = *x);
        let left: Vec<f64> =
            rows.iter().zip(labels).map(|(row, y)| y - row.iter().zip(&b).map(|(x, b)| x * b).sum::<f64>()).collect();
        let share = |j: usize| rows.iter().zip(&left).map(|(row, r)| row[j] * r).sum::<f64>();
        let holds =
            (0..columns).all(|j| if b[j] == 0.0 { share(j).abs() <= lambda + 1e-9 } else { b[j] * sign(j) > 0.0 });
        if holds {
            let objective =
                left.iter().map(|r| r * r).sum::<f64>() / 2.0 + lambda * b.iter().map(|b| b.abs()).sum::<f64>();
            return (objective, b);
        }
    }
    panic!("no choice of signs fulfils the conditions");
}

/// The intercept and the coefficients of a stored model, from its last lambda.
fn stored(folder: &Path, columns: usize) -> (f64, Vec<f64>) {
    let text = fs::read_to_string(folder.join("lasso.model")).unwrap();
    let line = |name: &str| text.lines().rev().find(|line| line.split(' ').next() == Some(name)).unwrap().to_owned();
    let mut b = vec![0.0; columns];
    for pair in line("w").split(' ').skip(1) {
        let (column, value) = pair.split_once(':').unwrap();
        b[column.parse::<usize>().unwrap() - 1] = value.parse().unwrap();
    }
    assert_eq!(line("nr_feature"), format!("nr_feature {columns}"));
    (line("intercept").split_once(' ').unwrap().1.parse().unwrap(), b)
}

#[test]
fn the_optimum_is_that_of_all_choices_of_signs() {
    let folder = tempfile::tempdir().unwrap();
    for (every, name) in [(1, "dense"), (5, "sparse")] {
        let data = Data::new(30, 6, every, 0.4);
        let path = data.write(folder.path(), name);
        for columns in ["standardised", "scaled", "given"] {
            for intercept in [true, false] {
                let rows = data.scaled(columns, intercept || columns == "standardised");
                let mean = if intercept { data.labels.iter().sum::<f64>() / 30.0 } else { 0.0 };
                let labels: Vec<f64> = data.labels.iter().map(|y| y - mean).collect();
                for lambda in [0.5, 4.0] {
                    let (objective, b) = best(&rows, &labels, lambda);
                    let lambda = lambda.to_string();
                    let mut words = vec!["--data", text(&path), "--columns", columns, "--lambda", &lambda];
                    words.extend(["--tolerance", "1e-11", "--output", text(folder.path())]);
                    words.extend((!intercept).then_some("--no-intercept"));
                    let programs =
                        [("lasso", &["--threads", "1"][..]), ("lasso", &["--parts", "4"]), ("lasso_sequential", &[])];
                    for (program, more) in programs {
                        let report = report(program, &[&words[..], more].concat());
                        let reached = number(last(&report), "objective");
                        let what = format!("{program} {words:?}");
                        assert!((reached - objective).abs() <= 1e-9 * objective, "{what}: {reached} for {objective}");
                        // What a row gets, in the units of the file.
                        let (zero, given) = stored(folder.path(), 6);
                        for (row, scaled) in data.rows.iter().zip(&rows) {
                            let own = zero + row.iter().zip(&given).map(|(x, b)| x * b).sum::<f64>();
                            // Without an intercept standardised columns have one all the same, which is their shifts.
                            let expected = mean + scaled.iter().zip(&b).map(|(x, b)| x * b).sum::<f64>();
                            assert!((own - expected).abs() < 1e-4, "{what}: {own} for {expected}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_schedule_reaches_what_the_twin_does() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(80, 60, 3, 0.1).write(folder.path(), "data");
    let own = ["--data", text(&data), "--lambda-ratio", "0.05", "--tolerance", "1e-9"];
    let twin = number(last(&report("lasso_sequential", &own)), "objective");
    for schedule in SCHEDULES {
        for more in [&["--threads", "1"][..], &["--threads", "2", "--parts", "3"]] {
            let report = report("lasso", &[&own[..], &["--schedule", schedule, "--concurrent", "2"], more].concat());
            let last = last(&report);
            assert!((number(last, "objective") - twin).abs() <= 1e-8 * twin, "{schedule}: {last} and {twin}");
            assert!(number(last, "relative_gap") <= 1e-9);
        }
    }
    // One coefficient at a time, in turn, without a pipeline, is the twin's program.
    let cyclic = ["--schedule", "cyclic", "--concurrent", "1", "--pipeline", "1", "--epochs", "7", "--tolerance", "0"];
    let one = report("lasso", &[&own[..4], &cyclic].concat());
    let twin = report("lasso_sequential", &[&own[..4], &["--epochs", "7", "--tolerance", "0"]].concat());
    assert_eq!(one["model_digest"], twin["model_digest"]);
    // A pass goes over all values of all columns; columns that are stored whole have the zeros among them.
    assert_eq!(last(&one)["values_touched"], last(&twin)["values_touched"]);
    let touched = last(&one)["values_touched"].as_u64().unwrap();
    assert!((7 * one["data"]["values"].as_u64().unwrap()..=7 * 60 * 80).contains(&touched), "{touched}");
}

#[test]
fn the_gap_holds_and_closes() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(60, 90, 2, 0.3).write(folder.path(), "data");
    let own = ["--data", text(&data), "--lambda-ratio", "0.05", "--tolerance", "1e-10", "--epochs", "10000"];
    let least = number(last(&report("lasso_sequential", &own)), "objective");
    for schedule in ["working-set", "priority+dependency"] {
        let report = report("lasso", &[&own[..], &["--schedule", schedule]].concat());
        for epoch in report["epochs"].as_array().unwrap() {
            let [objective, dual, gap] = ["objective", "dual", "relative_gap"].map(|name| number(epoch, name));
            assert!(objective >= least * (1.0 - 1e-9) && dual <= least * (1.0 + 1e-9), "{schedule}: {epoch}, {least}");
            assert!((gap * objective - (objective - dual).max(0.0)).abs() <= 1e-12 * objective);
        }
        assert!(number(last(&report), "relative_gap") <= 1e-10, "{schedule}");
    }
}

#[test]
fn threads_and_workers_leave_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(90, 120, 4, 0.2).write(folder.path(), "data");
    let own = ["--data", text(&data), "--lambda-ratio", "0.05", "--parts", "5", "--epochs", "4", "--tolerance", "0"];
    let mut digests = Vec::new();
    for (schedule, pipeline) in [
        ("working-set", "1"),
        ("priority+dependency", "1"),
        ("priority+dependency", "3"),
        ("random", "2"),
        ("cyclic", "3"),
    ] {
        let chosen = [&own[..], &["--schedule", schedule, "--pipeline", pipeline]].concat();
        let run = |more: &[&str]| report("lasso", &[&chosen[..], more].concat());
        let alone = run(&["--threads", "1"]);
        digests.push(alone["model_digest"].clone());
        for more in [&["--threads", "2"][..], &["--threads", "3"]] {
            assert_eq!(run(more)["model_digest"], alone["model_digest"], "{schedule} {more:?}");
        }
        for workers in ["1", "2", "3"] {
            let report = run(&["--workers", workers, "--threads", "1"]);
            assert_eq!(report["model_digest"], alone["model_digest"], "{schedule}, {workers} workers");
            assert!(report["epochs"][0]["bytes_sent"].as_u64().unwrap() > 0);
        }
        let depth: u64 = pipeline.parse().unwrap();
        assert_eq!(last(&alone)["staleness"], depth - 1, "{schedule}");
    }
    digests.sort_by_key(Value::to_string);
    digests.dedup();
    assert_eq!(digests.len(), 5, "pipelines and schedules show");
}

/// The updates of the first epoch within a part of the least objective.
fn updates_to(report: &Value, least: f64, part: f64) -> Option<f64> {
    let near = |epoch: &&Value| number(epoch, "objective") <= least * (1.0 + part);
    report["epochs"].as_array()?.iter().find(near).map(|epoch| number(epoch, "updates"))
}

#[test]
fn priorities_need_a_fifth_of_the_updates_and_converge_where_random_ones_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let own = |data: &Path| ["--data", text(data), "--pipeline", "1", "--threads", "1"].map(str::to_owned);
    let run = |data: &Path, more: &str| {
        let words = own(data);
        let words: Vec<&str> = words.iter().map(String::as_str).chain(more.split(' ')).collect();
        report("lasso", &words)
    };
    // Nearly independent columns, of which few matter.
    let data = Data::new(100, 400, 1, 0.02).write(folder.path(), "apart");
    let least = number(last(&report("lasso_sequential", &["--data", text(&data)])), "objective");
    for concurrent in ["4", "16"] {
        let own = format!("--updates-per-epoch 40 --epochs 2000 --tolerance 5e-4 --concurrent {concurrent} --schedule");
        let random = updates_to(&run(&data, &format!("{own} random")), least, 1e-3);
        let priority = updates_to(&run(&data, &format!("{own} priority+dependency --correlation 0.3")), least, 1e-3);
        let priority = priority.unwrap();
        assert!(random.is_none_or(|random| random >= 5.0 * priority), "{concurrent}: {random:?} and {priority}");
    }
    // Columns that have much in common: 16 of them overshoot together.
    let data = Data::new(60, 80, 1, 0.9).write(folder.path(), "alike");
    let least = number(last(&report("lasso_sequential", &["--data", text(&data)])), "objective");
    let own = "--concurrent 16 --epochs 300 --tolerance 5e-4 --schedule";
    let converged = run(&data, &format!("{own} priority+dependency"));
    assert!(updates_to(&converged, least, 1e-3).is_some(), "{}", last(&converged));
    let words = format!("--data {} --pipeline 1 {own} random", text(&data));
    let output = example("lasso").args(words.split(' ')).output().unwrap();
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("training diverged in epoch "), "{said}");
    assert!(said.trim_end().ends_with("or --schedule priority+dependency"), "{said}");
}

#[test]
fn a_path_ends_where_one_lambda_does() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(60, 90, 2, 0.3).write(folder.path(), "data");
    let own = ["--data", text(&data), "--lambda-ratio", "0.03", "--tolerance", "1e-9"];
    for program in ["lasso", "lasso_sequential"] {
        let one = report(program, &own);
        let out = folder.path().join(program);
        let path = report(program, &[&own[..], &["--path", "8", "--output", text(&out)]].concat());
        let (a, b) = (number(last(&one), "objective"), number(last(&path), "objective"));
        assert!((a - b).abs() <= 3e-9 * a, "{program}: {a} and {b}");
        let mut lambdas: Vec<f64> = path["epochs"].as_array().unwrap().iter().map(|e| number(e, "lambda")).collect();
        lambdas.dedup();
        assert_eq!(lambdas.len(), 8);
        assert!(lambdas.windows(2).all(|pair| (pair[1] / pair[0] - 0.03f64.powf(0.125)).abs() < 1e-9), "{lambdas:?}");
        let model = fs::read_to_string(out.join("lasso.model")).unwrap();
        assert_eq!(model.lines().filter(|line| line.starts_with("lambda ")).count(), 8);
    }
}

#[test]
fn a_run_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(90, 300, 4, 0.2).write(folder.path(), "data");
    for schedule in SCHEDULES {
        let kept = folder.path().join(schedule);
        let run = |epochs: &str, more: &[&str]| {
            let own = ["--data", text(&data), "--schedule", schedule, "--concurrent", "1", "--tolerance", "1e-12"];
            report("lasso", &[&own[..], &["--lambda-ratio", "0.01", "--epochs", epochs], more].concat())
        };
        let whole = run("4", &[]);
        run("2", &["--checkpoint", text(&kept)]);
        let resumed = run("4", &["--checkpoint", text(&kept), "--resume"]);
        assert_eq!(whole["model_digest"], resumed["model_digest"], "{schedule}");
        assert_eq!(last(&whole)["updates"], last(&resumed)["updates"], "{schedule}");
    }
}

#[test]
fn a_path_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(60, 90, 2, 0.3).write(folder.path(), "data");
    let kept = folder.path().join("kept");
    let run = |more: &[&str]| {
        let own = ["--data", text(&data), "--path", "6", "--lambda-ratio", "0.02", "--tolerance", "1e-8"];
        let out = folder.path().join("out");
        let report = report("lasso", &[&own[..], &["--output", text(&out)], more].concat());
        (report["model_digest"].clone(), fs::read_to_string(out.join("lasso.model")).unwrap())
    };
    let whole = run(&[]);
    // Checkpoints of every epoch but the last few, as a run that was ended leaves them.
    let saved = ["--checkpoint", text(&kept), "--checkpoint-every", "5"];
    assert_eq!(run(&saved), whole);
    assert_eq!(run(&[&saved[..], &["--resume"]].concat()), whole);
}

#[test]
fn the_repositorys_data_is_solved_as_others_solve_it() {
    // By scikit-learn 1.9 and celer 0.7.
    let own = ["--columns", "given", "--no-intercept"];
    for (ratio, least, nonzeros) in [("0.1", 2588.4141547648, 13), ("0.01", 989.2611293560, 150)] {
        let report = report("lasso", &[&own[..], &["--lambda-ratio", ratio]].concat());
        let last = last(&report);
        assert!((number(last, "objective") / least - 1.0).abs() < 1e-6, "{last}");
        assert_eq!(last["nonzeros"], nonzeros);
        assert_eq!((&report["data"]["rows"], &report["data"]["left_out"]), (&7770.into(), &159.into()));
    }
}

#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let zero = file("zero", "1 0:1\n0.5 0:3 0:2\n");
    let back = file("back", "1 1:1\n# a comment\n0 3:1 2:1\n");
    let constant = file("constant", "1 1:1 2:3\n2 1:2 2:3\n\n4 1:4 2:3\n");
    let alike = file("alike", "2 1:1\n2 1:2\n");
    let empty = file("empty", "\n");
    let word = file("word", "1 1:1 2:x\n");
    let nothing = file("nothing", "1 1:5\n2 1:5\n");
    let good = file("good", "1 1:1\n2 1:2\n4 1:3 2:1\n");
    let column =
        "column 2 is 3 in all 3 rows, so it can't be scaled; expected two different values, or --constant drop";
    let cases: &[(&[&str], i32, String)] = &[
        (&["--data", &zero], 1, format!("{zero}:2:9: index 0 after 0; expected ascending indices")),
        (&["--data", &back], 1, format!("{back}:3:7: index 2 after 3; expected ascending indices")),
        (&["--data", &constant], 1, format!("{constant}:1: {column}")),
        (&["--data", &alike], 1, format!("{alike}: all rows have the label 2; expected labels that differ")),
        (&["--data", &empty], 1, format!("{empty}:1: no rows; expected lines of a label and index:value pairs")),
        (&["--data", &word], 1, format!("{word}:1:9: the value is \"x\"; expected a finite number")),
        (
            &["--data", &nothing, "--constant", "drop"],
            1,
            format!("{nothing}: no column has two different values; expected at least one"),
        ),
        (&["--lambda", "0"], 2, "invalid value '0' for '--lambda <L>': expected a number above 0".to_owned()),
        (&["--lambda=-1"], 2, "invalid value '-1' for '--lambda <L>': expected a number above 0".to_owned()),
        (
            &["--lambda-ratio", "2"],
            2,
            "invalid value '2' for '--lambda-ratio <X>': expected a number above 0, up to 1".to_owned(),
        ),
        (
            &["--tolerance", "nan"],
            2,
            "invalid value 'nan' for '--tolerance <G>': expected a number of at least 0".to_owned(),
        ),
        (&["--data", "/no/such"], 1, "can't read /no/such: No such file or directory (os error 2)".to_owned()),
    ];
    for program in ["lasso", "lasso_sequential"] {
        for (arguments, status, expected) in cases {
            let output = example(program).args(*arguments).output().unwrap();
            let said = stderr(&output);
            assert_eq!(said.trim_end(), format!("error: {expected}"), "{program}");
            assert_eq!(output.status.code(), Some(*status), "{program} {arguments:?}");
        }
        succeed(program, &["--data", &constant, "--constant", "drop"]);
        succeed(program, &["--data", &constant, "--columns", "given"]);
        succeed(program, &["--data", &good, "--lambda", "1000"]);
        let output = example(program).args(["--data", &good, "--path", "3", "--lambda", "1000"]).output().unwrap();
        assert!(stderr(&output).contains("--path: a path leads down from "), "{}", stderr(&output));
    }
    let output = example("lasso").args(["--data", &good, "--dot", "x.dot"]).output().unwrap();
    assert!(stderr(&output).contains("--dot: a scheduled program has no conflict graph"), "{}", stderr(&output));
    let output = example("lasso").args(["--data", &good, "--pipeline", "2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--pipeline: rounds of --schedule working-set need each other's changes"));
}
