//! What is counted: control messages, bytes, memory. And what a program can't ask for.

use std::time::Duration;

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use crate::common::{Rating, ratings};
use crate::jobs::processes::{self, assert_alone, children_as, memory, memory_of_files, this_program, wait_for};
use crate::jobs::runner::Test;
use crate::places::{ALONE, Place};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("control messages are a constant number", 60, control_messages),
        Test::new("a worker has its share of the memory", 120, memory_of_workers),
        Test::new("the environment starts workers", 60, by_environment),
        Test::new("the environment says how many threads workers have", 60, threads_by_environment),
        Test::new("explanations are written by the driver alone", 60, explained),
        Test::new("workers are started once", 60, started_once),
        Test::new("no process is left", 10, || assert_alone(Duration::from_secs(2))),
    ]
}

fn epoch(
    data: &DVector<Rating>,
    p: &mut DVector<f64>,
    q: &mut DVector<f64>,
    parts: usize,
) -> stradsap::Result<LoopReport> {
    async_parallel_for!(
        0..data.len(),
        [&data, &mut p, &mut q],
        |n| {
            let r = data[n];
            let (a, b) = (&mut p[r.user], &mut q[r.item]);
            *a = 0.5 * *a + f64::from(r.stars);
            *b = 0.5 * *b + *a;
        },
        strategy = Grid,
        parts = parts
    )
}

/// One to start and one to end a loop are one question and its answer: each worker is asked one thing a loop.
fn control_messages() {
    for workers in 1..=4usize {
        for parts in [4, 16, 40] {
            let session = Session::builder().threads(1).verify(false).explain(false).build().unwrap();
            // No snapshot falls into what is counted.
            session.start_workers(&ClusterOptions::new(workers).threads(1).snapshot_every(1000)).unwrap();
            let data = DVector::from_vec(&session, ratings(4000, 300, 200)).unwrap();
            let mut p = DVector::from_fn(&session, 300, |i| i as f64).unwrap();
            let mut q = DVector::from_fn(&session, 200, |i| i as f64).unwrap();
            (0..2).for_each(|_| drop(epoch(&data, &mut p, &mut q, parts).unwrap()));
            let before = session.control_messages();
            let epochs = 10;
            for _ in 0..epochs {
                let report = epoch(&data, &mut p, &mut q, parts).unwrap();
                assert!(report.reused() && report.blocks() >= parts, "{} blocks", report.blocks());
            }
            let each = (session.control_messages() - before) as f64 / epochs as f64 / workers as f64;
            assert_eq!(each, 1.0, "messages a worker and epoch, {workers} workers, {parts} parts");
        }
    }
}

/// The peak of one of four workers is well below that of the one process that does all.
fn memory_of_workers() {
    let child = |workers: usize| {
        let mut command = this_program();
        command.env("STRADSAP_TEST_SCENARIOS", "").env("STRADSAP_TEST_MEMORY", "1");
        command.env("STRADSAP_WORKERS", workers.to_string()).env("STRADSAP_THREADS", "1");
        let mut process = processes::Process::start(&mut command);
        process.line("ran", Duration::from_secs(60));
        // The program itself is there once.
        let own = |pid| Some(memory(pid)?.0 - memory_of_files(pid)?);
        let peak = own(process.pid()).unwrap();
        let of_workers: Vec<u64> = children_as(process.pid(), "worker").into_iter().filter_map(own).collect();
        assert_eq!(of_workers.len(), workers);
        process.signal("KILL");
        process.wait("a killed driver", Duration::from_secs(5));
        (peak, of_workers)
    };
    let (alone, _) = child(0);
    let (_, workers) = child(4);
    let most = workers.iter().max().copied().unwrap_or_default();
    let share = most as f64 / alone as f64;
    eprintln!("peak memory: {alone} KiB in one process, at most {most} KiB in one of four workers ({share:.2})");
    assert!(share <= 0.45, "{share:.2} of the memory of a single process");
}

/// A large loop; then the process waits to be looked at.
#[allow(clippy::print_stdout)]
pub(crate) fn use_memory(session: &Session) -> stradsap::Result<()> {
    let (users, items) = (40_000, 10_000);
    let data = DVector::from_iter(session, ratings(1_500_000, users, items))?;
    let mut p = DVector::from_fn(session, users, |i| [i as f32; 64])?;
    let mut q = DVector::from_fn(session, items, |i| [i as f32; 64])?;
    for _ in 0..2 {
        async_parallel_for!(0..data.len(), [&data, &mut p, &mut q], |n| {
            let r = data[n];
            let (a, b) = (&mut p[r.user], &mut q[r.item]);
            for k in 0..64 {
                a[k] = 0.5 * a[k] + 0.1 * b[k];
                b[k] = 0.5 * b[k] + 0.1 * a[k];
            }
        })?;
    }
    println!("ran");
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}

/// `STRADSAP_WORKERS` alone: the program is the same.
fn by_environment() {
    let run = |workers: &str, servers: &str| {
        let mut command = this_program();
        command.env("STRADSAP_TEST_SCENARIOS", "factorisation,in_step");
        command.env("STRADSAP_WORKERS", workers).env("STRADSAP_DDS_SERVERS", servers);
        let mut process = processes::Process::start(&mut command);
        let status = process.wait("a program with workers", Duration::from_secs(40));
        assert!(status.success(), "{status}: {}", process.err());
        assert_eq!(process.err(), "");
        process.out()
    };
    let alone = run("0", "0");
    assert!(alone.lines().count() > 10);
    assert_eq!(run("2", "0"), alone);
    assert_eq!(run("2", "1"), alone);
    // What can't be understood is said in one line.
    let mut process =
        processes::Process::start(this_program().env("STRADSAP_TEST_SCENARIOS", "").env("STRADSAP_WORKERS", "two"));
    assert_eq!(process.wait("a wrong number of workers", Duration::from_secs(10)).code(), Some(2));
    assert_eq!(process.err(), "error: STRADSAP_WORKERS=two: a number from 0 to 1024 was expected\n");
    // So is what does nothing.
    let mut process = processes::Process::start(
        this_program().env("STRADSAP_TEST_SCENARIOS", "in_step").env("STRADSAP_DDS_SERVERS", "2"),
    );
    assert!(process.wait("servers without workers", Duration::from_secs(10)).success());
    assert_eq!(process.err(), "warning: STRADSAP_DDS_SERVERS is ignored: STRADSAP_WORKERS doesn't ask for workers\n");
}

/// The program of the next test.
#[allow(clippy::print_stdout)]
pub(super) fn say_copies(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_fn(session, 100, |i| i as u32)?;
    let mut sum = DVector::from_vec(session, vec![0u32])?;
    let report = sync_parallel_for!(data, 1, [&mut sum], |batch| sum[0].add(batch[0]), SyncPolicy::Bsp)?;
    println!("{} copies of {}", report.copies(), session.threads());
    Ok(())
}

/// `STRADSAP_THREADS` is that of each worker, too.
fn threads_by_environment() {
    let mut command = this_program();
    command.env("STRADSAP_TEST_SCENARIOS", "").env("STRADSAP_TEST_THREADS", "1");
    command.env("STRADSAP_WORKERS", "2").env("STRADSAP_THREADS", "3");
    let mut process = processes::Process::start(&mut command);
    let status = process.wait("a program with workers", Duration::from_secs(40));
    assert!(status.success(), "{status}: {}", process.err());
    assert_eq!(process.out(), "6 copies of 3\n");
}

fn explained() {
    let run = |workers: &str| {
        let mut command = this_program();
        command.env("STRADSAP_TEST_SCENARIOS", "nothing_is_parallel").env("STRADSAP_EXPLAIN", "1");
        let mut process = processes::Process::start(command.env("STRADSAP_WORKERS", workers));
        let status = process.wait("an explained program", Duration::from_secs(40));
        assert!(status.success(), "{status}: {}", process.err());
        process.err()
    };
    let alone = run("0");
    let on_workers = run("3");
    assert!(alone.contains("`total`"), "{alone}");
    // What they have in common, but for the times, which differ from run to run.
    let first = |line: &str| line.split_whitespace().next().map(String::from);
    let of_workers = |line: &&str| line.starts_with("  on 3 workers: ") || line.starts_with("    worker ");
    let lines: Vec<_> = on_workers.lines().filter(|line| !of_workers(line)).map(first).collect();
    assert_eq!(alone.lines().map(first).collect::<Vec<_>>(), lines, "{alone}\n{on_workers}");
    let named = on_workers.lines().filter(of_workers).count();
    assert_eq!(named, 4, "the workers are named once: {on_workers}");
}

fn started_once() {
    let session = Place { workers: 1, ..ALONE }.session();
    let own = std::process::id();
    let worker = wait_for("a worker", Duration::from_secs(5), || children_as(own, "worker").first().copied());
    let error = session.start_workers(&ClusterOptions::new(1)).unwrap_err();
    assert_eq!((error.exit_code(), error.to_string().as_str()), (2, "this session has its workers already"));
    let none = Session::builder().threads(1).build().unwrap();
    assert_eq!(none.start_workers(&ClusterOptions::new(0)).unwrap_err().exit_code(), 2);
    assert_eq!((session.workers(), none.workers()), (1, 0));
    // Workers end with the session and all that belongs to it.
    let x = DVector::from_fn(&session, 10, |i| i).unwrap();
    drop(session);
    assert!(processes::runs(worker));
    drop(x);
    wait_for("the worker's end", Duration::from_secs(3), || (!processes::runs(worker)).then_some(()));
}
