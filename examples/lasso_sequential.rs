//! The Lasso by cyclic coordinate descent, as a plain sequential program: the twin of `lasso`, without the library.

use std::process::ExitCode;

use clap::Parser;
use stradsap_examples::{CommonArgs, cli};
use stradsap_gallery::regression::args::RegressionArgs;
use stradsap_gallery::regression::{Loss, plain};

/// Fits a Lasso by cyclic coordinate descent, sequentially.
///
/// An epoch updates each coefficient once, in the order of the columns. The objective, the gap and the stored files are those of
/// `lasso`.
#[derive(Debug, Parser)]
#[command(version, mut_arg("epochs", |epochs| epochs.default_value("1000")))]
struct Args {
    #[command(flatten)]
    regression: RegressionArgs,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    cli::main(|args: &Args| plain::train(Loss::Square, "lasso_sequential", &args.common, &args.regression))
}
