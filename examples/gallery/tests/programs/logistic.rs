//! Sparse logistic regression: beside optima found by plain gradient steps, the sequential twin, and itself elsewhere.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use crate::common::{example, report, stderr};
use crate::sparse::{Data, last, number};

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// The least objective, by proximal gradient steps with momentum, and how far the conditions for it are from holding.
fn best(rows: &[Vec<f64>], labels: &[f64], lambda: f64, intercept: bool) -> (f64, f64) {
    let columns = rows[0].len();
    let bound: f64 = rows.iter().map(|row| row.iter().map(|x| x * x).sum::<f64>() + 1.0).sum::<f64>() / 4.0;
    let predicted = |b: &[f64], c: f64| -> Vec<f64> {
        rows.iter().map(|row| c + row.iter().zip(b).map(|(x, b)| x * b).sum::<f64>()).collect()
    };
    let slopes = |b: &[f64], c: f64| -> Vec<f64> {
        predicted(b, c).iter().zip(labels).map(|(z, y)| y / (1.0 + (y * z).exp())).collect()
    };
    let (mut b, mut c) = (vec![0.0; columns], 0.0);
    let (mut at, mut at_c, mut t) = (b.clone(), c, 1.0f64);
    for _ in 0..40_000 {
        let slopes = slopes(&at, at_c);
        let new: Vec<f64> = (0..columns)
            .map(|j| {
                let x = at[j] + rows.iter().zip(&slopes).map(|(row, s)| row[j] * s).sum::<f64>() / bound;
                x.signum() * (x.abs() - lambda / bound).max(0.0)
            })
            .collect();
        let new_c = if intercept { at_c + slopes.iter().sum::<f64>() / bound } else { 0.0 };
        let next = (1.0 + (1.0 + 4.0 * t * t).sqrt()) / 2.0;
        let turned: f64 = (0..columns).map(|j| (at[j] - new[j]) * (new[j] - b[j])).sum();
        // Begins anew where momentum leads the wrong way.
        let momentum = if turned > 0.0 { 0.0 } else { (t - 1.0) / next };
        t = if turned > 0.0 { 1.0 } else { next };
        at = (0..columns).map(|j| new[j] + momentum * (new[j] - b[j])).collect();
        at_c = new_c + momentum * (new_c - c);
        (b, c) = (new, new_c);
    }
    let slopes = slopes(&b, c);
    let off = (0..columns).map(|j| {
        let share: f64 = rows.iter().zip(&slopes).map(|(row, s)| row[j] * s).sum();
        if b[j] == 0.0 { (share.abs() - lambda).max(0.0) } else { (share - lambda * b[j].signum()).abs() }
    });
    let off = off.fold(if intercept { slopes.iter().sum::<f64>().abs() } else { 0.0 }, f64::max);
    let losses = predicted(&b, c).iter().zip(labels).map(|(z, y)| (-y * z).exp().ln_1p()).sum::<f64>();
    (losses + lambda * b.iter().map(|b| b.abs()).sum::<f64>(), off)
}

#[test]
fn the_optimum_is_that_of_gradient_steps() {
    let folder = tempfile::tempdir().unwrap();
    for (every, name) in [(1, "dense"), (4, "sparse")] {
        let data = Data::new(50, 8, every, 0.3).classes();
        let path = data.write(folder.path(), name);
        for (columns, intercept) in
            [("standardised", true), ("scaled", true), ("scaled", false), ("given", true), ("given", false)]
        {
            // A shift is the intercept's matter.
            let rows = data.scaled(columns, columns == "standardised");
            let (objective, off) = best(&rows, &data.labels, 1.5, intercept);
            assert!(off < 1e-6, "{columns} {intercept}: {off}");
            let mut words = vec!["--data", text(&path), "--columns", columns, "--lambda", "1.5", "--tolerance", "1e-9"];
            words.extend((!intercept).then_some("--no-intercept"));
            let programs =
                [("logistic", &["--threads", "1"][..]), ("logistic", &["--parts", "3"]), ("logistic_sequential", &[])];
            for (program, more) in programs {
                let report = report(program, &[&words[..], &["--epochs", "20000"], more].concat());
                let last = last(&report);
                let reached = number(last, "objective");
                assert!((reached - objective).abs() <= 1e-7 * objective, "{program} {words:?}: {last} for {objective}");
                assert!(number(last, "dual") <= objective * (1.0 + 1e-9) && number(last, "relative_gap") <= 1e-9);
            }
        }
    }
}

#[test]
fn every_schedule_reaches_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(80, 40, 3, 0.1).classes().write(folder.path(), "data");
    let own = ["--data", text(&data), "--lambda-ratio", "0.2", "--tolerance", "1e-6", "--epochs", "20000"];
    let least = number(last(&report("logistic", &own)), "objective");
    for schedule in ["cyclic", "random", "priority", "priority+dependency"] {
        for parts in ["1", "3"] {
            let chosen = ["--schedule", schedule, "--concurrent", "2", "--parts", parts];
            let report = report("logistic", &[&own[..], &chosen].concat());
            assert!((number(last(&report), "objective") / least - 1.0).abs() <= 2e-6, "{schedule}: {}", last(&report));
        }
    }
}

/// An intercept without penalty makes few points dual ones, and the data of the repository has few of one class.
#[test]
fn no_dual_objective_is_above_the_least_objective() {
    let shared = ["--lambda-ratio", "0.2", "--epochs", "6"];
    // Closer than what is compared, and no closer: with 1e-9 it would go on for a thousand epochs.
    let least = number(last(&report("logistic", &[&shared[..2], &["--tolerance", "1e-7"]].concat())), "objective");
    for schedule in ["random", "cyclic", "priority", "priority+dependency"] {
        let report = report("logistic", &[&shared[..], &["--schedule", schedule, "--concurrent", "4"]].concat());
        for epoch in report["epochs"].as_array().unwrap() {
            let (objective, dual) = (number(epoch, "objective"), number(epoch, "dual"));
            assert!(
                dual <= least * (1.0 + 1e-6) && objective >= least * (1.0 - 1e-6),
                "{schedule}: {epoch}, least {least}"
            );
        }
    }
}

#[test]
fn threads_and_workers_leave_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(90, 60, 4, 0.2).classes().write(folder.path(), "data");
    let own = ["--data", text(&data), "--lambda-ratio", "0.1", "--parts", "4", "--epochs", "3", "--tolerance", "0"];
    for schedule in ["working-set", "priority+dependency"] {
        let run = |more: &[&str]| report("logistic", &[&own[..], &["--schedule", schedule], more].concat());
        let alone = run(&["--threads", "1"]);
        for more in
            [&["--threads", "3"][..], &["--workers", "1", "--threads", "1"], &["--workers", "2", "--threads", "2"]]
        {
            assert_eq!(run(more)["model_digest"], alone["model_digest"], "{schedule} {more:?}");
        }
        let kept = folder.path().join(schedule);
        let shorter = [&own[..6], &["--epochs", "1", "--tolerance", "0", "--schedule", schedule]].concat();
        report("logistic", &[&shorter[..], &["--checkpoint", text(&kept)]].concat());
        let resumed = run(&["--checkpoint", text(&kept), "--resume"]);
        assert_eq!(resumed["model_digest"], alone["model_digest"], "{schedule}");
    }
}

#[test]
fn a_run_leaves_a_model_that_liblinear_reads() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(40, 12, 2, 0.2).classes().write(folder.path(), "data");
    for program in ["logistic", "logistic_sequential"] {
        let out = folder.path().join(program);
        report(program, &["--data", text(&data), "--output", text(&out)]);
        let stored = fs::read_to_string(out.join("logistic.model")).unwrap();
        let (head, weights) = stored.split_once("\nw\n").unwrap();
        assert_eq!(head, "solver_type L1R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 12\nbias 1");
        let weights: Vec<f64> = weights.lines().map(|w| w.parse().unwrap()).collect();
        assert_eq!(weights.len(), 13);
        assert!(weights.iter().all(|w| w.is_finite()) && weights[12] != 0.0);
    }
}

#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let third = folder.path().join("third");
    fs::write(&third, "1 1:1\n0 1:2\n\n3 1:4\n").unwrap();
    let said_third = format!("{}:4:1: the label is 3, a third beside 1 and 0; expected two classes", third.display());
    let one = folder.path().join("one");
    fs::write(&one, "1 1:1\n1 1:2\n").unwrap();
    let said_one = format!("{}: all rows have the label 1; expected two classes", one.display());
    let intercept = "--no-intercept: standardised columns need an intercept; give --columns scaled or given";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--data", text(&third)], 1, &said_third),
        (&["--data", text(&one)], 1, &said_one),
        (&["--no-intercept"], 2, intercept),
        (&["--lambda", "0"], 2, "invalid value '0' for '--lambda <L>': expected a number above 0"),
    ];
    for program in ["logistic", "logistic_sequential"] {
        for (arguments, status, expected) in cases {
            let output = example(program).args(*arguments).output().unwrap();
            let said = stderr(&output);
            assert!(said.trim_end().ends_with(expected) && said.lines().count() == 1, "{program}: {said}");
            assert_eq!(output.status.code(), Some(*status), "{program}");
        }
    }
}
