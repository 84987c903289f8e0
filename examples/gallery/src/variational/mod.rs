//! Stochastic variational inference of topics (Hoffman, Blei, Wang and Paisley, 2013) in the way of MA-LDA (model
//! averaging on Spark, section 4.2), as far as the parallel program and its sequential twin share it: documents, options,
//! what one document's topics are inferred to be, and held-out perplexity.
//!
//! The model is `lambda`, a number for each word and topic: topic k is a Dirichlet distribution with the parameters
//! `lambda[..][k]`. Each minibatch takes a step towards the `lambda` that a corpus of nothing but copies of its documents
//! would have. Such a step changes every number: `lambda = keep * lambda + (1 - keep) * (eta + weight * found)`. It is written as
//! `lambda = eta + scale * v`, of which a step multiplies `scale`, a single number, and changes `v` for the minibatch's
//! own words alone.
//!
//! A word's row is cut into [`Strip`]s, the last filled up with zeros: any number of topics is offered.

mod digamma;
mod documents;
mod infer;
mod measures;
mod options;
mod plain;
mod settings;

pub use digamma::exp_digamma;
pub use documents::{Document, Documents, Probe, Term};
pub use infer::Inference;
pub use measures::{Perplexity, TopicSize};
pub use options::VariationalArgs;
pub use plain::Model;
pub use settings::{Settings, start, store};

/// Topics that lie beside each other in a word's row.
pub const STRIP: usize = 16;

/// A part of a word's row.
pub type Strip = [f32; STRIP];
