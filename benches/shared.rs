//! What rows cost that threads share without locks (`Shared`), beside plain ones: the inner loop of skip-gram, on one
//! thread. `cargo bench --bench shared -- --help` lists the options.
//!
//! A row of one table meets a few rows of another, its targets. For each the step computes their product and moves both
//! rows: a dot product and two additions of a multiple, one to the target and one to a local row, which the row of the
//! first table gets at the end. Both kinds of rows lie in the same memory and run in alternation; the table shows medians
//! over the rounds, for one step. *One by one* is the way without vectors: a relaxed atomic load and store for each float.
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

/// Shared rows against plain ones.
#[derive(Parser)]
#[command(name = "shared")]
struct Options {
    /// Rounds of turns [default: 15, quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Few steps, small tables, few rounds
    #[arg(long)]
    quick: bool,
    /// Write the table to this file as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// How many rows the hot ones are.
const HOT: usize = 32;

struct Size {
    steps: usize,
    rounds: usize,
    /// Bytes of each of the two tables.
    bytes: usize,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.quick |= !benchmarking();
    exit_code(run(&options))
}

fn run(options: &Options) -> Result<()> {
    let csv = options.csv.as_deref().map(create).transpose()?;
    let (steps, rounds, bytes) = if options.quick { (1 << 12, 2, 1 << 18) } else { (1 << 17, 15, 27_000_000) };
    let size = Size { steps, bytes, rounds: options.rounds.map_or(rounds, |n| n as usize) };
    println!(
        "{steps} steps on two tables of {:.1} MB, 1 thread, {} rounds in alternation, medians",
        bytes as f64 / 1e6,
        size.rounds
    );
    let mut table =
        Table::new(&["rows", "floats", "targets", "plain ns", "shared ns", "shared / plain", "one by one ns"]);
    measure::<64>(&size, &mut table)?;
    measure::<100>(&size, &mut table)?;
    measure::<128>(&size, &mut table)?;
    measure::<256>(&size, &mut table)?;
    measure::<300>(&size, &mut table)?;
    println!("{table}");
    if let Some(csv) = csv {
        table.write_csv(csv)?;
    }
    Ok(())
}

fn measure<const K: usize>(size: &Size, table: &mut Table) -> Result<()> {
    let rows = (size.bytes / size_of::<[f32; K]>()).max(HOT);
    let init = |t: u64| (0..rows).map(|i| std::array::from_fn(|k| value(t, i * K + k))).collect::<Vec<[f32; K]>>();
    let mut tables = Tables::<K> { inputs: init(2), targets: init(3) };
    for (name, reach) in [("random", rows), ("hot", HOT)] {
        for targets in [1, 6] {
            let stream = Stream::new(1, 1);
            let row = |n: usize| (stream.bits(n as u64) % reach as u64) as usize;
            let work = Work { targets, indices: (0..size.steps / targets * (targets + 1)).map(row).collect() };
            let samples = time(size.rounds, &work, &mut tables)?;
            let [plain, shared, single] = samples.map(|samples| samples.per(size.steps).median() * 1e9);
            let mut cells = vec![name.to_owned(), K.to_string(), targets.to_string()];
            cells.extend([plain, shared].map(|ns| format!("{ns:.1}")));
            cells.extend([format!("{:.3}", shared / plain), format!("{single:.1}")]);
            table.push(cells);
        }
    }
    Ok(())
}

fn value(table: u64, i: usize) -> f32 {
    0.1 * (Stream::new(1, table).unit(i as u64) - 0.5)
}

struct Tables<const K: usize> {
    inputs: Vec<[f32; K]>,
    targets: Vec<[f32; K]>,
}

/// Which rows meet: one of the inputs and this many targets, then the next.
struct Work {
    targets: usize,
    indices: Vec<usize>,
}

impl Work {
    fn meetings(&self) -> impl Iterator<Item = (usize, &[usize])> {
        self.indices.chunks_exact(self.targets + 1).map(|meeting| (meeting[0], &meeting[1..]))
    }
}

/// Times the three in alternation, after each has run once.
fn time<const K: usize>(rounds: usize, work: &Work, tables: &mut Tables<K>) -> Result<[Samples; 3]> {
    let mut contestants: [fn(&Work, &mut Tables<K>); 3] = [plain, shared, one_by_one];
    for run in contestants {
        run(work, tables);
    }
    let samples = alternate(&mut contestants, rounds, |run| {
        run(black_box(work), black_box(&mut *tables));
        Ok(())
    })?;
    Ok([samples[0].clone(), samples[1].clone(), samples[2].clone()])
}

/// How far a step goes: towards a product of 1, as a squared loss has it.
#[inline(always)]
fn rate(product: f32) -> f32 {
    0.025 * (1.0 - product)
}

fn plain<const K: usize>(work: &Work, tables: &mut Tables<K>) {
    for (input, targets) in work.meetings() {
        let x = &tables.inputs[input];
        let mut change = [0.0; K];
        for &target in targets {
            let row = &mut tables.targets[target];
            let g = rate(kernels::dot(row, x));
            kernels::step(g, row, x, &mut change);
        }
        kernels::add(&change, &mut tables.inputs[input]);
    }
}

fn shared<const K: usize>(work: &Work, tables: &mut Tables<K>) {
    let (inputs, rows) = (Shared::from_mut_slice(&mut tables.inputs), Shared::from_mut_slice(&mut tables.targets));
    for (input, targets) in work.meetings() {
        let x = inputs[input].get();
        let mut change = [0.0; K];
        for &target in targets {
            let row = &rows[target];
            let g = rate(row.dot(&x));
            row.step(g, &x, &mut change);
        }
        inputs[input].add(&change);
    }
}

fn one_by_one<const K: usize>(work: &Work, tables: &mut Tables<K>) {
    let (inputs, rows) = (singles(&mut tables.inputs), singles(&mut tables.targets));
    for (input, targets) in work.meetings() {
        let x: [f32; K] = std::array::from_fn(|k| inputs[input][k].get());
        let mut change = [0.0; K];
        for &target in targets {
            let row = &rows[target];
            let g = rate(kernels::dot(&std::array::from_fn::<f32, K, _>(|k| row[k].get()), &x));
            for k in 0..K {
                let before = row[k].get();
                change[k] += g * before;
                row[k].set(before + g * x[k]);
            }
        }
        for k in 0..K {
            inputs[input][k].add(change[k]);
        }
    }
}

/// Rows of numbers that are shared each by itself.
fn singles<const K: usize>(rows: &mut [[f32; K]]) -> &[[Shared<f32>; K]] {
    Shared::from_mut_slice(rows.as_flattened_mut()).as_chunks().0
}
