//! Text files read line by line as bytes; a name that ends in `.gz` is unpacked.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use stradsap_examples::{Error, Result, files};

/// The lines of a file, each with its number.
pub struct Lines<'a> {
    path: &'a Path,
    input: Box<dyn BufRead + 'a>,
    text: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be read.
    pub fn open(path: &'a Path) -> Result<Lines<'a>> {
        Ok(Lines { path, input: files::open(path)?, text: Vec::new(), number: 0 })
    }

    /// The lines of what is in memory or comes in; `path` is what errors name.
    pub fn of(path: &'a Path, input: impl BufRead + 'a) -> Lines<'a> {
        Lines { path, input: Box::new(input), text: Vec::new(), number: 0 }
    }

    /// The next line without its end, and without a byte order mark.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn advance(&mut self) -> Result<Option<&[u8]>> {
        self.text.clear();
        let read = self.input.read_until(b'\n', &mut self.text).map_err(|e| Error::file("read", self.path, e))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let end = self.text.trim_ascii_end().len();
        let mark = b"\xef\xbb\xbf";
        let start = if self.number == 1 && self.text.starts_with(mark) { mark.len().min(end) } else { 0 };
        Ok(Some(&self.text[start..end]))
    }

    /// The number of the line that [`advance`](Lines::advance) gave last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What errors name.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// An error in the line that was read last, or in the first of a file without lines; `column` counts bytes from 1.
    pub fn error(&self, column: Option<usize>, problem: String) -> Error {
        Error::Line { path: PathBuf::from(self.path), line: self.number.max(1), column, problem }
    }
}

/// Enough of a piece of text to recognise it by, in quotes.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const LENGTH: usize = 40;
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The words of a line between blanks and tabs, each with its column from 1.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += line[at..].iter().position(|b| !b.is_ascii_whitespace())?;
        let start = at;
        at += line[at..].iter().position(u8::is_ascii_whitespace).unwrap_or(line.len() - at);
        Some((start + 1, &line[start..at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_without_their_ends() {
        let mut lines = Lines::of(Path::new("t"), &b"\xef\xbb\xbfa b\r\n\n  c \nd"[..]);
        let mut all = Vec::new();
        while let Some(line) = lines.advance().unwrap() {
            all.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(all, ["a b", "", "  c", "d"]);
        assert_eq!(lines.number(), 4);
        assert_eq!(lines.error(Some(2), "bad".into()).to_string(), "t:4:2: bad");
    }

    #[test]
    fn words_have_columns() {
        let found: Vec<_> = words(b"  ab\tc  d").collect();
        assert_eq!(found, [(3, &b"ab"[..]), (6, b"c"), (9, b"d")]);
        assert_eq!(words(b" \t").count(), 0);
    }
}
