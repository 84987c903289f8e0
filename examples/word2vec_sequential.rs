//! Word vectors as a plain sequential program: the twin of `word2vec`, without its loop.

use std::iter::once;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stradsap::kernels::{add, dot, prefetch, scale, step};
use stradsap_examples::cli::Output;
use stradsap_examples::{CommonArgs, Digest, Result, Run, cli, with_rank};
use stradsap_gallery::words::{
    Corpus, CorpusSize, LIMIT, Likelihood, LogLoss, Settings, Sigmoid, Tables, WordArgs, start_row,
};

/// Learns vectors of words from text, sequentially.
///
/// The text's words stand between spaces, tabs and line ends; a line is a sentence. A word is predicted from each of its
/// neighbours (skip-gram) or from their mean (continuous bag of words). The objective in the report is the mean negative
/// log-likelihood of a prediction, in nats, each as it was just before its own step: with hierarchical softmax that of
/// the word's path in the tree, with negative sampling that of telling the word from those drawn, with both their sum.
/// --output is the file for the vectors.
#[derive(Debug, Parser)]
#[command(version, mut_arg("epochs", |epochs| epochs.default_value("5")))]
#[command(mut_arg("output", |output| output.value_name("FILE").help("Store the vectors in this file")))]
struct Args {
    #[command(flatten)]
    words: WordArgs,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: &Args) -> Result<()> {
    let run = Run::sequential_with("word2vec_sequential", &args.common, Output::File)?;
    let corpus = args.words.read(&args.common, &run)?;
    with_rank!(args.words.size, train(args, run, &corpus))
}

fn train<const K: usize>(args: &Args, mut run: Run<'_, LogLoss>, corpus: &Corpus) -> Result<()> {
    let size = CorpusSize::of(corpus);
    run.line(&format!("{size}, size {K}, sequential"));
    let settings = args.words.settings(corpus.vocabulary.total(), &args.common)?;
    let tables = Tables::new(&args.words, &settings, &corpus.vocabulary)?;
    let mut input: Vec<[f32; K]> = (0..size.vocabulary).map(|w| start_row(args.common.seed, w)).collect();
    let mut output = OutputLayer {
        settings,
        tables: &tables,
        sigmoid: Sigmoid::default(),
        nodes: vec![[0.0; K]; tables.nodes],
        targets: vec![[0.0; K]; tables.targets()],
        likelihood: Likelihood::default(),
    };

    let (mut kept, mut drawn) = (Vec::new(), Vec::new());
    for epoch in run.done()..args.common.epochs {
        let clock = Instant::now();
        let (mut loss, mut predictions) = (0.0f64, 0u64);
        for (number, sentence) in corpus.sentences.iter().enumerate() {
            let alpha = settings.alpha(epoch, sentence.before);
            let mut choices = settings.choices(epoch, number);
            kept.clear();
            kept.extend(sentence.words.iter().map(|&w| w as usize).filter(|&w| choices.keeps(tables.keep[w])));
            output.likelihood = Likelihood::default();
            for (at, &word) in kept.iter().enumerate() {
                output.fetch(kept.get(at + 1));
                let window = choices.window(settings.window, at, kept.len());
                let neighbours = window.filter(|&other| other != at).map(|other| kept[other]);
                let count = neighbours.clone().count();
                let inputs = if settings.cbow { count.min(1) } else { count };
                predictions += inputs as u64;
                drawn.clear();
                drawn.extend((0..inputs * settings.negative).map(|_| tables.negatives.draw(choices.bits())));
                if settings.cbow && count > 0 {
                    let mut mean = [0.0; K];
                    neighbours.clone().for_each(|other| add(&input[other], &mut mean));
                    scale(1.0 / count as f32, &mut mean);
                    let change = output.learn(&mean, word, &drawn, alpha);
                    neighbours.for_each(|other| add(&change, &mut input[other]));
                } else {
                    let mut drawn = &drawn[..];
                    for other in neighbours {
                        let change = output.learn(&input[other], word, drawn, alpha);
                        add(&change, &mut input[other]);
                        drawn = &drawn[settings.negative..];
                    }
                }
            }
            loss += output.likelihood.negative_log();
        }
        let seconds = clock.elapsed().as_secs_f64();
        run.epoch(seconds, 0, LogLoss::of(&size, loss, predictions, seconds))?;
    }

    args.words.store(&args.common, &corpus.vocabulary, input.iter().copied())?;
    run.finish(size, &Digest::new().matrix(input.iter()).matrix(output.nodes.iter()).matrix(output.targets.iter()))
}

/// What words are predicted by: the rows of the tree's inner nodes, and those of words to tell each other from.
struct OutputLayer<'a, const K: usize> {
    settings: Settings,
    tables: &'a Tables,
    sigmoid: Sigmoid,
    nodes: Vec<[f32; K]>,
    targets: Vec<[f32; K]>,
    likelihood: Likelihood,
}

impl<const K: usize> OutputLayer<'_, K> {
    /// Predicts a word from `x`, and learns from the error. Gives what `x` has to change by. Of the words drawn the first
    /// are for this prediction, those behind for the next.
    #[inline(always)]
    fn learn(&mut self, x: &[f32; K], word: usize, drawn: &[u32], alpha: f32) -> [f32; K] {
        let mut change = [0.0; K];
        let OutputLayer { settings, tables, sigmoid, nodes, targets, likelihood } = self;
        if settings.hs {
            for (node, label) in tables.paths[word].steps() {
                let row = &mut nodes[node];
                let f = dot(x, row);
                let error = label - sigmoid.at(f);
                likelihood.decided(error);
                // As in the original, a node that is as sure as that learns nothing.
                if f.abs() < LIMIT {
                    step(error * alpha, row, x, &mut change);
                }
            }
        }
        let (negatives, next) = drawn.split_at(settings.negative);
        if settings.negative > 0 {
            next.iter().take(settings.negative).for_each(|&target| prefetch(&targets[target as usize]));
            let others = negatives.iter().map(|&target| target as usize).filter(|&target| target != word);
            for (target, label) in once((word, 1.0)).chain(others.map(|target| (target, 0.0))) {
                let row = &mut targets[target];
                let error = label - sigmoid.at(dot(x, row));
                likelihood.decided(error);
                step(error * alpha, row, x, &mut change);
            }
        }
        change
    }

    /// Asks for the rows that the next word is predicted by, while those of the one before are at work.
    #[inline(always)]
    fn fetch(&self, word: Option<&usize>) {
        if let Some(&word) = word {
            if self.settings.hs {
                self.tables.paths[word].steps().for_each(|(node, _)| prefetch(&self.nodes[node]));
            }
            if self.settings.negative > 0 {
                prefetch(&self.targets[word]);
            }
        }
    }
}
