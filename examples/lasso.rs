//! The Lasso by scheduled coordinate descent: least squares with an L1 penalty. `lasso_sequential` is the program without the
//! library.
//!
//! What a round does stands in the gallery's `regression/scheduled`, which `logistic` shares: `program.rs` has update, aggregate and
//! apply of a coefficient, `chosen.rs` and `working.rs` say which coefficients a round has. `docs/scheduled.md` has a whole
//! scheduled program on a page.

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, CommonArgs, cli};
use stradsap_gallery::regression::Loss;
use stradsap_gallery::regression::args::RegressionArgs;
use stradsap_gallery::regression::scheduled::{ScheduleArgs, train};

/// Fits a Lasso by coordinate descent, in parallel: the coefficients b with the least |y - X b|²/2 + L |b|₁.
///
/// The data is in LIBSVM's format, labels being any numbers. The duality gap, as a part of the objective, is how far the
/// objective is from the least one, at most; `updates` counts updates of a coefficient, whether or not it changed. An epoch
/// is a working set that is solved, or with another --schedule as many updates as there are columns; the run ends after
/// --epochs of them (for each lambda) or at --tolerance. Epochs' seconds are those of the solver and of objective and gap.
/// The coefficients are stored as `lasso.model`: for each lambda its value, the intercept, the number of features, and
/// index:value for each coefficient that isn't 0.
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
    train(session, Loss::Square, "lasso", &args.common, &args.regression, &args.schedule)
}
