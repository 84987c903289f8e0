//! What an access through a view costs beside one through a slice, with elements of one `f32`: the smallest there are,
//! so that nothing hides the access. `cargo bench --bench access -- --help` lists the options.
//!
//! Each pattern runs as a plain loop and as an `async_parallel_for!` on one thread, in alternation, the loop having
//! been recorded and planned before; the table shows medians over the rounds.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use stradsap::prelude::*;
use stradsap::random::Stream;
use stradsap_benches::harness::{Samples, alternate, benchmarking, exit_code};
use stradsap_benches::table::{Table, create};

/// Access through a view against a slice.
#[derive(Parser)]
#[command(name = "access")]
struct Options {
    /// Rounds of turns [default: 15, quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// A sixteenth of the iterations, few rounds
    #[arg(long)]
    quick: bool,
    /// Write the table to this file as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// How many elements the random indices reach.
const REACH: usize = 1 << 16;

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.quick |= !benchmarking();
    exit_code(run(&options))
}

fn run(options: &Options) -> Result<()> {
    let csv = options.csv.as_deref().map(create).transpose()?;
    let (n, default_rounds) = if options.quick { (1 << 19, 2) } else { (1 << 23, 15) };
    let rounds = options.rounds.map_or(default_rounds, |n| n as usize);
    println!("{n} iterations, random indices below {REACH}, 1 thread, {rounds} rounds in alternation, medians");

    let session = Session::builder().threads(1).build()?;
    let mut table = Table::new(&["pattern", "slice ns", "view ns", "view / slice"]);
    for (pattern, samples) in [
        ("stream: y[i] += a * x[i]", stream(&session, n, rounds)?),
        ("gather: y[i] = x[at[i]]", gather(&session, n, rounds)?),
        ("gather: sum += x[at[i]]", gather_sum(&session, n, rounds)?),
        ("scatter: y[at[i]] += x[i]", scatter(&session, n, rounds)?),
    ] {
        let [slice, view] = samples.map(|samples| samples.per(n).median() * 1e9);
        let numbers = [slice, view, view / slice].map(|number| format!("{number:.3}"));
        table.push([vec![pattern.to_owned()], numbers.to_vec()].concat());
    }
    println!("{table}");
    if let Some(csv) = csv {
        table.write_csv(csv)?;
    }
    Ok(())
}

fn value(i: usize) -> f32 {
    Stream::new(1, 1).unit(i as u64)
}

fn index(i: usize) -> u32 {
    (Stream::new(1, 2).bits(i as u64) % REACH as u64) as u32
}

/// Times the two in alternation, after each has run once.
fn time(rounds: usize, slice: &mut dyn FnMut(), view: &mut dyn FnMut() -> Result<()>) -> Result<[Samples; 2]> {
    slice();
    view()?;
    let mut slice = || {
        slice();
        Ok(())
    };
    let mut contestants: [&mut dyn FnMut() -> Result<()>; 2] = [&mut slice, view];
    let samples = alternate(&mut contestants, rounds, |run| run())?;
    Ok([samples[0].clone(), samples[1].clone()])
}

fn stream(session: &Session, n: usize, rounds: usize) -> Result<[Samples; 2]> {
    let a = 0.5f32;
    let x: Vec<f32> = (0..n).map(value).collect();
    let mut y = vec![1.0f32; n];
    let vx = DVector::from_vec(session, x.clone())?;
    let mut vy = DVector::from_vec(session, y.clone())?;
    let mut slice = || {
        let (a, x, y) = (black_box(a), black_box(&x[..n]), black_box(&mut y[..n]));
        for i in 0..n {
            y[i] += a * x[i];
        }
    };
    let mut view = || {
        async_parallel_for!(0..n, [a, x = &vx, y = &mut vy], |i| {
            y[i] += a * x[i];
        })?;
        Ok(())
    };
    time(rounds, &mut slice, &mut view)
}

fn gather(session: &Session, n: usize, rounds: usize) -> Result<[Samples; 2]> {
    let x: Vec<f32> = (0..REACH).map(value).collect();
    let at: Vec<u32> = (0..n).map(index).collect();
    let mut y = vec![0.0f32; n];
    let (vx, vat) = (DVector::from_vec(session, x.clone())?, DVector::from_vec(session, at.clone())?);
    let mut vy = DVector::from_vec(session, y.clone())?;
    let mut slice = || {
        let (x, at, y) = (black_box(&x[..]), black_box(&at[..n]), black_box(&mut y[..n]));
        for i in 0..n {
            y[i] = x[at[i] as usize];
        }
    };
    let mut view = || {
        async_parallel_for!(0..n, [x = &vx, at = &vat, y = &mut vy], |i| {
            y[i] = x[at[i]];
        })?;
        Ok(())
    };
    time(rounds, &mut slice, &mut view)
}

fn gather_sum(session: &Session, n: usize, rounds: usize) -> Result<[Samples; 2]> {
    let x: Vec<f32> = (0..REACH).map(value).collect();
    let at: Vec<u32> = (0..n).map(index).collect();
    let (vx, vat) = (DVector::from_vec(session, x.clone())?, DVector::from_vec(session, at.clone())?);
    let mut slice = || {
        let (x, at) = (black_box(&x[..]), black_box(&at[..n]));
        let mut sum = 0.0f64;
        for i in 0..n {
            sum += f64::from(x[at[i] as usize]);
        }
        black_box(sum);
    };
    let mut view = || {
        let sum = session.sum(0.0f64);
        async_parallel_for!(0..n, [x = &vx, at = &vat, &sum], |i| {
            sum.add(f64::from(x[at[i]]));
        })?;
        black_box(sum.get());
        Ok(())
    };
    time(rounds, &mut slice, &mut view)
}

fn scatter(session: &Session, n: usize, rounds: usize) -> Result<[Samples; 2]> {
    let x: Vec<f32> = (0..n).map(value).collect();
    let at: Vec<u32> = (0..n).map(index).collect();
    let mut y = vec![0.0f32; REACH];
    let (vx, vat) = (DVector::from_vec(session, x.clone())?, DVector::from_vec(session, at.clone())?);
    let mut vy = DVector::from_vec(session, y.clone())?;
    let mut slice = || {
        let (x, at, y) = (black_box(&x[..n]), black_box(&at[..n]), black_box(&mut y[..]));
        for i in 0..n {
            y[at[i] as usize] += x[i];
        }
    };
    let mut view = || {
        async_parallel_for!(0..n, [x = &vx, at = &vat, y = &mut vy], |i| {
            y[at[i]] += x[i];
        })?;
        Ok(())
    };
    time(rounds, &mut slice, &mut view)
}
