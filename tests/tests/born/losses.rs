//! Losses between reading or making and using what was read or made.

use std::time::Duration;

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use super::files::{Folder, MANY, Rating, ratings};
use super::trained::{epoch, rows};
use crate::common::mix;
use crate::jobs::processes::{children_as, runs, signal_to, wait_for};
use crate::jobs::runner::Test;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("a worker is killed after it has read", 60, read_again),
        Test::new("a worker is killed after it has made elements and rows", 120, made_again),
        Test::new("a worker is killed after it has made maps", 120, mapped_again),
        Test::new("a worker is killed between loops over what was read", 120, planned),
        Test::new(
            "a worker is killed while workers send each other what loops left with them",
            240,
            sent_to_each_other,
        ),
        Test::new("a file changes before it is read again", 60, changed),
        Test::new("a file is gone before it is read again", 60, gone),
    ]
}

fn session(workers: usize, every: usize) -> Session {
    let session = Session::builder().threads(1).build().unwrap();
    session.start_workers(&ClusterOptions::new(workers).threads(1).snapshot_every(every)).unwrap();
    session
}

fn kill_one() {
    let victim = children_as(std::process::id(), "worker")[0];
    signal_to(victim, "KILL");
    wait_for("the killed worker's end", Duration::from_secs(5), || (!runs(victim)).then_some(()));
}

/// Whether it is read again or was stored by others.
fn read_again() {
    let folder = Folder::new();
    let path = folder.file("r.csv", ratings(MANY, "\n"));
    let expected = Session::builder().threads(1).build().unwrap().read_csv::<Rating>(&path).unwrap().digest().unwrap();
    for (workers, every) in [(1, 1000), (2, 1000), (3, 1000), (3, 1)] {
        let session = session(workers, every);
        let read = session.read_csv::<Rating>(&path).unwrap();
        kill_one();
        assert_eq!(read.digest().unwrap(), expected, "{workers} workers, a snapshot every {every}");
        let stars = read.fold(0.0, |sum, r| sum + f64::from(r.stars), |a, b| a + b).unwrap();
        kill_one();
        assert_eq!(read.fold(0.0, |sum, r| sum + f64::from(r.stars), |a, b| a + b).unwrap().to_bits(), stars.to_bits());
    }
}

/// Also of what workers captured, which the program has dropped since.
fn made_again() {
    let run = |session: &Session, kill: bool| -> stradsap::Result<String> {
        let lose = || kill.then(kill_one);
        let noise = session.rng(3);
        let table = DVector::from_fn(session, 1000, |i| i as f32)?;
        let x = with!([noise, &table], session.range(MANY).map(|i| noise.unit(*i) + table[i % 1000])).collect()?;
        let mut m = session.range(MANY).map(|i| [*i as f32, 0.5, -1.0]).collect_rows(3)?;
        lose();
        let digests = (x.digest()?, m.digest()?);
        drop(table);
        lose();
        let sum = x.fold(0.0, |sum, x| sum + f64::from(*x), |a, b| a + b)?;
        async_parallel_for!(0..MANY, [&x, &mut m], |i| m[i][2] += x[i] * m[i][1])?;
        lose();
        let big = m.filter(|row| row[2] > 100.0).collect_rows(3)?;
        lose();
        Ok(format!("{digests:?} {sum} {} {}", m.digest()?, big.digest()?))
    };
    let expected = run(&Session::builder().threads(1).build().unwrap(), false).unwrap();
    for (workers, every) in [(1, 1000), (2, 1000), (3, 1000), (3, 1)] {
        let session = session(workers, every);
        assert_eq!(run(&session, true).unwrap(), expected, "{workers} workers, a snapshot every {every}");
    }
}

/// Maps that operators make: looked into, written by loops, and made into others.
fn mapped_again() {
    let run = |session: &Session, kill: bool| -> stradsap::Result<String> {
        let lose = || kill.then(kill_one);
        let word = |i: usize| format!("w{}", mix(i as u64) % 30_011);
        let mut counts = session.range(MANY).count_by_key(|i| format!("w{}", mix(*i as u64) % 30_011))?;
        lose();
        let seen = (counts.len()?, counts.get(&word(7))?, counts.get("none")?);
        let lists = session.range(MANY).map(|i| (mix(*i as u64) % 997, *i as u32)).group_by_key()?;
        lose();
        async_parallel_for!(0..MANY, [&mut counts, &lists], |i| {
            let key = format!("w{}", mix(i as u64) % 30_011 + i as u64 % 2);
            *counts.entry(key).or_insert(0) += lists[&(mix(i as u64) % 997)].len() as u64;
        })?;
        lose();
        // New keys, for which the map has no room any more: it gets some before the next loop.
        for epoch in 0..3u64 {
            async_parallel_for!(0..30_000, [epoch, &mut counts], |i| {
                counts.insert(format!("x{}", mix(i as u64 + epoch) % 50_000), i as u64);
            })?;
            lose();
        }
        let numbers = counts.number_by_key(|(_, n)| n % 1009)?;
        lose();
        let folder = Folder::new();
        let mut checkpoints = Checkpoints::new(folder.path().join("kept"), 1)?;
        checkpoints.save(1, &(), &[("counts", &counts), ("lists", &lists), ("keys", &numbers.keys)])?;
        checkpoints.finish()?;
        let checkpoint = checkpoints.resume()?.unwrap();
        let counts = checkpoint.map::<String, u64>(session, "counts")?;
        let lists = checkpoint.multi_map::<u64, u32>(session, "lists")?;
        lose();
        let joined =
            counts.join(&numbers.numbers, |(_, n)| n % 1009).map(|(entry, at)| (entry.0.clone(), *at)).collect_map()?;
        lose();
        Ok(format!("{seen:?} {} {} {} {}", counts.digest()?, lists.digest()?, numbers.keys.digest()?, joined.digest()?))
    };
    let expected = run(&Session::builder().threads(1).build().unwrap(), false).unwrap();
    for (workers, every) in [(1, 2), (2, 1000), (3, 1)] {
        let session = session(workers, every);
        assert_eq!(run(&session, true).unwrap(), expected, "{workers} workers, a snapshot every {every}");
    }
    for (workers, servers, homes) in [(2, 1, Homes::Workers), (3, 2, Homes::Servers)] {
        let session = Session::builder().threads(1).build().unwrap();
        let options = ClusterOptions::new(workers).threads(1).dds_servers(servers).homes(homes).snapshot_every(2);
        session.start_workers(&options.driver_memory(0)).unwrap();
        assert_eq!(run(&session, true).unwrap(), expected, "{workers} workers, {servers} servers");
    }
}

/// A grid with elements in step, and a coloured loop. Somebody else wants their elements each time, while a worker is lost.
fn sent_to_each_other() {
    const SIDE: usize = 300;
    let run = |session: &Session, kills: Option<u64>| -> stradsap::Result<String> {
        let mut x = DVector::from_fn(session, MANY, |i| i as f64)?;
        let (mut p, mut q) =
            (DVector::from_fn(session, 97, |i| i as f64)?, DVector::from_fn(session, 61, |i| i as f64)?);
        let mut cells = DVector::from_fn(session, SIDE * SIDE, |i| mix(i as u64) as f64 / 1e19)?;
        let (folder, mut told) = (Folder::new(), Vec::new());
        let mut checkpoints = Checkpoints::new(folder.path().join("kept"), 1)?;
        for epoch in 0..8u64 {
            async_parallel_for!(
                7..MANY,
                [&mut x, &mut p, &mut q],
                |i| {
                    let (a, b) = (mix(i as u64) as usize % 97, mix(i as u64 + 1) as usize % 61);
                    x[i] = 0.5 * x[i] + p[a] - q[b];
                    p[a] = 0.9 * p[a] + 1e-3 * x[i];
                    q[b] = 0.9 * q[b] + 1e-3 * x[i];
                },
                strategy = Grid
            )?;
            async_parallel_for!(
                0..SIDE * SIDE,
                [&mut cells],
                |i| {
                    let (above, before) = (i.checked_sub(SIDE), i.checked_sub(1));
                    let sum = above.map_or(0.0, |j| cells[j]) + before.map_or(0.0, |j| cells[j]);
                    cells[i] = 0.5 * cells[i] + 0.25 * sum;
                },
                strategy = Coloured
            )?;
            let killing = kills.map(|seed| {
                let after = Duration::from_micros(mix(seed * 100 + epoch) % 12_000);
                std::thread::spawn(move || {
                    std::thread::sleep(after);
                    kill_one();
                })
            });
            told.push(match epoch % 4 {
                0 => format!("{} {}", x.digest()?, cells.digest()?),
                1 => format!("{} {}", x.fold(0.0, |s, x| s + x, |a, b| a + b)?, cells.get(SIDE + 1)?),
                2 => {
                    checkpoints.save(epoch, &(), &[("x", &x), ("cells", &cells)])?;
                    checkpoints.finish()?;
                    let checkpoint = checkpoints.resume()?.unwrap();
                    let saved = checkpoint.vector::<f64>(session, "x")?.digest()?;
                    saved + &checkpoint.vector::<f64>(session, "cells")?.digest()?
                }
                _ => {
                    // Another loop, which writes them in another order.
                    async_parallel_for!(0..MANY, [&mut x], |i| x[i] *= 0.75)?;
                    async_parallel_for!(0..SIDE * SIDE, [&mut cells, &x], |i| cells[i] += 1e-9 * x[i])?;
                    cells.digest()?
                }
            });
            killing.into_iter().for_each(|killing| killing.join().unwrap());
        }
        Ok(format!("{told:?} {} {} {} {}", x.digest()?, cells.digest()?, p.digest()?, q.digest()?))
    };
    let expected = run(&Session::builder().threads(1).build().unwrap(), None).unwrap();
    for (workers, every, seed) in [(2, 1000, 1), (3, 1000, 2), (3, 1, 3), (4, 3, 4)] {
        let session = session(workers, every);
        let found = run(&session, Some(seed)).unwrap();
        assert_eq!(found, expected, "{workers} workers, a snapshot every {every}");
    }
}

/// Loops whose order is with the workers, while these are lost and the data change.
fn planned() {
    let folder = Folder::new();
    let path = folder.file("r.csv", ratings(MANY, "\n"));
    let run = |session: &Session, looks: bool, every: Option<usize>| -> stradsap::Result<String> {
        let mut read = session.read_csv::<Rating>(&path)?;
        let (mut p, mut q) = (rows(session, 997)?, rows(session, 613)?);
        let mut told = Vec::new();
        for k in 0..8 {
            let (loss, report) = epoch(session, &read, &mut p, &mut q)?;
            // Who looks at the order has the driver keep it.
            let order = looks.then(|| report.serial_order().fold(7u64, |hash, i| crate::common::mix(hash ^ i as u64)));
            told.push(format!("{loss} {order:?}"));
            if k % 2 == 1 && k < 6 {
                // Within the parts of the plan, and out of them.
                let first = read.get(k)?;
                read.set(k, Rating { item: (first.item + k as u32 * k as u32 * 20) % 613, ..first })?;
                read.transform(|r| r.stars *= 0.9)?;
            }
            if every.is_some_and(|every| k % every == 0) {
                kill_one();
            }
        }
        Ok(format!("{told:?} {} {} {}", p.digest()?, q.digest()?, read.digest()?))
    };
    let expected =
        [false, true].map(|looks| run(&Session::builder().threads(1).build().unwrap(), looks, None).unwrap());
    for (workers, snapshots, every, looks) in
        [(2, 1000, 2, true), (2, 1000, 1, false), (3, 3, 1, false), (3, 1000, 3, false), (4, 5, 2, false)]
    {
        let session = Session::builder().threads(1).build().unwrap();
        let options = ClusterOptions::new(workers).threads(1).snapshot_every(snapshots).driver_memory(0);
        session.start_workers(&options).unwrap();
        let found = run(&session, looks, Some(every)).unwrap();
        assert_eq!(
            found,
            expected[usize::from(looks)],
            "{workers} workers, a snapshot every {snapshots}, one is lost every {every}"
        );
    }
}

fn failure(change: impl FnOnce(&std::path::Path)) -> String {
    let folder = Folder::new();
    let path = folder.file("r.csv", ratings(MANY, "\n"));
    let session = session(2, 1000);
    let read = session.read_csv::<Rating>(&path).unwrap();
    change(&path);
    kill_one();
    let error = read.map(|r| r.user).to_vec().unwrap_err().to_string();
    assert!(error.contains("r.csv: ") && error.contains("worker "), "{error}");
    error
}

fn changed() {
    let error = failure(|path| std::fs::write(path, ratings(MANY, "\n").replace(".5\n", ".6\n")).unwrap());
    assert!(error.contains("others than when the program began to read it"), "{error}");
    let error = failure(|path| std::fs::write(path, ratings(MANY - 1, "\n")).unwrap());
    assert!(error.contains("bytes for a worker, and had"), "{error}");
}

fn gone() {
    let error = failure(|path| std::fs::remove_file(path).unwrap());
    assert!(error.contains("No such file"), "{error}");
}
