//! The loop of `sgdmf` on worker processes: beside threads of one process, and beside a program written by hand for MPI.
//! `cargo bench --bench cluster -- --help` lists the options.
//!
//! The method: all contestants train the same factors of rank 64 from the same initial values with the same step.
//! 1. *Prepare*: first calls on fresh data (recording, planning, sending everybody their share) are timed, each in a new
//!    session.
//! 2. *Time*: after one epoch to warm up, the contestants take turns (A B C, A B C, ...); the table shows medians over
//!    the rounds. All are alive throughout; who has no turn sleeps.
//! 3. *Serialisation*: headers and checksums of the bytes of an epoch, without the network.
//! 4. *Memory*: a single process and four workers, each job in a fresh process.
//! 5. *Recovery*: a worker is killed half-way through an epoch.
//!
//! The contestant for MPI is behind the feature `mpi`, since it is linked with the MPI library that is installed:
//!
//! ```sh
//! apt install libopenmpi-dev libclang-dev     # and openmpi-bin, for mpirun
//! cargo bench --bench cluster --features mpi
//! ```
//!
//! It reports and never judges: a slow run is not a failure.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Parser;
use stradsap::ClusterOptions;
use stradsap::prelude::*;
use stradsap_benches::cluster::entrant::Entrant;
use stradsap_benches::cluster::ranks::Ranks;
use stradsap_benches::cluster::recovery::{REPLAYED, recovery};
use stradsap_benches::cluster::{RANK, memory, serialisation};
use stradsap_benches::data::RatingSet;
use stradsap_benches::generate::{Shape, generate};
use stradsap_benches::harness::{Samples, benchmarking};
use stradsap_benches::peers::ours::Ours;
use stradsap_benches::peers::{Contestant, Preparation};
use stradsap_benches::report::answer;
use stradsap_benches::table::{Table, create};

/// Matrix factorisation by SGD on worker processes: beside threads of one process and a program for MPI.
#[derive(Parser)]
#[command(name = "cluster")]
struct Options {
    /// Rounds of turns [default: 20, quick: 3]
    #[arg(long, value_name = "N", value_parser = at_least_1())]
    rounds: Option<u32>,
    /// Epochs in a turn [default: enough for 4 M ratings, quick: 2]
    #[arg(long, value_name = "N", value_parser = at_least_1())]
    epochs: Option<u32>,
    /// Two contestants more: two workers beside this many DDS servers, which have snapshots or are the home of elements
    #[arg(long, value_name = "M", value_parser = at_least_1())]
    dds_servers: Option<u32>,
    /// Parts a side of the program for MPI [default: the best of 8, 16 and as many as stradsap's plan has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    parts: Option<u32>,
    /// The command that starts the program for MPI; `-np 2 PROGRAM` is added
    #[arg(long, value_name = "COMMAND", default_value = "mpirun")]
    mpirun: String,
    /// A twentieth of the ratings, few rounds
    #[arg(long)]
    quick: bool,
    /// Leave out the processes that measure memory
    #[arg(long)]
    no_memory: bool,
    /// Leave out the worker that is killed
    #[arg(long)]
    no_recovery: bool,
    /// Write the table to this file as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Only measure the memory of a job of this many workers, and say it in one line
    #[arg(long, hide = true)]
    peaks_of: Option<usize>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn at_least_1() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// As many processes as there are threads in the one.
const PROCESSES: usize = 2;
/// The job whose workers' memory is measured.
const MANY: usize = 4;
const RATINGS_PER_TURN: usize = 4_000_000;

const ALONE: &str = "one process";
const WORKERS: &str = "workers";
const SERVERS: &str = "workers, servers apart";
const HOME: &str = "workers, servers as homes";
const MPI: &str = "MPI by hand";

const HEADING: [&str; 12] = [
    "contestant",
    "processes",
    "threads",
    "s/epoch",
    "min",
    "max",
    "mean",
    "M ratings/s",
    "train RMSE",
    "MB sent/epoch",
    "waiting %",
    "first call s",
];

#[stradsap::main]
fn main(_: &Session) -> Result<()> {
    let mut options = Options::parse();
    options.quick |= !benchmarking();
    run(&options)
}

fn run(options: &Options) -> Result<()> {
    let shape = Shape::skewed();
    let set = generate("skewed", if options.quick { shape.small() } else { shape });
    if let Some(workers) = options.peaks_of {
        println!("{}", memory::here(set, workers)?.line());
        return Ok(());
    }
    let csv = options.csv.as_deref().map(create).transpose()?;
    let cores = available_parallelism().map_or(1, usize::from);
    println!(
        "{cores} cores, {} rounds of {} epochs, contestants in alternation, medians\n{}: {} users, {} items, {} \
         ratings, rank {RANK}",
        options.rounds(),
        options.epochs(&set),
        set.name,
        set.users,
        set.items,
        set.train.len()
    );

    let first = first_calls(&set, if options.quick { 1 } else { 3 })?;
    let (mut entrants, parts) = line_up(&set, options)?;
    for _ in 0..options.rounds() {
        for entrant in &mut entrants {
            entrant.turn(options.epochs(&set))?;
        }
    }
    let table = table(&entrants, &set);
    println!("\n{table}");
    println!("{}", answers(&entrants, &set, parts)?.join("\n"));
    println!("{}", first_call_line(&first, &entrants));
    let epoch = find(&entrants, WORKERS).map(|workers| workers.seconds().median());
    drop(entrants);

    if !options.no_memory {
        println!("{}", memory_lines(options)?);
    }
    if let Some(epoch) = epoch.filter(|_| !options.no_recovery) {
        println!("{}", recovery_lines(&set, epoch, options)?);
    }
    if let Some(csv) = csv {
        table.write_csv(csv)?;
    }
    Ok(())
}

impl Options {
    fn rounds(&self) -> usize {
        self.rounds.map_or(if self.quick { 3 } else { 20 }, |n| n as usize)
    }

    fn epochs(&self, set: &RatingSet) -> usize {
        let enough = if self.quick { 2 } else { (RATINGS_PER_TURN / set.train.len()).max(1) };
        self.epochs.map_or(enough, |n| n as usize)
    }
}

fn two_workers() -> ClusterOptions {
    ClusterOptions::new(PROCESSES).threads(1)
}

/// All contestants after one epoch, and how many parts a side stradsap's plan has, if it is a square.
fn line_up(set: &RatingSet, options: &Options) -> Result<(Vec<Entrant>, usize)> {
    let mut entrants = vec![Entrant::alone(set, PROCESSES)?, Entrant::workers(WORKERS, set, &two_workers())?];
    if let Some(servers) = options.dds_servers {
        let with_servers = two_workers().dds_servers(servers as usize);
        entrants.push(Entrant::workers(SERVERS, set, &with_servers)?);
        entrants.push(Entrant::workers(HOME, set, &with_servers.homes(Homes::Servers))?);
    }
    entrants.iter_mut().try_for_each(|entrant| entrant.warm_up(1))?;
    let blocks = entrants.iter().find_map(Entrant::blocks).unwrap_or(0);
    let side = blocks.isqrt().max(PROCESSES);
    match mpi_program() {
        Some(program) => {
            let (mpirun, quick) = (options.mpirun.as_str(), options.quick);
            let mut candidates = vec![8, 16, side];
            candidates.sort_unstable();
            candidates.dedup();
            let parts = match options.parts {
                Some(parts) => parts as usize,
                None => Ranks::fastest(mpirun, program, PROCESSES, &candidates, quick)?,
            };
            println!("stradsap's plan has {blocks} blocks, the program for MPI {parts} x {parts}");
            let mut ranks = Entrant::ranks(Ranks::start(mpirun, program, PROCESSES, parts, quick)?, PROCESSES);
            ranks.warm_up(1)?;
            entrants.push(ranks);
        }
        None => println!("the program for MPI is left out: `--features mpi` builds it"),
    }
    Ok((entrants, side))
}

/// The program for MPI, where it was built.
fn mpi_program() -> Option<&'static Path> {
    if cfg!(feature = "mpi") { option_env!("CARGO_BIN_EXE_sgdmf-mpi").map(Path::new) } else { None }
}

/// What first calls cost on fresh data in a new job, in seconds.
struct FirstCall {
    recording: f64,
    planning: f64,
    whole: f64,
}

/// First calls on two threads, and on two workers: medians.
fn first_calls(set: &RatingSet, calls: usize) -> Result<[FirstCall; 2]> {
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..calls {
        for (on_workers, costs) in [false, true].into_iter().zip(&mut costs) {
            let mut ours = if on_workers {
                Ours::<RANK>::on_workers(set, &two_workers())?
            } else {
                Ours::<RANK>::new(set, PROCESSES)?
            };
            ours.epoch()?;
            costs.extend(ours.preparation());
        }
    }
    Ok(costs.map(|costs| {
        let median = |part: fn(&Preparation) -> f64| Samples::new(costs.iter().map(part).collect()).median();
        FirstCall {
            recording: median(|cost| cost.recording),
            planning: median(|cost| cost.planning),
            whole: median(|cost| cost.first_call),
        }
    }))
}

fn find<'e>(entrants: &'e [Entrant], name: &str) -> Option<&'e Entrant> {
    entrants.iter().find(|entrant| entrant.name == name)
}

fn table(entrants: &[Entrant], set: &RatingSet) -> Table {
    let mut table = Table::new(&HEADING);
    for entrant in entrants {
        let (seconds, ratings) = (entrant.seconds(), set.train.len() as f64);
        let on_workers = [WORKERS, SERVERS, HOME].contains(&entrant.name);
        let of_workers = |text: String| if on_workers { text } else { String::new() };
        table.push(vec![
            entrant.name.to_owned(),
            entrant.processes.to_string(),
            entrant.threads.to_string(),
            format!("{:.5}", seconds.median()),
            format!("{:.5}", seconds.min()),
            format!("{:.5}", seconds.max()),
            format!("{:.5}", entrant.mean()),
            format!("{:.1}", ratings / seconds.median() / 1e6),
            format!("{:.5}", (entrant.loss() / ratings).sqrt()),
            of_workers(format!("{:.3}", entrant.bytes_sent() / 1e6)),
            of_workers(format!("{:.1}", 100.0 * entrant.waiting())),
            entrant.preparation().map_or(String::new(), |cost| format!("{:.4}", cost.first_call)),
        ]);
    }
    table
}

/// How many times as fast `one` is as `other`.
fn ratio(one: &Entrant, other: &Entrant) -> f64 {
    other.seconds().median() / one.seconds().median()
}

/// A line for each promise about epochs.
fn answers(entrants: &[Entrant], set: &RatingSet, parts: usize) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let (Some(alone), Some(workers)) = (find(entrants, ALONE), find(entrants, WORKERS)) else { return Ok(lines) };
    let speed = ratio(workers, alone);
    let text = format!("{PROCESSES} workers are {speed:.3} times as fast as as many threads; should be 0.95");
    lines.push(answer(speed >= 0.95, &text));
    let with_snapshots = alone.mean() / workers.mean();
    lines.push(note(&format!("with snapshots, of all epochs: {with_snapshots:.3} times as fast")));
    for entrant in [SERVERS, HOME].into_iter().filter_map(|name| find(entrants, name)) {
        lines.push(note(&format!("{}: {:.3} times as fast as threads", entrant.name, ratio(entrant, alone))));
    }
    if let Some(mpi) = find(entrants, MPI) {
        let speed = ratio(workers, mpi);
        lines.push(answer(speed >= 1.0, &format!("they are {speed:.3} times as fast as MPI; should be 1")));
    }

    let q_bytes = set.items * RANK * size_of::<f32>();
    let rotation = (PROCESSES * q_bytes) as f64;
    let sent = workers.bytes_sent();
    let text = format!(
        "an epoch sends {sent:.0} bytes, {:.3} times what {PROCESSES} rotations of q move; at most 1.1",
        sent / rotation
    );
    lines.push(answer(sent <= 1.1 * rotation, &text));

    let cost = serialisation::cost(q_bytes / parts)?;
    let seconds = sent / PROCESSES as f64 * (cost.sending + cost.receiving);
    let share = 100.0 * seconds / workers.seconds().median();
    let text = format!(
        "checksums and copies of what a worker sends and receives take {:.2} ms of processor time, {share:.2} % of an \
         epoch ({:.1} GB/s out, {:.1} GB/s in, measured apart); at most 2",
        1e3 * seconds,
        1e-9 / cost.sending,
        1e-9 / cost.receiving
    );
    lines.push(answer(share <= 2.0, &text));
    let transferring = 100.0 * workers.transferring();
    lines.push(note(&format!("a worker's network was receiving parts in {transferring:.2} % of an epoch's time")));
    let uneven = 100.0 * workers.uneven();
    lines.push(note(&format!(
        "the slower worker of an epoch computes {uneven:.1} % longer than both on average: threads share that out"
    )));

    let bits = entrants.iter().map(Entrant::fingerprint).collect::<Result<Vec<_>>>()?;
    let mut bits = bits.into_iter().flatten();
    let first = bits.next();
    lines.push(answer(bits.all(|bits| Some(bits) == first), "all of stradsap's contestants have the same bits"));
    Ok(lines)
}

fn first_call_line(first: &[FirstCall; 2], entrants: &[Entrant]) -> String {
    let line = |first: &FirstCall, name: &str| {
        let epoch = find(entrants, name).map_or(f64::NAN, |entrant| entrant.seconds().median());
        note(&format!(
            "{name}: the first call takes {:.2} epochs beyond its own (recording {:.3} s, planning and handing out \
             {:.3} s, the rest {:.3} s)",
            (first.whole - epoch) / epoch,
            first.recording,
            first.planning,
            first.whole - epoch - first.recording - first.planning
        ))
    };
    format!("{}\n{}", line(&first[0], ALONE), line(&first[1], WORKERS))
}

fn memory_lines(options: &Options) -> Result<String> {
    let alone = memory::apart(0, options.quick)?;
    let many = memory::apart(MANY, options.quick)?;
    let share = 100.0 * many.worker() as f64 / alone.program as f64;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let text = format!(
        "of {MANY} workers the largest has a peak of {:.1} MB, {share:.1} % of the {:.1} MB of a single process; at most \
         40",
        mb(many.worker()),
        mb(alone.program)
    );
    let driver = note(&format!("the driver of {MANY} workers has a peak of {:.1} MB", mb(many.program)));
    Ok(format!("{}\n{driver}", answer(share <= 40.0, &text)))
}

fn recovery_lines(set: &RatingSet, epoch: f64, options: &Options) -> Result<String> {
    let kills = if options.quick { 1 } else { 3 };
    let recovery = recovery(set, &two_workers(), epoch, kills)?;
    let pause = recovery.seconds.median() - epoch;
    let text = note(&format!(
        "a killed worker costs {pause:.3} s, {:.1} epochs, of which {REPLAYED} run the loops since the last snapshot \
         again (median of {kills})",
        pause / epoch
    ));
    Ok(format!("{text}\n{}", answer(recovery.same_bits, "and leaves the bits of a single process")))
}

/// A line about something that has no bar.
fn note(text: &str) -> String {
    format!("       {text}")
}
