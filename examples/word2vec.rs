//! Word vectors, in parallel: sentences in minibatches, on threads and processes that keep copies of the vectors. The loop
//! is the one that a sequential program has (`word2vec_sequential` is that program); with one copy the result is the same.

use std::iter::once;
use std::time::Instant;

use clap::Parser;
use stradsap::kernels::{prefetch, scale};
use stradsap::prelude::*;
use stradsap_examples::cli::Output;
use stradsap_examples::{AnyError, CommonArgs, Training, cli};
use stradsap_gallery::sync::{MergeArgs, SyncArgs, copies, threads};
use stradsap_gallery::words::{
    Corpus, CorpusSize, LIMIT, Likelihood, LogLoss, Negatives, Path, Sentence, Sigmoid, Slot, Tables, WordArgs,
    start_row,
};

/// Learns vectors of words from text, in parallel.
///
/// Words are separated by spaces, tabs and line ends; a line is a sentence. A word is predicted from each of its neighbours
/// (skip-gram) or from their mean (continuous bag of words). The objective in the report is the mean negative log-likelihood of a
/// prediction, in nats, just before the step for it. With hierarchical softmax this is the likelihood of the word's path in the
/// tree, with negative sampling that of telling the word apart from the drawn ones, and with both their sum. --output is the file
/// for the vectors. With --sync model-average the learning rate is --alpha times the number of copies. If several copies combine
/// their changes (--merge), it is twice --alpha, and the minibatches of all threads have 8 sentences together (at least 1 each)
/// instead of 8 each.
#[derive(Debug, Parser)]
#[command(version, mut_arg("epochs", |epochs| epochs.default_value("5")))]
#[command(mut_arg("sync", |sync| sync.default_value("hybrid")))]
#[command(mut_arg("output", |output| output.value_name("FILE").help("Store the vectors in this file")))]
struct Args {
    #[command(flatten)]
    words: WordArgs,
    #[command(flatten)]
    sync: SyncArgs,
    #[command(flatten)]
    merge: MergeArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Sentences of a minibatch: few, so that copies that add up their changes don't leap where each would have walked.
const MINIBATCH: usize = 8;
/// Of the frequent rows' changes, which are nearly parallel, combining averages nearly all but one away.
const COMBINED_RATE: f32 = 2.0;
/// Minibatches of each copy from one average to the next.
const AVERAGE_EVERY: usize = 64;

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    let mut run = Training::start_with("word2vec", session, &args.common, Output::File)?;
    let corpus = args.words.read_with(session, &args.common, &mut run)?;
    train(session, &args, run, corpus)
}

fn train(session: &Session, args: &Args, mut run: Training<'_, LogLoss>, corpus: Corpus) -> Result<(), AnyError> {
    let (size, width) = (CorpusSize::of(&corpus), args.words.size);
    let policy = args.sync.policy(AVERAGE_EVERY);
    let (merge, interval) = (args.merge.rule(args.sync.sync, MergeRule::Combine), args.merge.interval());
    let combined = merge == MergeRule::Combine && copies(session, policy) > 1;
    // Of copies that combine their changes few would meet too often, and forget: docs/word2vec.md has the scores.
    let sentences = if combined { (MINIBATCH / threads(session)).max(1) } else { MINIBATCH };
    let minibatch = args.sync.minibatch.map_or(sentences, usize::from);
    let how = if combined { format!("{policy}, merged by {merge}") } else { policy.to_string() };
    run.line(&format!("{size}, size {width}, {how}, minibatch {minibatch}, threads {}", session.threads()));
    let settings = args.words.settings(corpus.vocabulary.total(), &args.common);
    let settings = settings.map_err(|e| stradsap::Error::usage(e.to_string()))?.faster(rate(session, policy, combined));
    let tables = Tables::new(&args.words, &settings, &corpus.vocabulary)?;
    let description = format!(
        "{}, {policy:?}, {merge}, interval {interval}, minibatch {minibatch}",
        args.words.describe(&settings, &size.to_string())
    );
    run.resume(description)?;
    let seed = args.common.seed;
    let start = with!(
        [seed, width],
        session.range(size.vocabulary).map(|word| start_row(seed, width, *word).collect::<Vec<f32>>())
    );
    let mut input: DMatrix<f32> = run.matrix("input", || start.collect_rows(width))?;
    let zeros = |rows: usize| with!([width], session.range(rows).map(|_| vec![0.0f32; width])).collect_rows(width);
    let mut nodes = run.matrix("nodes", || zeros(tables.nodes))?;
    let mut targets = run.matrix("targets", || zeros(tables.targets()))?;
    let sigmoid = Sigmoid::default();
    let sentences: DVector<Sentence> = DVector::from_vec(session, corpus.sentences)?;
    let keep: DVector<f32> = DVector::from_vec(session, tables.keep)?;
    let paths: DVector<Path> = DVector::from_vec(session, tables.paths)?;
    let slots: DVector<Slot> = DVector::from_vec(session, tables.negatives.slots)?;

    for epoch in run.done()..args.common.epochs {
        let clock = Instant::now();
        let (loss, predictions) = (session.sum(0.0f64), session.sum(0u64));
        let training = sync_parallel_for!(
            sentences,
            minibatch,
            [
                settings,
                epoch,
                width,
                sigmoid,
                &keep,
                &paths,
                &slots,
                &mut input,
                &mut nodes,
                &mut targets,
                &loss,
                &predictions
            ],
            |batch| {
                let (mut kept, mut drawn) = (Vec::new(), Vec::new());
                let (mut x, mut change) = (vec![0.0; width], vec![0.0; width]); // of the neighbours' mean
                for (number, sentence) in (batch.start()..).zip(batch) {
                    let alpha = settings.alpha(epoch, sentence.before);
                    let mut choices = settings.choices(epoch, number);
                    kept.clear();
                    kept.extend(sentence.words.iter().map(|&w| w as usize).filter(|&w| choices.keeps(keep[w])));
                    let mut likelihood = Likelihood::default();

                    // By how much of each other two rows move.
                    let mut rate = |f: f32, (label, node): (f32, bool)| {
                        let error = label - sigmoid.at(f);
                        likelihood.decided(error);
                        // As in the original, a node that is as sure as that learns nothing.
                        (!node || f.abs() < LIMIT).then_some(error * alpha)
                    };

                    let mut predicted = 0;
                    for (at, &word) in kept.iter().enumerate() {
                        // The rows that the next word is predicted by come while those of this one are at work.
                        if let Some(&next) = kept.get(at + 1) {
                            if settings.hs {
                                paths[next].steps().for_each(|(node, _)| prefetch(&nodes[node]));
                            }
                            if settings.negative > 0 {
                                prefetch(&targets[next]);
                            }
                        }
                        let window = choices.window(settings.window, at, kept.len());
                        let neighbours = window.filter(|&other| other != at).map(|other| kept[other]);
                        let count = neighbours.clone().count();
                        let inputs = if settings.cbow { count.min(1) } else { count };
                        predicted += inputs as u64;
                        drawn.clear();
                        drawn.extend((0..inputs * settings.negative).map(|_| {
                            let random = choices.bits();
                            let column = Negatives::column(slots.len(), random);
                            Negatives::in_column(slots[column], column, random)
                        }));
                        // The rows by which the word is predicted, with what the prediction should be and whether it is a node's. Of
                        // the words drawn those from there on are for this prediction, and the ones behind for the next.
                        let rows = |from: usize| {
                            let (negatives, next) = drawn[from..].split_at(settings.negative);
                            next.iter().take(settings.negative).for_each(|&target: &u32| prefetch(&targets[target]));
                            let steps = settings.hs.then(|| paths[word].steps()).into_iter().flatten();
                            let others =
                                negatives.iter().map(|&other| other as usize).filter(move |&other| other != word);
                            let learnt = once((word, 1.0)).chain(others.map(|other| (other, 0.0)));
                            let learnt = learnt.filter(|_| settings.negative > 0);
                            steps
                                .map(|(node, label)| (&nodes[node], (label, true)))
                                .chain(learnt.map(|(target, label)| (&targets[target], (label, false))))
                        };
                        if settings.cbow && count > 0 {
                            x.fill(0.0);
                            neighbours.clone().for_each(|other| input[other].add_to(1.0, &mut x));
                            scale(1.0 / count as f32, &mut x);
                            change.fill(0.0);
                            Shared::descend_from(&x, &mut change, rows(0), &mut rate);
                            neighbours.for_each(|other| input[other].add(&change));
                        } else {
                            for (n, other) in neighbours.enumerate() {
                                input[other].descend(rows(n * settings.negative), &mut rate);
                            }
                        }
                    }
                    loss.add(likelihood.negative_log());
                    predictions.add(predicted);
                }
            },
            policy,
            merge = merge,
            interval = interval,
            prefetch = !args.sync.no_prefetch,
            early = args.sync.early,
            caches = args.sync.caches(),
            label = "epoch"
        )?;
        let seconds = clock.elapsed().as_secs_f64();
        run.epoch(seconds, training.bytes_sent(), LogLoss::of(&size, loss.get(), predictions.get(), seconds))?;
        run.save(&[("input", &input), ("nodes", &nodes), ("targets", &targets)])?;
        run.record_all(&[&training], &[])?;
    }

    args.words.store(&args.common, &corpus.vocabulary, input.iter()?)?;
    run.finish(size, &Digest::new().matrix(input.iter()?).matrix(nodes.iter()?).matrix(targets.iter()?))
}

/// What the learning rate is multiplied by. An average of copies keeps its share of what each of them learnt about rare
/// words, of which most are met by one copy only; at a rate that is as many times as high the whole is kept.
fn rate(session: &Session, policy: SyncPolicy, combined: bool) -> f32 {
    match policy {
        SyncPolicy::ModelAverage { .. } => threads(session) as f32,
        _ if combined => COMBINED_RATE,
        _ => 1.0,
    }
}
