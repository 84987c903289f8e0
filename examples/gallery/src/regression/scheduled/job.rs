//! What is sent to and fro in a round.

use serde::{Deserialize, Serialize};

/// What a round is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Job {
    /// What these columns have in common with the residual, and the sums that objective and gap need. Changes nothing.
    Gradient {
        /// The columns.
        columns: Vec<u32>,
        /// Whether they are all that may ever count, so that an epoch ends here.
        whole: bool,
    },
    /// Coordinate descent on one coefficient. Several in a round see the same residual.
    One(u32),
    /// Coordinate descent on some coefficients, each of which sees what those before it did: through the columns' inner
    /// products, which are computed once and kept.
    Block(Block),
    /// Moves some coefficients by so much, if the objective falls.
    Move {
        /// The columns.
        columns: Vec<u32>,
        /// By how much.
        steps: Vec<f64>,
    },
    /// Takes the loss's second derivative where it is now for a quadratic model of the loss, which blocks then minimise.
    Model,
    /// Takes a part of the step that blocks have found on the quadratic model, if the objective falls enough.
    Search {
        /// Which part of it.
        part: f64,
    },
    /// The dual objective where the residual is scaled by so much.
    Dual {
        /// By how much.
        scale: f64,
    },
}

/// Some columns that are dealt with together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Its number, if its inner products are to be kept.
    pub number: Option<u32>,
    /// Its columns.
    pub columns: Vec<u32>,
    /// How many of them have their inner products known.
    pub known: u32,
    /// How many columns it may come to have.
    pub room: u32,
    /// Passes over it; without a number, as many as bring its duality gap below `goal`.
    pub passes: Option<u32>,
    /// See there.
    pub goal: f64,
}

/// What a part of the rows makes of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Partial {
    /// Nothing.
    None,
    /// One inner product.
    One(f64),
    /// Some sums.
    Sums([f64; 2]),
    /// Inner products with the residual, and of columns with each other.
    Products {
        /// The sum of the residual's squares, or of the losses.
        sum: f64,
        /// Of each column with the residual.
        gradient: Vec<f64>,
        /// Of each column that isn't known with all before it and itself.
        gram: Vec<f64>,
    },
}

/// What a round changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Nothing.
    None,
    /// One coefficient, by so much.
    One(f64),
    /// The job's coefficients, by so much each.
    Steps(Vec<f64>),
    /// The quadratic model's step is taken, this part of it.
    Taken(f64),
}
