//! Sparse logistic regression by scheduled coordinate descent. `logistic_sequential` is the program without the library.

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, CommonArgs, cli};
use stradsap_gallery::regression::Loss;
use stradsap_gallery::regression::args::RegressionArgs;
use stradsap_gallery::regression::scheduled::{ScheduleArgs, train};

/// Fits logistic regression with an L1 penalty by coordinate descent, in parallel: the coefficients b and the intercept c with
/// the least sum of ln(1 + exp(-y (X b + c))) and L |b|₁.
///
/// The data is in LIBSVM's format, of two classes. The duality gap, as a part of the objective, is how far the objective is
/// from the least one, at most; `updates` counts updates of a coefficient, whether or not it changed. An epoch is a working
/// set that is solved, or with another --schedule as many updates as there are columns; the run ends after --epochs of them
/// (for each lambda) or at --tolerance. Columns are scaled; shifts would change the intercept alone, and aren't made. The
/// coefficients are stored as `logistic.model`, in LIBLINEAR's format.
///
/// Lines are a label, then index:value for each feature that isn't 0, indices rising from 1, or from 0 if the file has an index 0;
/// `qid:` isn't read.
#[derive(Debug, Parser)]
#[command(version, mut_arg("epochs", |epochs| epochs.default_value("1000")))]
struct Args {
    #[command(flatten)]
    regression: RegressionArgs,
    #[command(flatten)]
    schedule: ScheduleArgs,
    #[command(flatten)]
    common: CommonArgs,
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    train(session, Loss::Logistic, "logistic", &args.common, &args.regression, &args.schedule)
}
