//! The programs of `tests/tests/programs`, which are written as one would write them, larger and on the clock: what the report
//! says, and how many times as fast as the plain loop each is on one thread and on two. `cargo bench --bench programs -- --help` lists the options.
//!
//! Plain loop and `async_parallel_for!` run in alternation, after each has run once; the table shows medians over the rounds, the
//! time of the plain loop, and the loop's first call, which records and plans it, in the time of its later calls; and how long, in ms, the last
//! of its loops was recorded and planned.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]
#![allow(clippy::unwrap_used, reason = "the programs are tests, too")]

#[path = "../tests/tests/programs/mod.rs"]
mod programs;
#[allow(dead_code, reason = "tests take more of it")]
#[path = "../tests/tests/seen.rs"]
mod seen;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use programs::{PROGRAMS, Program, Trial};
use stradsap::prelude::*;
use stradsap_benches::harness::{Samples, benchmarking, exit_code};
use stradsap_benches::table::{Table, create};
use stradsap_test_jobs::common;

/// Programs as one would write them, against their plain loops.
#[derive(Parser)]
#[command(name = "programs")]
struct Options {
    /// Only the programs whose name, with its module's, has one of these in it
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds of turns [default: 5]
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Threads of the loops: the last number's first call is shown
    #[arg(long, value_name = "T,...", value_delimiter = ',', default_values_t = [1, 2], num_args = 1.., value_parser = clap::value_parser!(u32).range(1..))]
    threads: Vec<u32>,
    /// One round of the first program only
    #[arg(long)]
    quick: bool,
    /// Write the table to this file as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.quick |= !benchmarking();
    exit_code(run(&options))
}

fn run(options: &Options) -> Result<()> {
    let csv = options.csv.as_deref().map(create).transpose()?;
    let (rounds, programs) = if options.quick { (1, 1) } else { (options.rounds as usize, PROGRAMS.len()) };
    println!("{rounds} rounds in alternation, medians; times the plain loop: more is faster");
    let asked =
        |program: &&Program| options.only.is_empty() || options.only.iter().any(|part| program.name.contains(part));
    let speeds: Vec<String> = options.threads.iter().map(|&threads| threads_in_words(threads)).collect();
    let mut columns = vec!["program", "strategy", "parallelism", "plain ms"];
    columns.extend(speeds.iter().map(String::as_str));
    columns.extend(["first call", "recorded", "planned"]);
    let mut table = Table::new(&columns);
    for program in PROGRAMS.iter().filter(asked).take(programs) {
        table.push(measure(program, rounds, &options.threads).with_context(|| program.name)?);
    }
    println!("{table}");
    if let Some(csv) = csv {
        table.write_csv(csv)?;
    }
    Ok(())
}

fn threads_in_words(threads: u32) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

/// The row of a program.
fn measure(program: &Program, rounds: usize, threads: &[u32]) -> Result<Vec<String>> {
    let measured: Vec<(LoopReport, [f64; 3])> = threads
        .iter()
        .map(|&threads| {
            let session = Session::builder().threads(threads as usize).build()?;
            let mut trial = Trial::timed(rounds);
            let report = (program.run)(&session, &mut seen::Seen::default(), &mut trial)?;
            let [plain, ours] = [trial.plain, trial.ours].map(|seconds| Samples::new(seconds).median());
            Ok((report, [plain, plain / ours, trial.first / ours]))
        })
        .collect::<Result<_>>()?;
    let ((report, [plain, ..]), (last, [.., first])) = measured.first().zip(measured.last()).context("no threads")?;
    let mut row = vec![
        program.name.to_owned(),
        format!("{:?}", report.strategy()).to_lowercase(),
        format!("{:.1}", report.parallelism()),
        format!("{:.1}", plain * 1e3),
    ];
    row.extend(measured.iter().map(|(_, [_, speed, _])| format!("{speed:.3}")));
    row.extend([
        format!("{first:.1}"),
        format!("{:.1}", last.seconds_recording() * 1e3),
        format!("{:.1}", last.seconds_planning() * 1e3),
    ]);
    Ok(row)
}
