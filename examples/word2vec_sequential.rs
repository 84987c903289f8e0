//! Word vectors as a plain sequential program: the twin of `word2vec`, without its loop.

use std::iter::once;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stradsap::kernels::{add, dot, prefetch, scale, step};
use stradsap_examples::cli::Output;
use stradsap_examples::{CommonArgs, Digest, Result, Run, cli};
use stradsap_gallery::words::{
    Corpus, CorpusSize, LIMIT, Likelihood, LogLoss, Settings, Sigmoid, Tables, WordArgs, start_row,
};

/// Learns vectors of words from text, sequentially.
///
/// Words are separated by spaces, tabs and line ends; a line is a sentence. A word is predicted from each of its neighbours
/// (skip-gram) or from their mean (continuous bag of words). The objective in the report is the mean negative log-likelihood of a
/// prediction, in nats, just before the step for it. With hierarchical softmax this is the likelihood of the word's path in the
/// tree, with negative sampling that of telling the word apart from the drawn ones, and with both their sum. --output is the file
/// for the vectors.
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
    let mut run = Run::sequential_with("word2vec_sequential", &args.common, Output::File)?;
    let corpus = args.words.read(&args.common, &mut run)?;
    train(args, run, &corpus)
}

fn train(args: &Args, mut run: Run<'_, LogLoss>, corpus: &Corpus) -> Result<()> {
    let (size, width) = (CorpusSize::of(corpus), args.words.size);
    run.line(&format!("{size}, size {width}, sequential"));
    let settings = args.words.settings(corpus.vocabulary.total(), &args.common)?;
    let tables = Tables::new(&args.words, &settings, &corpus.vocabulary)?;
    let start = |word| start_row(args.common.seed, width, word);
    let mut input = Rows { width, values: (0..size.vocabulary).flat_map(start).collect() };
    let mut output = OutputLayer {
        settings,
        tables: &tables,
        sigmoid: Sigmoid::default(),
        nodes: Rows { width, values: vec![0.0; tables.nodes * width] },
        targets: Rows { width, values: vec![0.0; tables.targets() * width] },
        likelihood: Likelihood::default(),
    };

    let (mut kept, mut drawn) = (Vec::new(), Vec::new());
    let (mut mean, mut change) = (vec![0.0; width], vec![0.0; width]);
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
                    mean.fill(0.0);
                    neighbours.clone().for_each(|other| add(input.row(other), &mut mean));
                    scale(1.0 / count as f32, &mut mean);
                    output.learn(&mean, word, &drawn, alpha, &mut change);
                    neighbours.for_each(|other| add(&change, input.row_mut(other)));
                } else {
                    let mut drawn = &drawn[..];
                    for other in neighbours {
                        output.learn(input.row(other), word, drawn, alpha, &mut change);
                        add(&change, input.row_mut(other));
                        drawn = &drawn[settings.negative..];
                    }
                }
            }
            loss += output.likelihood.negative_log();
        }
        let seconds = clock.elapsed().as_secs_f64();
        run.epoch(seconds, 0, LogLoss::of(&size, loss, predictions, seconds))?;
    }

    args.words.store(&args.common, &corpus.vocabulary, input.iter())?;
    run.finish(size, &Digest::new().matrix(input.iter()).matrix(output.nodes.iter()).matrix(output.targets.iter()))
}

/// Rows that follow each other.
struct Rows {
    width: usize,
    values: Vec<f32>,
}

impl Rows {
    fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.width..][..self.width]
    }

    fn row_mut(&mut self, i: usize) -> &mut [f32] {
        &mut self.values[i * self.width..][..self.width]
    }

    fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }
}

/// What words are predicted by: the rows of the tree's inner nodes, and those of words to tell each other from.
struct OutputLayer<'a> {
    settings: Settings,
    tables: &'a Tables,
    sigmoid: Sigmoid,
    nodes: Rows,
    targets: Rows,
    likelihood: Likelihood,
}

impl OutputLayer<'_> {
    /// Predicts a word from `x`, and learns from the error: `change` is what `x` has to change by. Of the words drawn the
    /// first are for this prediction, those behind for the next.
    #[inline(always)]
    fn learn(&mut self, x: &[f32], word: usize, drawn: &[u32], alpha: f32, change: &mut [f32]) {
        change.fill(0.0);
        let OutputLayer { settings, tables, sigmoid, nodes, targets, likelihood } = self;
        if settings.hs {
            for (node, label) in tables.paths[word].steps() {
                let row = nodes.row_mut(node);
                let f = dot(x, row);
                let error = label - sigmoid.at(f);
                likelihood.decided(error);
                // As in the original, a node that is as sure as that learns nothing.
                if f.abs() < LIMIT {
                    step(error * alpha, row, x, change);
                }
            }
        }
        let (negatives, next) = drawn.split_at(settings.negative);
        if settings.negative > 0 {
            next.iter().take(settings.negative).for_each(|&target| prefetch(targets.row(target as usize)));
            let others = negatives.iter().map(|&target| target as usize).filter(|&target| target != word);
            for (target, label) in once((word, 1.0)).chain(others.map(|target| (target, 0.0))) {
                let row = targets.row_mut(target);
                let error = label - sigmoid.at(dot(x, row));
                likelihood.decided(error);
                step(error * alpha, row, x, change);
            }
        }
    }

    /// Asks for the rows that the next word is predicted by, while those of the one before are at work.
    #[inline(always)]
    fn fetch(&self, word: Option<&usize>) {
        if let Some(&word) = word {
            if self.settings.hs {
                self.tables.paths[word].steps().for_each(|(node, _)| prefetch(self.nodes.row(node)));
            }
            if self.settings.negative > 0 {
                prefetch(self.targets.row(word));
            }
        }
    }
}
