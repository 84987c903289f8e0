//! The data of a regression, ready to be fitted, and how what was fitted is stored.

use std::io::Write;
use std::path::Path;

use stradsap_examples::files::{Staged, create_folder};
use stradsap_examples::{Error, Result, data};

use crate::regression::Loss;
use crate::regression::args::RegressionArgs;
use crate::regression::scaling::{Columns, Scaling};
use crate::regression::table::{Labels, Table};

/// A table, and how its columns and labels are scaled.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What errors cost.
    pub loss: Loss,
    /// What the file holds.
    pub table: Table,
    /// The labels that are fitted.
    pub labels: Vec<f64>,
    /// What the labels of the file were reduced by.
    pub mean: f64,
    /// How the columns are scaled.
    pub scaling: Scaling,
    /// Whether columns are shifted.
    pub centred: bool,
    /// Whether there is an intercept.
    pub intercept: bool,
}

/// What was fitted with one lambda.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// How strongly coefficients were drawn to 0.
    pub lambda: f64,
    /// Those of the columns of the file.
    pub coefficients: Vec<f64>,
    /// What a row of zeros has.
    pub intercept: f64,
}

impl Problem {
    /// Reads `data`, or the repository's small set.
    ///
    /// # Errors
    /// As [`Table::read`] and [`Scaling::of`]; [`Error::Usage`] for what doesn't go together.
    pub fn read(data: Option<&Path>, loss: Loss, args: &RegressionArgs) -> Result<Problem> {
        let intercept = !args.no_intercept;
        if loss == Loss::Logistic && !intercept && args.columns == Columns::Standardised {
            let problem = "standardised columns need an intercept; give --columns scaled or given".to_owned();
            return Err(Error::Usage { option: "--no-intercept", problem });
        }
        let path = data.map_or_else(data::default_regression, |path| Ok(path.to_path_buf()))?;
        let labels = if loss == Loss::Square { Labels::Numbers } else { Labels::Classes };
        Problem::of(Table::read(&path, labels)?, loss, args)
    }

    /// Of a table that was read.
    ///
    /// # Errors
    /// As [`Scaling::of`].
    pub fn of(table: Table, loss: Loss, args: &RegressionArgs) -> Result<Problem> {
        let intercept = !args.no_intercept;
        // An intercept that is fitted with the rest makes shifts of columns meaningless.
        let centred = loss == Loss::Square && (intercept || args.columns == Columns::Standardised);
        let scaling = Scaling::of(&table, args.columns, centred, args.constant)?;
        let mut labels = table.labels().to_vec();
        let mut mean = 0.0;
        if loss == Loss::Square && intercept {
            mean = labels.iter().sum::<f64>() / labels.len() as f64;
            labels.iter_mut().for_each(|y| *y -= mean);
        }
        Ok(Problem { loss, table, labels, mean, scaling, centred, intercept })
    }

    /// The columns that count, in ascending order.
    pub fn columns(&self) -> Vec<u32> {
        let used = self.scaling.factors.iter().enumerate().filter(|(_, factor)| **factor != 0.0);
        used.map(|(column, _)| column as u32).collect()
    }

    /// An intercept that is a coefficient of its own, at its best where all others are 0.
    pub fn free_intercept(&self) -> Option<f64> {
        (self.intercept && self.loss == Loss::Logistic).then(|| {
            let positive = self.labels.iter().filter(|&&y| y > 0.0).count() as f64;
            (positive / (self.labels.len() as f64 - positive)).ln()
        })
    }

    /// What coefficients of the scaled columns mean for those of the file.
    pub fn fitted(&self, lambda: f64, coefficients: &[f64]) -> Fitted {
        let columns = self.scaling.len();
        let (given, zero) = self.scaling.unscaled(&coefficients[..columns]);
        let free = coefficients.get(columns).copied().unwrap_or(0.0);
        Fitted { lambda, coefficients: given, intercept: self.mean + zero + free }
    }

    /// Stores what was fitted in a folder: `lasso.model`, with a part for each lambda, or `logistic.model`, which has the last
    /// in LIBLINEAR's format.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn store(&self, folder: &Path, path: &[Fitted]) -> Result<()> {
        create_folder(folder)?;
        let staged = match self.loss {
            Loss::Square => Staged::write(&folder.join("lasso.model"), |out| {
                path.iter().try_for_each(|fitted| write_lasso(out, fitted))
            })?,
            Loss::Logistic => Staged::write(&folder.join("logistic.model"), |out| {
                path.last().map_or(Ok(()), |fitted| self.write_logistic(out, fitted))
            })?,
        };
        staged.commit()
    }

    fn write_logistic(&self, out: &mut dyn Write, fitted: &Fitted) -> std::io::Result<()> {
        let [negative, positive] = self.table.classes();
        let bias = if self.intercept { 1 } else { -1 };
        writeln!(out, "solver_type L1R_LR\nnr_class 2\nlabel {positive} {negative}")?;
        writeln!(out, "nr_feature {}\nbias {bias}\nw", fitted.coefficients.len())?;
        fitted.coefficients.iter().try_for_each(|w| writeln!(out, "{w}"))?;
        if self.intercept { writeln!(out, "{}", fitted.intercept) } else { Ok(()) }
    }
}

fn write_lasso(out: &mut dyn Write, fitted: &Fitted) -> std::io::Result<()> {
    let Fitted { lambda, coefficients, intercept } = fitted;
    write!(out, "lambda {lambda}\nintercept {intercept}\nnr_feature {}\nw", coefficients.len())?;
    for (column, w) in coefficients.iter().enumerate().filter(|(_, w)| **w != 0.0) {
        write!(out, " {}:{w}", column + 1)?;
    }
    writeln!(out)
}
