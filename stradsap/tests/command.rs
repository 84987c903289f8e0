//! The command `stradsap checkpoints`, as a person runs it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stradsap::prelude::*;

/// What the command says: exit code, standard output, standard error.
fn stradsap(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_stradsap")).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A folder of two checkpoints, of which one vector is shared.
fn saved() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder().threads(1).build().unwrap();
    let rows = DVector::from_fn(&session, 100, |i| [i as f32; 8]).unwrap();
    let mut count = DVector::from_vec(&session, vec![1u64, 2, 3]).unwrap();
    let mut checkpoints = Checkpoints::new(folder.path(), 1).unwrap();
    for step in [11, 12] {
        count.set(0, step).unwrap();
        checkpoints.save(step, &(), &[("rows", &rows), ("count", &count)]).unwrap();
    }
    checkpoints.finish().unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The newest checkpoint, and the data file of this size that it names.
fn newest(folder: &Path, bytes: u64) -> (PathBuf, PathBuf) {
    let manifest = folder.join("step-000000000012.checkpoint");
    let named = fs::read_to_string(&manifest).unwrap();
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is = |path: &PathBuf| {
        named.contains(path.file_name().unwrap().to_str().unwrap()) && fs::metadata(path).unwrap().len() == bytes
    };
    (manifest, files.find(is).unwrap())
}

#[test]
fn checkpoints_are_listed() {
    let folder = saved();
    let (code, out, err) = stradsap(&["checkpoints", "list", text(folder.path())]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    let cells = |line: &'_ str| -> Vec<String> {
        line.split("  ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    };
    let rows: Vec<_> = out.lines().map(cells).collect();
    assert_eq!(rows[0], ["step", "when", "size", "vectors", "build"]);
    assert_eq!((rows.len(), &*rows[1][0], &*rows[2][0]), (3, "11", "12"));
    let when = &rows[2][1];
    assert!(when.len() == 20 && when.starts_with("20") && when.ends_with('Z'), "{when}");
    assert!(rows[2][2].ends_with(" KiB") && rows[2][3] == "2", "{out}");
    assert!(rows[2][4].starts_with(concat!("stradsap ", env!("CARGO_PKG_VERSION"), " ")), "{out}");

    // A damaged one is named beside those that are not.
    let (manifest, _) = newest(folder.path(), 24);
    fs::write(&manifest, "{}").unwrap();
    let (code, out, err) = stradsap(&["checkpoints", "list", text(folder.path())]);
    assert_eq!((code, out.lines().count()), (1, 2), "{out}");
    assert!(err.starts_with(&format!("error: {}: damaged or cut short: ", manifest.display())), "{err}");
}

#[test]
fn files_are_verified() {
    let folder = saved();
    let all = text(folder.path());
    let (manifest, rows) = newest(folder.path(), 3200);
    let (_, count) = newest(folder.path(), 24);
    let (code, out, err) = stradsap(&["checkpoints", "verify", all]);
    assert_eq!((code, &*err), (0, ""));
    let good = |step| format!("good  step-0000000000{step}.checkpoint  2 data files, 3.1 KiB\n");
    assert_eq!(out, good(11) + &good(12));
    assert_eq!(stradsap(&["checkpoints", "verify", text(&manifest)]), (0, good(12), String::new()));
    let (code, out, _) = stradsap(&["checkpoints", "verify", text(&rows)]);
    assert_eq!((code, out), (0, format!("good  {}  3.1 KiB\n", rows.file_name().unwrap().display())));

    // What nobody needs is not bad.
    let spare = folder.path().join("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262.data");
    fs::write(&spare, "").unwrap();
    let (code, out, _) = stradsap(&["checkpoints", "verify", all]);
    assert_eq!((code, out.lines().count()), (0, 3), "{out}");
    assert!(out.lines().last().unwrap().starts_with("spare "), "{out}");

    // A file of one checkpoint, and one that both need.
    for (file, bad) in [(&count, 1), (&rows, 2)] {
        let bytes = fs::read(file).unwrap();
        let mut flipped = bytes.clone();
        flipped[7] ^= 1;
        fs::write(file, &flipped).unwrap();
        let (code, out, err) = stradsap(&["checkpoints", "verify", all]);
        assert_eq!((code, out.lines().filter(|line| line.starts_with("bad ")).count()), (1, bad), "{out}");
        assert!(err.starts_with(&format!("error: {}: damaged: ", file.display())), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        for one in [text(&manifest), text(file)] {
            let (code, _, err) = stradsap(&["checkpoints", "verify", one]);
            assert_eq!(code, 1, "{one}: {err}");
            assert!(err.starts_with(&format!("error: {}: damaged: ", file.display())), "{err}");
        }
        fs::write(file, &bytes[..3]).unwrap();
        let (code, _, err) = stradsap(&["checkpoints", "verify", all]);
        assert!(code == 1 && err.contains("it has 3 bytes"), "{err}");
        fs::remove_file(file).unwrap();
        let (code, _, err) = stradsap(&["checkpoints", "verify", all]);
        assert!(code == 1 && err.starts_with(&format!("error: {}: ", file.display())), "{err}");
        fs::write(file, bytes).unwrap();
    }
    assert_eq!(stradsap(&["checkpoints", "verify", all]).0, 0);
}

#[test]
fn a_checkpoint_is_shown() {
    let folder = saved();
    let (manifest, rows) = newest(folder.path(), 3200);
    let (code, out, err) = stradsap(&["checkpoints", "show", text(&manifest)]);
    assert_eq!((code, &*err), (0, ""));
    let value = |name: &str| {
        let line = out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {out}"));
        line[name.len()..].trim()
    };
    assert_eq!(value("step "), "12");
    assert_eq!(value("format "), "version 3");
    assert!(value("executable ").starts_with("blake3:") && value("target ").contains(std::env::consts::ARCH));
    let row: Vec<_> = value("rows ").split_whitespace().collect();
    let file = rows.file_name().unwrap().to_str().unwrap();
    assert_eq!(row, ["elements", "[f32;", "8]", "100", "3.1", "KiB", file]);

    let (code, _, err) = stradsap(&["checkpoints", "show", text(&rows)]);
    assert!(code == 1 && err.starts_with(&format!("error: {}: ", rows.display())), "{err}");
}

#[test]
fn mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let all = text(folder.path());
    let see = "; see stradsap --help\n";
    for (words, says) in [
        (&["checkpoint", "list", all][..], "stradsap: there is no `checkpoint`; did you mean `checkpoints`?"),
        (&["checkpoints", "lsit", all], "stradsap checkpoints: there is no `lsit`; did you mean `list`?"),
        (&["checkpoints", "verfy", all], "stradsap checkpoints: there is no `verfy`; did you mean `verify`?"),
        (&["checkpoints", "xyzzy"], "stradsap checkpoints: there is no `xyzzy`; there is `list`, `verify`, `show`"),
        (&["checkpoints", "list"], "stradsap checkpoints list: the folder of checkpoints was expected after it"),
        (&["checkpoints", "show", "a", "b"], "stradsap checkpoints show: `b` is a word too many"),
        (&["checkpoints"], "stradsap checkpoints: `list`, `verify` or `show` was expected after it"),
        (&[], "stradsap: `checkpoints`, `simulate`, `completions` or `man` was expected after it"),
        (&["completions", "bsh"], "stradsap completions: there is no `bsh`; did you mean `bash`?"),
        (&["man", "man"], "stradsap man: `man` is a word too many"),
    ] {
        assert_eq!(stradsap(words), (2, String::new(), format!("error: {says}{see}")));
    }
    for action in ["list", "verify"] {
        let (code, _, err) = stradsap(&["checkpoints", action, all]);
        assert!(code == 1 && err.starts_with(&format!("error: {all}: there are no checkpoints")), "{err}");
        let missing = text(&folder.path().join("missing")).to_owned();
        let (code, _, err) = stradsap(&["checkpoints", action, &missing]);
        assert!(code == 1 && err.starts_with(&format!("error: {missing}: ")), "{err}");
    }
    let (code, out, _) = stradsap(&["--help"]);
    assert!(code == 0 && out.contains("Usage: stradsap checkpoints list DIR"), "{out}");
    assert_eq!(stradsap(&["--version"]).1, concat!("stradsap ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// Not in a folder with such a name.
#[cfg(not(feature = "remote"))]
#[test]
fn addresses_need_a_feature() {
    let address = "s3://bucket/prefix";
    for (action, of) in
        [("list", address), ("verify", address), ("show", "s3://bucket/prefix/step-000000000001.checkpoint")]
    {
        let (code, out, err) = stradsap(&["checkpoints", action, of]);
        assert!(code == 2 && out.is_empty(), "{out}");
        assert!(err.contains(address) && err.contains("built with the feature `remote` of stradsap"), "{err}");
    }
    assert_eq!(Checkpoints::new(address, 1).unwrap_err().exit_code(), 2);
    assert_eq!(Checkpoints::check(address).unwrap_err().exit_code(), 2);
    assert!(!Path::new("s3:").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn what_nobody_gets_is_an_error() {
    let folder = saved();
    for words in [&["list", text(folder.path())][..], &["verify", text(folder.path())]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for (out, says) in
            [(full.into(), "No space left on device"), (std::process::Stdio::from(closed), "Broken pipe")]
        {
            let mut command = Command::new(env!("CARGO_BIN_EXE_stradsap"));
            let output =
                command.arg("checkpoints").args(words).stdout(out).stderr(std::process::Stdio::piped()).output();
            let output = output.unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1));
            assert!(said.starts_with(&format!("error: standard output: {says}")), "{said}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_waits_for_a_fifo() {
    let fifo = |path: &Path| {
        let _ = fs::remove_file(path);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let folder = saved();
    let (manifest, rows) = newest(folder.path(), 3200);
    for path in [&rows, &manifest] {
        fifo(path);
        for (action, of) in [("list", folder.path()), ("verify", folder.path()), ("verify", path), ("show", path)] {
            if (action, path) == ("list", &rows) {
                continue; // which reads manifests alone
            }
            let (code, _, err) = stradsap(&["checkpoints", action, text(of)]);
            assert_eq!(code, 1, "{action}: {err}");
            if (action, path) != ("show", &rows) && path != &rows {
                assert!(err.contains("this is a FIFO or pipe; a regular file was expected"), "{action}: {err}");
            }
        }
    }
    // A program skips it, as it does a damaged one; nor does it wait where it is to write.
    let session = Session::builder().threads(1).build().unwrap();
    let folder = saved();
    let (manifest, _) = newest(folder.path(), 3200);
    fifo(&manifest);
    fifo(&folder.path().join("step-000000000013.checkpoint.unfinished"));
    let mut checkpoints = Checkpoints::new(folder.path(), 1).unwrap();
    let checkpoint = checkpoints.resume().unwrap().unwrap();
    assert_eq!(checkpoint.step(), 11);
    let rows = checkpoint.vector::<[f32; 8]>(&session, "rows").unwrap();
    checkpoints.save(13, &(), &[("rows", &rows)]).unwrap();
    checkpoints.finish().unwrap();
    assert_eq!(checkpoints.resume().unwrap().unwrap().step(), 13);
}

/// bash offers what its script says, where there is a bash.
#[test]
fn words_are_completed() {
    let (code, script, _) = stradsap(&["completions", "bash"]);
    assert_eq!(code, 0);
    let offered = |words: &str| {
        let ask = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _stradsap; echo ${{COMPREPLY[*]}}"
        );
        let output = Command::new("bash").args(["--norc", "-c", &ask]).output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    for (words, expected) in [
        ("stradsap c", "checkpoints completions"),
        ("stradsap checkpoints v", "verify"),
        ("stradsap completions ''", "bash zsh fish"),
        ("stradsap man ''", ""),
    ] {
        assert_eq!(offered(words).unwrap_or_else(|| expected.to_owned()), expected, "{words}");
    }
    let (code, page, _) = stradsap(&["man"]);
    assert!(code == 0 && page.starts_with(".TH STRADSAP 1"));
}
