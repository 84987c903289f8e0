//! Topic models, as far as the programs share them: bags of words with their vocabulary, and the words of a topic.

mod corpus;
pub mod lda;
mod plain;
mod top;
mod vocabulary;

pub use corpus::{Corpus, CorpusArgs, CorpusSize, Entry};
pub use top::TopWords;
pub use vocabulary::Vocabulary;
