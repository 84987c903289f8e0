//! Where programs write to, as a person meets it: links, devices, FIFOs, full disks and readers that go.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{example, small_ratings, stderr, succeed};

const PROGRAMS: &[&str] = &["sgdmf", "sgdmf_sequential"];

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// A device by a link in this folder: a program that replaced what it is to write to would not harm the machine.
fn device(folder: &Path, name: &str) -> PathBuf {
    let link = folder.join(name);
    symlink(Path::new("/dev").join(name), &link).expect("a link");
    link
}

/// A short run's words.
fn short<'a>(data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["--data", text(data), "--rank", "4", "--epochs", "1"], more].concat()
}

/// What becomes of a run whose standard output goes there: its exit status, and its errors.
fn into(program: &str, words: &[&str], out: impl Into<Stdio>) -> (Option<i32>, String) {
    let output = example(program).args(words).stdout(out).stderr(Stdio::piped()).output().expect("the example starts");
    let said = stderr(&output);
    let errors: Vec<_> = said.lines().filter(|line| line.starts_with("error")).collect();
    (output.status.code(), errors.join("\n"))
}

#[test]
fn results_that_nobody_gets_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let full_disk = device(folder.path(), "full");
    for program in PROGRAMS {
        let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (status, said) = into(program, &short(&data, &[]), full());
        let want = "error: can't write to standard output: No space left on device (os error 28)";
        assert_eq!((status, &*said), (Some(1), want), "{program}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (status, said) = into(program, &short(&data, &[]), writer);
        assert_eq!((status, &*said), (Some(1), "error: can't write to standard output: Broken pipe (os error 32)"));

        // A closed standard error shows no progress, and loses nothing.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = example(program).args(short(&data, &[])).stderr(writer).stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("model blake3:"));

        for option in ["--report", "--plot", "--trace", "--dot", "--plan"] {
            if *program != "sgdmf" && ["--trace", "--dot", "--plan"].contains(&option) {
                continue;
            }
            let (status, said) = into(program, &short(&data, &[option, text(&full_disk)]), Stdio::null());
            assert!(status == Some(1) && said.contains("/full: No space left on device"), "{option}: {said}");
            assert!(fs::symlink_metadata(&full_disk).unwrap().is_symlink());
        }
    }
    let words = short(&data, &["--workers", "1", "--threads", "1", "--trace", text(&full_disk)]);
    let (status, said) = into("sgdmf", &words, Stdio::null());
    let want = format!("error: {}: No space left on device (os error 28)", full_disk.display());
    assert_eq!((status, said), (Some(1), want));
}

#[test]
fn links_devices_and_fifos_stay_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let data = small_ratings(folder.path());
    let null = device(folder.path(), "null");
    fs::create_dir(at("elsewhere")).unwrap();
    for (option, start) in
        [("--report", "{"), ("--trace", "{"), ("--plot", "<svg"), ("--dot", "digraph"), ("--plan", "{")]
    {
        let (link, target, fifo) = (at("link"), at("elsewhere/file"), at("fifo"));
        symlink(&target, &link).unwrap();
        // To a name that nothing has, and to a file.
        for _ in 0..2 {
            succeed("sgdmf", &short(&data, &[option, text(&link)]));
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{option}");
            assert!(fs::read_to_string(&target).unwrap().starts_with(start), "{option}");
        }
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 1, "nothing is left beside it");
        succeed("sgdmf", &short(&data, &[option, text(&null)]));
        assert!(fs::symlink_metadata(&null).unwrap().is_symlink(), "{option}");

        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let reader = Command::new("cat").arg(&fifo).stdout(Stdio::piped()).spawn().unwrap();
        succeed("sgdmf", &short(&data, &[option, text(&fifo)]));
        let read = reader.wait_with_output().unwrap();
        assert!(String::from_utf8_lossy(&read.stdout).starts_with(start), "{option}");
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
        fs::remove_file(&fifo).unwrap();
        fs::remove_file(&target).unwrap();
        fs::remove_file(&link).unwrap();
    }
    // The model's files, too.
    let model = at("model");
    fs::create_dir(&model).unwrap();
    symlink(at("elsewhere/p"), model.join("p.npy")).unwrap();
    succeed("sgdmf", &short(&data, &["--output", text(&model)]));
    assert!(fs::symlink_metadata(model.join("p.npy")).unwrap().is_symlink());
    assert!(fs::read(at("elsewhere/p")).unwrap().starts_with(b"\x93NUMPY"));
}

#[test]
fn a_report_to_standard_output_is_there_with_what_else_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let stdout = folder.path().join("stdout");
    symlink("/proc/self/fd/1", &stdout).unwrap(); // as /dev/stdout is
    let words = short(&data, &["--report", text(&stdout)]);
    let out = folder.path().join("out");
    let (status, said) = into("sgdmf", &words, fs::File::create(&out).unwrap());
    assert_eq!((status, &*said), (Some(0), ""));
    let written = fs::read_to_string(&out).unwrap();
    let piped = String::from_utf8(succeed("sgdmf", &words).stdout).unwrap();
    for all in [written, piped] {
        assert!(all.starts_with("{\n") && all.contains("\n}\n") && all.contains("\nmodel blake3:"), "{all}");
    }
}

#[test]
fn data_may_come_from_a_fifo() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_ratings(folder.path());
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let digest = |words: &[&str], data: Stdio| {
        let output = example("sgdmf").args(words).stdin(data).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let said = String::from_utf8(output.stdout).unwrap();
        said[said.find("model ").unwrap()..].to_owned()
    };
    let want = digest(&short(&data, &[]), Stdio::null());
    let mut writer = Command::new("cp").args([&data, &fifo]).spawn().unwrap();
    assert_eq!(digest(&short(&fifo, &[]), Stdio::null()), want);
    assert!(writer.wait().unwrap().success());
    let mut writer = Command::new("cat").arg(&data).stdout(Stdio::piped()).spawn().unwrap();
    let pipe = writer.stdout.take().unwrap();
    assert_eq!(digest(&short(Path::new("/dev/stdin"), &[]), pipe.into()), want);
    writer.wait().unwrap();
}
