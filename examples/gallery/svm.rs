//! Linear support vector machines and logistic regression by stochastic gradient descent, in parallel: on copies of the
//! model that are averaged (MA-SGD), or with averaged gradients (as MLlib does it). `svm_sequential` is the program
//! without the library.

use std::time::Instant;

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, CommonArgs, Training, cli};
use stradsap_gallery::libsvm::{self, Classes, Examples};
use stradsap_gallery::linear::{self, DataSize, Fit, LinearArgs, Loss, Score};
use stradsap_gallery::sync::{Sync, SyncArgs, threads};

/// Trains a linear model on examples of two classes by stochastic gradient descent, in parallel.
///
/// With --sync model-average, ssp and hybrid, each example is a step. With --sync bsp, the minibatches that run at the same time
/// are one step together, on the mean of their gradients, as in MLlib. The data is in LIBSVM's format. The objective in the report
/// is the regularised loss: the mean loss over the training set plus L/2 times the sum of the squares of the weights, after each
/// epoch. Its time and that of the accuracies aren't part of the epoch's seconds. `rounds` is how many times the copies have been
/// united so far. The weights are stored as `svm.model`, in LIBLINEAR's format.
///
/// Lines are a label, then index:value for each feature that isn't 0. Indices ascend from 1, or from 0 if the file has an index 0;
/// `qid:` is ignored.
#[derive(Debug, Parser)]
#[command(version, mut_arg("sync", |sync| sync.default_value("model-average")))]
struct Args {
    #[command(flatten)]
    linear: LinearArgs,
    #[command(flatten)]
    sync: SyncArgs,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Clone, Copy, Element)]
struct Feature {
    index: u32,
    value: f32,
}

#[derive(Debug, Clone, Element)]
struct Example {
    label: f64,
    features: Vec<Feature>,
}

impl Example {
    fn new((label, features): (f32, &[libsvm::Feature])) -> Example {
        let features = features.iter().map(|f| Feature { index: f.index, value: f.value }).collect();
        Example { label: label.into(), features }
    }
}

/// The model: weights `w = scale v` after this many steps. Scale and steps are single numbers that each copy has, too.
struct Model {
    v: DVector<f64>,
    scale: DVector<f64>,
    steps: DVector<f64>,
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    let mut run = Training::start("svm", session, &args.common)?;
    let (train, test) = args.linear.read(args.common.data.as_deref(), args.common.seed)?;
    let size = DataSize::of(&train, test.as_ref());
    let LinearArgs { loss, lambda, eta0, .. } = args.linear;
    let eta0 = eta0.unwrap_or_else(|| match args.sync.sync {
        Sync::Bsp => linear::choose_for_gradients(&train, size.features, loss, lambda),
        _ => linear::choose_for_sgd(&train, size.features, loss, lambda),
    });
    run.line(&format!("{size}, eta0 {eta0:.3e}, threads {}", session.threads()));

    let classes = train.classes();
    let vector = |examples: &Examples| DVector::from_iter(session, examples.iter().map(Example::new));
    let test = test.map_or_else(|| DVector::from_vec(session, Vec::new()), |test| vector(&test))?;
    let train = vector(&train)?;
    training(session, &args, run, size, classes, eta0, &train, &test)
}

#[allow(clippy::too_many_arguments, reason = "what the data and the command line say, and nothing else")]
fn training(
    session: &Session,
    args: &Args,
    mut run: Training<'_, Fit>,
    size: DataSize,
    classes: Classes,
    eta0: f64,
    train: &DVector<Example>,
    test: &DVector<Example>,
) -> Result<(), AnyError> {
    let LinearArgs { loss, lambda, .. } = args.linear;
    let copies = threads(session);
    let minibatch =
        args.sync.minibatch.map_or_else(|| default_minibatch(args.sync.sync, train.len(), copies), usize::from);
    let policy = args.sync.policy(train.len().div_ceil(minibatch).div_ceil(copies));
    let settings =
        format!("{size}, {:?}, eta0 {eta0}, {policy:?}, {copies} copies, minibatch {minibatch}", args.linear);
    run.resume(settings)?;
    let mut model = Model {
        v: run.vector("v", || DVector::from_fn(session, size.features, |_| 0.0))?,
        scale: run.vector("scale", || DVector::from_vec(session, vec![1.0]))?,
        steps: run.vector("steps", || DVector::from_vec(session, vec![0.0]))?,
    };
    let mut rounds = run.history().last().map_or(0, |(_, _, fit)| fit.rounds);

    for _epoch in run.done()..args.common.epochs {
        let clock = Instant::now();
        let pass = match policy {
            SyncPolicy::Bsp => gradient_descent(&mut model, train, minibatch, copies, loss, lambda, eta0)?,
            policy => sgd(&mut model, train, minibatch, (policy, &args.sync), loss, lambda, eta0)?,
        };
        let seconds = clock.elapsed().as_secs_f64();
        rounds += pass.rounds() as u64;

        let (train_score, scoring) = score(session, &model, train, loss)?;
        let (test_score, _) = score(session, &model, test, loss)?;
        let scale = model.scale.get(0)?;
        let squares = model.v.iter()?.fold(0.0, |sum, v| sum + (scale * v) * (scale * v));
        let fit = Fit::of(&size, lambda, squares, train_score, test_score, rounds);
        run.epoch(seconds, pass.bytes_sent(), fit)?;
        run.save(&[("v", &model.v), ("scale", &model.scale), ("steps", &model.steps)])?;
        run.record_all(&[&pass], &[&scoring])?;
    }

    let scale = model.scale.get(0)?;
    if let Some(folder) = &args.common.output {
        linear::store(folder, loss, classes, model.v.iter()?.map(|v| scale * v))?;
    }
    run.finish(size, &Digest::new().vector(model.v.iter()?.map(|v| scale * v)))
}

/// Averaged gradients take ten steps an epoch. Elsewhere minibatches are of up to 256 examples, as many for each copy: one
/// without any would weigh in an average all the same.
fn default_minibatch(sync: Sync, examples: usize, copies: usize) -> usize {
    let each = match sync {
        Sync::Bsp => 10,
        _ => examples.div_ceil(256 * copies).max(1),
    };
    examples.div_ceil(each * copies).max(1)
}

/// One pass of stochastic gradient descent: a step an example.
fn sgd(
    model: &mut Model,
    train: &DVector<Example>,
    minibatch: usize,
    (policy, sync): (SyncPolicy, &SyncArgs),
    loss: Loss,
    lambda: f64,
    eta0: f64,
) -> stradsap::Result<SyncReport> {
    let Model { v, steps, .. } = model;
    let pass = sync_parallel_for!(
        train,
        minibatch,
        [loss, lambda, eta0, &mut v, &mut steps],
        |batch| {
            let before = steps[0].get();
            let mut now = before;
            for example in batch {
                let margin = example.features.iter().fold(0.0, |sum, f| sum + f64::from(f.value) * v[f.index].get());
                let z = example.label * margin / (1.0 + lambda * eta0 * now);
                let step = eta0 * loss.slope(z) * example.label;
                if step != 0.0 {
                    for f in &example.features {
                        v[f.index].add(step * f64::from(f.value));
                    }
                }
                now += 1.0;
            }
            steps[0].add(now - before);
        },
        policy,
        label = "sgd",
        prefetch = !sync.no_prefetch,
        early = sync.early,
        caches = sync.caches()
    )?;
    let steps = model.steps.get(0)?;
    model.scale.set(0, 1.0 / (1.0 + lambda * eta0 * steps))?;
    Ok(pass)
}

/// One pass of gradient descent: the minibatches of a round are a step together. Each copy makes its part of it; the
/// loop adds the parts up.
fn gradient_descent(
    model: &mut Model,
    train: &DVector<Example>,
    minibatch: usize,
    copies: usize,
    loss: Loss,
    lambda: f64,
    eta0: f64,
) -> stradsap::Result<SyncReport> {
    let Model { v, scale, steps } = model;
    let minibatches = train.len().div_ceil(minibatch);
    sync_parallel_for!(
        train,
        minibatch,
        [loss, lambda, eta0, copies, minibatches, &mut v, &mut scale, &mut steps],
        |batch| {
            // The minibatches of this round: as many as there are copies, but in the last.
            let together = copies.min(minibatches - batch.number() / copies * copies);
            let part = 1.0 / together as f64;
            let s = scale[0].get();
            // All of them before the first weight changes.
            let slopes = batch.iter().map(|example| {
                let margin = example.features.iter().fold(0.0, |sum, f| sum + f64::from(f.value) * v[f.index].get());
                loss.slope(example.label * margin * s) * example.label
            });
            let slopes: Vec<f64> = slopes.collect();
            let eta = eta0 / (1.0 + steps[0].get()).sqrt();
            let share = eta * part / (s * batch.len() as f64);
            for (example, slope) in batch.iter().zip(slopes) {
                if slope != 0.0 {
                    for f in &example.features {
                        v[f.index].add(share * slope * f64::from(f.value));
                    }
                }
            }
            scale[0].add((s / (1.0 + lambda * eta) - s) * part);
            steps[0].add(part);
        },
        SyncPolicy::Bsp,
        label = "gradient descent"
    )
}

/// Sums over a set of examples.
fn score(
    session: &Session,
    model: &Model,
    examples: &DVector<Example>,
    loss: Loss,
) -> stradsap::Result<(Score, LoopReport)> {
    let scale = model.scale.get(0)?;
    let v = &model.v;
    let (losses, right) = (session.sum(0.0f64), session.count());
    let scoring = async_parallel_for!(0..examples.len(), [loss, scale, &examples, &v, &losses, &right], |i| {
        let example = &examples[i];
        let margin = example.features.iter().fold(0.0, |sum, f| sum + f64::from(f.value) * v[f.index]);
        let z = example.label * margin * scale;
        losses.add(loss.value(z));
        right.add(u64::from(z > 0.0));
    })?;
    Ok((Score { loss: losses.get(), right: right.get() }, scoring))
}
