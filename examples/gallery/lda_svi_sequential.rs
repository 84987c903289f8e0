//! Topics by stochastic variational inference, as a plain sequential program: the twin of `lda-svi`, without the library.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stradsap_examples::numbers::nonzero;
use stradsap_examples::{CommonArgs, Digest, Result, Run, cli};
use stradsap_gallery::topics::CorpusArgs;
use stradsap_gallery::variational::{self, Documents, Model, Perplexity, Settings, TopicSize, VariationalArgs};

/// Finds topics in documents by stochastic variational inference, sequentially.
///
/// The data is a bag of words in the format of the UCI repository. The objective in the report is the held-out perplexity after
/// each epoch: the topics of the test documents are inferred from one half of their words, and predict the other half. The time for
/// this isn't part of the epoch's seconds. In --output, `words.npy` has a row for each word and a column for each topic, and
/// `topics.txt` has the topics' words.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    variational: VariationalArgs,

    /// Documents in a minibatch; steps become smaller from one minibatch to the next [default: 16 to 256, about 16 minibatches an
    /// epoch]
    #[arg(long, value_name = "M", value_parser = nonzero::<NonZeroUsize>)]
    minibatch: Option<NonZeroUsize>,

    #[command(flatten)]
    corpus: CorpusArgs,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: &Args) -> Result<()> {
    let mut run = Run::sequential("lda-svi_sequential", &args.common)?;
    let corpus = args.corpus.read(&args.common)?;
    corpus.warning().iter().for_each(|warning| run.line(warning));
    let path = args.corpus.path(&args.common)?;
    let Documents { train, test } = args.variational.split(&corpus, &path, args.common.seed)?;
    let size = TopicSize::of(&corpus, &train, &test);
    let settings = Settings::new(&args.variational, &size, args.minibatch, 1)?;
    run.line(&format!("{size}, {} topics, sequential", settings.topics));

    let mut model = Model::new(settings, args.common.seed);
    for _epoch in 0..args.common.epochs {
        let clock = Instant::now();
        model.epoch(&train);
        let seconds = clock.elapsed().as_secs_f64();
        run.epoch(seconds, 0, Perplexity::of(&size, model.log_likelihood(&test), seconds))?;
    }

    let top = settings.top_words(args.corpus.top_words, model.v.iter().copied());
    top.print(&corpus.vocabulary)?;
    if let Some(folder) = &args.common.output {
        variational::store(folder, &settings, &corpus.vocabulary, &model.v, &top)?;
    }
    run.finish(size, &Digest::new().matrix(model.v.iter()))
}
