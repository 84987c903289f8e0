//! Latent Dirichlet allocation by collapsed Gibbs sampling, in parallel. `lda_sequential` is the program without the
//! library: its loop is the same.

use std::time::Instant;

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, CommonArgs, Training, cli};
use stradsap_gallery::topics::lda::{self, Buckets, DocumentRow, Fit, LdaArgs, Likelihood, Token, Tokens, WordRow};
use stradsap_gallery::topics::{CorpusArgs, CorpusSize};

/// Finds the topics of a corpus by collapsed Gibbs sampling, in parallel.
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

    /// Ranges that each table is cut into; the model depends on it [default: chosen from the corpus]
    #[arg(long, value_name = "N", help_heading = "Topics", value_parser = clap::value_parser!(u16).range(1..=256))]
    parts: Option<u16>,

    /// How many strata of the rotation the topics' totals may lag behind; the model depends on it
    #[arg(long, value_name = "S", help_heading = "Topics", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    staleness: u16,

    #[command(flatten)]
    corpus: CorpusArgs,
    #[command(flatten)]
    common: CommonArgs,
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    let mut run: Training<'_, Fit> = Training::start("lda", session, &args.common)?;
    let corpus = args.corpus.read_with(session, &args.common)?;
    let (size, prior) = (CorpusSize::of(&corpus), args.lda.prior(&corpus)?);
    run.line(&format!("{size}, {} topics, threads {}", prior.topics, session.threads()));
    corpus.warning().iter().for_each(|warning| run.line(warning));
    let tokens = Tokens::new(&corpus, prior.topics, args.common.seed);
    let parts = args.parts.map_or_else(|| lda::parts(&size), usize::from);
    let staleness = usize::from(args.staleness);

    let settings = format!("{}, --parts {parts} --staleness {staleness}", args.lda.settings(args.common.seed, &size));
    run.resume(settings)?;
    let first = || (0..tokens.all.len()).map(|token| tokens.first_topic(token));
    let mut topics: DVector<u16> = run.vector("topics", || DVector::from_iter(session, first()))?;
    let mut documents: DVector<DocumentRow> =
        run.vector("documents", || DVector::from_vec(session, tokens.document_rows(first())))?;
    let mut words: DVector<WordRow> = run.vector("words", || DVector::from_vec(session, tokens.word_rows(first())))?;
    let totals = session.relaxed_vector(tokens.totals(topics.iter()?));
    let (likelihood, draws) = (Likelihood::new(prior), tokens.draws());
    let tokens: DVector<Token> = DVector::from_vec(session, tokens.all)?;

    for epoch in run.done()..args.common.epochs {
        let clock = Instant::now();
        let draws = draws.of_epoch(epoch);
        let sampling = async_parallel_for!(
            0..tokens.len(),
            [draws, prior, &tokens, &mut topics, &mut documents, &mut words, &totals],
            |t, buckets| {
                let Token { document, word } = tokens[t];
                let old = topics[t];
                let rows = (&mut words[word], &mut documents[document]);
                topics[t] = buckets.draw(word, rows, totals, old, draws.of(t));
            },
            scratch = Buckets::new(prior, &*totals),
            staleness = staleness,
            parts = parts,
            label = "sampling"
        )?;
        let seconds = clock.elapsed().as_secs_f64();

        if args.common.verify {
            let (documents, words) = (documents.to_vec()?, words.to_vec()?);
            let problem = lda::disagreement(tokens.iter()?, topics.iter()?, &documents, &words, &totals.to_vec());
            if let Some(problem) = problem {
                return Err(format!("after epoch {}: {problem}; please report this", epoch + 1).into());
            }
        }
        let (of_documents, of_words) = (session.sum(0.0f64), session.sum(0.0f64));
        let reading = async_parallel_for!(0..documents.len(), [likelihood, &documents, &of_documents], |d| {
            of_documents.add(likelihood.document(&documents[d]));
        })?;
        async_parallel_for!(0..words.len(), [likelihood, &words, &of_words], |w| of_words
            .add(likelihood.word(&words[w])))?;
        let log_likelihood = of_documents.get() + of_words.get() + likelihood.topics(&totals.to_vec());
        let s_error = sampling.staleness().first().map_or(0.0, |stale| stale.mean_error);
        run.epoch(seconds, sampling.bytes_sent(), Fit::new(log_likelihood, size.tokens, seconds, s_error))?;
        run.save(&[("topics", &topics), ("documents", &documents), ("words", &words)])?;
        run.record(&[&sampling, &reading])?;
    }

    let (documents, words) = (documents.to_vec()?, words.to_vec()?);
    let top = lda::top_words(prior.topics, args.corpus.top_words, &words);
    top.print(&corpus.vocabulary)?;
    if let Some(folder) = &args.common.output {
        lda::store(folder, &documents, &words, &top, &corpus.vocabulary)?;
    }
    run.finish(size, &lda::digest(&documents, &words))
}
