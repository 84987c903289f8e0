//! Plans of large sets of ratings, for `stradsap simulate`: how matrix factorisation would run on many machines.
//! `cargo bench --bench scaling -- --help` lists the options; docs/scaling.md says what came of it.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use stradsap::kernels::{dot, each_pair};
use stradsap::prelude::*;
use stradsap_benches::data::Rating;
use stradsap_benches::generate::{Shape, generate};
use stradsap_benches::harness::{benchmarking, exit_code};

/// Factorises generated ratings on this machine, and writes the plan.
#[derive(Parser)]
#[command(name = "scaling")]
struct Options {
    /// Millions of ratings
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    ratings: u32,
    /// Rank of the factors
    #[arg(long, value_name = "K", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    rank: u32,
    /// Threads
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Calls of the loop, of which the first makes the plan
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    epochs: u32,
    /// Parts a side [default: as the data want it]
    #[arg(long, value_name = "N")]
    parts: Option<usize>,
    /// Where the plan is written
    #[arg(long, value_name = "FILE.json")]
    plan: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    let shape = Shape::skewed_of(1_000_000 * options.ratings as usize);
    let set = generate("skewed", if benchmarking() { shape } else { shape.small() });
    let session = Session::builder().threads(options.threads as usize).build()?;
    let rank = options.rank as usize;
    let row = |k: usize| 0.1 + (k % 7) as f32 * 0.01;
    let (alpha, lambda) = (set.alpha, set.lambda);
    let train: DVector<Rating> = DVector::from_vec(&session, set.train)?;
    let mut p: DMatrix<f32> = DMatrix::from_vec(&session, rank, (0..set.users * rank).map(row).collect())?;
    let mut q: DMatrix<f32> = DMatrix::from_vec(&session, rank, (0..set.items * rank).map(row).collect())?;
    let mut fastest: Option<LoopReport> = None;
    for epoch in 1..=options.epochs {
        let begun = Instant::now();
        let report = match options.parts {
            Some(parts) => async_parallel_for!(
                0..train.len(),
                [alpha, lambda, &train, &mut p, &mut q],
                |n| {
                    step(train[n].stars, &mut p[train[n].user], &mut q[train[n].item], alpha, lambda);
                },
                parts = parts
            )?,
            None => async_parallel_for!(0..train.len(), [alpha, lambda, &train, &mut p, &mut q], |n| {
                step(train[n].stars, &mut p[train[n].user], &mut q[train[n].item], alpha, lambda);
            })?,
        };
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "epoch {epoch}: {seconds:.4} s ({:.4} s recording, {:.4} s planning), {} blocks, parallelism {:.1}",
            if epoch == 1 { report.seconds_recording() } else { 0.0 },
            if epoch == 1 { report.seconds_planning() } else { 0.0 },
            report.blocks(),
            report.parallelism()
        );
        let is_faster = |other: &LoopReport| report.seconds_running() < other.seconds_running();
        if epoch > 1 && fastest.as_ref().is_none_or(is_faster) {
            fastest = Some(report);
        }
    }
    if let (Some(path), Some(report)) = (&options.plan, &fastest) {
        report.write_plan(path)?;
    }
    Ok(())
}

#[inline]
fn step(stars: f32, p: &mut [f32], q: &mut [f32], alpha: f32, lambda: f32) {
    let error = stars - dot(p, q);
    each_pair(p, q, |p, q| {
        let (a, b) = (*p, *q);
        *p += alpha * (error * b - lambda * a);
        *q += alpha * (error * a - lambda * b);
    });
}
