//! Latent Dirichlet allocation by collapsed Gibbs sampling, as a plain sequential program: the twin of `lda`, without the
//! library.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stradsap_examples::{CommonArgs, Result, Run, cli};
use stradsap_gallery::topics::lda::{self, Buckets, Fit, LdaArgs, Likelihood, Tokens};
use stradsap_gallery::topics::{CorpusArgs, CorpusSize};

/// Finds the topics of a corpus by collapsed Gibbs sampling, sequentially.
///
/// The corpus is a bag of words in the format of the UCI repository: three lines with the numbers of documents, words and entries,
/// then a line for each entry with document, word and count. Documents and words are numbered from 1. Every word of every document
/// has a topic. An epoch draws each topic anew once, given all others, with SparseLDA's buckets. The objective in the report is the
/// log-likelihood of words and topics together. The topics' top words are printed, and --output stores both tables:
/// `document-topics.tsv`, `word-topics.tsv` and `topics.txt`.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    lda: LdaArgs,
    #[command(flatten)]
    corpus: CorpusArgs,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: &Args) -> Result<()> {
    let mut run: Run<'_, Fit> = Run::sequential("lda_sequential", &args.common)?;
    let corpus = args.corpus.read(&args.common)?;
    let (size, prior) = (CorpusSize::of(&corpus), args.lda.prior(&corpus)?);
    run.line(&format!("{size}, {} topics, sequential", prior.topics));
    corpus.warning().iter().for_each(|warning| run.line(warning));
    let tokens = Tokens::new(&corpus, prior.topics, args.common.seed);

    let mut topics: Vec<u16> = (0..tokens.all.len()).map(|token| tokens.first_topic(token)).collect();
    let mut documents = tokens.document_rows(topics.iter().copied());
    let mut words = tokens.word_rows(topics.iter().copied());
    let mut totals = tokens.totals(topics.iter().copied());
    let likelihood = Likelihood::new(prior);

    for epoch in 0..args.common.epochs {
        let clock = Instant::now();
        let draws = tokens.draws().of_epoch(epoch);
        let mut buckets = Buckets::new(prior, &totals);
        for (t, (token, topic)) in tokens.all.iter().zip(&mut topics).enumerate() {
            let rows = (&mut words[token.word as usize], &mut documents[token.document as usize]);
            *topic = buckets.draw(token.word, rows, &mut totals, *topic, draws.of(t));
        }
        let seconds = clock.elapsed().as_secs_f64();

        let of_documents: f64 = documents.iter().map(|row| likelihood.document(row)).sum();
        let of_words: f64 = words.iter().map(|row| likelihood.word(row)).sum();
        let log_likelihood = of_documents + of_words + likelihood.topics(&totals);
        run.epoch(seconds, 0, Fit::new(log_likelihood, size.tokens, seconds, 0.0))?;
    }

    let top = lda::top_words(prior.topics, args.corpus.top_words, &words);
    top.print(&corpus.vocabulary)?;
    if let Some(folder) = &args.common.output {
        lda::store(folder, &documents, &words, &top, &corpus.vocabulary)?;
    }
    run.finish(size, &lda::digest(&documents, &words))
}
