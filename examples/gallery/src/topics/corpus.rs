//! A corpus: how often which document has which word.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stradsap::{BagOfWords, Element, ReadFiles, Session};
use stradsap_examples::cli::CommonArgs;
use stradsap_examples::{Error, Result, data};

use super::{Vocabulary, plain};

/// How often a document has a word. Both are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Element)]
pub struct Entry {
    /// The document.
    pub document: u32,
    /// The word.
    pub word: u32,
    /// How often, at least once.
    pub count: u32,
}

/// A bag of words in memory: 12 bytes an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Corpus {
    /// Documents, those without words among them.
    pub documents: usize,
    /// Words of the vocabulary, whether or not a document has them.
    pub words: usize,
    /// Words in all documents: the sum of all counts.
    pub tokens: u64,
    /// In the order of the file. There is at least one.
    pub entries: Vec<Entry>,
    /// The names of the words.
    pub vocabulary: Vocabulary,
    /// Where it was read.
    pub path: PathBuf,
}

/// The options of programs that read a bag of words.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Corpus")]
pub struct CorpusArgs {
    /// The words' names, one in each line [default: beside --data docword.X.txt the file vocab.X.txt, if there is one]
    #[arg(long, value_name = "PATH")]
    pub vocabulary: Option<PathBuf>,

    /// Words to print for each topic
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top_words: usize,
}

impl CorpusArgs {
    /// `--data`, or the corpus of the repository.
    ///
    /// # Errors
    /// As [`data::default_corpus`].
    pub fn path(&self, common: &CommonArgs) -> Result<PathBuf> {
        common.data.clone().map_or_else(data::default_corpus, Ok)
    }

    /// Reads the corpus that the command line names, without the library.
    ///
    /// # Errors
    /// [`Error::File`] for a file that can't be read, [`Error::Line`] for the first line that isn't as it should be, and
    /// [`Error::Data`] for a corpus without words.
    pub fn read(&self, common: &CommonArgs) -> Result<Corpus> {
        let path = self.path(common)?;
        Corpus::new(&path, plain::read(&path)?, self.vocabulary.as_deref())
    }

    /// Reads the corpus that the command line names, on the session's threads.
    ///
    /// # Errors
    /// As [`read`](CorpusArgs::read), in the library's words.
    pub fn read_with(
        &self,
        session: &Session,
        common: &CommonArgs,
    ) -> std::result::Result<Corpus, Box<dyn std::error::Error>> {
        let path = self.path(common)?;
        let BagOfWords { documents, words, entries } = session.read_bag_of_words(&path)?;
        let entries = entries.iter()?.map(|e| Entry { document: e.document, word: e.word, count: e.count }).collect();
        Ok(Corpus::new(&path, plain::Bag { documents, words, entries }, self.vocabulary.as_deref())?)
    }
}

impl Corpus {
    fn new(path: &Path, bag: plain::Bag, vocabulary: Option<&Path>) -> Result<Corpus> {
        let plain::Bag { documents, words, entries } = bag;
        if entries.is_empty() {
            let problem = "no document has a word; expected a line of document, word and count at least".to_owned();
            return Err(Error::Data { path: path.to_path_buf(), problem });
        }
        let (documents, words) = (documents as usize, words as usize);
        let vocabulary = match vocabulary.map(Path::to_path_buf).or_else(|| Vocabulary::beside(path)) {
            Some(names) => Vocabulary::read(&names, words, path)?,
            None => Vocabulary::unknown(),
        };
        let tokens = entries.iter().map(|e| u64::from(e.count)).sum();
        Ok(Corpus { documents, words, tokens, entries, vocabulary, path: path.to_path_buf() })
    }

    /// How many documents have words.
    pub fn documents_with_words(&self) -> usize {
        let mut seen = vec![false; self.documents];
        self.entries.iter().for_each(|e| seen[e.document as usize] = true);
        seen.iter().filter(|&&seen| seen).count()
    }

    /// A line to tell, where the header names documents that have no words.
    pub fn warning(&self) -> Option<String> {
        let empty = self.documents - self.documents_with_words();
        (empty > 0).then(|| format!("warning: {empty} of the {} documents have no words", self.documents))
    }
}

/// The data's size, for the report.
#[derive(Debug, Clone, Serialize)]
pub struct CorpusSize {
    /// Documents.
    pub documents: usize,
    /// Words of the vocabulary.
    pub words: usize,
    /// Different words of each document, added up.
    pub entries: usize,
    /// Words in all documents.
    pub tokens: u64,
}

impl CorpusSize {
    /// Of a corpus.
    pub fn of(corpus: &Corpus) -> CorpusSize {
        let Corpus { documents, words, tokens, .. } = *corpus;
        CorpusSize { documents, words, entries: corpus.entries.len(), tokens }
    }
}

impl fmt::Display for CorpusSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CorpusSize { documents, words, entries, tokens } = self;
        write!(f, "{documents} documents, {words} words, {entries} entries, {tokens} tokens")
    }
}
