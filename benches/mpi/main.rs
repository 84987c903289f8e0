//! The loop of the `cluster` benchmark as a competent programmer writes it by hand for MPI. The benchmark starts it with
//! `mpirun` and tells it on standard input, line by line, how many epochs to run.
//!
//! The ratings lie in a grid of user parts and item parts. Each rank keeps its share of the user parts, and with them its
//! rows of P; the parts of Q go round a ring. A rank runs its blocks of one item part, one after the other, so that the
//! part stays in the cache, sends it on (`MPI_Isend`) and goes on with the next, which it has asked for (`MPI_Irecv`)
//! when it began with the part before. There is no barrier within an epoch: after as many rounds as there are ranks,
//! each item part is back where it began.

mod ring;
mod rows;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use stradsap_benches::cluster::RANK;
use stradsap_benches::cluster::ranks::{Epoch, READY};
use stradsap_benches::generate::{Shape, generate};
use stradsap_benches::harness::exit_code;

use ring::Share;

/// Matrix factorisation by SGD on the ranks of `mpirun`.
#[derive(Parser)]
#[command(name = "sgdmf-mpi")]
struct Options {
    /// Parts a side
    #[arg(long, value_name = "N", default_value_t = 16)]
    parts: usize,
    /// A twentieth of the ratings
    #[arg(long)]
    quick: bool,
}

/// The message that says how many epochs to run; 0: none any more.
const ORDER: i32 = 1 << 14;
/// Between turns ranks sleep; MPI's own waiting would keep a core busy.
const NAP: Duration = Duration::from_micros(200);

fn main() -> ExitCode {
    exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    let universe = mpi::initialize().context("MPI was initialised already")?;
    let world = universe.world();
    let ranks = world.size() as usize;
    if options.parts < ranks {
        bail!("--parts {}: as many as ranks were expected, {ranks}, or more", options.parts);
    }
    let shape = Shape::skewed();
    let set = generate("skewed", if options.quick { shape.small() } else { shape });
    let mut share = Share::<RANK>::new(&set, options.parts, world.rank() as usize, ranks);
    drop(set);
    world.barrier();
    let leads = world.rank() == 0;
    if leads {
        say(READY)?;
    }
    loop {
        let epochs = if leads { pass_on_order(&world)? } else { await_order(&world) };
        if epochs == 0 {
            return Ok(());
        }
        for _ in 0..epochs {
            world.barrier();
            let start = Instant::now();
            let (own, mut loss) = (share.epoch(&world), 0.0);
            world.all_reduce_into(&own, &mut loss, SystemOperation::sum());
            let seconds = start.elapsed().as_secs_f64();
            if leads {
                say(&Epoch { seconds, loss }.line())?;
            }
        }
    }
}

/// Reads how many epochs to run, and tells the other ranks. Where the input ends or is something else, that is none.
fn pass_on_order(world: &SimpleCommunicator) -> Result<u64> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let epochs = line.trim().parse().unwrap_or(0);
    for rank in 1..world.size() {
        world.process_at_rank(rank).send_with_tag(&epochs, ORDER);
    }
    Ok(epochs)
}

fn await_order(world: &SimpleCommunicator) -> u64 {
    let leader = world.process_at_rank(0);
    while leader.immediate_probe_with_tag(ORDER).is_none() {
        sleep(NAP);
    }
    leader.receive_with_tag(ORDER).0
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
