//! What the driver's memory depends on: matrix factorisation on files of more and more ratings, read and trained on by worker processes of this
//! machine. Each run is a process of its own.
//! `cargo bench --bench driver -- --help` lists the options; docs/performance.md says what came of it.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};
use stradsap::ClusterOptions;
use stradsap::kernels::{dot, each_pair};
use stradsap::prelude::*;
use stradsap::random::Stream;
use stradsap_benches::harness::benchmarking;
use stradsap_examples::report::peak_rss_bytes;

/// The driver's peak of memory by the number of ratings.
#[derive(Parser)]
#[command(name = "driver")]
struct Options {
    /// Millions of ratings
    #[arg(long, value_name = "N,...", default_value = "10,40", value_delimiter = ',')]
    ratings: Vec<u32>,
    /// Worker processes of one thread
    #[arg(long, value_name = "N", default_value_t = 4)]
    workers: usize,
    /// Epochs of each run
    #[arg(long, value_name = "N", default_value_t = 3)]
    epochs: u32,
    /// Where the files lie [default: the folder of temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Also train in one process, and compare the models
    #[arg(long)]
    check: bool,
    /// Train on this file, which is all that is done
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is read of a line.
#[derive(Clone, Copy, Deserialize, Element)]
struct Rating {
    user: u32,
    item: u32,
    stars: f32,
}

const USERS: usize = 100_000;
const ITEMS: usize = 20_000;
const RANK: usize = 16;

/// What one run came to.
#[derive(Serialize, Deserialize)]
struct Outcome {
    reading: f64,
    /// The first epoch, with recording and planning; these.
    first: f64,
    planning: f64,
    /// The fastest of the others.
    epoch: f64,
    peak: u64,
    digest: String,
}

#[stradsap::main]
fn main(session: &Session) -> Result<()> {
    let options = Options::parse();
    if let Some(file) = &options.file {
        println!("{}", serde_json::to_string(&train(session, &options, file)?)?);
        return Ok(());
    }
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    println!("{:>10}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}", "ratings", "reading", "first", "planning", "epoch", "peak");
    for &millions in &options.ratings {
        let ratings = if benchmarking() { 1_000_000 * u64::from(millions) } else { 300_000 };
        let path = folder.join(format!("stradsap-ratings-{ratings}-{}.csv", std::process::id()));
        let compared = generate(&path, ratings).and_then(|()| compare(&options, &path, ratings));
        std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        compared?;
    }
    Ok(())
}

fn compare(options: &Options, path: &Path, ratings: u64) -> Result<()> {
    let ran = another(options, path, options.workers)?;
    println!(
        "{ratings:>10}  {:>6.2} s  {:>6.2} s  {:>6.2} s  {:>6.2} s  {:>6.1} MB",
        ran.reading,
        ran.first,
        ran.planning,
        ran.epoch,
        ran.peak as f64 / f64::from(1 << 20)
    );
    if options.check || !benchmarking() {
        let alone = another(options, path, 0)?;
        ensure!(alone.digest == ran.digest, "another model: {} and {}", alone.digest, ran.digest);
        println!(
            "{:>10}  {:>6.2} s  {:>6.2} s  {:>6.2} s  {:>6.2} s  {:>6.1} MB, the same model",
            "alone",
            alone.reading,
            alone.first,
            alone.planning,
            alone.epoch,
            alone.peak as f64 / f64::from(1 << 20)
        );
    }
    Ok(())
}

/// A run in a process of its own.
fn another(options: &Options, file: &Path, workers: usize) -> Result<Outcome> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--file").arg(file).args(["--epochs", &options.epochs.to_string()]);
    command.args(["--workers", &workers.to_string()]);
    let output = command.output()?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("a run that reports nothing")
}

/// Writes ratings of which the first users and items have most.
fn generate(path: &Path, ratings: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).with_context(|| path.display().to_string())?);
    writeln!(out, "user,item,stars")?;
    let mut random = Stream::new(1, 0xd1).sequence(0);
    let mut unit = || (random.bits() >> 40) as f32 / (1u64 << 24) as f32;
    for _ in 0..ratings {
        let user = (USERS as f32 * unit() * unit()) as usize;
        let item = (ITEMS as f32 * unit() * unit()) as usize;
        writeln!(out, "{user},{item},{}", 1 + (8.0 * unit()) as u32 / 2)?;
    }
    out.flush()?;
    Ok(())
}

fn train(session: &Session, options: &Options, file: &Path) -> Result<Outcome> {
    if options.workers > 0 {
        session.start_workers(&ClusterOptions::new(options.workers).threads(1))?;
    }
    let begun = Instant::now();
    let train = session.read_csv::<Rating>(file)?;
    let reading = begun.elapsed().as_secs_f64();
    let start = |rows: usize| {
        session
            .range(rows)
            .map(|i| std::array::from_fn::<f32, RANK, _>(|k| 0.1 + ((i + k) % 7) as f32 * 0.01))
            .collect_rows(RANK)
    };
    let (mut p, mut q): (DMatrix<f32>, DMatrix<f32>) = (start(USERS)?, start(ITEMS)?);
    let (alpha, lambda) = (0.005f32, 0.05f32);
    let mut seconds = Vec::new();
    let mut planning = 0.0;
    for _epoch in 0..options.epochs {
        let begun = Instant::now();
        let loss = session.sum(0.0f64);
        let report = async_parallel_for!(0..train.len(), [alpha, lambda, &train, &mut p, &mut q, &loss], |n| {
            let r = train[n];
            let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
            let error = r.stars - dot(pu, qi);
            each_pair(pu, qi, |p, q| {
                let (a, b) = (*p, *q);
                *p += alpha * (error * b - lambda * a);
                *q += alpha * (error * a - lambda * b);
            });
            loss.add(f64::from(error * error));
        })?;
        planning = report.seconds_recording() + report.seconds_planning();
        seconds.push(begun.elapsed().as_secs_f64());
    }
    let digest = format!("{} {}", p.digest()?, q.digest()?);
    let epoch = seconds.iter().skip(1).copied().fold(f64::INFINITY, f64::min);
    let (first, peak) = (seconds.first().copied().unwrap_or(0.0), peak_rss_bytes().unwrap_or(0));
    Ok(Outcome { reading, first, planning, epoch, peak, digest })
}
