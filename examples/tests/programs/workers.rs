//! The parallel program on worker processes: what its report says of them.

#![allow(clippy::unwrap_used, reason = "what reads a trace for a test is part of it")]

use serde_json::Value;

use crate::common::{example, report, small_ratings, stderr, succeed};

#[test]
fn elements_at_servers_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let words = ["--data", data.to_str().unwrap(), "--rank", "8", "--epochs", "3"];
    let alone = report("sgdmf", &[&words[..], &["--threads", "1"]].concat());
    for (workers, threads, servers) in [("1", "2", "1"), ("2", "1", "2"), ("3", "3", "2"), ("4", "1", "3")] {
        let more = ["--workers", workers, "--threads", threads, "--dds-servers", servers, "--home", "servers"];
        let other = report("sgdmf", &[&words[..], &more].concat());
        assert_eq!(other["model_digest"], alone["model_digest"], "{more:?}");
    }
}

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
    // Two loops on two workers.
    assert_eq!(
        said.lines().filter(|line| line.starts_with("    worker ") && line.contains("(host ")).count(),
        4,
        "{said}"
    );
    assert!(!stderr(&succeed("sgdmf", &words)).contains(" workers: "));
}

#[test]
fn logs_name_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let words = ["--data", data.to_str().unwrap(), "--rank", "8", "--epochs", "2", "--threads", "1", "--workers", "2"];
    let run = |log: &str| example("sgdmf").args(words).env("STRADSAP_LOG", log).output().unwrap();
    let said = stderr(&run("info"));
    let lines = said.lines().filter_map(|line| line.split_once(" INFO ")?.1.split_once(" stradsap_runtime::"));
    let who: std::collections::BTreeSet<&str> = lines.map(|(who, _)| who).collect();
    assert_eq!(who.iter().filter(|who| who.starts_with("worker ")).count(), 2, "{said}");
    assert!(who.len() == 3 && who.contains("driver"), "{said}");
    // Without the variable, and where nothing is the matter, there is not a line.
    let quiet = stderr(&run(""));
    assert!(!quiet.contains(" INFO ") && !quiet.contains("warning"), "{quiet}");

    let refused = run("inof");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).starts_with("error: STRADSAP_LOG=inof: error, warn, info"), "{}", stderr(&refused));
}

/// The events of a trace, after what every viewer relies on has been checked.
fn events(path: &std::path::Path) -> Vec<Value> {
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(json["otherData"]["events left out"], 0);
    let events = json["traceEvents"].as_array().unwrap().clone();
    for event in &events {
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["name"].is_string(), "{event}");
        match event["ph"].as_str().unwrap() {
            "M" => assert!(event["args"].is_object(), "{event}"),
            "X" => {
                assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0, "{event}");
                assert!(event["cat"].is_string(), "{event}");
            }
            other => panic!("{other}: {event}"),
        }
    }
    // Within a track, spans lie side by side or within each other: overlapping ones are not drawn.
    let mut tracks: std::collections::BTreeMap<u64, Vec<(u64, u64)>> = std::collections::BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let nanoseconds = |key: &str| (event[key].as_f64().unwrap() * 1000.0).round() as u64;
        let (start, duration) = (nanoseconds("ts"), nanoseconds("dur"));
        tracks.entry(event["tid"].as_u64().unwrap()).or_default().push((start, start + duration));
    }
    for spans in tracks.values_mut() {
        spans.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
        let mut open: Vec<u64> = Vec::new();
        for &(start, end) in spans.iter() {
            while open.last().is_some_and(|&last| last <= start) {
                open.pop();
            }
            assert!(open.last().is_none_or(|&last| end <= last), "{start}..{end} in {open:?}");
            open.push(end);
        }
    }
    events
}

/// How many spans of a category a process has.
fn spans(events: &[Value], process: &str, category: &str) -> usize {
    let named = |event: &&Value| event["name"] == "process_name" && event["args"]["name"].as_str() == Some(process);
    let pid = &events.iter().find(named).unwrap()["pid"];
    events.iter().filter(|event| event["pid"] == *pid && event["cat"] == category).count()
}

#[test]
fn the_timeline_shows_all_processes() {
    let folder = tempfile::tempdir().unwrap();
    let (data, trace) = (small_ratings(folder.path()), folder.path().join("trace.json"));
    let words = ["--data", data.to_str().unwrap(), "--rank", "8", "--epochs", "3", "--threads", "1"];
    let words = [&words[..], &["--workers", "2", "--snapshot-every", "2", "--trace", trace.to_str().unwrap()]].concat();
    let blocks: Vec<u64> =
        report("sgdmf", &words)["loops"].as_array().unwrap().iter().map(|l| l["blocks"].as_u64().unwrap()).collect();
    let events = events(&trace);
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "driver");
    let mut run = 0;
    for worker in &names[1..] {
        assert!(worker.starts_with("worker ") && worker.contains(" (host ") && worker.contains("pid "), "{worker}");
        run += spans(&events, worker, "block");
        for category in ["install", "send", "receive", "wait"] {
            assert!(spans(&events, worker, category) > 0, "{category} on {worker}");
        }
    }
    assert_eq!(run as u64, 3 * blocks.iter().sum::<u64>());
    for category in ["record", "plan", "install", "prepare", "wait", "snapshot"] {
        assert!(spans(&events, "driver", category) > 0, "{category}");
    }
    // One clock: workers' blocks lie within the times that the driver waits for them.
    let range = |event: &Value| {
        let start = event["ts"].as_f64().unwrap();
        (start, start + event["dur"].as_f64().unwrap())
    };
    let of = |category: &str| events.iter().filter(|e| e["cat"] == category).map(range).collect::<Vec<_>>();
    let driver = events.iter().find(|event| event["args"]["name"] == "driver").unwrap()["pid"].clone();
    let waits: Vec<_> = events.iter().filter(|e| e["cat"] == "wait" && e["pid"] == driver).map(range).collect();
    let slack = 2000.0;
    for (start, end) in of("block") {
        assert!(waits.iter().any(|&(a, b)| a - slack <= start && end <= b + slack), "{start}..{end} in {waits:?}");
    }
    assert!(!folder.path().join("trace.json.unfinished").exists());
}

#[test]
fn one_process_has_a_timeline_too() {
    let folder = tempfile::tempdir().unwrap();
    let (data, trace) = (small_ratings(folder.path()), folder.path().join("trace.json"));
    let words = ["--data", data.to_str().unwrap(), "--rank", "8", "--epochs", "2", "--threads", "2"];
    succeed("sgdmf", &[&words[..], &["--trace", trace.to_str().unwrap()]].concat());
    let by_option = events(&trace);
    assert!(spans(&by_option, "driver", "block") > 0 && spans(&by_option, "driver", "record") > 0);
    std::fs::remove_file(&trace).unwrap();
    assert!(example("sgdmf").args(words).env("STRADSAP_TRACE", &trace).output().unwrap().status.success());
    assert_eq!(spans(&events(&trace), "driver", "block"), spans(&by_option, "driver", "block"));

    let missing = folder.path().join("no/trace.json");
    let output = example("sgdmf").args(words).env("STRADSAP_TRACE", &missing).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with(&format!("error: {}: ", missing.display())), "{}", stderr(&output));
}

#[cfg(target_os = "linux")]
#[test]
fn ranks_leave_no_secret_however_they_end() {
    use std::process::{Child, Stdio};
    use std::time::{Duration, Instant};

    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let meeting = folder.path().join("meeting");
    let chosen = "5e".repeat(32);
    // What Open MPI's mpirun would say to each.
    let rank = |rank: &str| -> Child {
        let mut command = example("sgdmf");
        command.args(["--data", data.to_str().unwrap(), "--epochs", "1000000", "--threads", "1"]);
        command.env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", "2");
        command.env("OMPI_COMM_WORLD_LOCAL_SIZE", "2").env("PMIX_NAMESPACE", "a-run");
        command.env("STRADSAP_RENDEZVOUS", &meeting).env("STRADSAP_SECRET", &chosen);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let files = || std::fs::read_dir(&meeting).map_or(Vec::new(), |all| all.map(|file| file.unwrap().path()).collect());
    let until = |what: &str, done: &mut dyn FnMut() -> bool| {
        let since = Instant::now();
        while !done() {
            assert!(since.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let mut driver = rank("0");
    until("no file appears", &mut || files().iter().any(|file| file.extension().is_none()));
    // What a person has chosen for more than one job is not in it.
    assert!(!std::fs::read_to_string(&files()[0]).unwrap().contains(&chosen));
    let mut worker = rank("1");
    until("the file stays", &mut || files().is_empty());
    assert!(driver.try_wait().unwrap().is_none() && worker.try_wait().unwrap().is_none());
    driver.kill().unwrap();
    driver.wait().unwrap();
    // Without its driver no rank ends well.
    let since = Instant::now();
    let ended = worker.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    assert!(stderr(&ended).contains("this worker ends, since its driver is lost"), "{}", stderr(&ended));
    assert!(since.elapsed() < Duration::from_secs(60) && files().is_empty());
}
