//! The parallel program beside its sequential twin, on the real ratings of the repository.

use serde_json::Value;
use stradsap::random::Stream;
use stradsap_examples::model;

use crate::common::report;

fn test_rmse(report: &Value) -> Option<f64> {
    report["epochs"].as_array()?.last()?["test_rmse"].as_f64()
}

#[test]
fn parallel_training_is_as_good_as_sequential() {
    let run = |program| test_rmse(&report(program, &["--rank", "8", "--epochs", "4"])).unwrap();
    let (twin, parallel) = (run("sgdmf_sequential"), run("sgdmf"));
    assert!((parallel / twin - 1.0).abs() < 0.005, "test RMSE {parallel}, sequential {twin}");
}

fn same_dot(rank: u64) {
    let row = |seed| -> Vec<f32> { (0..rank).map(|k| Stream::new(seed, 1).unit(k) - 0.5).collect() };
    for seed in 0..100 {
        let (a, b) = (row(seed), row(seed + 1000));
        assert_eq!(model::dot(&a, &b).to_bits(), stradsap::kernels::dot(&a, &b).to_bits(), "rank {rank}");
    }
}

#[test]
fn the_twin_s_dot_has_the_bits_of_the_library_s() {
    (1..=70).chain([100, 128, 300, 1000]).for_each(same_dot);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let run = |threads| report("sgdmf", &["--rank", "16", "--epochs", "2", "--threads", threads]);
    let (one, two, three) = (run("1"), run("2"), run("3"));
    assert_eq!((&one["threads"], &two["threads"]), (&1.into(), &2.into()));
    assert_eq!(one["model_digest"], two["model_digest"]);
    assert_eq!(one["model_digest"], three["model_digest"]);
    let objectives = |report: &Value| -> Vec<_> {
        report["epochs"].as_array().unwrap().iter().map(|e| (e["objective"].clone(), e["test_rmse"].clone())).collect()
    };
    assert_eq!(objectives(&one), objectives(&two));
}

#[test]
fn the_seed_changes_the_model() {
    let digest =
        |program, seed| report(program, &["--rank", "8", "--epochs", "1", "--seed", seed])["model_digest"].clone();
    for program in ["sgdmf", "sgdmf_sequential"] {
        assert_eq!(digest(program, "1"), digest(program, "1"));
        assert_ne!(digest(program, "1"), digest(program, "2"));
    }
}

#[test]
fn the_readme_shows_what_its_first_command_reaches() {
    let own = report("sgdmf", &[]);
    let readme = include_str!("../../../README.md");
    let digest = own["model_digest"].as_str().unwrap();
    assert!(readme.contains(&format!("model {digest}\n")), "the README has another digest than {digest}");
    let last = own["epochs"].as_array().unwrap().last().unwrap();
    let [train, test] = ["train_rmse", "test_rmse"].map(|name| last[name].as_f64().unwrap());
    let reached = format!("training RMSE {train:.4}  test RMSE {test:.4} after {} epochs:", last["epoch"]);
    assert!(readme.contains(&reached), "the README doesn't have {reached:?}");
    // The twin has the same defaults.
    let twin = report("sgdmf_sequential", &[]);
    assert_eq!(twin["epochs"].as_array().unwrap().len(), own["epochs"].as_array().unwrap().len());
    assert!((test_rmse(&twin).unwrap() / test - 1.0).abs() < 0.005, "{:?}, and {test}", test_rmse(&twin));
}
