//! Plans of large sets of ratings, for `stradsap simulate`: how matrix factorisation would run on many machines. Sets that are
//! too large for this machine are only planned.
//! `cargo bench --bench scaling -- --help` lists the options; docs/scaling.md says what came of it.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use rayon::prelude::*;
use stradsap::kernels::{dot, each_pair};
use stradsap::prelude::*;
use stradsap_benches::data::Rating;
use stradsap_benches::generate::{PAIR, Shape, generate, generate_pairs};
use stradsap_benches::harness::{benchmarking, exit_code};
use stradsap_planner::recording::{CaptureLog, CaptureShape, Fields, Recording};
use stradsap_planner::simulate::{Measured, PlanTable};
use stradsap_planner::{PlanOptions, Threads, inference, plan};

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
    /// Only plan the loop: no model, and of a rating only its user and item
    #[arg(long, requires = "plan")]
    only_plan: bool,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    let shape = Shape::skewed_of(1_000_000 * options.ratings as usize);
    let shape = if benchmarking() { shape } else { shape.small() };
    if let (true, Some(path)) = (options.only_plan, &options.plan) {
        let mut file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
        serde_json::to_writer(&mut file, &planned(options, shape)).with_context(|| path.display().to_string())?;
        return file.flush().with_context(|| path.display().to_string());
    }
    let set = generate("skewed", shape);
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

/// Captures of the loop: the ratings, and the rows of users and items.
const TRAIN: usize = 0;
const P: usize = 1;
const Q: usize = 2;

/// The plan of the loop that `train` runs, made from the numbers by which it finds its rows.
fn planned(options: &Options, shape: Shape) -> PlanTable {
    let begun = Instant::now();
    let pairs = generate_pairs(shape);
    println!("{} ratings generated in {:.1} s", shape.train, begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let owned = |len| CaptureShape { len, reduction: false, by_block: false, owning: false, dealt: false };
    let shapes = [owned(shape.train), owned(shape.users.count), owned(shape.items.count)];
    let range = 0..shape.train;
    // Short sets are recorded in full, and nothing can be inferred of them.
    let samples = inference::samples(&range).unwrap_or_else(|| vec![range.clone()]);
    let slices = samples.iter().map(|sample| logs(&pairs, sample)).collect();
    let sampled = Recording::new(range.clone(), slices, &shapes);
    let fields = [Some(Fields::new(0, PAIR, &pairs)), None, None];
    let inferred = inference::infer(&sampled, &samples, &shapes, (&fields, None), &Rayon);
    let wanted = PlanOptions { parts: options.parts, ..PlanOptions::default() };
    let plan = plan::plan(&inferred.unwrap_or(sampled), &shapes, &wanted, &Rayon);
    println!("planned in {:.1} s: {} blocks", begun.elapsed().as_secs_f64(), plan.graph.len());
    let name = |capture: usize| ["train", "p", "q"][capture].to_string();
    let bytes = |capture| if capture == TRAIN { PAIR as u64 } else { 4 * u64::from(options.rank) };
    let measured = Measured { seconds: 0.0, workers: 0, threads: 1 };
    PlanTable::of(&plan, format!("{}:{}", file!(), line!()), &name, &bytes, true, (0, measured))
}

/// What the loop's body touches in some iterations.
fn logs(pairs: &[u8], iterations: &Range<usize>) -> Vec<CaptureLog> {
    let mut logs = [TRAIN, P, Q].map(|capture| CaptureLog::new(iterations.start, iterations.len(), capture != TRAIN));
    let number = |at: usize| pairs[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
    for n in iterations.clone() {
        for _ in ["stars", "user", "item"] {
            logs[TRAIN].access(n, false);
        }
        logs[P].access(number(PAIR * n), true);
        logs[Q].access(number(PAIR * n + PAIR / 2), true);
        logs.iter_mut().for_each(CaptureLog::end_iteration);
    }
    logs.into()
}

/// Plans are made on rayon's threads.
struct Rayon;

impl Threads for Rayon {
    fn count(&self) -> usize {
        rayon::current_num_threads()
    }

    fn run(&self, n: usize, f: &(dyn Fn(usize) + Sync)) {
        (0..n).into_par_iter().for_each(f);
    }
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
