//! Topics by collapsed Gibbs sampling in parallel, beside the plain sequential loop with the same sampler and beside one
//! that draws as the textbook says, from all topics' probabilities. `cargo bench --bench lda -- --help` lists the options.
//!
//! All contestants run epochs over the same corpus in turn, each with its own assignments; the table shows tokens a second
//! (medians over the rounds) and how they compare.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Parser;
use stradsap::prelude::*;
use stradsap_benches::harness::{alternate, benchmarking, exit_code};
use stradsap_benches::table::{Table, create};
use stradsap_examples::cli::CommonArgs;
use stradsap_gallery::topics::lda::{Buckets, DocumentRow, LdaArgs, Prior, Token, Tokens, WordRow, parts};
use stradsap_gallery::topics::{Corpus, CorpusArgs, CorpusSize};

/// Topics by loops of several kinds.
#[derive(Parser)]
#[command(name = "lda")]
struct Options {
    /// A bag of words [default: the one in the repository]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Numbers of topics
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_values_t = [100, 1000])]
    topics: Vec<u16>,
    /// Rounds of turns [default: 20, quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Threads of the parallel ones
    #[arg(long, value_name = "T,...", value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// A few topics, one round
    #[arg(long)]
    quick: bool,
    /// Write the table to this file as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// The examples' options, as they read a corpus.
#[derive(Parser)]
struct ExampleOptions {
    #[command(flatten)]
    corpus: CorpusArgs,
    #[command(flatten)]
    lda: LdaArgs,
    #[command(flatten)]
    common: CommonArgs,
}

type Epoch<'c> = Box<dyn FnMut() -> Result<()> + 'c>;

fn main() -> ExitCode {
    exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    let quick = options.quick || !benchmarking();
    let mut arguments = vec!["lda".to_owned()];
    if let Some(data) = &options.data {
        arguments.extend(["--data".to_owned(), data.display().to_string()]);
    }
    let example = ExampleOptions::try_parse_from(arguments)?;
    let corpus = example.corpus.read(&example.common)?;
    let csv = options.csv.as_deref().map(create).transpose()?;
    let size = CorpusSize::of(&corpus);
    println!("{size}, {} parts of each table\n", parts(&size));
    let mut table = Table::new(&["topics", "loop", "M tokens/s", "of the plain loop", "slowest", "fastest"]);
    let topics = if quick { vec![8] } else { options.topics.clone() };
    let rounds = options.rounds.unwrap_or(if quick { 1 } else { 20 }) as usize;
    for topics in topics {
        let prior = Prior { topics: topics.into(), ..example.lda.prior(&corpus)? };
        let mut contestants: Vec<(String, Epoch<'_>)> = vec![
            ("plain loop".to_owned(), plain(&corpus, prior)),
            ("all topics' probabilities".to_owned(), textbook(&corpus, prior)),
        ];
        for &threads in &options.threads {
            contestants.push((format!("stradsap, {threads} threads"), by_loop(&corpus, prior, threads)?));
        }
        // The first epoch plans, and leaves the random start.
        contestants.iter_mut().try_for_each(|(_, epoch)| epoch())?;
        let samples = alternate(&mut contestants, rounds, |(_, epoch)| epoch())?;
        for ((name, _), seconds) in contestants.iter().zip(&samples) {
            let speed = |seconds: f64| format!("{:.2}", size.tokens as f64 / seconds / 1e6);
            table.push(vec![
                topics.to_string(),
                name.clone(),
                speed(seconds.median()),
                format!("{:.2}", samples[0].median() / seconds.median()),
                speed(seconds.max()),
                speed(seconds.min()),
            ]);
        }
    }
    println!("{table}");
    if let Some(csv) = csv {
        table.write_csv(csv)?;
    }
    Ok(())
}

/// What all begin with.
fn first(corpus: &Corpus, prior: Prior) -> (Tokens, Vec<u16>, Vec<DocumentRow>, Vec<WordRow>, Vec<i64>) {
    let tokens = Tokens::new(corpus, prior.topics, 1);
    let topics: Vec<u16> = (0..tokens.all.len()).map(|token| tokens.first_topic(token)).collect();
    let documents = tokens.document_rows(topics.iter().copied());
    let words = tokens.word_rows(topics.iter().copied());
    let totals = tokens.totals(topics.iter().copied());
    (tokens, topics, documents, words, totals)
}

fn plain(corpus: &Corpus, prior: Prior) -> Epoch<'static> {
    let (tokens, mut topics, mut documents, mut words, mut totals) = first(corpus, prior);
    let mut epoch = 0;
    Box::new(move || {
        let draws = tokens.draws().of_epoch(epoch);
        let mut buckets = Buckets::new(prior, &totals);
        for (t, (token, topic)) in tokens.all.iter().zip(&mut topics).enumerate() {
            let rows = (&mut words[token.word as usize], &mut documents[token.document as usize]);
            *topic = buckets.draw(token.word, rows, &mut totals, *topic, draws.of(t));
        }
        epoch += 1;
        Ok(())
    })
}

/// A pass over all topics for each token, document by document, with dense tables.
fn textbook(corpus: &Corpus, prior: Prior) -> Epoch<'static> {
    let (tokens, topics, ..) = first(corpus, prior);
    let k = prior.topics;
    let mut order: Vec<usize> = (0..tokens.all.len()).collect();
    order.sort_by_key(|&t| tokens.all[t].document);
    let mut topics = topics;
    let mut of_document = vec![0u32; corpus.documents * k];
    let mut of_word = vec![0u32; corpus.words * k];
    let mut totals = vec![0u32; k];
    for (token, &topic) in tokens.all.iter().zip(&topics) {
        of_document[token.document as usize * k + usize::from(topic)] += 1;
        of_word[token.word as usize * k + usize::from(topic)] += 1;
        totals[usize::from(topic)] += 1;
    }
    let mut sums = vec![0.0f32; k];
    let mut epoch = 0;
    Box::new(move || {
        let draws = tokens.draws().of_epoch(epoch);
        let all_beta = prior.beta * prior.words as f32;
        for &t in &order {
            let Token { document, word } = tokens.all[t];
            let document = &mut of_document[document as usize * k..][..k];
            let word = &mut of_word[word as usize * k..][..k];
            let old = usize::from(topics[t]);
            (document[old], word[old], totals[old]) = (document[old] - 1, word[old] - 1, totals[old] - 1);
            let mut sum = 0.0;
            for topic in 0..k {
                sum += (document[topic] as f32 + prior.alpha) * (word[topic] as f32 + prior.beta)
                    / (totals[topic] as f32 + all_beta);
                sums[topic] = sum;
            }
            let drawn = draws.of(t) * sum;
            let new = sums.partition_point(|&sum| sum <= drawn).min(k - 1);
            (document[new], word[new], totals[new]) = (document[new] + 1, word[new] + 1, totals[new] + 1);
            topics[t] = new as u16;
        }
        epoch += 1;
        Ok(())
    })
}

fn by_loop(corpus: &Corpus, prior: Prior, threads: usize) -> Result<Epoch<'static>> {
    let session = Session::builder().threads(threads).build().map_err(|error| anyhow!(error))?;
    let (tokens, topics, documents, words, totals) = first(corpus, prior);
    let (draws, parts) = (tokens.draws(), parts(&CorpusSize::of(corpus)));
    let tokens: DVector<Token> = DVector::from_vec(&session, tokens.all)?;
    let mut topics = DVector::from_vec(&session, topics)?;
    let mut documents = DVector::from_vec(&session, documents)?;
    let mut words = DVector::from_vec(&session, words)?;
    let totals = session.relaxed_vector(totals);
    let mut epoch = 0;
    Ok(Box::new(move || {
        let draws = draws.of_epoch(epoch);
        async_parallel_for!(
            0..tokens.len(),
            [draws, prior, &tokens, &mut topics, &mut documents, &mut words, &totals],
            |t, buckets| {
                let Token { document, word } = tokens[t];
                let old = topics[t];
                let rows = (&mut words[word], &mut documents[document]);
                topics[t] = buckets.draw(word, rows, totals, old, draws.of(t));
            },
            scratch = Buckets::new(prior, &*totals),
            parts = parts
        )?;
        epoch += 1;
        Ok(())
    }))
}
