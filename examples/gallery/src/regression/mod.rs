//! Regression with an L1 penalty: Lasso and logistic regression, as far as the scheduled programs and their sequential twins
//! share them. `scheduled` is the programs' own.

use serde::{Deserialize, Serialize};

pub mod args;
pub mod columns;
pub mod fit;
pub mod gap;
pub mod gram;
pub mod kernels;
pub mod newton;
pub mod plain;
pub mod problem;
pub mod scaling;
pub mod scheduled;
pub mod solve;
pub mod table;

/// What an error costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// Half its square.
    Square,
    /// ln(1 + exp(-z)).
    Logistic,
}
