//! Matrix factorisation by stochastic gradient descent, in parallel. The loop is the one that a sequential program has
//! (`sgdmf_sequential` is that program); the result is that of some order of the ratings, and the same on any number of
//! threads.

use std::time::Instant;

use clap::Parser;
use stradsap::kernels::{dot, each_pair};
use stradsap::prelude::*;
use stradsap_examples::model::{DataSize, FactorArgs, Matrix, Rmse, Start, store};
use stradsap_examples::ratings::{Rating, Ratings, Split};
use stradsap_examples::{AnyError, CommonArgs, Training, cli};

/// Factorises a matrix of ratings by stochastic gradient descent, in parallel.
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

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    let run = Training::start("sgdmf", session, &args.common)?;
    let (ratings, split) = args.factors.read_with(session, &args.common)?;
    train(session, &args, run, &ratings, split)
}

fn train(
    session: &Session,
    args: &Args,
    mut run: Training<'_, Rmse>,
    ratings: &Ratings,
    split: Split,
) -> Result<(), AnyError> {
    let (size, rank) = (DataSize::of(ratings, &split), args.factors.rank);
    run.items(size.train, "ratings");
    run.line(&format!("{size}, rank {rank}, threads {}", session.threads()));
    let start = Start::new(args.common.seed, &split.train);
    let train: DVector<Rating> = DVector::from_vec(session, split.train)?;
    let test: DVector<Rating> = DVector::from_vec(session, split.test)?;
    run.resume(args.factors.settings(args.common.seed, &size))?;
    let rows = |matrix: Matrix, n: usize| {
        with!([start, matrix, rank], session.range(n).map(|i| start.row(matrix, rank, *i).collect::<Vec<_>>()))
            .collect_rows(rank)
    };
    let mut p: DMatrix<f32> = run.matrix("p", || rows(Matrix::Users, size.users))?;
    let mut q: DMatrix<f32> = run.matrix("q", || rows(Matrix::Items, size.items))?;
    let (alpha, lambda) = (args.factors.learning_rate, args.factors.regularisation);

    for _epoch in run.done()..args.common.epochs {
        let clock = Instant::now();
        let loss = session.sum(0.0f64);
        let training = async_parallel_for!(0..train.len(), [alpha, lambda, &train, &mut p, &mut q, &loss], |n| {
            let r = train[n];
            let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
            let e = r.stars - dot(pu, qi);
            each_pair(pu, qi, |p, q| {
                let (a, b) = (*p, *q);
                *p += alpha * (e * b - lambda * a);
                *q += alpha * (e * a - lambda * b);
            });
            loss.add(f64::from(e * e));
        })?;
        let seconds = clock.elapsed().as_secs_f64();

        let test_loss = session.sum(0.0f64);
        let testing = async_parallel_for!(0..test.len(), [&test, &p, &q, &test_loss], |n| {
            let r = test[n];
            let e = r.stars - dot(&p[r.user], &q[r.item]);
            test_loss.add(f64::from(e * e));
        })?;
        run.epoch(seconds, training.bytes_sent(), Rmse::of(&size, loss.get(), test_loss.get()))?;
        run.save(&[("p", &p), ("q", &q)])?;
        run.record(&[&training, &testing])?;
    }

    if let Some(folder) = &args.common.output {
        store(folder, ratings, rank, p.iter()?, q.iter()?)?;
    }
    run.finish(size, &Digest::new().matrix(p.iter()?).matrix(q.iter()?))
}
