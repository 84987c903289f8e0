//! The driver's memory doesn't grow with what workers read or make, and train on.

use std::path::Path;
use std::time::Duration;

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use super::files::{Folder, Rating, gzip, quoted_ratings, ratings};
use super::trained::{epoch, rows};
use crate::common::mix;
use crate::jobs::processes::{Process, memory, memory_of_files, this_program};
use crate::jobs::runner::{Test, long};

/// What is run, of which file or how many, and on how many workers.
const WHAT: &str = "TESTS_BORN_WHAT";
const OF: &str = "TESTS_BORN_OF";
const WORKERS: &str = "TESTS_BORN_WORKERS";

/// More than the driver needs for anything else.
const FEW: usize = 400_000;
const MANY: usize = 2_000_000;

/// Trains as a program of its own, if that was asked for, and prints its peak.
#[allow(clippy::print_stdout)]
pub(crate) fn asked_for(session: &Session) -> Option<stradsap::Result<()>> {
    let what = std::env::var(WHAT).ok()?;
    let of = std::env::var(OF).unwrap();
    let count = || of.parse().unwrap();
    let workers: usize = std::env::var(WORKERS).unwrap().parse().unwrap();
    Some((|| {
        if workers > 0 {
            session.start_workers(&ClusterOptions::new(workers).threads(1).driver_memory(1 << 20))?;
        }
        let digest = match what.as_str() {
            "file" => train_on_a_file(session, &of)?,
            "made" => train_on_made(session, count())?,
            "saved" => save_and_go_on(session, count(), &update_rows)?,
            "in step" => save_and_go_on(session, count(), &|x, step| in_step(session, x, step))?,
            "in minibatches" => in_minibatches(session, count())?,
            "by key" => by_key(session, count())?,
            "long" => train_long(session, count())?,
            "packed" => session.read_npy_rows::<f32>(&of)?.digest()?,
            other => panic!("{other}"),
        };
        println!("digest {digest}");
        // Without the program's own pages, of which the system has more or fewer in memory.
        let own = std::process::id();
        println!("peak {}", memory(own).unwrap().0 - memory_of_files(own).unwrap());
        Ok(())
    })())
}

fn train_on_a_file(session: &Session, file: &str) -> stradsap::Result<String> {
    let read = session.read_csv::<Rating>(file)?;
    let (mut p, mut q) = (rows(session, 997)?, rows(session, 613)?);
    for _epoch in 0..2 {
        epoch(session, &read, &mut p, &mut q)?;
    }
    let good = read.filter(|r| r.stars > 2.0).count()?;
    Ok(format!("{} {} {good}", p.digest()?, q.digest()?))
}

/// Ratings, a model of two small matrices for them, and a large matrix of which each iteration has a row.
/// A model with many more rows than ratings.
fn train_long(session: &Session, users: usize) -> stradsap::Result<String> {
    let (draw, of) = (session.rng(1), users as u64);
    let data = with!(
        [draw, of],
        session.range(1_200_000).map(|i| (draw.below(2 * i, of) as u32, draw.below(2 * i + 1, 613) as u32))
    )
    .collect()?;
    let mut p = session.range(users).map(|i| (*i % 11) as f64 / 11.0).collect()?;
    let mut q = session.range(613).map(|i| (*i % 7) as f64 / 7.0).collect()?;
    for _epoch in 0..2 {
        let report = async_parallel_for!(0..data.len(), [&data, &mut p, &mut q], |n| {
            let (user, item) = data[n];
            let e = 0.01 * (1.0 - p[user] * q[item]);
            let (a, b) = (p[user], q[item]);
            p[user] += e * b;
            q[item] += e * a;
        })?;
        assert_eq!(report.strategy(), Strategy::Grid);
    }
    Ok(format!("{} {}", p.digest()?, q.digest()?))
}

fn train_on_made(session: &Session, n: usize) -> stradsap::Result<String> {
    const RANK: usize = 16;
    let draw = session.rng(1);
    let data = with!(
        [draw],
        session.range(n).map(|i| Rating {
            user: draw.below(2 * i, 997) as u32,
            item: draw.below(2 * i + 1, 613) as u32,
            stars: 4.0 * draw.unit(*i),
        })
    )
    .collect()?;
    let model = |rows: usize, purpose: u64| {
        let start = session.rng(purpose);
        with!([start], session.range(rows).map(|i| [0; RANK].map(|k: usize| 0.5 * start.unit(RANK * i + k))))
            .collect_rows(RANK)
    };
    let (mut p, mut q, mut own): (DMatrix<f32>, DMatrix<f32>, DMatrix<f32>) =
        (model(997, 2)?, model(613, 3)?, model(n / 8, 4)?);
    for _epoch in 0..2 {
        async_parallel_for!(0..data.len(), [&data, &mut p, &mut q], |n| {
            let r = data[n];
            let (a, b) = (&mut p[r.user], &mut q[r.item]);
            let e = r.stars - kernels::dot(a, b);
            kernels::each_pair(a, b, |a, b| {
                let (x, y) = (*a, *b);
                *a += 0.01 * (e * y - 0.02 * x);
                *b += 0.01 * (e * x - 0.02 * y);
            });
        })?;
        async_parallel_for!(0..own.len(), [&p, &mut own], |i| own[i][0] += p[i % 997][1] * own[i][2])?;
    }
    let good = data.filter(|r| r.stars > 2.0).count()?;
    Ok(format!("{} {} {} {good}", bits(&p)?, bits(&q)?, bits(&own)?))
}

type Rows = DMatrix<f32>;

/// A digest would bring some megabytes of the rows here.
fn bits(model: &Rows) -> stradsap::Result<u64> {
    model.fold(
        0u64,
        |hash, row| row.iter().fold(hash, |hash, x| mix(hash ^ u64::from(x.to_bits()))),
        |a, b| mix(a.rotate_left(1) ^ b),
    )
}

/// Trains a large matrix, saves it twice, goes on from the checkpoint, reads it, and writes it to a file.
fn save_and_go_on(
    session: &Session,
    rows: usize,
    train: &dyn Fn(&mut Rows, u64) -> stradsap::Result<()>,
) -> stradsap::Result<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut checkpoints = Checkpoints::new(folder.path().join("kept"), 1)?;
    let mut m: Rows = session.range(rows).map(|i| [*i as f32; 32]).collect_rows(32)?;
    for step in 1..3 {
        train(&mut m, step)?;
        checkpoints.save(2 * step, &(), &[("m", &m)])?;
        checkpoints.finish()?;
        // The loop goes on from where it has left the rows.
        train(&mut m, step)?;
        let sum = m.fold(0.0, |sum, row| sum + f64::from(row[1]), |a, b| a + b)?;
        checkpoints.save(2 * step + 1, &sum, &[("m", &m)])?;
        checkpoints.finish()?;
    }
    drop(m);
    let mut m: Rows = checkpoints.resume()?.unwrap().matrix(session, "m")?;
    train(&mut m, 3)?;
    let path = folder.path().join("m.npy");
    m.write_npy(&path)?;
    assert!(std::fs::metadata(&path).unwrap().len() > (rows * 128) as u64);
    let some: Vec<Vec<f32>> = [0, rows / 2, rows - 1].into_iter().map(|i| m.get(i)).collect::<Result<_, _>>()?;
    train(&mut m, 4)?;
    Ok(format!("{} {:?}", m.digest()?, some.iter().map(|row| row[1].to_bits()).collect::<Vec<_>>()))
}

fn update_rows(m: &mut Rows, step: u64) -> stradsap::Result<()> {
    async_parallel_for!(0..m.len(), [step, &mut m], |i| m[i][1] = 0.5 * m[i][1] + step as f32 * m[i][0])?;
    Ok(())
}

/// A grid, whose iterations each have a row of their own.
fn in_step(session: &Session, m: &mut Rows, step: u64) -> stradsap::Result<()> {
    let n = m.len();
    let draw = session.rng(1);
    let data =
        with!([draw], session.range(n).map(|i| [draw.below(2 * i, 997) as u32, draw.below(2 * i + 1, 613) as u32]))
            .collect()?;
    let (mut p, mut q) = (DVector::from_fn(session, 997, |i| i as f32)?, DVector::from_fn(session, 613, |i| i as f32)?);
    for _epoch in 0..2 {
        let report = async_parallel_for!(
            0..n,
            [step, &data, &mut m, &mut p, &mut q],
            |i| {
                let [a, b] = data[i];
                m[i][1] = 0.5 * m[i][1] + 0.01 * step as f32 * (p[a] - q[b]);
                p[a] = 0.9 * p[a] + 0.1 * m[i][1];
                q[b] = 0.9 * q[b] + 0.1 * m[i][1];
            },
            strategy = Grid
        )?;
        assert_eq!(report.strategy(), Strategy::Grid);
    }
    Ok(())
}

/// Loops over minibatches, between which a grid leaves the rows in an order of its own. Each row is touched by one minibatch, wherever it
/// lies: several copies leave what one leaves.
fn in_minibatches(session: &Session, rows: usize) -> stradsap::Result<String> {
    const EACH: usize = 500;
    let mut m: Rows = session.range(rows).map(|i| [*i as f32; 256]).collect_rows(256)?;
    const OF_ROW: usize = 40;
    let batches = DVector::from_fn(session, rows / EACH, |b| b)?;
    let mut sums = DVector::from_fn(session, rows, |_| 0.0f32)?;
    // 14 MB of them at the most.
    let mut samples = session.range(rows * OF_ROW).map(|i| ((*i % 11) as f32, 0.5f32)).collect()?;
    let mut sent = Vec::new();
    for step in 1..3 {
        for _epoch in 0..3 {
            let report = sync_parallel_for!(
                batches,
                1,
                [rows, step, &mut m],
                |batch| {
                    let own = |k| (batch[0] * EACH + k) * 7919 % rows;
                    (0..EACH).for_each(|k| m[own(k)].axpy(0.5, &[step as f32; 256]));
                },
                SyncPolicy::Bsp
            )?;
            sent.push(report.bytes_sent());
        }
        in_step(session, &mut m, step)?;
        // An input that lies on the workers as well: it goes from them to who needs it.
        for _epoch in 0..2 {
            sync_parallel_for!(
                &samples,
                400 * OF_ROW,
                [&mut sums],
                |batch| {
                    let sum: f32 = batch.into_iter().map(|x| x.0 - x.1).sum();
                    sums[batch.number()].add(0.25 * sum);
                },
                SyncPolicy::Bsp
            )?;
        }
        let step = step as usize;
        async_parallel_for!(0..samples.len(), [step, &mut samples], |i| samples[i].1 += (i % 7 + step) as f32)?;
    }
    // They lie with those who touch them, and are sent when a grid has been there.
    assert!(sent[2] * 20 <= sent[0] && sent[5] * 20 <= sent[3] && sent[3] <= sent[0], "{sent:?}");
    Ok(format!("{} {}", bits(&m)?, sums.digest()?))
}

/// Maps and texts that operators make and loops write, and that the program looks into.
fn by_key(session: &Session, n: usize) -> stradsap::Result<String> {
    let key = |i: usize| mix(i as u64 / 2);
    let mut counts = session.range(n).count_by_key(|i| mix(*i as u64 / 2))?;
    let lists = session.range(n).map(|i| (mix(*i as u64 / 3), *i as u32)).group_by_key()?;
    assert_eq!((counts.len()?, counts.get(&key(n - 1))?), (n / 2, Some(2)));
    let mut words = session.range(n / 4).map(|i| format!("word {}", mix(*i as u64))).collect()?;
    // Snapshots are taken on the way.
    for epoch in 0..12u64 {
        async_parallel_for!(0..n / 1000, [epoch, &mut counts], |i| {
            *counts.entry(mix(i as u64 * 70 + epoch)).or_insert(100) += 1;
        })?;
        async_parallel_for!(0..words.len(), [epoch, &mut words], |i| {
            if mix(i as u64 + epoch).is_multiple_of(9) {
                words[i].push('!');
            }
        })?;
    }
    let length = words.fold(0usize, |n, word| n + word.len(), |a, b| a + b)?;
    let odd = counts.filter(|(key, _)| key % 2 == 1).map(|(key, n)| (*key, *n)).collect_map()?;
    let some: Vec<Option<u64>> = (0..40).map(|i| odd.get(&key(i * n / 50))).collect::<Result<_, _>>()?;
    let sum = |m: &DMap<u64, u64>| {
        m.fold(0u64, |sum, (key, n)| sum.wrapping_add(mix(key ^ n)), |a, b| a.wrapping_add(b) >> 1)
    };
    let listed =
        lists.fold(0u64, |sum, (key, list)| mix(sum ^ key ^ list.len() as u64), |a, b| a ^ b.rotate_left(1))?;
    Ok(format!("{some:?} {} {} {} {listed} {length} {}", counts.len()?, odd.len()?, sum(&counts)?, sum(&odd)?))
}

/// What a run leaves, and its driver's peak in KiB.
fn ran(what: (&str, &str), workers: usize) -> (String, u64) {
    let mut program =
        Process::start(this_program().env(WHAT, what.0).env(OF, what.1).env(WORKERS, workers.to_string()));
    let limit = Duration::from_secs(60);
    let digest = program.line("digest ", limit);
    (digest, program.line("peak ", limit).parse().unwrap())
}

/// Few and many of them need equally much memory of a driver, and all give what one process gives.
fn flat(few: (&str, &str), many: (&str, &str)) {
    let (expected, alone) = ran(many, 0);
    let counts: &[usize] = if long() { &[2, 4] } else { &[2] };
    for &workers in counts {
        let (_, before) = ran(few, workers);
        let (digest, peak) = ran(many, workers);
        assert_eq!(digest, expected, "{workers} workers");
        eprintln!("{workers} workers: {before} KiB have become {peak}, {alone} in one process");
        // Elements and their order (or a matrix) are at least 25 MB more. The system may give a huge page or two.
        assert!(peak <= before + 8192, "{before} KiB have become {peak}");
        assert!(2 * peak < alone, "{alone} KiB alone, {peak} in the driver");
    }
}

fn of_a_file() {
    let folder = Folder::new();
    let (few, many) = (folder.file("few.csv", ratings(FEW, "\n")), folder.file("many.csv", quoted_ratings(MANY, "\n")));
    let path = |path: &Path| path.to_str().unwrap().to_string();
    flat(("file", &path(&few)), ("file", &path(&many)));
}

/// 3 MiB and 41.
fn of_packed_arrays() {
    let folder = Folder::new();
    let session = Session::builder().threads(1).build().unwrap();
    let [few, many] = [24_000, 336_000].map(|n| {
        let rows = DMatrix::from_fn(&session, n, 32, |i, k| (i * k) as f32).unwrap();
        rows.write_npy(folder.path().join("rows.npy")).unwrap();
        let packed = gzip(std::fs::read(folder.path().join("rows.npy")).unwrap());
        folder.file("rows.npy.gz", packed).to_str().unwrap().to_string()
    });
    flat(("packed", &few), ("packed", &many));
}

fn of_what_was_made() {
    flat(("made", &FEW.to_string()), ("made", &MANY.to_string()));
}

/// 32 MiB and 122.
fn of_long_models() {
    flat(("long", "4190000"), ("long", "16000000"));
}

/// 61 MiB and 122.
fn of_what_is_saved() {
    flat(("saved", "500000"), ("saved", "1000000"));
}

/// 24 MiB and 61.
fn of_what_a_grid_left() {
    flat(("in step", "200000"), ("in step", "500000"));
}

/// 11 MiB and 43, of which the driver may hold one.
fn of_rows_of_minibatches() {
    flat(("in minibatches", "11000"), ("in minibatches", "44000"));
}

/// 8 MiB of buckets and 38.
fn of_maps() {
    flat(("by key", "200000"), ("by key", "950000"));
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("the driver's memory is flat while maps and texts are made and written", 120, of_maps),
        Test::new("the driver's memory is flat", 120, of_a_file),
        Test::new("the driver's memory is flat while packed arrays are read", 120, of_packed_arrays),
        Test::new("the driver's memory is flat while data and models are made", 120, of_what_was_made),
        Test::new("the driver's memory is flat while a long model is planned for", 120, of_long_models),
        Test::new("the driver's memory is flat while a model is saved, read and written", 180, of_what_is_saved),
        Test::new("the driver's memory is flat while what a grid left is saved", 240, of_what_a_grid_left),
        Test::new("the driver's memory is flat while minibatches write rows", 120, of_rows_of_minibatches),
    ]
}
