//! The names of a corpus's words.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use stradsap_examples::{Error, Result};

use crate::lines::{Lines, excerpt};

/// Words by number. Where their names aren't known, they are called by number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vocabulary {
    names: Vec<Box<str>>,
}

impl Vocabulary {
    /// Without names.
    pub fn unknown() -> Vocabulary {
        Vocabulary::default()
    }

    /// The vocabulary that lies beside a bag of words `docword.X.txt`, packed or not: `vocab.X.txt`, packed or not.
    pub fn beside(data: &Path) -> Option<PathBuf> {
        let name = data.file_name()?.to_str()?.strip_prefix("docword.")?;
        let plain = name.strip_suffix(".gz").unwrap_or(name);
        let file = |name: String| Some(data.with_file_name(name)).filter(|path| path.is_file());
        file(format!("vocab.{plain}")).or_else(|| file(format!("vocab.{plain}.gz")))
    }

    /// Reads a name a line, as many as the bag of words at `data` has words.
    ///
    /// # Errors
    /// [`Error::File`], and [`Error::Line`] for a line that isn't a name, or isn't there, or is one too many.
    pub fn read(path: &Path, words: usize, data: &Path) -> Result<Vocabulary> {
        let mut lines = Lines::open(path)?;
        let mut names: Vec<Box<str>> = Vec::new();
        // Where a name is missing: what follows may be blank lines at the file's end.
        let mut blank = None;
        while let Some(line) = lines.advance()? {
            let line = line.trim_ascii();
            if line.is_empty() {
                blank = blank.or(Some(lines.number()));
                continue;
            }
            if let Some(line) = blank {
                let problem = "the line is blank; a word was expected".to_owned();
                return Err(Error::Line { path: path.to_path_buf(), line, column: Some(1), problem });
            }
            if names.len() == words {
                let (word, data) = (excerpt(line), stradsap::files::shown(data));
                let problem =
                    format!("{word} is one word too many; {words} were expected, as the header of {data} says");
                return Err(lines.error(Some(1), problem));
            }
            match std::str::from_utf8(line) {
                Ok(name) => names.push(name.into()),
                Err(e) => {
                    let problem = format!("{} isn't UTF-8; a word was expected", excerpt(line));
                    return Err(lines.error(Some(e.valid_up_to() + 1), problem));
                }
            }
        }
        if names.len() < words {
            let (line, there, data) = (names.len() as u64 + 1, names.len(), stradsap::files::shown(data));
            let problem =
                format!("the words end here, after {there}; {words} were expected, as the header of {data} says");
            return Err(Error::Line { path: path.to_path_buf(), line, column: None, problem });
        }
        Ok(Vocabulary { names })
    }

    /// A word's name.
    pub fn name(&self, word: usize) -> Cow<'_, str> {
        match self.names.get(word) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("word-{}", word + 1)),
        }
    }

    /// Whether words have names.
    pub fn is_known(&self) -> bool {
        !self.names.is_empty()
    }
}
