//! Loops, operators and checkpoints after reading.

use std::hash::{DefaultHasher, Hasher};

use stradsap::prelude::*;

use super::files::{Folder, MANY, Rating, ratings};
use crate::seen::Seen;

pub(crate) fn rows(session: &Session, n: usize) -> stradsap::Result<DVector<[f32; 4]>> {
    DVector::from_fn(session, n, |i| std::array::from_fn(|k| ((i * 7 + k * 3) % 11) as f32 / 11.0))
}

pub(crate) fn epoch(
    session: &Session,
    ratings: &DVector<Rating>,
    p: &mut DVector<[f32; 4]>,
    q: &mut DVector<[f32; 4]>,
) -> stradsap::Result<(f64, LoopReport)> {
    let loss = session.sum(0.0);
    let report = async_parallel_for!(0..ratings.len(), [&ratings, &mut p, &mut q, &loss], |n| {
        let r = ratings[n];
        let (a, b) = (&mut p[r.user], &mut q[r.item]);
        let e = r.stars - kernels::dot(a, b);
        for k in 0..4 {
            let (x, y) = (a[k], b[k]);
            a[k] += 0.01 * (e * y - 0.02 * x);
            b[k] += 0.01 * (e * x - 0.02 * y);
        }
        loss.add(f64::from(e * e));
    })?;
    Ok((loss.get(), report))
}

/// A grid over what was read, then over what operators made of it, and over what the program has changed.
pub(crate) fn factorised(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let mut read = session.read_csv::<Rating>(folder.file("r.csv", ratings(MANY, "\n")))?;
    let (mut p, mut q) = (rows(session, 997)?, rows(session, 613)?);
    for k in 0..2 {
        let (loss, report) = epoch(session, &read, &mut p, &mut q)?;
        seen.record("loss", loss);
        seen.report(&format!("epoch {k}"), &report);
    }
    seen.digest("p", &p)?;
    let liked = read.filter(|r| r.stars > 1.0).collect()?;
    let shuffled = liked.shuffle(7)?;
    for data in [&liked, &shuffled] {
        let (loss, report) = epoch(session, data, &mut p, &mut q)?;
        seen.record("loss", loss);
        seen.report("of some", &report);
    }
    seen.digest("q", &q)?;
    // Another user, whose row is in another part.
    let first = read.get(0)?;
    read.set(0, Rating { user: 996 - first.user, ..first })?;
    read.transform(|r| r.stars += 0.5)?;
    for _ in 0..2 {
        seen.record("loss", epoch(session, &read, &mut p, &mut q)?.0);
    }
    seen.digest("p", &p)?;
    seen.digest("ratings", &read)
}

/// Maps of what was read, loops over these, and a coloured loop over edges.
pub(crate) fn counted(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let read = session.read_csv::<Rating>(folder.file("r.csv", ratings(MANY, "\n")))?;
    let counts = read.count_by_key(|r| r.item)?;
    seen.record("counts", counts.digest()?);
    let mut sums: DMap<u32, f32> = DMap::new(session)?;
    async_parallel_for!(0..read.len(), [&read, sum sums], |n| {
        let r = read[n];
        *sums.entry(r.user).or_insert(0.0) += r.stars;
    })?;
    seen.record("sums", sums.digest()?);
    let numbers = read.number_by_key(|r| r.user)?;
    seen.digest("users", &numbers.keys)?;
    let text: String = (0..30_000u64).map(|k| format!("{} {}\n", k, crate::common::mix(k) % 30_000)).collect();
    let edges = session.read_edges(folder.file("g.txt", text))?;
    let mut rank = DVector::from_fn(session, 30_000, |i| i as f64)?;
    let report = async_parallel_for!(
        0..edges.len(),
        [&edges, &mut rank],
        |n| {
            let edge = edges[n];
            let step = 0.1 * (rank[edge.from] - rank[edge.to]);
            rank[edge.from] -= step;
            rank[edge.to] += step;
        },
        strategy = Coloured
    )?;
    seen.report("coloured", &report);
    seen.digest("rank", &rank)
}

/// What was read is written, and read again; it is saved in a checkpoint.
pub(crate) fn stored(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let read = session.read_csv::<(u32, String, u32, f32)>(folder.file("r.csv", ratings(MANY, "\n")))?;
    let copy = folder.path().join("copy.csv");
    read.write_csv(&copy)?;
    seen.digest("copied", &session.read_csv_with::<(u32, String, u32, f32)>(&copy, &Csv::new())?)?;
    let edges = session.read_edges(folder.file("g.txt", "1 2\n3 4\n".repeat(MANY)))?;
    let flat = edges.map(|edge| edge.from + edge.to).collect()?;
    flat.write_npy(folder.path().join("flat.npy"))?;
    seen.digest("an array", &session.read_npy::<u32>(folder.path().join("flat.npy"))?)
}

/// Files of what workers have, piece by piece.
pub(crate) fn written(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    // 17 MiB and 12, which are several pieces.
    let x = session.range(70_000).map(|i| [*i as f32; 64]).collect()?;
    let m: DMatrix<f64> = session.range(31_000).map(|i| vec![(*i as f64).sqrt(); 50]).collect_rows(50)?;
    let words = session.range(70_000).map(|i| format!("word {i}")).collect()?;
    x.write_npy(folder.path().join("x.npy"))?;
    stradsap::write_safetensors(folder.path().join("both.safetensors"), &[("x", &x), ("m", &m)])?;
    m.store(folder.path().join("m.csv.gz"))?;
    words.write_csv(folder.path().join("words.csv"))?;
    let names: Vec<String> = (0..x.len()).map(|i| format!("{i}")).collect();
    x.write_word2vec_binary(folder.path().join("x.bin"), &names)?;
    for name in ["x.npy", "both.safetensors", "m.csv.gz", "words.csv", "x.bin"] {
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        seen.record(name, (bytes.len(), hasher.finish()));
    }
    seen.record("a digest", (x.digest()?, m.digest()?, words.digest()?));
    // A record of another length ends it, and there is no file.
    let lists = session.range(70_000).map(|i| vec![1u8; 1 + i / 69_000]).collect()?;
    let error = folder.told(lists.write_csv(folder.path().join("lists.csv")));
    assert!(error.contains("element 69000 is no record of a table"), "{error}");
    seen.record("files", std::fs::read_dir(folder.path()).unwrap().count());
    Ok(())
}

/// What iterations write in step, and what else they read in step, beside what says which elements they share.
pub(crate) fn beside(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let read = session.read_csv::<Rating>(folder.file("r.csv", ratings(MANY, "\n")))?;
    let weights = DVector::from_fn(session, MANY, |i| (i % 13) as f64)?;
    let (mut errors, mut p) =
        (DVector::from_fn(session, MANY, |_| 0.0f64)?, DVector::from_fn(session, 997, |i| i as f64)?);
    let mut q = DVector::from_fn(session, 613, |_| 0.5f64)?;
    for k in 0..3 {
        let scale = f64::from(k + 1);
        let report = async_parallel_for!(0..read.len(), [scale, &read, &weights, &mut errors, &mut p, &mut q], |n| {
            let r = read[n];
            let error = f64::from(r.stars) - p[r.user] * q[r.item];
            errors[n] += scale * error;
            p[r.user] += 1e-4 * error * weights[n];
            q[r.item] -= 1e-4 * error;
        })?;
        seen.report("in step", &report);
        seen.record("an error", errors.get(MANY / 3)?);
        let sum = session.sum(0.0);
        async_parallel_for!(0..errors.len(), [&errors, &sum], |n| sum.add(errors[n]))?;
        seen.record("sum", sum.get());
    }
    seen.digest("errors", &errors)?;
    // Of some iterations, of which one fails.
    for bad in [MANY, MANY - 7] {
        let failed = async_parallel_for!(100..MANY, [bad, &read, &mut p, &mut q], |n| -> Result<(), std::fmt::Error> {
            let r = read[n];
            p[r.user] += q[r.item];
            q[r.item] *= 0.999;
            if n == bad { Err(std::fmt::Error) } else { Ok(()) }
        });
        match failed {
            Ok(report) => seen.report("a part", &report),
            Err(error) => seen.record("failed", crate::seen::without_worker(session, &error.to_string())),
        }
    }
    seen.digest("p", &p)?;
    seen.digest("q", &q)
}
