//! Matrix factorisation by cyclic coordinate descent, as a plain sequential program: the twin of `ccdmf`, without the
//! library.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stradsap_examples::model::DataSize;
use stradsap_examples::ratings::Ratings;
use stradsap_examples::{CommonArgs, Result, Run, cli};
use stradsap_gallery::ccd::{ByUser, CcdArgs, Factors, SquaredError, train_epoch};

/// Factorises a matrix of ratings by cyclic coordinate descent, sequentially.
///
/// A rating of item i by user u is predicted as the inner product of row u of W and row i of H. The objective in the report is
/// taken after each epoch: the sum of the squared errors over the training ratings, plus L times the sum of all values' squared
/// distances from the centre. Its time and that of the errors aren't part of the epoch's seconds. W starts from the centre, H near
/// it.
///
/// The ratings are lines of user, item and rating, separated by commas, tabs or `::`. A header may name these columns (userId,
/// movie, score and others). They may then be in any order, and other columns aren't read. Ids are any text.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    factors: CcdArgs,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: &Args) -> Result<()> {
    let mut run = Run::sequential("ccdmf_sequential", &args.common)?;
    let path = args.common.data_or_default()?;
    let (ratings, split) = args.factors.prepare(Ratings::read(&path)?, &path, args.common.seed)?;
    let size = DataSize::of(&ratings, &split);
    run.line(&format!("{size}, rank {}, sequential", args.factors.rank));

    let by_user = ByUser::new(&split.train, size.users);
    let mut factors = Factors::new(&args.factors, &size, &split.train, args.common.seed);
    let mut left = factors.left(&by_user);
    for _epoch in 0..args.common.epochs {
        let clock = Instant::now();
        train_epoch(&mut factors, &by_user, &mut left, args.factors.order);
        let seconds = clock.elapsed().as_secs_f64();
        let squares = left.iter().map(|&r| f64::from(r) * f64::from(r)).sum();
        run.epoch(seconds, 0, SquaredError::of(&size, &factors, squares, &split.test))?;
    }

    if let Some(folder) = &args.common.output {
        factors.store(folder, &ratings)?;
    }
    run.finish(size, &factors.digest())
}
