//! Uses a topic model: what the topics of documents are.

use std::path::PathBuf;

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::numbers::positive;
use stradsap_examples::{AnyError, cli, print_line};
use stradsap_gallery::stored::topic_parts;

/// Infers the topics of documents from a model that `lda` or `lda-svi` has stored (`--output DIR`).
///
/// Prints a line for each document that has words: its number, a tab, and its topics as topic:part, the largest part first. The
/// parts theta_k solve theta_k = (A + sum over words w of count_w theta_k phi_kw / sum_j theta_j phi_jw) / all, where phi_kw is the
/// part that word w has of topic k.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The folder of the model: word-topics.tsv or words.npy
    #[arg(long, value_name = "DIR")]
    model: PathBuf,

    /// The documents, in the format of the UCI repository: the numbers of documents, words and entries, then document, word, count
    #[arg(long, value_name = "PATH")]
    data: PathBuf,

    /// Prior of each topic in a document
    #[arg(long, visible_alias = "document-prior", value_name = "A", default_value_t = 0.1, value_parser = positive::<f64>)]
    alpha: f64,

    /// Prior of each word in a topic, for a model of `lda`
    #[arg(long, visible_alias = "word-prior", value_name = "B", default_value_t = 0.01, value_parser = positive::<f64>)]
    beta: f64,

    /// Leave out topics with smaller parts
    #[arg(long, value_name = "P", default_value_t = 0.01, value_parser = positive::<f64>)]
    least: f64,
}

/// Parts that change by less than this together are good enough.
const TOLERANCE: f64 = 1e-9;
const MOST_ROUNDS: usize = 1000;

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let Args { model, data, alpha, beta, least } = cli::parse();
    let bag = session.read_bag_of_words(&data)?;
    let phi: DMatrix<f64> = topic_parts(session, &model, bag.words as usize, beta)?;
    let topics = phi.width();
    let documents = bag.entries.map(|entry| (entry.document, (entry.word, entry.count))).group_by_key()?;
    let inferred = with!(
        [alpha, topics, &phi],
        documents.map(|(document, words)| {
            let all = words.iter().map(|(_, count)| f64::from(*count)).sum::<f64>() + alpha * topics as f64;
            let mut theta = vec![1.0 / topics as f64; topics];
            for _ in 0..MOST_ROUNDS {
                let mut next = vec![alpha; topics];
                for (word, count) in words {
                    let row = &phi[*word];
                    let product: f64 = theta.iter().zip(row).map(|(theta, phi)| theta * phi).sum();
                    let share = f64::from(*count) / product;
                    next.iter_mut().zip(&theta).zip(row).for_each(|((next, theta), phi)| *next += share * theta * phi);
                }
                next.iter_mut().for_each(|next| *next /= all);
                let change: f64 = next.iter().zip(&theta).map(|(next, theta)| (next - theta).abs()).sum();
                theta = next;
                if change < TOLERANCE {
                    break;
                }
            }
            (*document, theta)
        })
    );
    for (document, theta) in inferred.sort_by_key(|(document, _)| *document)?.iter()? {
        let mut parts: Vec<(usize, f64)> = theta.into_iter().enumerate().filter(|(_, part)| *part >= least).collect();
        parts.sort_by_key(|(_, part)| std::cmp::Reverse(Ordered(*part)));
        let parts: Vec<String> = parts.iter().map(|(topic, part)| format!("{topic}:{part:.4}")).collect();
        print_line(&format!("{}\t{}", document + 1, parts.join(" ")))?;
    }
    Ok(())
}
