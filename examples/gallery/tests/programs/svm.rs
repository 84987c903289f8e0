//! The linear models: parallel beside sequential, rounds, and what the programs leave.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{example, report, stderr, succeed};

const PROGRAMS: &[&str] = &["svm", "svm_sequential"];
/// The least objectives on the repository's data with the default lambda of 1e-4, found by LIBLINEAR.
const BEST_HINGE: f64 = 0.3518;
const BEST_LOGISTIC: f64 = 0.3245;

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

fn objectives(report: &Value) -> Vec<f64> {
    report["epochs"].as_array().unwrap().iter().map(|epoch| epoch["objective"].as_f64().unwrap()).collect()
}

/// The rounds of the first epoch that is near the best objective.
fn rounds_to(report: &Value, best: f64) -> Option<u64> {
    let near = |epoch: &&Value| epoch["objective"].as_f64().unwrap() <= best + 0.01;
    report["epochs"].as_array().unwrap().iter().find(near)?["rounds"].as_u64()
}

/// Examples of 30 features, sorted by class.
fn small(folder: &Path) -> PathBuf {
    let path = folder.join("small.svm");
    let mut lines: Vec<String> = Vec::new();
    for n in 0..400u32 {
        let (a, b, c) = (1 + n * 7 % 10, 11 + n * 3 % 9, 20 + n * 5 % 11);
        let positive = (a + b + c) % 2 == 0 || a > 8;
        lines.push(format!("{} {a}:1 {b}:0.5 {c}:{}", u8::from(positive), f64::from(n % 5) - 1.5));
    }
    lines.sort();
    fs::write(&path, lines.join("\n")).unwrap();
    path
}

#[test]
fn one_thread_has_the_bits_of_the_twin() {
    let digest =
        |program, options: &[&str]| report(program, &[&["--epochs", "2"], options].concat())["model_digest"].clone();
    for loss in ["hinge", "logistic"] {
        let twin = digest("svm_sequential", &["--loss", loss]);
        for policy in ["model-average", "ssp", "hybrid"] {
            let own = digest("svm", &["--loss", loss, "--sync", policy, "--threads", "1"]);
            assert_eq!(own, twin, "{loss} {policy}");
        }
        let minibatch = ["--loss", loss, "--minibatch", "700"];
        let twin = digest("svm_sequential", &minibatch);
        assert_eq!(digest("svm", &[&minibatch[..], &["--sync", "bsp", "--threads", "1"]].concat()), twin, "{loss}");
    }
}

#[test]
fn rounds_have_the_same_bits_each_time() {
    for policy in ["model-average", "bsp"] {
        let run = || report("svm", &["--epochs", "2", "--threads", "3", "--sync", policy])["model_digest"].clone();
        assert_eq!(run(), run(), "{policy}");
    }
}

#[test]
fn every_policy_comes_near_the_best_objective() {
    for (loss, best) in [("hinge", BEST_HINGE), ("logistic", BEST_LOGISTIC)] {
        let mut runs = vec![("svm_sequential", vec!["--loss", loss])];
        for policy in ["model-average", "ssp", "hybrid"] {
            runs.push(("svm", vec!["--loss", loss, "--threads", "2", "--sync", policy]));
        }
        for (program, options) in runs {
            let report = report(program, &[&options[..], &["--epochs", "10"]].concat());
            let reached = objectives(&report).into_iter().fold(f64::INFINITY, f64::min);
            assert!(reached < best + 0.01 && reached > best - 1e-3, "{program} {options:?}: {reached}");
            let test = report["epochs"][9]["test_accuracy"].as_f64().unwrap();
            assert!(test > 0.82, "{program} {options:?}: {test}");
        }
    }
}

#[test]
fn averaged_models_need_a_fifth_of_the_rounds_of_averaged_gradients() {
    for (loss, best) in [("hinge", BEST_HINGE), ("logistic", BEST_LOGISTIC)] {
        let run =
            |policy, epochs| report("svm", &["--loss", loss, "--threads", "2", "--sync", policy, "--epochs", epochs]);
        let models = rounds_to(&run("model-average", "10"), best).unwrap();
        let gradients = rounds_to(&run("bsp", "40"), best).unwrap();
        assert!(models > 0 && 5 * models <= gradients, "{loss}: {models} and {gradients}");
    }
}

#[test]
fn workers_are_copies_as_threads_are() {
    for policy in ["model-average", "bsp"] {
        let run = |options: &[&str]| {
            let own = ["--epochs", "3", "--threads", "1", "--sync", policy];
            report("svm", &[&own[..], options].concat())
        };
        let threads = report("svm", &["--epochs", "3", "--threads", "2", "--sync", policy]);
        let workers = run(&["--workers", "2"]);
        assert_eq!(workers["model_digest"], threads["model_digest"], "{policy}");
        assert_eq!(workers["epochs"][2]["rounds"], threads["epochs"][2]["rounds"]);
        assert!(workers["epochs"][0]["bytes_sent"].as_u64().unwrap() > 0);
        assert_eq!(run(&["--workers", "1"])["model_digest"], run(&[])["model_digest"], "{policy}");
    }
}

#[test]
fn a_step_on_an_averaged_gradient_is_one_step_however_many_copies_make_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = small(folder.path());
    let run = |program, options: &[&str]| {
        let own = ["--data", text(&data), "--epochs", "5", "--eta0", "0.5", "--loss", "logistic"];
        objectives(&report(program, &[&own[..], options].concat()))
    };
    // 400 examples: two halves are a step, and 133, 133, 134 about one.
    let whole = run("svm_sequential", &["--minibatch", "400"]);
    for options in [["--threads", "2", "--minibatch", "200"], ["--threads", "3", "--minibatch", "400"]] {
        let parts = run("svm", &[&options[..], &["--sync", "bsp"]].concat());
        for (a, b) in whole.iter().zip(&parts) {
            assert!((a - b).abs() < 1e-12, "{options:?}: {whole:?} and {parts:?}");
        }
    }
}

#[test]
fn a_run_leaves_a_model_that_liblinear_reads() {
    let folder = tempfile::tempdir().unwrap();
    let data = small(folder.path());
    for program in PROGRAMS {
        let model = folder.path().join(program);
        let words = ["--data", text(&data), "--test", text(&data), "--epochs", "3", "--output", text(&model)];
        let said = stderr(&succeed(program, &words));
        assert!(said.contains("epoch   3/3  objective ") && said.contains("test accuracy"), "{said}");
        let stored = fs::read_to_string(model.join("svm.model")).unwrap();
        let (head, weights) = stored.split_once("\nw\n").unwrap();
        assert_eq!(head, "solver_type L2R_L1LOSS_SVC_DUAL\nnr_class 2\nlabel 1 0\nnr_feature 30\nbias -1");
        let weights: Vec<f64> = weights.lines().map(|w| w.parse().unwrap()).collect();
        assert_eq!(weights.len(), 30);
        assert!(weights.iter().all(|w| w.is_finite()) && weights.iter().any(|&w| w != 0.0));
    }
}

#[test]
fn the_report_has_rounds_and_accuracies() {
    let folder = tempfile::tempdir().unwrap();
    let data = small(folder.path());
    let own = ["--data", text(&data), "--epochs", "3", "--threads", "2"];
    let parallel = report("svm", &[&own[..], &["--sync", "bsp", "--minibatch", "50"]].concat());
    let rounds = |report: &Value| -> Vec<u64> {
        report["epochs"].as_array().unwrap().iter().map(|epoch| epoch["rounds"].as_u64().unwrap()).collect()
    };
    assert_eq!(rounds(&parallel), [4, 8, 12]);
    assert_eq!(rounds(&report("svm", &own)), [1, 2, 3]);
    for (option, expected) in [("2", [2, 4, 6]), ("50", [1, 2, 3])] {
        let averaged = report("svm", &[&own[..], &["--minibatch", "50", "--average-every", option]].concat());
        assert_eq!(rounds(&averaged), expected);
    }
    let data = &parallel["data"];
    let size = ["train", "test", "features", "values"].map(|name| data[name].as_u64().unwrap());
    assert_eq!(size, [400, 0, 30, 1200]);
    let epoch = &parallel["epochs"][2];
    assert!(epoch["train_accuracy"].as_f64().unwrap() > 0.5 && epoch["test_accuracy"].is_null());
    let loops = parallel["loops"].as_array().unwrap();
    assert_eq!((loops.len(), &loops[0]["strategy"]), (2, &"bsp".into()));
}

#[test]
fn a_run_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let data = small(folder.path());
    for policy in ["bsp", "model-average"] {
        let kept = folder.path().join(policy);
        let run = |epochs: &str, more: &[&str]| {
            let own = ["--data", text(&data), "--threads", "2", "--sync", policy, "--epochs", epochs];
            report("svm", &[&own[..], more].concat())
        };
        let whole = run("5", &[]);
        run("2", &["--checkpoint", text(&kept)]);
        let resumed = run("5", &["--checkpoint", text(&kept), "--resume"]);
        assert_eq!(whole["model_digest"], resumed["model_digest"], "{policy}");
        assert_eq!(whole["epochs"][4]["rounds"], resumed["epochs"][4]["rounds"]);
    }
}

#[test]
fn features_that_training_has_not_seen_weigh_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = small(folder.path());
    let test = folder.path().join("test.svm");
    fs::write(&test, "1 1:1 5000:3\n0 2:1 4999:3\n").unwrap();
    for program in PROGRAMS {
        let report = report(program, &["--data", text(&data), "--test", text(&test), "--epochs", "1"]);
        assert_eq!(report["data"]["features"], 5000);
        assert!(report["epochs"][0]["test_accuracy"].is_f64());
    }
}

#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = small(folder.path());
    let bad = folder.path().join("bad.svm");
    fs::write(&bad, "1 1:1\n0 3:1 2:1\n").unwrap();
    let badly = format!("{}:2:7: index 2 after 3; expected ascending indices", bad.display());
    let other = folder.path().join("other.svm");
    fs::write(&other, "1 1:1\n\n2 2:1\n").unwrap();
    let otherwise = format!("{}:3:1: the label is 2; the training set's are 0 and 1", other.display());
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--data", text(&bad)], 1, &badly),
        (&["--data", text(&data), "--test", text(&other)], 1, &otherwise),
        (&["--data", "/no/such"], 1, "can't read /no/such: No such file or directory (os error 2)"),
        (&["--lambda=-1"], 2, "invalid value '-1' for '--lambda <L>': expected a number of at least 0"),
        (&["--eta0", "0"], 2, "invalid value '0' for '--eta0 <A>': expected a number above 0"),
        (&["--loss", "square"], 2, "invalid value 'square' for '--loss <LOSS>'; [possible values: hinge, logistic]"),
    ];
    for program in PROGRAMS {
        for (arguments, status, expected) in cases {
            let output = example(program).args(*arguments).output().unwrap();
            let said = stderr(&output);
            assert_eq!(said.trim_end(), format!("error: {expected}"), "{program}");
            assert_eq!(output.status.code(), Some(*status));
        }
        let output =
            example(program).args(["--data", text(&data), "--lambda", "0", "--eta0", "1e308"]).output().unwrap();
        let said = stderr(&output);
        let last = said.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("error: training diverged in epoch ") && last.ends_with("try a smaller --eta0"),
            "{said}"
        );
    }
}

#[test]
fn what_was_probably_meant_is_said() {
    for (program, arguments, expected) in [
        (
            "svm",
            ["--sync", "bps"],
            "[possible values: bsp, ssp, hybrid, model-average]; tip: a similar value exists: 'bsp'",
        ),
        ("svm", ["--minibatch", "0"], "invalid value '0' for '--minibatch <M>': expected a whole number of at least 1"),
        ("svm", ["--learning-rate", "-1"], "invalid value '-1' for '--eta0 <A>': expected a number above 0"),
        // What means the same has one name in all programs, beside its own.
        ("word2vec", ["--learning-rate", "0"], "invalid value '0' for '--alpha <A>': expected a number above 0"),
        ("lda", ["--document-prior", "0"], "invalid value '0' for '--alpha <A>': expected a number above 0"),
        ("lda-svi", ["--word-prior", "0"], "invalid value '0' for '--eta <B>': expected a number above 0"),
        ("lasso", ["--regularisation", "0"], "invalid value '0' for '--lambda <L>': expected a number above 0"),
        ("ccdmf", ["--lambda", "-1"], "invalid value '-1' for '--regularisation <L>': expected a number of at least 0"),
    ] {
        let output = example(program).args(arguments).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2));
        assert!(said.trim_end().ends_with(expected) && said.lines().count() == 1, "{said}");
    }
}
