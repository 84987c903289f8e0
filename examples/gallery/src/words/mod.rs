//! Word vectors, as far as the parallel program and its sequential twin share them: the corpus and its vocabulary, the
//! tree and the tables that training looks things up in, the options, and the random choices.
//!
//! The methods are those of Mikolov, Chen, Corrado and Dean, "Efficient estimation of word representations in vector
//! space" (2013), and Mikolov, Sutskever, Chen, Corrado and Dean, "Distributed representations of words and phrases and
//! their compositionality" (2013); constants and corner cases are those of the authors' program.

mod chunks;
mod corpus;
mod huffman;
mod measures;
mod negatives;
mod options;
mod reader;
mod sampling;
mod sigmoid;
mod tables;
mod vocabulary;

pub use corpus::{Corpus, MAX_SENTENCE, Sentence};
pub use huffman::{MAX_CODE, Path, Tree};
pub use measures::{CorpusSize, Likelihood, LogLoss};
pub use negatives::{Negatives, Slot};
pub use options::{Settings, WordArgs};
pub use reader::{Skipped, Token, read_words};
pub use sampling::{Choices, keep_probabilities, start_row};
pub use sigmoid::{LIMIT, Sigmoid};
pub use tables::Tables;
pub use vocabulary::{Counts, SENTENCE_END, Vocabulary};
