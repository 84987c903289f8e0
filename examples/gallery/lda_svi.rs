//! Topics by stochastic variational inference, in parallel: on copies of the model that are averaged (MA-LDA). The loop is
//! the one that a sequential program has (`lda-svi_sequential` is that program); with one copy the result is the same.

use std::time::Instant;

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, CommonArgs, Training, cli};
use stradsap_gallery::sync::{SyncArgs, threads};
use stradsap_gallery::topics::{Corpus, CorpusArgs};
use stradsap_gallery::variational::{
    self, Document, Documents, Perplexity, Probe, STRIP, Settings, Strip, TopicSize, VariationalArgs,
};

/// Finds topics in documents by stochastic variational inference, in parallel.
///
/// The data is a bag of words in the format of the UCI repository. The objective in the report is the held-out perplexity after
/// each epoch: the topics of the test documents are inferred from one half of their words, and predict the other half. The time for
/// this isn't part of the epoch's seconds. In --output, `words.npy` has a row for each word and a column for each topic, and
/// `topics.txt` has the topics' words. With --sync bsp, the minibatches that run at the same time make one step together.
#[derive(Debug, Parser)]
#[command(version, mut_arg("sync", |sync| sync.default_value("model-average")))]
struct Args {
    #[command(flatten)]
    variational: VariationalArgs,
    #[command(flatten)]
    corpus: CorpusArgs,
    #[command(flatten)]
    sync: SyncArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// How often copies are averaged in an epoch, if they have minibatches enough.
const AVERAGES: usize = 4;

/// The model: `lambda = eta + scale * v`.
struct Model {
    /// The strips of all words' rows.
    v: DVector<Strip>,
    /// The sums of the rows.
    totals: DVector<[f64; STRIP]>,
    /// One element: how many steps there were, and the logarithm of `scale`. Each copy has its own, as of the rest.
    clock: DVector<[f64; 2]>,
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    let mut run = Training::start("lda-svi", session, &args.common)?;
    let corpus = args.corpus.read_with(session, &args.common)?;
    corpus.warning().iter().for_each(|warning| run.line(warning));
    let path = args.corpus.path(&args.common)?;
    let documents = args.variational.split(&corpus, &path, args.common.seed)?;
    training(session, &args, run, &corpus, documents)
}

fn training(
    session: &Session,
    args: &Args,
    mut run: Training<'_, Perplexity>,
    corpus: &Corpus,
    Documents { train, test }: Documents,
) -> Result<(), AnyError> {
    let size = TopicSize::of(corpus, &train, &test);
    let copies = threads(session);
    let settings = Settings::new(&args.variational, &size, args.sync.minibatch, copies)
        .map_err(|e| stradsap::Error::usage(e.to_string()))?;
    let policy = args.sync.policy(size.train.div_ceil(settings.minibatch * copies).div_ceil(AVERAGES));
    run.line(&format!("{size}, {} topics, {policy}, threads {}", settings.topics, session.threads()));

    let description =
        format!("{}, {policy:?}, {copies} copies", settings.describe(&size, &args.variational, args.common.seed));
    run.resume(description)?;
    let (strips, seed) = (settings.words * settings.strips(), args.common.seed);
    let v = run.vector("v", || DVector::from_fn(session, strips, |at| settings.start(seed, at)))?;
    let totals = run.vector("totals", || DVector::from_vec(session, variational::start(&settings, v.iter()?)))?;
    let clock = run.vector("clock", || DVector::from_vec(session, vec![[0.0; 2]]))?;
    let mut model = Model { v, totals, clock };
    let train = DVector::from_vec(session, train)?;
    let test = DVector::from_vec(session, test)?;

    for _epoch in run.done()..args.common.epochs {
        let clock = Instant::now();
        let pass = infer(&mut model, &train, settings, (policy, &args.sync), copies)?;
        let folding = fold(&mut model, settings)?;
        let seconds = clock.elapsed().as_secs_f64();

        let (log_likelihood, scoring) = log_likelihood(session, &model, &test, settings)?;
        run.epoch(seconds, pass.bytes_sent() + folding.bytes_sent(), Perplexity::of(&size, log_likelihood, seconds))?;
        run.save(&[("v", &model.v), ("totals", &model.totals), ("clock", &model.clock)])?;
        run.record_all(&[&pass], &[&folding, &scoring])?;
    }

    let top = settings.top_words(args.corpus.top_words, model.v.iter()?);
    top.print(&corpus.vocabulary)?;
    if let Some(folder) = &args.common.output {
        variational::store(folder, &settings, &corpus.vocabulary, &model.v.to_vec()?, &top)?;
    }
    run.finish(size, &Digest::new().matrix(model.v.iter()?))
}

/// One pass over the documents: each moves the model a little.
fn infer(
    model: &mut Model,
    train: &DVector<Document>,
    settings: Settings,
    (policy, sync): (SyncPolicy, &SyncArgs),
    copies: usize,
) -> stradsap::Result<SyncReport> {
    let Model { v, totals, clock } = model;
    let minibatches = train.len().div_ceil(settings.minibatch);
    let together = if policy == SyncPolicy::Bsp { copies } else { 1 };
    sync_parallel_for!(
        train,
        settings.minibatch,
        [settings, minibatches, together, &mut v, &mut totals, &mut clock],
        |batch| {
            let strips = settings.strips();
            let v = &v;
            let sums: Vec<_> = (0..strips).map(|b| totals[b].get()).collect();
            let [steps, log_scale] = clock[0].get();
            let mut inference = settings.inference();
            inference.begin(log_scale.exp(), &sums);
            for document in batch {
                inference.document(&document.terms, |word| {
                    let first = word as usize * strips;
                    (first..first + strips).map(|strip| v[strip].get())
                });
            }
            // The minibatches that are one step together: as many as there are copies, but in the last round.
            let part = 1.0 / together.min(minibatches - batch.number() / together * together) as f64;
            let step = settings.step(steps, batch.len()) * part;
            let weight = settings.weight(step, log_scale - step, batch.len());
            for n in 0..inference.finish() {
                for b in 0..strips {
                    let strip = &v[inference.word(n) * strips + b];
                    strip.add(&inference.change(n, b, weight, strip.get()));
                }
            }
            for b in 0..strips {
                totals[b].add(&inference.change_of_totals(b, weight));
            }
            clock[0].add(&[part, -step]);
        },
        policy,
        label = "infer",
        prefetch = !sync.no_prefetch,
        early = sync.early,
        caches = sync.caches()
    )
}

/// Brings `scale` back to 1.
fn fold(model: &mut Model, settings: Settings) -> stradsap::Result<LoopReport> {
    let Model { v, totals, clock } = model;
    let [steps, log_scale] = clock.get(0)?;
    let scale = log_scale.exp();
    let folding = async_parallel_for!(0..v.len(), [settings, scale, &mut v], |i| {
        for x in &mut v[i] {
            *x = settings.folded(scale, *x);
        }
    })?;
    for b in 0..settings.strips() {
        totals.set(b, totals.get(b)?.map(|total| total * scale))?;
    }
    clock.set(0, [steps, 0.0])?;
    Ok(folding)
}

/// The sum of the log-likelihoods of the documents' hidden words.
fn log_likelihood(
    session: &Session,
    model: &Model,
    test: &DVector<Probe>,
    settings: Settings,
) -> stradsap::Result<(f64, LoopReport)> {
    let Model { v, totals, .. } = model;
    let totals = totals.to_vec()?;
    let sum = session.sum(0.0f64);
    let scoring = async_parallel_for!(0..test.len(), [settings, totals, &test, &v, &sum], |i| {
        let (strips, v) = (settings.strips(), &v);
        let row = |word: u32| (0..strips).map(move |b| v[word as usize * strips + b]);
        sum.add(settings.inference().log_likelihood(&test[i], totals, row));
    })?;
    Ok((sum.get(), scoring))
}
