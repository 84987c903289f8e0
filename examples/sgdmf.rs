//! Matrix factorisation by stochastic gradient descent, in parallel. The loop is the one that a sequential program has
//! (`sgdmf_sequential` is that program); the result is that of some order of the ratings, and the same on any number of
//! threads.

use std::time::Instant;

use clap::Parser;
use stradsap::kernels::dot;
use stradsap::prelude::*;
use stradsap_examples::cli::{self, CommonArgs, ExampleArgs};
use stradsap_examples::hyper::FactorArgs;
use stradsap_examples::ids;
use stradsap_examples::model::{DataSize, Matrix, Rmse, Start, store};
use stradsap_examples::parallel::{Loops, configure};
use stradsap_examples::ratings::{self, Ratings, Split};
use stradsap_examples::report::Digest;
use stradsap_examples::run::{Outcome, Run};
use stradsap_examples::saving::Saving;
use stradsap_examples::with_rank;

/// Factorises a matrix of ratings by stochastic gradient descent, in parallel.
///
/// A rating of item i by user u is predicted as the inner product of row u of P and row i of Q. The objective in the
/// report is the training RMSE: the root-mean-square error over the training ratings, each as it was predicted just
/// before its own step. Test RMSE is taken after each epoch; its time isn't part of the epoch's seconds.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    factors: FactorArgs,
    #[command(flatten)]
    common: CommonArgs,
}

impl ExampleArgs for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }
}

#[derive(Debug, Clone, Copy, Element)]
struct Rating {
    user: u32,
    item: u32,
    stars: f32,
}

impl From<ratings::Rating> for Rating {
    fn from(r: ratings::Rating) -> Rating {
        Rating { user: r.user, item: r.item, stars: r.stars }
    }
}

type AnyError = Box<dyn std::error::Error>;

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    configure(session, &args.common)?;
    let run = Run::start("sgdmf", &args.common)?;
    let path = args.common.data_or_default()?;
    let (ratings, split) = args.factors.prepare(ids::read(session, &path)?, &path, args.common.seed)?;
    with_rank!(args.factors.rank, train(session, &args, run, &ratings, split))
}

fn train<const K: usize>(
    session: &Session,
    args: &Args,
    mut run: Run<'_, Rmse>,
    ratings: &Ratings,
    split: Split,
) -> Result<(), AnyError> {
    let size = DataSize::of(ratings, &split);
    run.line(&format!("{size}, rank {K}, threads {}", session.threads()));
    let start = Start::new(args.common.seed, &split.train);
    let train: DVector<Rating> = DVector::from_iter(session, split.train.into_iter().map(Rating::from))?;
    let test: DVector<Rating> = DVector::from_iter(session, split.test.into_iter().map(Rating::from))?;
    let settings = args.factors.settings(args.common.seed, &size);
    let (mut saving, resumed) = Saving::start(&args.common, settings, &mut run)?;
    let mut p: DVector<[f32; K]>;
    let mut q: DVector<[f32; K]>;
    match resumed {
        Some(checkpoint) => (p, q) = (checkpoint.vector(session, "p")?, checkpoint.vector(session, "q")?),
        None => {
            p = DVector::from_fn(session, size.users, |u| start.row(Matrix::Users, u))?;
            q = DVector::from_fn(session, size.items, |i| start.row(Matrix::Items, i))?;
        }
    }
    let (alpha, lambda) = (args.factors.learning_rate, args.factors.regularisation);

    let mut loops = Loops::default();
    for _epoch in run.done()..args.common.epochs {
        let clock = Instant::now();
        let loss = session.sum(0.0f64);
        let training = async_parallel_for!(0..train.len(), [alpha, lambda, &train, &mut p, &mut q, &loss], |n| {
            let r = train[n];
            let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
            let e = r.stars - dot(pu, qi);
            for k in 0..K {
                let (a, b) = (pu[k], qi[k]);
                pu[k] += alpha * (e * b - lambda * a);
                qi[k] += alpha * (e * a - lambda * b);
            }
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
        saving.epoch_done(&run, &[("p", &p), ("q", &q)])?;
        loops.note(&args.common, &[&training, &testing])?;
    }

    if let Some(folder) = &args.common.output {
        store(folder, ratings, p.iter()?, q.iter()?)?;
    }
    let digest = Digest::new().matrix(p.iter()?).matrix(q.iter()?);
    saving.finish(&run)?;
    let (workers, threads, loops) = (session.workers(), session.threads(), loops.into_entries());
    run.finish(Outcome { data: size, workers, threads, loops, digest })?;
    Ok(())
}
