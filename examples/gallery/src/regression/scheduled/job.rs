//! What is sent to and fro in a round.

use serde::{Deserialize, Serialize};
use stradsap::Partials;

/// What a round is to do. `Own` is what only one of the programs does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Job<Own> {
    /// What these columns have in common with the residual, and the sums that objective and gap need. Changes no coefficient.
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
    /// A job of this program alone.
    Own(Own),
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
    /// One number.
    One(f64),
    /// Several.
    Sums(Sums),
}

/// Sums over rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    /// Of squares or losses.
    pub sum: f64,
    /// The inner product of each column with the residual.
    pub gradient: Vec<f64>,
    /// The inner products of each column that isn't known with all before it and itself.
    pub gram: Vec<f64>,
}

impl Partial {
    /// The sum of the parts' numbers, in their order.
    pub fn total(partials: Partials<'_, Partial>) -> f64 {
        partials.fold(0.0, |sum, partial| if let Partial::One(x) = partial { sum + x } else { sum })
    }

    /// The sums over the parts, in their order.
    pub fn sums(partials: Partials<'_, Partial>) -> Sums {
        let sums = partials.filter_map(|partial| if let Partial::Sums(sums) = partial { Some(sums) } else { None });
        let all = sums.reduce(|mut all, next| {
            all.sum += next.sum;
            all.gradient.iter_mut().zip(next.gradient).for_each(|(all, x)| *all += x);
            all.gram.iter_mut().zip(next.gram).for_each(|(all, x)| *all += x);
            all
        });
        all.unwrap_or_default()
    }
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
    /// A step that was proposed is taken, this part of it.
    Taken(f64),
}
