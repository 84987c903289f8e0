//! Operators and maps beside what a person would write by hand: a plain loop, and rayon on as many threads.
//! `cargo bench --bench operators -- --help` lists the options.
//!
//! The contestants of a task run in alternation; the table shows medians over the rounds, and what each is to the plain
//! loop. Every result is compared with the plain loop's first.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use rayon::prelude::*;
use stradsap::prelude::*;
use stradsap::random::Stream;
use stradsap_benches::harness::{alternate, benchmarking, exit_code};
use stradsap_benches::table::{Table, create};

/// Operators and maps against plain loops and rayon.
#[derive(Parser)]
#[command(name = "operators")]
struct Options {
    /// Rounds of turns [default: 7, quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Threads of rayon, and of the sessions with more than one
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// A sixteenth of the data, one round
    #[arg(long)]
    quick: bool,
    /// Write the table to this file as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// Different words, of which early ones are frequent.
const WORDS: u64 = 50_000;

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.quick |= !benchmarking();
    exit_code(run(&options))
}

type Turn<'t> = Box<dyn FnMut() -> Result<()> + 't>;

struct Bench {
    rounds: usize,
    /// What the contestants with more than one thread are called, our loops and maps.
    many: [&'static str; 2],
    table: Table,
}

impl Bench {
    /// Times a task's contestants: the plain loop first.
    fn task(&mut self, task: &str, mut contestants: Vec<(&str, Turn<'_>)>) -> Result<()> {
        contestants.iter_mut().try_for_each(|(_, turn)| turn())?;
        let names: Vec<&str> = contestants.iter().map(|(name, _)| *name).collect();
        let mut turns: Vec<Turn<'_>> = contestants.into_iter().map(|(_, turn)| turn).collect();
        let samples = alternate(&mut turns, self.rounds, |turn| turn())?;
        let medians: Vec<f64> = samples.iter().map(|samples| samples.median() * 1e3).collect();
        for (name, median) in names.into_iter().zip(&medians) {
            let ratio = format!("{:.2}", median / medians[0]);
            self.table.push(vec![task.to_owned(), name.to_owned(), format!("{median:.1}"), ratio]);
        }
        Ok(())
    }
}

fn run(options: &Options) -> Result<()> {
    let csv = options.csv.as_deref().map(create).transpose()?;
    let (shift, default_rounds) = if options.quick { (4, 1) } else { (0, 7) };
    let rounds = options.rounds.map_or(default_rounds, |n| n as usize);
    let threads = options.threads as usize;
    let many = ["stradsap", "DMap"].map(|name| &*format!("{name}, {threads} threads").leak());
    let mut bench = Bench { rounds, many, table: Table::new(&["task", "contestant", "ms", "/ plain"]) };
    let (one, two) = (Session::builder().threads(1).build()?, Session::builder().threads(threads).build()?);
    let rayon = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    println!("{rounds} rounds in alternation, medians; rayon on {threads} threads");
    sum(&mut bench, 20_000_000 >> shift, &one, &two, &rayon)?;
    keep(&mut bench, 20_000_000 >> shift, &one, &two, &rayon)?;
    sort(&mut bench, 4_000_000 >> shift, &one, &two, &rayon)?;
    count(&mut bench, 4_000_000 >> shift, &one, &two)?;
    update(&mut bench, 4_000_000 >> shift, &one, &two)?;
    println!("{}", bench.table);
    if let Some(csv) = csv {
        bench.table.write_csv(csv)?;
    }
    Ok(())
}

/// A turn that gave this.
fn done<T>(result: T) -> Result<()> {
    black_box(result);
    Ok(())
}

fn value(i: usize) -> f32 {
    Stream::new(1, 1).unit(i as u64)
}

fn number(i: usize) -> u64 {
    let unit = f64::from(value(i));
    (unit * unit * unit * WORDS as f64) as u64
}

fn sum(bench: &mut Bench, n: usize, one: &Session, two: &Session, rayon: &rayon::ThreadPool) -> Result<()> {
    let [many, _] = bench.many;
    let x: Vec<f32> = (0..n).map(value).collect();
    let (a, b) = (DVector::from_vec(one, x.clone())?, DVector::from_vec(two, x.clone())?);
    let fold = |x: &DVector<f32>| x.fold(0.0f64, |sum, x| sum + f64::from(x * x), |a, b| a + b);
    ensure!(fold(&a)?.to_bits() == fold(&b)?.to_bits());
    let by_rayon = || rayon.install(|| x.par_iter().map(|x| f64::from(x * x)).sum::<f64>());
    bench.task(
        "fold: sum of squares, f32 as f64",
        vec![
            ("plain loop", Box::new(|| done(black_box(&x).iter().fold(0.0f64, |sum, x| sum + f64::from(x * x))))),
            ("rayon", Box::new(|| done(by_rayon()))),
            ("stradsap, 1 thread", Box::new(|| done(fold(&a)?))),
            (many, Box::new(|| done(fold(&b)?))),
        ],
    )
}

fn keep(bench: &mut Bench, n: usize, one: &Session, two: &Session, rayon: &rayon::ThreadPool) -> Result<()> {
    let [many, _] = bench.many;
    let x: Vec<f32> = (0..n).map(value).collect();
    let (a, b) = (DVector::from_vec(one, x.clone())?, DVector::from_vec(two, x.clone())?);
    let ours = |x: &DVector<f32>| x.map(|x| x * 3.0 - 1.0).filter(|y| *y > 0.0).collect();
    let plain = |x: &[f32]| x.iter().map(|x| x * 3.0 - 1.0).filter(|y| *y > 0.0).collect::<Vec<f32>>();
    ensure!(ours(&a)?.to_vec()? == plain(&x) && ours(&b)?.to_vec()? == plain(&x));
    let by_rayon = || rayon.install(|| x.par_iter().map(|x| x * 3.0 - 1.0).filter(|y| *y > 0.0).collect::<Vec<f32>>());
    bench.task(
        "map, filter, collect: f32",
        vec![
            ("plain loop", Box::new(|| done(plain(black_box(&x))))),
            ("rayon", Box::new(|| done(by_rayon()))),
            ("stradsap, 1 thread", Box::new(|| done(ours(&a)?))),
            (many, Box::new(|| done(ours(&b)?))),
        ],
    )
}

fn sort(bench: &mut Bench, n: usize, one: &Session, two: &Session, rayon: &rayon::ThreadPool) -> Result<()> {
    let [many, _] = bench.many;
    let x: Vec<[u32; 2]> = (0..n).map(|i| [(number(i) as u32).wrapping_mul(2_654_435_761), i as u32]).collect();
    let (a, b) = (DVector::from_vec(one, x.clone())?, DVector::from_vec(two, x.clone())?);
    let plain = || {
        let mut x = x.clone();
        x.sort_by_key(|x| x[0]);
        x
    };
    let by_rayon = || {
        let mut x = x.clone();
        rayon.install(|| x.par_sort_by_key(|x| x[0]));
        x
    };
    ensure!(a.sort_by_key(|x| x[0])?.to_vec()? == plain() && b.sort_by_key(|x| x[0])?.to_vec()? == plain());
    bench.task(
        "sort_by_key: [u32; 2] by u32, stable",
        vec![
            ("copy and sort_by_key", Box::new(|| done(plain()))),
            ("copy and rayon's", Box::new(|| done(by_rayon()))),
            ("stradsap, 1 thread", Box::new(|| done(a.sort_by_key(|x| x[0])?))),
            (many, Box::new(|| done(b.sort_by_key(|x| x[0])?))),
        ],
    )
}

fn count(bench: &mut Bench, n: usize, one: &Session, two: &Session) -> Result<()> {
    let [many, _] = bench.many;
    let words: Vec<String> = (0..n).map(|i| format!("word{}", number(i))).collect();
    let (a, b) = (DVector::from_vec(one, words.clone())?, DVector::from_vec(two, words.clone())?);
    let ours = |words: &DVector<String>| words.count_by_key(String::clone);
    let plain = || {
        let mut counts = HashMap::<&str, u64>::new();
        words.iter().for_each(|word| *counts.entry(word).or_default() += 1);
        counts
    };
    let expected = plain();
    for counts in [ours(&a)?, ours(&b)?] {
        ensure!(counts.len()? == expected.len());
        ensure!(counts.iter()?.all(|(word, count)| expected.get(&*word) == Some(&count)));
    }
    bench.task(
        "count_by_key: words",
        vec![
            ("HashMap of &str", Box::new(|| done(plain()))),
            ("stradsap, 1 thread", Box::new(|| done(ours(&a)?))),
            (many, Box::new(|| done(ours(&b)?))),
        ],
    )
}

/// A loop that adds to the entries of a map: its plan is made in the first turn.
fn update(bench: &mut Bench, n: usize, one: &Session, two: &Session) -> Result<()> {
    let [_, many_maps] = bench.many;
    let keys: Vec<u64> = (0..n).map(|i| number(i).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let entries: Vec<(u64, f32)> = keys.iter().map(|&key| (key, 0.0)).collect();
    let mut plain: HashMap<u64, f32> = entries.iter().copied().collect();
    let (a, b) = (DVector::from_vec(one, keys.clone())?, DVector::from_vec(two, keys.clone())?);
    let (mut x, mut y) =
        (DMap::from_entries(one, entries.iter().copied())?, DMap::from_entries(two, entries.iter().copied())?);
    bench.task(
        "async loop: map[key] += 1",
        vec![
            (
                "HashMap, plain loop",
                Box::new(|| {
                    for key in &keys {
                        if let Some(value) = plain.get_mut(key) {
                            *value += 1.0;
                        }
                    }
                    Ok(())
                }),
            ),
            (
                "DMap, 1 thread",
                Box::new(|| {
                    async_parallel_for!(0..a.len(), [keys = &a, map = &mut x], |i| {
                        if let Some(value) = map.get_mut(&keys[i]) {
                            *value += 1.0;
                        }
                    })?;
                    Ok(())
                }),
            ),
            (
                many_maps,
                Box::new(|| {
                    async_parallel_for!(0..b.len(), [keys = &b, map = &mut y], |i| {
                        if let Some(value) = map.get_mut(&keys[i]) {
                            *value += 1.0;
                        }
                    })?;
                    Ok(())
                }),
            ),
        ],
    )
}
