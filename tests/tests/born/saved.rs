//! What workers have, in checkpoints: the same files as of one process, and back on the workers when a run goes on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use stradsap::prelude::*;
use stradsap::{Checkpoint, ClusterOptions};

use super::files::Folder;
use crate::common::below;
use crate::jobs::job::joining;
use crate::jobs::processes::{Process, a_secret, children_as, free_port, runs, signal_to, this_program, wait_for};
use crate::jobs::runner::{Test, seeds};
use crate::seen::Seen;

/// 66 MiB, and 35: three files and two.
const LONG: usize = 135_000;
const ROWS: usize = 280_000;
/// 39 MiB of `Row`s: two files, of which the first and the second have rows of the same worker.
const SHORT: usize = 80_000;
const WIDTH: usize = 33;

type Row = [f64; 64];

fn made(session: &Session, len: usize) -> stradsap::Result<DVector<Row>> {
    let row = |i: &usize| {
        let mut row = [*i as f64; 64];
        row[1] = 1.0 / (1 + i) as f64;
        row
    };
    session.range(len).map(row).collect()
}

fn rows(session: &Session) -> stradsap::Result<DMatrix<f32>> {
    session.range(ROWS).map(|i| vec![*i as f32; WIDTH]).collect_rows(WIDTH)
}

/// Names of data files, and their sizes.
fn data(folder: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()));
    let mut data: Vec<_> = named.filter(|(name, _)| name.contains(".data")).collect();
    data.sort();
    data
}

fn manifest(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("step-{step:012}.checkpoint"))
}

pub(crate) fn saved(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let kept = folder.path().join("kept");
    let (mut x, m) = (made(session, LONG)?, rows(session)?);
    let small = session.range(1000).map(|i| i * i).collect()?;
    let words = session.range(3000).map(|i| "w".repeat(i % 7)).collect()?;
    let ages = DMap::from_entries(session, (0..100u32).map(|i| (i, format!("{i}"))))?;
    let none = session.range(9).filter(|i| *i > 9).collect()?;
    let mut checkpoints = Checkpoints::new(&kept, 1)?;
    let mut save = |step: u64, x: &DVector<Row>| {
        checkpoints.save(
            step,
            &step,
            &[("x", x), ("m", &m), ("small", &small), ("words", &words), ("ages", &ages), ("none", &none)],
        )?;
        checkpoints.finish()?;
        let files = data(&kept);
        assert!(files.iter().all(|(_, size)| *size <= 32 << 20));
        Ok::<_, stradsap::Error>(files)
    };
    let first = save(1, &x)?;
    // Three files and two; the others have one each, and nothing has none.
    assert_eq!(first.len(), 3 + 2 + 3);
    seen.record("files", &first);
    async_parallel_for!(0..1000, [&mut x], |i| x[i][0] += 0.5)?;
    let second = save(2, &x)?;
    assert_eq!(second.len(), first.len() + 1, "more was written than has changed");
    seen.record("files", &second);

    let checkpoint = Checkpoints::new(&kept, 1)?.resume()?.unwrap();
    let mut again = checkpoint.vector::<Row>(session, "x")?;
    assert_eq!((again.len(), again.digest()?), (LONG, x.digest()?));
    let numbers = checkpoint.matrix::<f64>(session, "x")?;
    assert_eq!((numbers.width(), numbers.digest()?), (64, x.digest()?));
    let read = checkpoint.matrix::<f32>(session, "m")?;
    assert_eq!((read.len(), read.width(), read.digest()?), (ROWS, WIDTH, m.digest()?));
    assert_eq!(checkpoint.vector::<[f32; WIDTH]>(session, "m")?.digest()?, m.digest()?);
    assert_eq!(checkpoint.vector::<usize>(session, "small")?.to_vec()?, small.to_vec()?);
    assert_eq!(checkpoint.vector::<String>(session, "words")?.to_vec()?, words.to_vec()?);
    assert_eq!(checkpoint.map::<u32, String>(session, "ages")?.digest()?, ages.digest()?);
    assert!(checkpoint.vector::<usize>(session, "none")?.is_empty());
    seen.record("a type", folder.told(checkpoint.vector::<f64>(session, "x")));

    // The run goes on, and what it began from is deleted.
    drop((x, numbers, read));
    for step in 3..6 {
        async_parallel_for!(0..LONG, [step, &mut again], |i| again[i][2] *= step as f64)?;
        seen.record("files", save(step, &again)?);
    }
    seen.digest("x", &again)
}

/// A file that changes after it was compared with its checksum, and before it is read.
pub(crate) fn damaged(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let kept = folder.path().join("kept");
    let mut x = made(session, SHORT)?;
    let mut checkpoints = Checkpoints::new(&kept, 1)?;
    checkpoints.save(1, &(), &[("x", &x)])?;
    checkpoints.finish()?;
    let before = (data(&kept), x.digest()?);
    async_parallel_for!(0..SHORT, [&mut x], |i| x[i][0] += 0.5)?;
    checkpoints.save(2, &(), &[("x", &x)])?;
    checkpoints.finish()?;
    for (name, _) in data(&kept).into_iter().filter(|file| !before.0.contains(file)) {
        let path = kept.join(name);
        let whole = std::fs::read(&path).unwrap();
        let checkpoint = checkpoints.resume()?.unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        std::fs::write(&path, flipped).unwrap();
        seen.record("flipped", folder.told(checkpoint.vector::<Row>(session, "x")));
        std::fs::write(&path, &whole[1..]).unwrap();
        seen.record("cut", folder.told(checkpoint.vector::<Row>(session, "x")));
        std::fs::remove_file(&path).unwrap();
        seen.record("gone", folder.told(checkpoint.matrix::<f64>(session, "x")));
        // The one before is whole.
        let earlier = checkpoints.resume()?.unwrap();
        assert_eq!((earlier.step(), earlier.vector::<Row>(session, "x")?.digest()?), (1, before.1.clone()));
        std::fs::write(&path, whole).unwrap();
    }
    Ok(())
}

/// A file that a worker can't write.
pub(crate) fn failed(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let (kept, other) = (folder.path().join("kept"), folder.path().join("other"));
    let mut x = made(session, SHORT)?;
    let mut checkpoints = Checkpoints::new(&kept, 1)?;
    checkpoints.save(1, &(), &[("x", &x)])?;
    checkpoints.finish()?;
    let before = data(&kept);
    async_parallel_for!(0..SHORT, [&mut x], |i| x[i][0] += 0.5)?;
    let mut elsewhere = Checkpoints::new(&other, 1)?;
    elsewhere.save(2, &(), &[("x", &x)])?;
    elsewhere.finish()?;
    let (name, _) = data(&other).into_iter().next().unwrap();
    // A folder has the name of one of the files.
    std::fs::create_dir_all(kept.join(&name).join("in the way")).unwrap();
    let error = checkpoints.save(2, &(), &[("x", &x)]).and_then(|()| checkpoints.finish()).unwrap_err();
    let error = folder.told::<()>(Err(error));
    assert!(error.starts_with(&format!("/kept/{name}: ")), "{error}");
    std::fs::remove_dir_all(kept.join(&name)).unwrap();
    assert_eq!(data(&kept), before, "what was written in vain is there");
    assert_eq!(checkpoints.resume()?.unwrap().step(), 1);
    checkpoints.save(3, &(), &[("x", &x)])?;
    checkpoints.finish()?;
    let last = Checkpoint::open(manifest(&kept, 3))?;
    assert_eq!(last.vector::<Row>(session, "x")?.digest()?, x.digest()?);
    seen.record("files", data(&kept));
    Ok(())
}

/// One run, on as many workers before and after the checkpoint as it says.
fn resumed() {
    let run = |workers: [usize; 2], folder: &Path| -> stradsap::Result<String> {
        let mut digest = String::new();
        for (part, &workers) in workers.iter().enumerate() {
            let session = session(workers);
            let mut checkpoints = Checkpoints::new(folder, 1)?;
            let (mut x, weights) = match checkpoints.resume()? {
                Some(checkpoint) => (checkpoint.vector(&session, "x")?, checkpoint.matrix(&session, "weights")?),
                None => (made(&session, SHORT)?, rows(&session)?),
            };
            for step in 2 * part as u64..2 * part as u64 + 2 {
                async_parallel_for!(0..SHORT, [step, &mut x, &weights], |i| {
                    let w = &weights[2 * i];
                    x[i][3] += f64::from(w[5]) * step as f64 + x[i][1];
                })?;
                checkpoints.save(step + 1, &(), &[("x", &x), ("weights", &weights)])?;
            }
            checkpoints.finish()?;
            digest = x.digest()?;
        }
        Ok(digest)
    };
    let folder = |workers: [usize; 2]| {
        let folder = tempfile::tempdir().unwrap();
        (run(workers, folder.path()).unwrap(), data(folder.path()))
    };
    let expected = folder([0, 0]);
    for workers in [[0, 2], [2, 3], [3, 1], [3, 0]] {
        assert_eq!(folder(workers), expected, "{workers:?} workers");
    }
}

fn session(workers: usize) -> Session {
    let session = Session::builder().threads(1).build().unwrap();
    if workers > 0 {
        session.start_workers(&ClusterOptions::new(workers).threads(1)).unwrap();
    }
    session
}

/// While they write a checkpoint, and while they read it.
fn killed() {
    for seed in seeds(4, 40) {
        let folder = tempfile::tempdir().unwrap();
        let session = session(2 + below(seed, 2));
        let mut x = made(&session, SHORT).unwrap();
        let mut checkpoints = Checkpoints::new(folder.path(), 1).unwrap();
        checkpoints.save(1, &(), &[("x", &x)]).unwrap();
        async_parallel_for!(0..SHORT, [&mut x], |i| x[i][0] += 0.5).unwrap();
        let expected = x.digest().unwrap();
        let kill = |after: u64| {
            let workers = children_as(std::process::id(), "worker");
            let victim = workers[below(seed, workers.len())];
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(after));
                signal_to(victim, "KILL");
                wait_for("the killed worker's end", Duration::from_secs(5), || (!runs(victim)).then_some(()));
            })
        };
        let killer = kill(below(seed + 1, 80) as u64);
        checkpoints.save(2, &(), &[("x", &x)]).unwrap();
        checkpoints.finish().unwrap();
        killer.join().unwrap();
        assert_eq!(x.digest().unwrap(), expected, "seed {seed}");
        let checkpoint = checkpoints.resume().unwrap().unwrap();
        assert_eq!(checkpoint.step(), 2);
        let killer = kill(below(seed + 2, 80) as u64);
        let mut again = checkpoint.vector::<Row>(&session, "x").unwrap();
        killer.join().unwrap();
        assert_eq!(again.digest().unwrap(), expected, "seed {seed}");
        for step in 3..5 {
            async_parallel_for!(0..SHORT, [&mut again], |i| again[i][0] -= 0.25).unwrap();
            checkpoints.save(step, &(), &[("x", &again)]).unwrap();
        }
        checkpoints.finish().unwrap();
        // What the run began from is deleted; a loss doesn't ask for it.
        kill(0).join().unwrap();
        async_parallel_for!(0..SHORT, [&mut again], |i| again[i][0] += 0.5).unwrap();
        assert_eq!(again.digest().unwrap(), expected, "seed {seed}");
    }
}

/// Makes this executable the program that has a small disk.
const SMALL_DISK: &str = "TESTS_SAVED_SMALL_DISK";

/// A program in which something is mounted at a folder.
fn where_mounted(size: &str, folder: &Path, program: &Command) -> Command {
    let script = format!(r#"mount -t tmpfs -o size={size} none "$1" || exit 77; shift; exec "$@""#);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, "sh"]).arg(folder).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Whether nothing can be mounted here.
fn cant_mount(program: &mut Process, why: &str) -> bool {
    let ended = program.ended().is_some_and(|status| status.code() == Some(77));
    let cant = ended || program.err().starts_with("unshare: ");
    if cant {
        eprintln!("skipped, {why}: {}", program.err());
    }
    cant
}

#[allow(clippy::print_stdout)]
pub(crate) fn asked_for(session: &Session) -> Option<stradsap::Result<()>> {
    if let Some(folder) = std::env::var_os(UNSEEN) {
        return Some(save_unseen(session, Path::new(&folder)));
    }
    let disk = PathBuf::from(std::env::var_os(SMALL_DISK)?);
    Some((|| {
        session.start_workers(&ClusterOptions::new(2).threads(1))?;
        let mut x = made(session, LONG)?;
        let mut checkpoints = Checkpoints::new(&disk, 1)?;
        checkpoints.save(1, &(), &[("x", &x)])?;
        checkpoints.finish()?;
        let before = data(&disk);
        for _ in 0..2 {
            async_parallel_for!(0..LONG, [&mut x], |i| x[i][0] += 0.5)?;
            let error = checkpoints.save(2, &(), &[("x", &x)]).unwrap_err().to_string();
            assert!(error.starts_with(disk.to_str().unwrap()) && error.contains("No space left on device"), "{error}");
            assert_eq!(data(&disk), before);
            checkpoints.finish()?;
            assert_eq!(checkpoints.resume()?.unwrap().step(), 1);
        }
        // One of three files has changed, for which there is room.
        let mut x = checkpoints.resume()?.unwrap().vector::<Row>(session, "x")?;
        async_parallel_for!(0..1000, [&mut x], |i| x[i][0] += 0.5)?;
        checkpoints.save(3, &(), &[("x", &x)])?;
        checkpoints.finish()?;
        assert_eq!(checkpoints.resume()?.unwrap().vector::<Row>(session, "x")?.digest()?, x.digest()?);
        println!("a small disk was filled");
        Ok(())
    })())
}

fn full() {
    let folder = tempfile::tempdir().unwrap();
    let program = where_mounted("120m", folder.path(), this_program().env(SMALL_DISK, folder.path()));
    let mut program = Process::start(&mut { program });
    let status = program.wait("a program with a small disk", Duration::from_secs(60));
    if cant_mount(&mut program, "no small disk can be mounted here") {
        return;
    }
    assert!(status.success() && program.out().contains("a small disk was filled"), "{}", program.err());
}

/// Makes this executable the program of which a worker doesn't see the folder.
const UNSEEN: &str = "TESTS_SAVED_UNSEEN";

#[allow(clippy::print_stdout)]
fn save_unseen(session: &Session, folder: &Path) -> stradsap::Result<()> {
    let mut x = made(session, SHORT)?;
    let mut checkpoints = Checkpoints::new(folder, 1)?;
    for step in 1..3 {
        async_parallel_for!(0..1000, [&mut x], |i| x[i][0] += 0.5)?;
        checkpoints.save(step, &(), &[("x", &x)])?;
    }
    drop(x);
    let mut x = checkpoints.resume()?.unwrap().vector::<Row>(session, "x")?;
    async_parallel_for!(0..SHORT, [&mut x], |i| x[i][1] += x[i][0])?;
    checkpoints.save(3, &(), &[("x", &x)])?;
    checkpoints.finish()?;
    println!("digest {}", x.digest()?);
    Ok(())
}

/// Where a worker has another folder under the name of that of the checkpoints, its pieces come to the driver.
fn unseen() {
    let (alone, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut expected = Process::start(this_program().env(UNSEEN, alone.path()));
    let expected = expected.line("digest ", Duration::from_secs(60));
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(7));
    let mut driver = this_program();
    driver.env("STRADSAP_WORKERS", "2").env("STRADSAP_LISTEN", &at).env("STRADSAP_SECRET", &secret);
    let mut driver = Process::start(driver.env(UNSEEN, folder.path()));
    let _sees = joining(&at, &secret, |_| {});
    let mut blind = this_program();
    blind.args(["--join", &at, "--threads", "1"]).env("STRADSAP_SECRET", &secret);
    let mut blind = Process::start(&mut where_mounted("1m", folder.path(), &blind));
    std::thread::sleep(Duration::from_millis(500));
    if cant_mount(&mut blind, "no worker can have a folder of its own here") {
        return;
    }
    assert_eq!(driver.line("digest ", Duration::from_secs(60)), expected);
    assert!(driver.wait("the driver", Duration::from_secs(10)).success());
    assert_eq!(data(folder.path()), data(alone.path()));
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("a run goes on with other workers", 120, resumed),
        Test::new("workers are killed while they write and read checkpoints", 300, killed),
        Test::new("the disk is full when workers write", 60, full),
        Test::new("a worker doesn't see the folder", 60, unseen),
    ]
}
