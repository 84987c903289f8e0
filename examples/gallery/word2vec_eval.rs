//! What word vectors are worth: how well they agree with people on how alike words are, and how many analogies they
//! answer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Instant;

use clap::Parser;
use serde::Serialize;
use stradsap_examples::print_line;
use stradsap_examples::{Result, cli, data, files};
use stradsap_gallery::vectors::{Analogies, AnalogyScore, Format, PairScore, Pairs, Vectors};

/// Evaluates word vectors on pairs of words that people judged, and on analogies.
///
/// For pairs it computes Spearman's rank correlation of cosines and judgements, where equal values share their ranks. Pairs with a
/// word that has no vector are skipped and counted. For analogies (a is to b as c is to d) it computes the share of questions for
/// which d has the largest cosine with b + c - a, with all vectors of length 1, among the first words except a, b and c. Upper and
/// lower case are the same. Without --pairs and --analogies it uses WordSim-353 and the Google analogies.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The vectors, in the text or the binary format of word2vec
    #[arg(long, value_name = "PATH")]
    vectors: PathBuf,

    /// Their format [default: binary for names in .bin, else text]
    #[arg(long, value_name = "text|binary")]
    format: Option<Format>,

    /// Lines of word TAB word TAB number
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pairs: Vec<PathBuf>,

    /// Lines of four words, in sections that begin with a line ": name"
    #[arg(long, value_name = "FILE")]
    analogies: Option<PathBuf>,

    /// Answer analogies from the first N words, which are the most frequent; pairs always use the first 300,000
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..))]
    restrict_vocab: u64,

    /// Threads [default: as many as there are cores]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// Write the scores as one JSON object
    #[arg(long, value_name = "FILE.json")]
    report: Option<PathBuf>,
}

/// The words that pairs are looked up among: the first of a file that has more.
const PAIRS_VOCABULARY: usize = 300_000;

#[derive(Debug, Serialize)]
struct Report {
    example: &'static str,
    vectors: VectorsSize,
    restrict_vocab: u64,
    pairs: Vec<Of<PairScore>>,
    analogies: Vec<Of<AnalogyScore>>,
    seconds_total: f64,
}

#[derive(Debug, Serialize)]
struct VectorsSize {
    file: String,
    words: usize,
    size: usize,
}

/// A score, and the file that it is of.
#[derive(Debug, Serialize)]
struct Of<S> {
    file: String,
    #[serde(flatten)]
    score: S,
}

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: &Args) -> Result<()> {
    let clock = Instant::now();
    args.report.as_deref().map_or(Ok(()), files::check_file)?;
    let (mut pair_files, mut analogy_file) = (args.pairs.clone(), args.analogies.clone());
    if pair_files.is_empty() && analogy_file.is_none() {
        pair_files.push(data::word_pairs()?);
        analogy_file = Some(data::analogies()?);
    }
    // What is wrong with a small file is reported before the large one is read.
    let pairs = pair_files.iter().map(|path| Pairs::read(path)).collect::<Result<Vec<_>>>()?;
    let analogies = analogy_file.iter().map(|path| Analogies::read(path)).collect::<Result<Vec<_>>>()?;
    let vectors = Vectors::read(&args.vectors, args.format.unwrap_or_else(|| Format::of(&args.vectors)))?;
    let restrict = usize::try_from(args.restrict_vocab).unwrap_or(usize::MAX);
    let threads = args.threads.map_or_else(|| available_parallelism().map_or(1, usize::from), |n| n as usize);

    let (words, size) = (vectors.words().len(), vectors.size());
    let mut report = Report {
        example: "word2vec-eval",
        vectors: VectorsSize { file: name(&args.vectors), words, size },
        restrict_vocab: args.restrict_vocab,
        pairs: Vec::new(),
        analogies: Vec::new(),
        seconds_total: 0.0,
    };
    for (path, pairs) in pair_files.iter().zip(pairs) {
        let score = pairs.score(&vectors, PAIRS_VOCABULARY);
        let PairScore { spearman, pairs, skipped } = score;
        print_line(&format!("{}: Spearman {} on {pairs} pairs, {skipped} skipped", path.display(), shown(spearman)))?;
        report.pairs.push(Of { file: name(path), score });
    }
    for (path, analogies) in analogy_file.iter().zip(analogies) {
        let score = analogies.score(&vectors, restrict, threads);
        for section in &score.sections {
            let accuracy = (section.total > 0).then(|| section.correct as f64 / section.total as f64);
            print_line(&format!("  {} {} ({}/{})", section.section, shown(accuracy), section.correct, section.total))?;
        }
        let AnalogyScore { correct, total, skipped, accuracy, .. } = score;
        let accuracy = shown(accuracy);
        print_line(&format!("{}: accuracy {accuracy} ({correct}/{total}), {skipped} skipped", path.display()))?;
        report.analogies.push(Of { file: name(path), score });
    }
    report.seconds_total = clock.elapsed().as_secs_f64();
    args.report.as_deref().map_or(Ok(()), |path| {
        files::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            out.write_all(b"\n")
        })
    })
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn shown(score: Option<f64>) -> String {
    score.map_or_else(|| "undefined".to_owned(), |score| format!("{score:.4}"))
}
