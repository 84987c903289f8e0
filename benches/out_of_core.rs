//! Matrix factorisation with less memory than it needs, in one process or on workers: `Session::set_memory`. Programs of two kinds take turns, without a limit
//! and with a part of what the first of them needed; each is a process of its own.
//! `cargo bench --bench out_of_core -- --help` lists the options; docs/performance.md says what came of it.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};
use stradsap::ClusterOptions;
use stradsap::kernels::{dot, each_pair};
use stradsap::prelude::*;
use stradsap_benches::data::Rating;
use stradsap_benches::harness::{Samples, benchmarking};
use stradsap_examples::report::peak_rss_bytes;

/// Factorises generated ratings with and without a limit of memory.
#[derive(Parser)]
#[command(name = "out_of_core")]
struct Options {
    /// Millions of ratings
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=2000))]
    ratings: u32,
    /// Rank of the factors
    #[arg(long, value_name = "K", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1024))]
    rank: u32,
    /// Epochs of each run
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    epochs: u32,
    /// Runs of each kind
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The limit is the first run's peak divided by this
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    share: u64,
    /// Worker processes of one thread each; the peak is then that of the largest of them [default: none]
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    workers: u32,
    /// Where the files lie [default: the folder of temporary files]
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// Bytes of memory for one run, which is all that is done
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// Be one of the runs
    #[arg(long, hide = true)]
    one: bool,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// What one run came to.
#[derive(Serialize, Deserialize)]
struct Outcome {
    seconds: f64,
    /// The fastest epoch but the first.
    epoch: f64,
    peak: u64,
    digest: String,
}

#[stradsap::main]
fn main(session: &Session) -> Result<()> {
    run(session, &Options::parse())
}

fn run(session: &Session, options: &Options) -> Result<()> {
    if options.one || options.memory.is_some() {
        println!("{}", serde_json::to_string(&train(session, options)?)?);
        return Ok(());
    }
    let first = another(options, None)?;
    let limit = first.peak / options.share;
    println!("peak {} MB without a limit; limit {} MB", first.peak >> 20, limit >> 20);
    let (mut free, mut limited) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        let (a, b) = (another(options, None)?, another(options, Some(limit))?);
        ensure!(a.digest == b.digest, "another model: {} and {}", a.digest, b.digest);
        println!(
            "round {round}: {:.2} s ({:.3} an epoch) without, {:.2} s ({:.3} an epoch, peak {} MB) with it",
            a.seconds,
            a.epoch,
            b.seconds,
            b.epoch,
            b.peak >> 20
        );
        free.push(a.seconds);
        limited.push(b.seconds);
    }
    let (free, limited) = (Samples::new(free).median(), Samples::new(limited).median());
    println!("medians: {free:.2} s and {limited:.2} s, {:.2} times as long", limited / free);
    Ok(())
}

/// A run in a process of its own.
fn another(options: &Options, limit: Option<u64>) -> Result<Outcome> {
    let mut command = Command::new(std::env::current_exe()?);
    let numbers = [
        ("--ratings", options.ratings),
        ("--rank", options.rank),
        ("--epochs", options.epochs),
        ("--workers", options.workers),
    ];
    for (option, value) in numbers {
        command.args([option, &value.to_string()]);
    }
    if benchmarking() {
        command.arg("--bench");
    }
    if let Some(folder) = &options.spill {
        command.arg("--spill").arg(folder);
    }
    if let Some(limit) = limit {
        command.args(["--memory", &limit.to_string()]);
    }
    let output = command.arg("--one").output()?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("a run that reports nothing")
}

fn train(session: &Session, options: &Options) -> Result<Outcome> {
    let begun = Instant::now();
    if options.workers > 0 {
        session.start_workers(&ClusterOptions::new(options.workers as usize).threads(1))?;
    }
    if let Some(limit) = options.memory {
        session.set_memory(limit, options.spill.clone().unwrap_or_else(std::env::temp_dir))?;
    }
    let size = if benchmarking() { 1_000_000 * options.ratings as usize } else { 100_000 };
    let (users, items, rank) = ((size / 100) as u64, (size / 500) as u64, options.rank as usize);
    let draw = session.rng(1);
    // Popular ones first, as the square of an even draw.
    let skewed = |i: usize, n: u64| (n as f32 * draw.unit(i) * draw.unit(i)) as u32;
    let train: DVector<Rating> = DVector::from_fn(session, size, |i| Rating {
        user: skewed(2 * i, users),
        item: skewed(2 * i + 1, items),
        stars: 1.0 + 4.0 * draw.unit(i),
    })?;
    let start = |i: usize, k: usize| 0.1 + ((i + k) % 7) as f32 * 0.01;
    let mut p: DMatrix<f32> = DMatrix::from_fn(session, users as usize, rank, start)?;
    let mut q: DMatrix<f32> = DMatrix::from_fn(session, items as usize, rank, start)?;
    let (alpha, lambda) = (0.005f32, 0.05f32);
    let mut epoch = f64::INFINITY;
    for k in 0..options.epochs {
        let begun = Instant::now();
        async_parallel_for!(0..train.len(), [alpha, lambda, &train, &mut p, &mut q], |n| {
            let r = train[n];
            let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
            let error = r.stars - dot(pu, qi);
            each_pair(pu, qi, |p, q| {
                let (a, b) = (*p, *q);
                *p += alpha * (error * b - lambda * a);
                *q += alpha * (error * a - lambda * b);
            });
        })?;
        if k > 0 {
            epoch = epoch.min(begun.elapsed().as_secs_f64());
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let digest = format!("{} {}", p.digest()?, q.digest()?);
    let peak = if options.workers > 0 { peak_of_children() } else { peak_rss_bytes() };
    Ok(Outcome { seconds, epoch, peak: peak.unwrap_or(0), digest })
}

/// The largest peak of this process's children, in bytes.
fn peak_of_children() -> Option<u64> {
    let own = format!("PPid:\t{}\n", std::process::id());
    let peak = |entry: std::fs::DirEntry| {
        let status =
            std::fs::read_to_string(entry.path().join("status")).ok().filter(|status| status.contains(&own))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    };
    std::fs::read_dir("/proc").ok()?.filter_map(|entry| peak(entry.ok()?)).max()
}
