//! Matrix factorisation by stochastic gradient descent, as a plain sequential program: the twin of `sgdmf`, without
//! the library.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stradsap_examples::model::{DataSize, FactorArgs, Matrix, Rmse, Start, dot, store};
use stradsap_examples::ratings::{Ratings, Split};
use stradsap_examples::{CommonArgs, Digest, Result, Run, cli};

/// Factorises a matrix of ratings by stochastic gradient descent, sequentially.
///
/// A rating of item i by user u is predicted as the inner product of row u of P and row i of Q. The objective in the report is the
/// training RMSE: the root-mean-square error over the training ratings, where each rating is predicted just before its own step.
/// The test RMSE is taken after each epoch; its time isn't part of the epoch's seconds.
///
/// The ratings are lines of user, item and rating, separated by commas, tabs or `::`. A header may name these columns (userId,
/// movie, score and others). They may then be in any order, and other columns aren't read. Ids are any text.
#[derive(Debug, Parser)]
#[command(version, mut_arg("epochs", |epochs| epochs.default_value("40")))]
struct Args {
    #[command(flatten)]
    factors: FactorArgs,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    cli::main(|args: &Args| {
        let run = Run::sequential("sgdmf_sequential", &args.common)?;
        let (ratings, split) = args.factors.read(&args.common)?;
        train(args, run, &ratings, &split)
    })
}

fn train(args: &Args, mut run: Run<'_, Rmse>, ratings: &Ratings, split: &Split) -> Result<()> {
    let (size, rank) = (DataSize::of(ratings, split), args.factors.rank);
    run.items(size.train, "ratings");
    run.line(&format!("{size}, rank {rank}, sequential"));
    let start = Start::new(args.common.seed, &split.train);
    let mut p: Vec<f32> = (0..size.users).flat_map(|u| start.row(Matrix::Users, rank, u)).collect();
    let mut q: Vec<f32> = (0..size.items).flat_map(|i| start.row(Matrix::Items, rank, i)).collect();
    let (alpha, lambda) = (args.factors.learning_rate, args.factors.regularisation);

    for _epoch in 0..args.common.epochs {
        let clock = Instant::now();
        let mut loss = 0.0f64;
        for r in &split.train {
            let pu = &mut p[r.user as usize * rank..][..rank];
            let qi = &mut q[r.item as usize * rank..][..rank];
            let e = r.stars - dot(pu, qi);
            for (p, q) in pu.iter_mut().zip(qi) {
                let (a, b) = (*p, *q);
                *p += alpha * (e * b - lambda * a);
                *q += alpha * (e * a - lambda * b);
            }
            loss += f64::from(e * e);
        }
        let seconds = clock.elapsed().as_secs_f64();

        let mut test_loss = 0.0f64;
        for r in &split.test {
            let (pu, qi) = (&p[r.user as usize * rank..][..rank], &q[r.item as usize * rank..][..rank]);
            let e = r.stars - dot(pu, qi);
            test_loss += f64::from(e * e);
        }
        run.epoch(seconds, 0, Rmse::of(&size, loss, test_loss))?;
    }

    if let Some(folder) = &args.common.output {
        store(folder, ratings, rank, p.chunks_exact(rank), q.chunks_exact(rank))?;
    }
    run.finish(size, &Digest::new().matrix(p.chunks_exact(rank)).matrix(q.chunks_exact(rank)))
}
