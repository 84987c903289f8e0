//! The examples' command line as a person meets it: one line and an exit status for each mistake, and nothing
//! half-written.

use std::fs;
use std::path::Path;

use crate::common::{example, report, small_ratings, stderr, succeed};

const PROGRAMS: &[&str] = &["sgdmf", "sgdmf_sequential"];

/// Runs a program that should fail; gives its exit status and the one line that it said.
fn fail(program: &str, arguments: &[&str]) -> (i32, String) {
    let output = example(program).args(arguments).output().expect("the example starts");
    let said = stderr(&output);
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(lines.len(), 1, "{program} {arguments:?} said {said:?}");
    (output.status.code().expect("an exit status"), lines[0].to_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

#[test]
fn usage_mistakes_are_one_line_and_status_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--rank", "0"], "invalid value '0' for '--rank <K>': expected a whole number of at least 1"),
        (&["--rank", "many"], "invalid value 'many' for '--rank <K>': expected a whole number of at least 1"),
        (
            &["--test-fraction", "1"],
            "invalid value '1' for '--test-fraction <F>': expected a number of at least 0 and below 1",
        ),
        (
            &["--test-fraction=-0.1"],
            "invalid value '-0.1' for '--test-fraction <F>': expected a number of at least 0 and below 1",
        ),
        (&["--learning-rate", "-1"], "invalid value '-1' for '--learning-rate <A>': expected a number above 0"),
        (&["--learning-rate", "0"], "invalid value '0' for '--learning-rate <A>': expected a number above 0"),
        (
            &["--regularisation", "nan"],
            "invalid value 'nan' for '--regularisation <L>': expected a number of at least 0",
        ),
        (&["--epochs", "0"], "invalid value '0' for '--epochs <E>': 0 is not in 1..=4294967295"),
        (&["--threads", "0"], "invalid value '0' for '--threads <T>': 0 is not in 1..=1024"),
        (&["--seed", "x"], "invalid value 'x' for '--seed <S>': invalid digit found in string"),
        (
            &["--workers", "2000"],
            "invalid value '2000' for '--workers [<N>]': expected a whole number of at most 1024, or a range such as 2..8",
        ),
        (&["--home", "servers"], "the following required arguments were not provided: --dds-servers <M>"),
        (&["--snapshot-every", "0"], "invalid value '0' for '--snapshot-every <K>': 0 is not in 1..=4294967295"),
        (&["--checkpoint-every", "2"], "the following required arguments were not provided: --checkpoint <DIR>"),
        (&["--resume"], "the following required arguments were not provided: --checkpoint <DIR>"),
    ];
    for program in PROGRAMS {
        for (arguments, expected) in cases {
            assert_eq!(fail(program, arguments), (2, format!("error: {expected}")));
        }
        let (status, said) = fail(program, &["--ranks", "8"]);
        assert!(status == 2 && said.contains("'--ranks'") && said.contains("'--rank'"), "{said}");
    }
}

#[test]
fn the_twin_has_no_loops_to_explain() {
    for arguments in [
        &["--checkpoint", "d"][..],
        &["--explain"],
        &["--verify"],
        &["--dot", "g.dot"],
        &["--plan", "p.json"],
        &["--threads", "2"],
        &["--workers", "2"],
    ] {
        let (status, said) = fail("sgdmf_sequential", arguments);
        assert_eq!(status, 2);
        assert!(said.starts_with(&format!("error: {}: this program is sequential", arguments[0])), "{said}");
    }
}

#[test]
fn workers_without_a_number_are_one_a_core() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let words = ["--data", text(&data), "--rank", "8", "--epochs", "1"];
    let cores = std::thread::available_parallelism().unwrap().get();
    let alone = report("sgdmf", &words);
    let together = report("sgdmf", &[&words[..], &["--workers"]].concat());
    assert_eq!((&together["workers"], &together["threads"]), (&cores.into(), &1.into()));
    assert_eq!(alone["model_digest"], together["model_digest"]);
    let (status, said) = fail("sgdmf", &["--workers", "--listen", "127.0.0.1:0"]);
    assert_eq!(
        (status, &said[..]),
        (2, "error: --workers: with --listen, it needs the number of workers that will join")
    );
}

#[test]
fn a_driver_that_nobody_can_join_says_so_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let words = ["--data", text(&data), "--epochs", "1", "--listen", "127.0.0.1:0", "--workers"];
    let since = std::time::Instant::now();
    let (status, said) = fail("sgdmf", &[&words[..], &["1"]].concat());
    assert!(status == 2 && said.starts_with("error: nobody could join at 127.0.0.1:"), "{said}");
    assert!(
        said.contains("set STRADSAP_SECRET or STRADSAP_SECRET_FILE for this process and for each `--join"),
        "{said}"
    );
    let (status, said) = fail("sgdmf", &[&words[..], &["0"]].concat());
    assert_eq!(
        (status, &*said),
        (2, "error: --workers 0: with --listen, it needs the number of workers that will join")
    );
    assert!(since.elapsed().as_secs() < 20);
}

#[test]
fn threads_that_would_make_no_progress_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let most = std::thread::available_parallelism().unwrap().get().clamp(256, 1024);
    if most < 1024 {
        let (status, said) = fail("sgdmf", &["--data", text(&data), "--threads", "1024"]);
        let want = format!("error: 1024 threads are not offered on this machine: give a number from 1 to {most}");
        assert_eq!((status, said), (2, want));
    }
    let most = most.to_string();
    succeed("sgdmf", &["--data", text(&data), "--rank", "4", "--epochs", "1", "--threads", &most]);
}

#[test]
fn names_and_packed_data_break_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("two\nlines\u{1b}[31m.csv");
    fs::write(&odd, "1,2\n").unwrap();
    let shown = format!("{}/two\\nlines\\u{{1b}}[31m.csv", folder.path().display());
    for program in PROGRAMS {
        let (status, said) = fail(program, &["--data", text(&odd)]);
        let problem = "2 fields; expected at least 3 (user, item, rating) between commas, tabs or ::";
        assert_eq!((status, said), (1, format!("error: {shown}:1: {problem}")));
        let (status, said) = fail(program, &["--data", &format!("{}.none", text(&odd))]);
        assert_eq!(
            (status, said),
            (1, format!("error: can't read {shown}.none: No such file or directory (os error 2)"))
        );

        // Garbage behind what is packed.
        let packed = folder.path().join("r.csv.gz");
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut out, b"1,2,3\n").unwrap();
        let bytes = out.finish().unwrap();
        fs::write(&packed, [&bytes[..], b"junk"].concat()).unwrap();
        let (status, said) = fail(program, &["--data", text(&packed)]);
        let problem = format!("what begins at byte {} (with 0x6a) is no gzip data", bytes.len());
        assert!(status == 1 && said.contains(&problem), "{said}");
    }
}

#[test]
fn bad_input_is_one_line_and_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let cases: &[(&str, &str)] = &[
        ("", ":1: no ratings; expected lines of user, item, rating"),
        ("1,2,3\n1,2\n", ":2: 2 fields; expected at least 3 (user, item, rating) between commas, tabs or ::"),
        ("1,2,3\n1,3,x\n", ":2: field 3 (rating) is \"x\"; expected a finite number"),
    ];
    let path = folder.path().join("bad.csv");
    for program in PROGRAMS {
        for (content, expected) in cases {
            fs::write(&path, content).unwrap();
            let (status, said) = fail(program, &["--data", text(&path)]);
            assert_eq!((status, said), (1, format!("error: {}{expected}", path.display())));
        }
        let (status, said) = fail(program, &["--data", "/no/such/file.csv"]);
        assert!(status == 1 && said.starts_with("error: can't read /no/such/file.csv: "), "{said}");
    }
}

#[test]
fn outputs_that_cannot_be_written_are_told_before_training() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let plain = folder.path().join("plain");
    fs::write(&plain, "kept").unwrap();
    let below = plain.join("below");
    let model = folder.path().join("model");
    for program in PROGRAMS {
        for option in ["--output", "--report", "--plot"] {
            let target = if option == "--output" { &plain } else { &below };
            let mut arguments = vec!["--data", text(&data), option, text(target)];
            if option != "--output" {
                arguments.extend(["--output", text(&model)]);
            }
            let (status, said) = fail(program, &arguments);
            assert_eq!(status, 1, "{said}");
            assert!(said.contains(text(target)) && said.starts_with("error: can't write"), "{said}");
        }
    }
    assert_eq!(fs::read(&plain).unwrap(), b"kept");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is half-written");
}

#[test]
fn a_model_that_diverges_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let model = folder.path().join("model");
    for program in PROGRAMS {
        let (status, said) = fail(program, &["--data", text(&data), "--learning-rate", "9", "--output", text(&model)]);
        assert_eq!(status, 1);
        assert!(said.starts_with("error: training diverged in epoch "), "{said}");
        assert!(said.ends_with("try a smaller --learning-rate"), "{said}");
        assert!(!model.exists());
    }
}

#[test]
fn a_run_leaves_model_plot_and_report() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    for program in PROGRAMS {
        let model = folder.path().join(program).join("model");
        let plot = folder.path().join(format!("{program}.svg"));
        let output = succeed(
            program,
            &["--data", text(&data), "--rank", "8", "--epochs", "3", "--output", text(&model), "--plot", text(&plot)],
        );
        let said = stderr(&output);
        assert!(said.contains("epoch   3/3  training RMSE ") && said.contains("test RMSE"), "{said}");

        let mut names: Vec<_> = fs::read_dir(&model).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["items.txt", "p.npy", "q.npy", "users.txt"]);
        let users = fs::read_to_string(model.join("users.txt")).unwrap();
        let mut users: Vec<_> = users.lines().collect();
        users.sort_unstable_by_key(|id| id[1..].parse::<u32>().unwrap());
        assert!(users.iter().enumerate().all(|(n, id)| *id == format!("u{n}")), "{users:?}");
        assert_eq!(users.len(), 40);
        let p = fs::read(model.join("p.npy")).unwrap();
        assert_eq!(p.len(), 128 + 40 * 8 * 4);
        assert!(String::from_utf8_lossy(&p[..128]).contains("'shape': (40, 8)"));

        let svg = fs::read_to_string(&plot).unwrap();
        for label in ["training RMSE", "test RMSE", "epoch", "training time (s)", "RMSE (rating units)"] {
            assert!(svg.contains(label), "{label}");
        }
    }
}

#[test]
fn a_run_that_verifies_says_what_it_compared() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    for more in [&["--threads", "2"][..], &["--workers", "2", "--threads", "1"]] {
        let common = ["--data", text(&data), "--rank", "8", "--epochs", "2"];
        let quiet = succeed("sgdmf", &[&common[..], more].concat());
        assert!(!String::from_utf8_lossy(&quiet.stdout).contains("verified"));
        let output = succeed("sgdmf", &[&common[..], more, &["--verify"]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = said.lines().find(|line| line.contains(": verified: ")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.starts_with("examples/sgdmf.rs:") && line.contains("`p`, `q`"), "{line}");
        assert!(line.ends_with("the bits that a replay on one thread gives"), "{line}");
    }
}

#[test]
fn the_report_has_what_it_promises() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    for program in PROGRAMS {
        let report = report(program, &["--data", text(&data), "--rank", "8", "--epochs", "2", "--seed", "5"]);
        assert_eq!(report["example"], *program);
        assert_eq!(report["workers"], 0);
        assert!(report["threads"].as_u64().unwrap() >= 1);
        assert_eq!(report["seed"], 5);
        let size = &report["data"];
        assert_eq!((&size["rows"], &size["users"], &size["items"]), (&600.into(), &40.into(), &30.into()));
        assert_eq!(size["train"].as_u64().unwrap() + size["test"].as_u64().unwrap(), 600);
        let epochs = report["epochs"].as_array().unwrap();
        assert_eq!(epochs.len(), 2);
        for (epoch, number) in epochs.iter().zip(1..) {
            assert_eq!(epoch["epoch"], number);
            assert_eq!(epoch["bytes_sent"], 0);
            assert_eq!(epoch["objective"], epoch["train_rmse"]);
            assert!(epoch["seconds"].as_f64().unwrap() > 0.0 && epoch["test_rmse"].as_f64().unwrap() > 0.0);
        }
        assert!(report["seconds_total"].as_f64().unwrap() > 0.0);
        if cfg!(target_os = "linux") {
            assert!(report["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
        }
        let digest = report["model_digest"].as_str().unwrap();
        assert!(digest.starts_with("blake3:") && digest.len() == 7 + 64, "{digest}");
        let loops = report["loops"].as_array().unwrap();
        assert_eq!(loops.len(), if *program == "sgdmf" { 2 } else { 0 });
        for one in loops {
            assert!(one["site"].as_str().unwrap().contains("sgdmf.rs:"), "{one}");
            assert!(one["strategy"].is_string() && one["blocks"].is_u64() && one["parallelism"].is_f64(), "{one}");
            assert!(one["seconds_recording"].is_f64() && one["seconds_planning"].is_f64(), "{one}");
        }
    }
}

#[test]
fn without_test_ratings_there_is_no_test_rmse() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    for program in PROGRAMS {
        let report = report(program, &["--data", text(&data), "--rank", "8", "--epochs", "1", "--test-fraction", "0"]);
        assert_eq!(report["data"]["test"], 0);
        assert!(report["epochs"][0]["test_rmse"].is_null());
    }
}
