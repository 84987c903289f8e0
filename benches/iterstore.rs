//! What a loop over minibatches gains from knowing its rows: IterStore's figures 4 to 9 for `sync_parallel_for!`, on worker processes of
//! this machine. Rows of 64 floats are read and changed in minibatches, some rows by all workers, most by one or two.
//! `cargo bench --bench iterstore -- --help` lists the options; docs/performance.md says what came of it.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;
use stradsap::ClusterOptions;
use stradsap::prelude::*;
use stradsap_benches::harness::{Samples, benchmarking};
use stradsap_benches::table::Table;

/// IterStore's figures 4 to 9.
#[derive(Parser)]
#[command(name = "iterstore")]
struct Options {
    /// Worker processes of one thread; figure 7 has as many threads of one process
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    workers: u32,
    /// Rows of the model
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    rows: u32,
    /// Minibatches of each worker; threads of one process have 50 times as many
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minibatches: u32,
    /// Only this figure
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=9))]
    figure: Option<u32>,
    /// Rounds of turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

const WIDTH: usize = 64;
/// Accesses of an element of the input, and elements of a minibatch.
const TOUCHES: usize = 8;
const ELEMENTS: usize = 16;
/// Calls of a loop: the first one records.
const CALLS: usize = 5;

type Row = [f32; WIDTH];

/// How a loop is run.
#[derive(Clone, Copy)]
struct How {
    policy: SyncPolicy,
    prefetch: bool,
    early: usize,
    caches: usize,
    /// How many of 1000 accesses are left out while rows are recorded, and how many afterwards.
    missing: u32,
    false_ones: u32,
}

const ALL: How = How { policy: SyncPolicy::Bsp, prefetch: true, early: 10, caches: 512, missing: 0, false_ones: 0 };

/// What the calls of a loop took.
struct Ran {
    seconds: Vec<f64>,
    bytes: u64,
    on_demand: u64,
    /// Of a worker on average: what it has in memory in the end, and what it had at most.
    memory: [u64; 2],
}

impl Ran {
    /// The median of all calls but the first.
    fn later(&self) -> f64 {
        Samples::new(self.seconds[1..].to_vec()).median()
    }
}

/// The bytes that workers have in memory on average, and had at most. Workers are this process's children.
fn memory_of_workers() -> [u64; 2] {
    let lines = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children: String = tasks.map(|task| lines(format!("{}/children", task.path().display()))).collect();
    let children: Vec<&str> = children.split_whitespace().collect();
    ["VmRSS:", "VmHWM:"].map(|what| {
        let of = |child: &&str| {
            let status = lines(format!("/proc/{child}/status"));
            let line = status.lines().find_map(|line| line.strip_prefix(what)?.split_whitespace().next()?.parse().ok());
            line.unwrap_or(0u64)
        };
        1024 * children.iter().map(of).sum::<u64>() / children.len().max(1) as u64
    })
}

fn scattered(k: u64) -> u64 {
    let k = (k ^ (k >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (k ^ (k >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20
}

/// The rows that an element touches: of four one is among the first hundred, of which the first are touched most, and two are near
/// each other in a part of the model that is the copy's own.
fn rows_of(element: usize, copies: usize, rows: usize) -> [u32; TOUCHES] {
    let copy = element / ELEMENTS % copies;
    let own = rows / copies;
    std::array::from_fn(|k| {
        let random = scattered((element * TOUCHES + k) as u64) as usize;
        (match k % 4 {
            0 => (random % 100) * (random / 128 % 100) / 100,
            1 => random % rows,
            // Not the part that is kept where the copy runs.
            _ => (copy + 1) % copies * own + (element / 7 * 3 + k) % own,
        }) as u32
    })
}

/// Runs the loop in a session of its own.
fn run(options: &Options, workers: usize, threads: usize, how: How) -> Result<Ran> {
    let session = Session::builder().threads(threads).build()?;
    if workers > 0 {
        session.start_workers(&ClusterOptions::new(workers).threads(threads))?;
    }
    let copies = workers.max(1) * threads;
    // Threads of one process meet nobody, and have larger minibatches.
    let (times, elements) = if workers == 0 { (50, 64 * ELEMENTS) } else { (1, ELEMENTS) };
    let n = copies * options.minibatches as usize * ELEMENTS * times;
    let rows = options.rows as usize;
    let input = DVector::from_fn(&session, n, |element| rows_of(element, copies, rows))?;
    let mut model: DVector<Row> = DVector::from_fn(&session, rows, |i| [1.0 / (i + 1) as f32; WIDTH])?;
    let (How { policy, prefetch, early, caches, .. }, rate) = (how, 1e-4f32);
    let mut ran = Ran { seconds: Vec::new(), bytes: 0, on_demand: 0, memory: [0; 2] };
    for call in 0..CALLS {
        let left_out = if call == 0 { how.missing } else { how.false_ones };
        let sum = session.sum(0.0f64);
        let begun = Instant::now();
        let report = sync_parallel_for!(
            input,
            elements,
            [rate, left_out, &mut model, &sum],
            |batch| {
                let (mut x, mut total) = ([0.0f32; WIDTH], 0.0f32);
                for (n, rows) in (batch.start()..).zip(batch) {
                    for (k, &row) in rows.iter().enumerate() {
                        if (scattered((n * TOUCHES + k) as u64 ^ 77) % 1000) as u32 >= left_out {
                            model[row].add_to(0.5, &mut x);
                            total += model[row].dot(&x);
                            model[row].axpy(rate, &x);
                        }
                    }
                    x = x.map(|x| x * 0.5);
                }
                sum.add(f64::from(total));
            },
            policy,
            prefetch = prefetch,
            early = early,
            caches = caches
        )?;
        ran.seconds.push(begun.elapsed().as_secs_f64());
        (ran.bytes, ran.on_demand) = (report.bytes_sent(), report.rows_on_demand());
        ensure!(sum.get().is_finite(), "the rows are no longer finite");
    }
    ran.memory = memory_of_workers();
    Ok(ran)
}

/// One line of a figure.
struct Line {
    figure: &'static str,
    name: String,
    how: How,
    in_process: bool,
}

fn line(figure: &'static str, name: impl Into<String>, how: How) -> Line {
    Line { figure, name: name.into(), how, in_process: false }
}

fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, policy) in [("bsp", SyncPolicy::Bsp), ("ssp", SyncPolicy::Ssp { staleness: 1 })] {
        let all = How { policy, ..ALL };
        lines.push(line("4, 5, 6", format!("{name}: everything"), all));
        lines.push(line("4, 5, 6", format!("{name}: nothing is foreseen"), How { prefetch: false, ..all }));
    }
    for caches in [0, 4, 16, 64, 512] {
        let how = How { policy: SyncPolicy::Hybrid, caches, ..ALL };
        lines.push(Line { in_process: true, ..line("7", format!("threads with {caches} rows of their own"), how) });
    }
    for early in [0, 5, 10, 25, 50, 100] {
        lines.push(line("8", format!("{early} % before a round"), How { early, ..ALL }));
    }
    for (name, policy) in [("bsp", SyncPolicy::Bsp), ("ssp", SyncPolicy::Ssp { staleness: 1 })] {
        for missing in [0, 10, 50, 200, 500] {
            let how = How { policy, missing, ..ALL };
            lines.push(line("9a", format!("{name}: {} % not recorded", f64::from(missing) / 10.0), how));
        }
        for false_ones in [0, 100, 500] {
            let how = How { policy, false_ones, ..ALL };
            lines.push(line("9b", format!("{name}: {} % recorded in vain", f64::from(false_ones) / 10.0), how));
        }
    }
    lines
}

#[stradsap::main]
fn main(_: &Session) -> Result<()> {
    let mut options = Options::parse();
    if !benchmarking() {
        (options.rows, options.minibatches, options.rounds, options.workers) = (1000, 3, 1, 2);
    }
    let is_asked = |line: &Line| options.figure.is_none_or(|figure| line.figure.contains(&figure.to_string()));
    let lines: Vec<Line> = lines().into_iter().filter(is_asked).collect();
    let mut all: Vec<Vec<Ran>> = lines.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds {
        for (line, ran) in lines.iter().zip(&mut all) {
            let (workers, threads) = if line.in_process { (0, options.workers) } else { (options.workers, 1) };
            ran.push(run(&options, workers as usize, threads as usize, line.how)?);
        }
    }
    let heading = [
        "figure",
        "what",
        "first call ms",
        "later calls ms",
        "5 calls s",
        "100 calls s",
        "MB a call",
        "MB a worker",
        "at most",
        "rows on demand",
    ];
    let mut table = Table::new(&heading);
    for (line, ran) in lines.iter().zip(&all) {
        let first = Samples::new(ran.iter().map(|ran| ran.seconds[0]).collect()).median();
        let later = Samples::new(ran.iter().map(Ran::later).collect()).median();
        table.push(vec![
            line.figure.to_owned(),
            line.name.clone(),
            format!("{:.1}", 1e3 * first),
            format!("{:.1}", 1e3 * later),
            format!("{:.2}", first + 4.0 * later),
            format!("{:.1}", first + 99.0 * later),
            format!("{:.1}", ran[0].bytes as f64 / 1e6),
            format!("{:.0}", ran[0].memory[0] as f64 / 1e6),
            format!("{:.0}", ran[0].memory[1] as f64 / 1e6),
            ran[0].on_demand.to_string(),
        ]);
    }
    println!(
        "{} workers, {} rows of {WIDTH} floats, {} minibatches each of {ELEMENTS} elements that touch {TOUCHES} rows; {} rounds in alternation, \
         medians; 5 and 100 calls from those of the first and of a later one\n\n{table}",
        options.workers, options.rows, options.minibatches, options.rounds
    );
    Ok(())
}
