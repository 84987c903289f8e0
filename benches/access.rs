//! What an access through a view costs beside one through a slice, with elements of one `f32`: the smallest there are,
//! so that nothing hides the access. `cargo bench --bench access -- --help` lists the options.
//!
//! Each pattern runs as a plain loop and as an `async_parallel_for!` on one thread, in alternation, the loop having
//! been recorded and planned before; the table shows medians over the rounds. A second table has loops that only add to what
//! they don't read, on one thread and on two.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use stradsap::OnFailure;
use stradsap::prelude::*;
use stradsap::random::Stream;
use stradsap_benches::harness::{Samples, alternate, benchmarking, exit_code};
use stradsap_benches::table::{Table, create};

/// Access through a view against a slice.
#[derive(Parser)]
#[command(name = "access")]
struct Options {
    /// Only rows whose name has one of these in it
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
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

/// Iterates over slices and over views, so often.
type Pattern = fn(&Session, usize, usize) -> Result<[Samples; 2]>;

fn run(options: &Options) -> Result<()> {
    let csv = options.csv.as_deref().map(create).transpose()?;
    let (n, default_rounds) = if options.quick { (1 << 19, 2) } else { (1 << 23, 15) };
    let rounds = options.rounds.map_or(default_rounds, |n| n as usize);
    println!("{n} iterations, random indices below {REACH}, 1 thread, {rounds} rounds in alternation, medians");

    let session = Session::builder().threads(1).build()?;
    let mut table = Table::new(&["pattern", "slice ns", "view ns", "view / slice"]);
    let patterns: [(&str, Pattern); 7] = [
        ("stream: y[i] += a * x[i]", stream),
        ("gather: y[i] = x[at[i]]", |session, n, rounds| gather(session, n, rounds, OnFailure::Undo)),
        ("gather, on_failure = Poison", |session, n, rounds| gather(session, n, rounds, OnFailure::Poison)),
        ("integers: y[i] = y[i] / 2 + x[i]", |session, n, rounds| integers(session, n, rounds, OnFailure::Undo)),
        ("integers, on_failure = Poison", |session, n, rounds| integers(session, n, rounds, OnFailure::Poison)),
        ("gather: sum += x[at[i]]", gather_sum),
        ("scatter: y[at[i]] += x[i]", scatter),
    ];
    for (pattern, run) in patterns.into_iter().filter(|row| options.asks_for(row.0)) {
        let samples = run(&session, n, rounds)?;
        let [slice, view] = samples.map(|samples| samples.per(n).median() * 1e9);
        let numbers = [slice, view, view / slice].map(|number| format!("{number:.3}"));
        table.push([vec![pattern.to_owned()], numbers.to_vec()].concat());
    }
    println!("{table}");
    println!("{}", sums(n, rounds, options)?);
    if let Some(csv) = csv {
        table.write_csv(csv)?;
    }
    Ok(())
}

impl Options {
    fn asks_for(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| row.contains(part))
    }
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

fn integers(session: &Session, n: usize, rounds: usize, outcome: OnFailure) -> Result<[Samples; 2]> {
    let x: Vec<u32> = (0..n).map(index).collect();
    let mut y = vec![0u32; n];
    let vx = DVector::from_vec(session, x.clone())?;
    let mut vy = DVector::from_vec(session, y.clone())?;
    let mut slice = || {
        let (x, y) = (black_box(&x[..n]), black_box(&mut y[..n]));
        for i in 0..n {
            y[i] = y[i] / 2 + x[i];
        }
    };
    let mut view = || {
        async_parallel_for!(
            0..n,
            [x = &vx, y = &mut vy],
            |i| {
                y[i] = y[i] / 2 + x[i];
            },
            on_failure = outcome
        )?;
        Ok(())
    };
    time(rounds, &mut slice, &mut view)
}

fn gather(session: &Session, n: usize, rounds: usize, outcome: OnFailure) -> Result<[Samples; 2]> {
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
        async_parallel_for!(
            0..n,
            [x = &vx, at = &vat, y = &mut vy],
            |i| {
                y[i] = x[at[i]];
            },
            on_failure = outcome
        )?;
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

/// How often each row of the second table is smaller: counting words takes longer than adding numbers.
const FEWER_WORDS: usize = 8;

/// Times a row of the second table, of this many additions.
type Row<'r> = (&'r str, usize, &'r dyn Fn(&[Session; 2], usize) -> Result<[Samples; 3]>);

/// Loops that only add: the plain one beside one thread and two.
fn sums(n: usize, rounds: usize, options: &Options) -> Result<Table> {
    let sessions = [Session::builder().threads(1).build()?, Session::builder().threads(2).build()?];
    let mut table = Table::new(&["sum", "plain ns", "1 thread ns", "2 threads ns", "plain / 1", "plain / 2"]);
    let words = n / FEWER_WORDS;
    let rows: [Row<'_>; 9] = [
        ("h[at[i]] += 1, 1024 bins", n, &|sessions, n| histogram(sessions, (n, 1024), rounds)),
        ("h[at[i]] += 1, 65536 bins", n, &|sessions, n| histogram(sessions, (n, REACH), rounds)),
        ("sum h: h[at[i]] += x[i], 1024 bins, f64", n, &|sessions, n| weights(sessions, n, rounds)),
        ("sum h: gradients, 16 features, 64 bins", n / 16, &|sessions, n| gradients(sessions, n, rounds)),
        ("count of u32 keys, again", words, &|sessions, n| count(sessions, &keys(n), rounds, AGAIN)),
        ("count of u32 keys, a new map", words, &|sessions, n| count(sessions, &keys(n), rounds, ANEW)),
        ("count of words, again", words, &|sessions, n| count(sessions, &texts(n), rounds, AGAIN)),
        ("count of words, a new map", words, &|sessions, n| count(sessions, &texts(n), rounds, ANEW)),
        ("count of words, without clones", words, &|sessions, n| count_unowned(sessions, &texts(n), rounds)),
    ];
    for (pattern, n, run) in rows.into_iter().filter(|row| options.asks_for(row.0)) {
        let [plain, one, two] = run(&sessions, n)?.map(|samples| samples.per(n).median() * 1e9);
        let numbers = [plain, one, two, plain / one, plain / two].map(|number| format!("{number:.2}"));
        table.push([vec![pattern.to_owned()], numbers.to_vec()].concat());
    }
    Ok(table)
}

/// A loop on some session's data.
type Contestant<'c> = Box<dyn FnMut() -> Result<()> + 'c>;

/// Times the plain loop and the same loop in each session, in alternation, after each has run once.
fn time_sums(mut contestants: Vec<Contestant<'_>>, rounds: usize) -> Result<[Samples; 3]> {
    contestants.iter_mut().try_for_each(|run| run())?;
    let samples = alternate(&mut contestants, rounds, |run| run())?;
    Ok(std::array::from_fn(|k| samples[k].clone()))
}

fn plainly<'c>(mut run: impl FnMut() + 'c) -> Contestant<'c> {
    Box::new(move || {
        run();
        Ok(())
    })
}

fn histogram(sessions: &[Session; 2], (n, bins): (usize, usize), rounds: usize) -> Result<[Samples; 3]> {
    let at: Vec<u32> = (0..n).map(|i| index(i) % bins as u32).collect();
    let mut h = vec![0u64; bins];
    let mut contestants = vec![plainly(|| {
        let (at, h) = (black_box(&at[..n]), black_box(&mut h[..]));
        for i in 0..n {
            h[at[i] as usize] += 1;
        }
    })];
    for session in sessions {
        let vat = DVector::from_vec(session, at.clone())?;
        let mut vh = DVector::from_fn(session, bins, |_| 0u64)?;
        contestants.push(Box::new(move || {
            async_parallel_for!(0..n, [at = &vat, h = &mut vh], |i| h[at[i]] += 1)?;
            Ok(())
        }));
    }
    time_sums(contestants, rounds)
}

fn weights(sessions: &[Session; 2], n: usize, rounds: usize) -> Result<[Samples; 3]> {
    let (at, x): (Vec<u32>, Vec<f64>) = (0..n).map(|i| (index(i) % 1024, f64::from(value(i)))).unzip();
    let mut h = vec![0.0f64; 1024];
    let mut contestants = vec![plainly(|| {
        let (at, x, h) = (black_box(&at[..n]), black_box(&x[..n]), black_box(&mut h[..]));
        for i in 0..n {
            h[at[i] as usize] += x[i];
        }
    })];
    for session in sessions {
        let (vat, vx) = (DVector::from_vec(session, at.clone())?, DVector::from_vec(session, x.clone())?);
        let mut vh = DVector::from_fn(session, 1024, |_| 0.0f64)?;
        contestants.push(Box::new(move || {
            async_parallel_for!(0..n, [at = &vat, x = &vx, h = sum vh], |i| h[at[i]] += x[i])?;
            Ok(())
        }));
    }
    time_sums(contestants, rounds)
}

fn gradients(sessions: &[Session; 2], rows: usize, rounds: usize) -> Result<[Samples; 3]> {
    let bins: Vec<[u8; 16]> = (0..rows).map(|row| std::array::from_fn(|f| (index(row * 16 + f) % 64) as u8)).collect();
    let gradient: Vec<[f64; 2]> = (0..rows).map(|row| [f64::from(value(row)), 1.0]).collect();
    let mut h = vec![[0.0f64; 2]; 1024];
    let mut contestants = vec![plainly(|| {
        let (bins, gradient, h) = (black_box(&bins[..rows]), black_box(&gradient[..rows]), black_box(&mut h[..]));
        for row in 0..rows {
            let [g, w] = gradient[row];
            for (f, &bin) in bins[row].iter().enumerate() {
                let k = f * 64 + bin as usize;
                h[k][0] += g;
                h[k][1] += w;
            }
        }
    })];
    for session in sessions {
        let (vbins, vgradient) =
            (DVector::from_vec(session, bins.clone())?, DVector::from_vec(session, gradient.clone())?);
        let mut vh = DVector::from_fn(session, 1024, |_| [0.0f64; 2])?;
        contestants.push(Box::new(move || {
            async_parallel_for!(0..rows, [bins = &vbins, gradient = &vgradient, h = sum vh], |row| {
                let [g, w] = gradient[row];
                for (f, &bin) in bins[row].iter().enumerate() {
                    h.add(f * 64 + bin as usize, [g, w]);
                }
            })?;
            Ok(())
        }));
    }
    time_sums(contestants, rounds)
}

/// Some keys are frequent, as words are.
fn key(i: usize) -> u32 {
    let unit = f64::from(value(i));
    (40_000f64.powf(unit) - 1.0) as u32
}

fn keys(n: usize) -> Vec<u32> {
    (0..n).map(key).collect()
}

fn texts(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("word{}", key(i))).collect()
}

/// Whether each round counts into a map of its own.
const ANEW: bool = true;
const AGAIN: bool = false;

fn count<K>(sessions: &[Session; 2], keys: &[K], rounds: usize, anew: bool) -> Result<[Samples; 3]>
where
    K: stradsap::Key,
{
    let n = keys.len();
    let mut counts: HashMap<K, u64> = HashMap::new();
    let mut contestants = vec![plainly(|| {
        if anew {
            counts = HashMap::new();
        }
        for key in black_box(&keys[..n]) {
            *counts.entry(key.clone()).or_insert(0) += 1;
        }
    })];
    for session in sessions {
        let vkeys = DVector::from_vec(session, keys.to_vec())?;
        let mut counts: DMap<K, u64> = DMap::new(session)?;
        contestants.push(Box::new(move || {
            if anew {
                counts = DMap::new(session)?;
            }
            async_parallel_for!(0..n, [keys = &vkeys, &mut counts], |i| {
                *counts.entry(keys[i].clone()).or_insert(0) += 1;
            })?;
            Ok(())
        }));
    }
    time_sums(contestants, rounds)
}

fn count_unowned(sessions: &[Session; 2], keys: &[String], rounds: usize) -> Result<[Samples; 3]> {
    let n = keys.len();
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut contestants = vec![plainly(|| {
        for key in black_box(&keys[..n]) {
            match counts.get_mut(key.as_str()) {
                Some(count) => *count += 1,
                None => drop(counts.insert(key.clone(), 1)),
            }
        }
    })];
    for session in sessions {
        let vkeys = DVector::from_vec(session, keys.to_vec())?;
        let mut counts: DMap<String, u64> = DMap::new(session)?;
        contestants.push(Box::new(move || {
            async_parallel_for!(0..n, [keys = &vkeys, sum counts], |i| counts.add(keys[i].as_str(), 1))?;
            Ok(())
        }));
    }
    time_sums(contestants, rounds)
}
