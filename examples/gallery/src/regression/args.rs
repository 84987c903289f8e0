//! The options of regressions, and the lambdas that they ask for.

use stradsap_examples::numbers::{not_negative, number, positive};
use stradsap_examples::{Error, Result};

use crate::regression::scaling::{Columns, Constant};

/// The last lambda of a path, as a part of the largest.
const PATH_END: f64 = 0.01;
const RATIO: f64 = 0.1;

/// The options of Lasso and logistic regression.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Regression")]
pub struct RegressionArgs {
    /// How columns are scaled before they are used
    #[arg(long, value_enum, default_value_t = Columns::Standardised)]
    pub columns: Columns,

    /// How to treat a column that has the same value in all rows and can't be scaled
    #[arg(long, value_enum, default_value_t = Constant::Refuse)]
    pub constant: Constant,

    /// Fit no intercept
    #[arg(long)]
    pub no_intercept: bool,

    /// How strongly coefficients are pulled to 0 [default: as --lambda-ratio says]
    #[arg(long, visible_aliases = ["regularisation", "regularization"], value_name = "L", value_parser = positive::<f64>, conflicts_with = "lambda_ratio")]
    pub lambda: Option<f64>,

    /// The same, as a fraction of the least lambda with which all coefficients are 0 [default: 0.1, or 0.01 with --path]
    #[arg(long, value_name = "X", value_parser = ratio)]
    pub lambda_ratio: Option<f64>,

    /// Fit with N lambdas one after the other, in a geometric sequence from the least with which all coefficients are 0 down to the
    /// given one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub path: Option<u32>,

    /// Stop at this duality gap, relative to the objective; 0 stops only after all epochs
    #[arg(long, value_name = "G", default_value_t = 1e-6, value_parser = not_negative::<f64>)]
    pub tolerance: f64,
}

impl RegressionArgs {
    /// The lambdas to fit with, where `largest` is the least with which all coefficients are 0.
    ///
    /// # Errors
    /// [`Error::Usage`] if a path would have to go upwards.
    pub fn lambdas(&self, largest: f64) -> Result<Vec<f64>> {
        let ratio = self.lambda_ratio.unwrap_or(if self.path.is_some() { PATH_END } else { RATIO });
        let last = self.lambda.unwrap_or(ratio * largest);
        let Some(steps) = self.path else { return Ok(vec![last]) };
        if last >= largest {
            let problem =
                format!("a path leads down from {largest:e}, the least lambda with which all coefficients are 0");
            let problem = format!("{problem}; expected its end below that, not {last:e}");
            return Err(Error::Usage { option: "--path", problem });
        }
        let part = (last / largest).powf(1.0 / f64::from(steps));
        let lambda = |step| if step == steps { last } else { largest * part.powi(step as i32) };
        Ok((1..=steps).map(lambda).collect())
    }
}

fn ratio(text: &str) -> std::result::Result<f64, String> {
    number(text, |x| x > 0.0 && x <= 1.0, "a number above 0, up to 1")
}
