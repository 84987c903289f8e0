//! Word vectors (skip-gram with hierarchical softmax) by a synchronous loop, beside the plain sequential loop and
//! one written by hand for several threads. `cargo bench --bench word2vec -- --help` lists the options.
//!
//! All contestants run the same training of a sentence over the same text, one epoch each in turn; the table shows words a
//! second (medians over the rounds) and how they compare. *By hand* is what a person would write: threads that take blocks
//! of sentences from a counter and share rows without locks.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Result, anyhow};
use clap::Parser;
use stradsap::kernels;
use stradsap::prelude::*;
use stradsap_benches::harness::{alternate, benchmarking, exit_code};
use stradsap_benches::table::{Table, create};
use stradsap_examples::data::default_text;
use stradsap_gallery::words::{Choices, Corpus, LIMIT, Path, Sentence, Sigmoid, Tree, keep_probabilities, start_row};

/// Word vectors by loops of several kinds.
#[derive(Parser)]
#[command(name = "word2vec")]
struct Options {
    /// The text [default: the one in the repository]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Rounds of turns [default: 5, quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Threads of the parallel ones
    #[arg(long, value_name = "T", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Sentences a minibatch
    #[arg(long, value_name = "M", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    minibatch: u32,
    /// Only contestants whose name has this text in it, and the plain loop
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Numbers of a vector: 32, 64, 100, 128 or 300
    #[arg(long, value_name = "K", default_value_t = 100)]
    size: usize,
    /// A small part of the text, one round
    #[arg(long)]
    quick: bool,
    /// Write the table to this file as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

const WINDOW: u32 = 5;
const ALPHA: f32 = 0.025;

type Row<const K: usize> = [f32; K];

/// How a contestant learns.
trait Model {
    /// The decisions on the way to a word, made from a neighbour of it.
    fn decide(&mut self, path: &Path, other: usize, sigmoid: &Sigmoid);
}

struct Plain<const K: usize> {
    words: Vec<Row<K>>,
    nodes: Vec<Row<K>>,
}

impl<const K: usize> Model for Plain<K> {
    #[inline(always)]
    fn decide(&mut self, path: &Path, other: usize, sigmoid: &Sigmoid) {
        let (x, mut change) = (self.words[other], [0.0; K]);
        for (node, label) in path.steps() {
            let row = &mut self.nodes[node];
            let f = kernels::dot(&x, row);
            if f.abs() < LIMIT {
                kernels::step((label - sigmoid.at(f)) * ALPHA, row, &x, &mut change);
            }
        }
        kernels::add(&change, &mut self.words[other]);
    }
}

/// Rows that are shared, wherever they are.
struct Sharing<W, N> {
    words: W,
    nodes: N,
}

impl<'a, const K: usize, W: Fn(usize) -> &'a Shared<Row<K>>, N: Fn(usize) -> &'a Shared<Row<K>>> Model
    for Sharing<W, N>
{
    #[inline(always)]
    fn decide(&mut self, path: &Path, other: usize, sigmoid: &Sigmoid) {
        let (x, mut change) = ((self.words)(other).get(), [0.0; K]);
        for (node, label) in path.steps() {
            let row = (self.nodes)(node);
            let f = row.dot(&x);
            if f.abs() < LIMIT {
                row.step((label - sigmoid.at(f)) * ALPHA, &x, &mut change);
            }
        }
        (self.words)(other).add(&change);
    }
}

/// The same, of rows whose width the compiler doesn't know.
struct Wide<W, N> {
    words: W,
    nodes: N,
}

impl<'a, W: Fn(usize) -> &'a Shared<[f32]>, N: Fn(usize) -> &'a Shared<[f32]>> Model for Wide<W, N> {
    #[inline(always)]
    fn decide(&mut self, path: &Path, other: usize, sigmoid: &Sigmoid) {
        let rows = path.steps().map(|(node, label)| ((self.nodes)(node), label));
        (self.words)(other).descend(rows, |f, label| (f.abs() < LIMIT).then(|| (label - sigmoid.at(f)) * ALPHA));
    }
}

/// Trains on one sentence.
#[inline(always)]
fn learn<'p>(
    model: &mut impl Model,
    sentence: &Sentence,
    number: usize,
    path: impl Fn(usize) -> &'p Path,
    keep: impl Fn(usize) -> f32,
    sigmoid: &Sigmoid,
) {
    let mut choices = Choices::new(1, 0, number);
    let kept: Vec<usize> =
        sentence.words.iter().map(|&word| word as usize).filter(|&word| choices.keeps(keep(word))).collect();
    for (at, &word) in kept.iter().enumerate() {
        for other in choices.window(WINDOW, at, kept.len()).filter(|&other| other != at).map(|other| kept[other]) {
            model.decide(path(word), other, sigmoid);
        }
    }
}

/// What all contestants read.
struct Text {
    sentences: Vec<Sentence>,
    paths: Vec<Path>,
    keep: Vec<f32>,
    nodes: usize,
    words: usize,
}

/// One of those that run in turn.
struct Contestant<'t> {
    name: String,
    run: Box<dyn FnMut() -> Result<()> + 't>,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.quick |= !benchmarking();
    exit_code(match options.size {
        32 => run::<32>(&options),
        64 => run::<64>(&options),
        100 => run::<100>(&options),
        128 => run::<128>(&options),
        300 => run::<300>(&options),
        other => Err(anyhow!("--size must be 32, 64, 100, 128 or 300, and is {other}")),
    })
}

fn run<const K: usize>(options: &Options) -> Result<()> {
    let csv = options.csv.as_deref().map(create).transpose()?;
    let path = options.data.clone().map_or_else(default_text, Ok)?;
    let corpus = Corpus::read(&path, 5)?;
    let tree = Tree::new(corpus.vocabulary.counts()).ok_or_else(|| anyhow!("the words' codes are too long"))?;
    let mut sentences = corpus.sentences;
    if options.quick {
        sentences.truncate(20);
    }
    let text = Text {
        words: sentences.iter().map(|sentence| sentence.words.len()).sum(),
        keep: keep_probabilities(corpus.vocabulary.counts(), corpus.vocabulary.total(), 1e-3),
        nodes: tree.inner_nodes,
        paths: tree.paths,
        sentences,
    };
    let rounds = options.rounds.map_or(if options.quick { 1 } else { 5 }, |n| n as usize);
    println!("{} words in {} sentences, {rounds} rounds in alternation, medians", text.words, text.sentences.len());
    let threads = options.threads as usize;
    let mut contestants = vec![
        Contestant { name: "plain loop, 1 thread".into(), run: plain::<K>(&text) },
        Contestant { name: format!("by hand, {threads} threads"), run: by_hand::<K>(&text, threads) },
    ];
    for (policy, threads) in [
        (SyncPolicy::Hybrid, 1),
        (SyncPolicy::Hybrid, threads),
        (SyncPolicy::Bsp, threads),
        (SyncPolicy::Ssp { staleness: 1 }, threads),
        (SyncPolicy::ModelAverage { every: 64 }, threads),
    ] {
        let s = if threads == 1 { "" } else { "s" };
        let run = by_loop::<K>(&text, policy, threads, options.minibatch as usize)?;
        contestants.push(Contestant { name: format!("stradsap {policy}, {threads} thread{s}"), run });
    }
    for threads in [1, threads] {
        let run = by_loop_over_matrices::<K>(&text, threads, options.minibatch as usize)?;
        contestants.push(Contestant { name: format!("stradsap hybrid, DMatrix, {threads}"), run });
    }
    if let Some(only) = &options.only {
        let first = contestants[0].name.clone();
        contestants.retain(|contestant| contestant.name == first || contestant.name.contains(only));
    }
    let samples = alternate(&mut contestants, rounds, |contestant| (contestant.run)())?;
    let hand = contestants.iter().position(|contestant| contestant.name.starts_with("by hand"));
    let hand = hand.map_or(f64::NAN, |hand| samples[hand].median());
    let mut table = Table::new(&["contestant", "k words/s", "x plain", "x by hand", "slowest", "fastest"]);
    for (contestant, seconds) in contestants.iter().zip(&samples) {
        let speed = |seconds: f64| format!("{:.0}", text.words as f64 / seconds / 1e3);
        table.push(vec![
            contestant.name.clone(),
            speed(seconds.median()),
            format!("{:.2}", samples[0].median() / seconds.median()),
            format!("{:.2}", hand / seconds.median()),
            speed(seconds.max()),
            speed(seconds.min()),
        ]);
    }
    println!("{table}");
    if let Some(csv) = csv {
        table.write_csv(csv)?;
    }
    Ok(())
}

fn start_of<const K: usize>(word: usize) -> Row<K> {
    let mut row = [0.0; K];
    row.iter_mut().zip(start_row(1, K, word)).for_each(|(to, x)| *to = x);
    row
}

fn start<const K: usize>(text: &Text) -> (Vec<Row<K>>, Vec<Row<K>>) {
    ((0..text.keep.len()).map(start_of).collect(), vec![[0.0; K]; text.nodes])
}

fn plain<const K: usize>(text: &Text) -> Box<dyn FnMut() -> Result<()> + '_> {
    let ((words, nodes), sigmoid) = (start::<K>(text), Sigmoid::default());
    let mut model = Plain { words, nodes };
    Box::new(move || {
        for (number, sentence) in text.sentences.iter().enumerate() {
            learn(&mut model, sentence, number, |word| &text.paths[word], |word| text.keep[word], &sigmoid);
        }
        Ok(())
    })
}

fn by_hand<const K: usize>(text: &Text, threads: usize) -> Box<dyn FnMut() -> Result<()> + '_> {
    const BLOCK: usize = 8;
    let ((mut words, mut nodes), sigmoid) = (start::<K>(text), Sigmoid::default());
    Box::new(move || {
        let (words, nodes) = (Shared::from_mut_slice(&mut words), Shared::from_mut_slice(&mut nodes));
        let (next, sigmoid) = (AtomicUsize::new(0), &sigmoid);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut model = Sharing { words: |word: usize| &words[word], nodes: |node: usize| &nodes[node] };
                    loop {
                        let first = next.fetch_add(BLOCK, Relaxed);
                        let Some(rest) = text.sentences.get(first..).filter(|rest| !rest.is_empty()) else { break };
                        for (number, sentence) in (first..).zip(&rest[..rest.len().min(BLOCK)]) {
                            learn(
                                &mut model,
                                sentence,
                                number,
                                |word| &text.paths[word],
                                |word| text.keep[word],
                                sigmoid,
                            );
                        }
                    }
                });
            }
        });
        Ok(())
    })
}

fn by_loop<const K: usize>(
    text: &Text,
    policy: SyncPolicy,
    threads: usize,
    minibatch: usize,
) -> Result<Box<dyn FnMut() -> Result<()> + '_>> {
    let session = Session::builder().threads(threads).build()?;
    let (words, nodes) = start::<K>(text);
    let sentences = DVector::from_vec(&session, text.sentences.clone())?;
    let paths = DVector::from_vec(&session, text.paths.clone())?;
    let keep = DVector::from_vec(&session, text.keep.clone())?;
    let mut words = DVector::from_vec(&session, words)?;
    let mut nodes = DVector::from_vec(&session, nodes)?;
    let sigmoid = Sigmoid::default();
    Ok(Box::new(move || {
        sync_parallel_for!(
            sentences,
            minibatch,
            [sigmoid, &paths, &keep, &mut words, &mut nodes],
            |batch| {
                let mut model = Sharing { words: |word: usize| &words[word], nodes: |node: usize| &nodes[node] };
                for (number, sentence) in (batch.start()..).zip(batch) {
                    learn(&mut model, sentence, number, |word| &paths[word], |word| keep[word], sigmoid);
                }
            },
            policy
        )?;
        Ok(())
    }))
}

fn by_loop_over_matrices<const K: usize>(
    text: &Text,
    threads: usize,
    minibatch: usize,
) -> Result<Box<dyn FnMut() -> Result<()> + '_>> {
    let session = Session::builder().threads(threads).build()?;
    let (words, nodes) = start::<K>(text);
    let sentences = DVector::from_vec(&session, text.sentences.clone())?;
    let paths = DVector::from_vec(&session, text.paths.clone())?;
    let keep = DVector::from_vec(&session, text.keep.clone())?;
    let mut words = DMatrix::from_rows(&session, words)?;
    let mut nodes = DMatrix::from_rows(&session, nodes)?;
    let sigmoid = Sigmoid::default();
    Ok(Box::new(move || {
        sync_parallel_for!(
            sentences,
            minibatch,
            [sigmoid, &paths, &keep, &mut words, &mut nodes],
            |batch| {
                let (word, node) = (|word: usize| &words[word], |node: usize| &nodes[node]);
                let mut model = Wide { words: word, nodes: node };
                for (number, sentence) in (batch.start()..).zip(batch) {
                    learn(&mut model, sentence, number, |word| &paths[word], |word| keep[word], sigmoid);
                }
            },
            SyncPolicy::Hybrid
        )?;
        Ok(())
    }))
}
