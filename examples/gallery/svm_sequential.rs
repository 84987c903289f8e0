//! Linear support vector machines and logistic regression by stochastic gradient descent, as a plain sequential program:
//! the twin of `svm`, without the library.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stradsap_examples::numbers::nonzero;
use stradsap_examples::{CommonArgs, Digest, Result, Run, cli};
use stradsap_gallery::libsvm::Examples;
use stradsap_gallery::linear::{self, DataSize, Fit, LinearArgs, Loss, Model, Score};

/// Trains a linear model on examples of two classes by stochastic gradient descent, sequentially.
///
/// The data is in LIBSVM's format. The objective in the report is the regularised loss: the mean loss over the training set plus
/// L/2 times the sum of the squares of the weights, after each epoch. Its time and that of the accuracies aren't part of the
/// epoch's seconds. The weights are stored as `svm.model`, in LIBLINEAR's format.
///
/// Lines are a label, then index:value for each feature that isn't 0. Indices ascend from 1, or from 0 if the file has an index 0;
/// `qid:` is ignored.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    linear: LinearArgs,

    /// Take one step for M examples, on the mean of their gradients (as svm --sync bsp does), instead of one for each
    #[arg(long, value_name = "M", value_parser = nonzero::<NonZeroUsize>)]
    minibatch: Option<NonZeroUsize>,

    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: &Args) -> Result<()> {
    let mut run = Run::sequential("svm_sequential", &args.common)?;
    let (train, test) = args.linear.read(args.common.data.as_deref(), args.common.seed)?;
    let size = DataSize::of(&train, test.as_ref());
    let LinearArgs { loss, lambda, eta0, .. } = args.linear;
    let eta0 = eta0.unwrap_or_else(|| match args.minibatch {
        None => linear::choose_for_sgd(&train, size.features, loss, lambda),
        Some(_) => linear::choose_for_gradients(&train, size.features, loss, lambda),
    });
    run.line(&format!("{size}, eta0 {eta0:.3e}, sequential"));

    let mut model = Model::new(size.features);
    for _epoch in 0..args.common.epochs {
        let clock = Instant::now();
        match args.minibatch {
            None => linear::sgd(&mut model, &train, loss, lambda, eta0),
            Some(minibatch) => linear::gradient_descent(&mut model, &train, loss, lambda, eta0, minibatch.get()),
        }
        let seconds = clock.elapsed().as_secs_f64();

        let (train, test) = (score(&model, &train, loss), test.as_ref().map(|test| score(&model, test, loss)));
        let fit = Fit::of(&size, lambda, model.squares(), train, test.unwrap_or_default(), 0);
        run.epoch(seconds, 0, fit)?;
    }

    let weights = model.v.iter().map(|v| model.scale * v);
    if let Some(folder) = &args.common.output {
        linear::store(folder, loss, train.classes(), weights.clone())?;
    }
    run.finish(size, &Digest::new().vector(weights))
}

fn score(model: &Model, examples: &Examples, loss: Loss) -> Score {
    let mut score = Score::default();
    for (label, values) in examples.iter() {
        score.add(loss, f64::from(label) * linear::dot(values, &model.v) * model.scale);
    }
    score
}
