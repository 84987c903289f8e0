//! Latent Dirichlet allocation by collapsed Gibbs sampling, as far as the parallel program and its twin share it.

mod buckets;
mod lanes;
mod likelihood;
mod model;
mod rows;
mod tokens;

pub use buckets::{Buckets, Prior, Totals};
pub use likelihood::{Likelihood, LogGamma};
pub use model::{Fit, LdaArgs, digest, parts, store, top_words};
pub use rows::{DocumentRow, WordRow};
pub use tokens::{Draws, Token, Tokens, disagreement};
