//! How fast tables are read: megabytes a second on one thread and on two, and the memory that it takes.
//! `cargo bench --bench read_csv -- --help` lists the options.
//!
//! A file of ratings (`user,item,stars,time`, about 22 bytes a line) is generated and read on one thread and on two, in
//! alternation. The file is in the page cache.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::Deserialize;
use stradsap::prelude::*;
use stradsap::random::Stream;
use stradsap_benches::harness::{alternate, benchmarking, exit_code};

/// Reading tables.
#[derive(Parser)]
#[command(name = "read_csv")]
struct Options {
    /// The size of the table [default: 200, quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    megabytes: Option<u32>,
    /// Rounds of turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Read this file instead; it has columns `user`, `item` and `stars`
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only write the table to this file, for other programs to read
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    generate: Option<PathBuf>,
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

fn main() -> ExitCode {
    exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    let megabytes = options.megabytes.unwrap_or(if benchmarking() { 200 } else { 2 });
    if let Some(path) = &options.generate {
        return generate(path, megabytes);
    }
    let scratch = std::env::temp_dir().join(format!("stradsap-read-csv-{}.csv", std::process::id()));
    let result = match &options.file {
        Some(path) => measure(path, options.rounds),
        None => generate(&scratch, megabytes).and_then(|()| measure(&scratch, options.rounds)),
    };
    if options.file.is_none() {
        fs::remove_file(&scratch).with_context(|| scratch.display().to_string())?;
    }
    result
}

fn generate(path: &Path, megabytes: u32) -> Result<()> {
    let mut out = BufWriter::new(fs::File::create(path).with_context(|| path.display().to_string())?);
    let mut random = Stream::new(1, 0xc5f).sequence(0);
    let mut below = |n| random.bits() % n;
    let mut left = u64::from(megabytes) * 1_000_000;
    writeln!(out, "user,item,stars,time")?;
    let mut line = Vec::new();
    while left > 0 {
        let (user, item) = (below(150_000), below(30_000));
        let (halves, time) = (below(10) + 1, 1_000_000_000 + below(500_000_000));
        line.clear();
        writeln!(line, "{user},{item},{},{time}", halves as f32 / 2.0)?;
        out.write_all(&line)?;
        left = left.saturating_sub(line.len() as u64);
    }
    Ok(out.flush()?)
}

fn measure(path: &Path, rounds: u32) -> Result<()> {
    let bytes = fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let mut contestants = Vec::new();
    for threads in [1, 2] {
        contestants.push((Session::builder().threads(threads).build()?, 0f64, 0, 0.0));
    }
    let samples = alternate(&mut contestants, rounds as usize, |(session, memory, len, busy)| {
        let before = reset_peak();
        let started = processor_seconds();
        let ratings = session.read_csv::<Rating>(path)?;
        *busy += processor_seconds() - started;
        let peak = status("VmHWM");
        let size = (ratings.len() * size_of::<Rating>()) as f64;
        ensure!(*len == 0 || *len == ratings.len(), "another number of records on another reading");
        *len = ratings.len();
        if let (Some(before), Some(peak)) = (before, peak) {
            *memory = memory.max(peak.saturating_sub(before) as f64 / size);
        }
        Ok(())
    })?;
    let speed = |k: usize| bytes as f64 / 1e6 / samples[k].median();
    println!("{:.0} MB, {} records, {rounds} rounds in alternation, medians", bytes as f64 / 1e6, contestants[0].2);
    for (k, (session, memory, _, busy)) in contestants.iter().enumerate() {
        let threads = session.threads();
        let efficient = bytes as f64 / 1e6 * f64::from(rounds) / busy;
        print!("{threads} threads: {:7.1} MB/s, {efficient:7.1} MB in a second of a processor, ", speed(k));
        println!("peak memory {memory:.2} times the DVector");
    }
    println!("2 threads are {:.2} times as fast as 1", speed(1) / speed(0));
    Ok(())
}

/// How long this process has kept processors busy, where the system tells.
fn processor_seconds() -> f64 {
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything: user and system time are fields 14 and 15.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Forgets the most memory that this process has had, and says how much it has now, in bytes.
fn reset_peak() -> Option<u64> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    status("VmRSS")
}

/// A figure of this process, in bytes, where the system tells.
fn status(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
