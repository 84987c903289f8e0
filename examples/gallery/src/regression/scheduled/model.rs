//! What the driver keeps: coefficients, and what the last rounds told.

use crate::regression::gap::Gap;
use crate::regression::solve::Gram;

/// The coefficients of the scaled columns, and what is known about them.
#[derive(Debug, Clone)]
pub struct Model {
    /// How strongly coefficients are drawn to 0.
    pub lambda: f64,
    /// A coefficient a column; after them that of the intercept, where it is one.
    pub coefficients: Vec<f64>,
    /// What each column has in common with the residual, as of the last gradient of it.
    pub gradient: Vec<f64>,
    /// Objective and gap as of the last gradient of all columns that count, and of the last of some.
    pub whole: Gap,
    /// See there.
    pub some: Gap,
    /// The largest dual objective so far of all columns that count, for this lambda.
    pub best_dual: f64,
    /// Coefficients that were updated so far.
    pub updates: u64,
    /// The values of their columns, where coefficients are updated one at a time.
    pub values_touched: u64,
    /// The columns of gradients so far.
    pub columns_read: u64,
    /// What the objective fell by in the blocks since this was last set to 0.
    pub fell: f64,
    /// Whether the last round was a whole gradient.
    pub measured: bool,
    /// Whether the last move or search was of use.
    pub taken: bool,
    /// What blocks know of their columns.
    pub(crate) known: Known,
    /// Coefficients as they were when the quadratic model was made.
    pub(crate) base: Vec<f64>,
}

impl Model {
    /// Of these coefficients.
    pub fn of(coefficients: Vec<f64>) -> Model {
        Model {
            lambda: 0.0,
            gradient: vec![0.0; coefficients.len()],
            coefficients,
            whole: Gap::default(),
            some: Gap::default(),
            best_dual: f64::NEG_INFINITY,
            updates: 0,
            values_touched: 0,
            columns_read: 0,
            fell: 0.0,
            measured: false,
            taken: false,
            known: Known::default(),
            base: Vec::new(),
        }
    }

    /// Another lambda. What is known of the gap is so no more.
    pub fn set_lambda(&mut self, lambda: f64) {
        self.lambda = lambda;
        (self.whole, self.some, self.best_dual) = (Gap::default(), Gap::default(), f64::NEG_INFINITY);
    }

    /// The gap of the last whole gradient, with the best dual objective so far.
    pub fn gap(&self) -> Gap {
        Gap { dual: self.best_dual, ..self.whole }
    }

    /// How many columns of a block have their inner products known.
    pub fn known(&self, block: usize) -> usize {
        self.known.blocks.get(block).map_or(0, Gram::known)
    }

    /// Forgets all inner products.
    pub fn forget(&mut self) {
        self.known.blocks.clear();
    }
}

/// Inner products. They follow from the data, so that a clone, which is kept in case that something fails, needs none.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) blocks: Vec<Gram>,
}

impl Known {
    /// What is known of a block, to be put back.
    pub(crate) fn take(&mut self, block: usize) -> Gram {
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, Gram::default);
        }
        std::mem::take(&mut self.blocks[block])
    }
}

impl Clone for Known {
    fn clone(&self) -> Known {
        Known::default()
    }
}
