//! The parallel program on worker processes: what its report says of them.

mod common;

use common::{report, small_ratings, stderr, succeed};
use serde_json::Value;

#[test]
fn the_report_says_what_each_worker_did() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let words = ["--data", data.to_str().unwrap(), "--rank", "8", "--epochs", "3", "--threads", "1"];
    let alone = report("sgdmf", &words);
    let together = report("sgdmf", &[&words[..], &["--workers", "2"]].concat());
    assert_eq!(alone["model_digest"], together["model_digest"]);
    assert_eq!((&alone["workers"], &together["workers"]), (&0.into(), &2.into()));
    assert!(alone["loops"][0].get("worker_seconds").is_none());

    let training = &together["loops"][0];
    let times = training["worker_seconds"].as_array().unwrap();
    assert_eq!(times.len(), 2, "{times:?}");
    for time in times {
        assert!(time["worker"].as_str().unwrap().starts_with("worker "), "{time}");
        for part in ["computing", "waiting", "transferring"] {
            assert!(time[part].as_f64().unwrap() >= 0.0, "{time}");
        }
    }
    let sent = |report: &Value| -> Vec<u64> {
        report["epochs"].as_array().unwrap().iter().map(|epoch| epoch["bytes_sent"].as_u64().unwrap()).collect()
    };
    assert_eq!(sent(&alone), [0; 3]);
    assert!(sent(&together).iter().all(|&bytes| bytes > 0), "{together}");
}

#[test]
fn explain_shows_the_layout_over_workers() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let words = ["--data", data.to_str().unwrap(), "--rank", "8", "--epochs", "1", "--explain"];
    let said = stderr(&succeed("sgdmf", &[&words[..], &["--workers", "2", "--threads", "1"]].concat()));
    assert!(said.contains("\n  on 2 workers: the busiest has "), "{said}");
    assert!(said.contains("\n    worker 1 (host ") && said.contains("\n    worker 2 (host "), "{said}");
    assert!(!stderr(&succeed("sgdmf", &words)).contains(" workers: "));
}
