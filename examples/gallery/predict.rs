//! Uses a linear model: what it says of examples.

use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, Error, cli};
use stradsap_gallery::stored::Linear;

/// Predicts from a model that `svm`, `logistic` or `lasso` has stored, with a line for each example, in the order of the file.
///
/// svm.model and logistic.model (LIBLINEAR's format) predict the label, lasso.model the value; if it has several lambdas, the last
/// is used. Standard error says how near the predictions are to the file's own labels.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The model's file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Examples in LIBSVM's format: a label, then index:value, indices from 1, or from 0 if the file has an index 0
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let Args { model, data } = cli::parse();
    let Linear { weights, intercept, classes } = Linear::read(&model)?;
    let examples = session.read_libsvm(&data)?;
    let weights = DVector::from_vec(session, weights)?;
    let scores = with!(
        [intercept, &weights],
        examples.map(|example| {
            let known = example.indices.iter().zip(&example.values).filter(|(i, _)| (**i as usize) < weights.len());
            intercept + known.map(|(i, value)| weights[*i] * f64::from(*value)).sum::<f64>()
        })
    );
    let predicted: Vec<f64> =
        scores.to_vec()?.into_iter().map(|score| classes.map_or(score, |of| of.label(score))).collect();
    let mut out = BufWriter::new(stdout().lock());
    let written = predicted.iter().try_for_each(|label| writeln!(out, "{label}")).and_then(|()| out.flush());
    written.map_err(Error::Output)?;

    let (all, labels) = (predicted.len().max(1) as f64, examples.iter()?.map(|example| example.label));
    let pairs = predicted.iter().zip(labels);
    match classes {
        Some(_) => {
            let right = pairs.filter(|(predicted, label)| *predicted == label).count();
            eprintln!("{right} of {} labels are as predicted: {:.4}", predicted.len(), right as f64 / all);
        }
        None => {
            let squares: f64 = pairs.map(|(predicted, label)| (predicted - label).powi(2)).sum();
            eprintln!("root-mean-square error {:.6} over {} examples", (squares / all).sqrt(), predicted.len());
        }
    }
    Ok(())
}
