//! Vectors from a file. Nothing that a file claims about its size is believed before there are bytes to bear it out.

use std::io::{BufRead, Read};
use std::path::Path;

use stradsap_examples::{Error, Result, files};

use super::{Format, Vectors};

/// The most values of a vector, which bounds the memory for one line.
const MOST_VALUES: usize = 1_000_000;
/// The longest word, in bytes.
const MOST_BYTES: usize = 10_000;

impl Vectors {
    /// Reads a file; one whose name ends in `.gz` is unpacked.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be read; [`Error::Line`] (text) or [`Error::Offset`] (binary) with what isn't as it
    /// should be, also where the file is cut short.
    pub fn read(path: &Path, format: Format) -> Result<Vectors> {
        let mut input = Input { path, input: files::open(path)?, line: 0, offset: 0 };
        let (count, size) = input.header()?;
        let mut vectors = Vectors { words: Vec::new(), size, values: Vec::new() };
        while vectors.words.len() < count {
            match format {
                Format::Text => input.text_row(&mut vectors, count)?,
                Format::Binary => input.binary_row(&mut vectors, count)?,
            }
        }
        input.nothing_left(format, count)?;
        Ok(vectors)
    }
}

/// A file and how far it is read.
struct Input<'a> {
    path: &'a Path,
    input: Box<dyn BufRead>,
    line: u64,
    offset: u64,
}

impl Input<'_> {
    fn bad_line(&self, problem: String) -> Error {
        Error::Line { path: self.path.to_path_buf(), line: self.line.max(1), column: None, problem }
    }

    fn bad_offset(&self, problem: String) -> Error {
        Error::Offset { path: self.path.to_path_buf(), offset: self.offset, problem }
    }

    /// Bytes up to `end`, and it; fewer where the file ends, or after `most`.
    fn until(&mut self, end: u8, most: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(most as u64).read_until(end, &mut bytes);
        self.offset += read.map_err(|e| Error::file("read", self.path, e))? as u64;
        Ok(bytes)
    }

    fn header(&mut self) -> Result<(usize, usize)> {
        let bytes = self.until(b'\n', 100)?;
        let text = String::from_utf8_lossy(&bytes);
        let numbers: Vec<_> = text.split_ascii_whitespace().map(str::parse::<usize>).collect();
        match numbers[..] {
            [Ok(count), Ok(size)] if bytes.ends_with(b"\n") && (1..=MOST_VALUES).contains(&size) => {
                self.line = 1;
                Ok((count, size))
            }
            [Ok(_), Ok(_)] if bytes.ends_with(b"\n") => {
                let problem = format!("{:?}; expected 1 to {MOST_VALUES} values a word", text.trim_end());
                Err(self.bad_line(problem))
            }
            _ => {
                let start: String = text.trim_end().chars().take(40).collect();
                let problem = format!("{start:?}; expected two numbers, of words and of the values of each");
                Err(self.bad_line(problem))
            }
        }
    }

    fn text_row(&mut self, vectors: &mut Vectors, count: usize) -> Result<()> {
        let size = vectors.size;
        let line = self.until(b'\n', MOST_BYTES + 100 * size)?;
        if line.is_empty() {
            let problem = format!("the file ends after {} words of {count}", vectors.words.len());
            return Err(self.bad_line(problem));
        }
        self.line += 1;
        let Ok(text) = std::str::from_utf8(&line) else {
            return Err(self.bad_line("this isn't UTF-8 text; is the file binary (--format binary)?".to_owned()));
        };
        let mut fields = text.split([' ', '\t', '\n', '\r']).filter(|field| !field.is_empty());
        let Some(word) = fields.next() else {
            return Err(self.bad_line(format!("an empty line; expected a word and {size} values")));
        };
        let mut found = 0;
        for field in fields {
            found += 1;
            match field.parse::<f32>() {
                Ok(x) if x.is_finite() => vectors.values.push(x),
                _ => {
                    let problem = format!("value {found} of {word:?} is {field:?}; expected a finite number");
                    return Err(self.bad_line(problem));
                }
            }
        }
        if found != size {
            let ended = if text.ends_with('\n') { "" } else { ", where the file ends" };
            return Err(self.bad_line(format!("{found} values of {word:?}{ended}; expected {size}")));
        }
        vectors.words.push(word.into());
        Ok(())
    }

    fn binary_row(&mut self, vectors: &mut Vectors, count: usize) -> Result<()> {
        let at = vectors.words.len() + 1;
        let mut name = self.until(b' ', MOST_BYTES)?;
        if name.pop_if(|last| *last == b' ').is_none() {
            let problem = match name.len() {
                MOST_BYTES => format!("word {at} of {count} has no end; expected a space after it"),
                _ => format!("the file ends before word {at} of {count}"),
            };
            return Err(self.bad_offset(problem));
        }
        // The line feed after the last word's values, which some programs leave out.
        let name = name.strip_prefix(b"\n").unwrap_or(&name);
        let Some(word) = std::str::from_utf8(name).ok().filter(|word| !word.is_empty()) else {
            return Err(self.bad_offset(format!("word {at} of {count} isn't UTF-8 text")));
        };
        let wanted = 4 * vectors.size;
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(wanted as u64).read_to_end(&mut bytes);
        self.offset += read.map_err(|e| Error::file("read", self.path, e))? as u64;
        if bytes.len() < wanted {
            let problem = format!("the file ends in the values of {word:?}, word {at} of {count}");
            return Err(self.bad_offset(problem));
        }
        let (values, _) = bytes.as_chunks::<4>();
        let values = values.iter().map(|bytes| f32::from_le_bytes(*bytes));
        if let Some((i, x)) = values.clone().enumerate().find(|(_, x)| !x.is_finite()) {
            let problem = format!("value {} of {word:?}, word {at}, is {x}; expected a finite number", i + 1);
            return Err(self.bad_offset(problem));
        }
        vectors.values.extend(values);
        vectors.words.push(word.into());
        Ok(())
    }

    /// What stands behind the last word may be a line feed, and no more.
    fn nothing_left(&mut self, format: Format, count: usize) -> Result<()> {
        let mut rest = Vec::new();
        let read = (&mut self.input).take(100).read_to_end(&mut rest);
        self.offset += read.map_err(|e| Error::file("read", self.path, e))? as u64;
        self.line += 1;
        if rest.trim_ascii().is_empty() {
            return Ok(());
        }
        let problem = format!("more than the {count} words of the first line");
        Err(if format == Format::Text { self.bad_line(problem) } else { self.bad_offset(problem) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::store;
    use super::*;

    fn read(bytes: &[u8], format: Format) -> std::result::Result<Vectors, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        std::fs::write(&path, bytes).unwrap();
        let shown = format!("{}:", path.display());
        Vectors::read(&path, format).map_err(|e| e.to_string().replace(&shown, ""))
    }

    fn stored(format: Format) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        let words = ["</s>", "the", "été", "x"];
        let rows = (0..4).map(|i| std::array::from_fn::<f32, 3, _>(|k| (i * 3 + k) as f32 / 7.0 - 0.5));
        store(&path, format, words.into_iter(), 3, rows).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn what_was_stored_is_read_back() {
        let (text, binary) = (read(&stored(Format::Text), Format::Text), read(&stored(Format::Binary), Format::Binary));
        assert_eq!(text, binary);
        let vectors = text.unwrap();
        assert_eq!((vectors.words().len(), vectors.size(), &*vectors.words()[2]), (4, 3, "été"));
        assert_eq!(vectors.row(1), [3.0 / 7.0 - 0.5, 4.0 / 7.0 - 0.5, 5.0 / 7.0 - 0.5]);
    }

    #[test]
    fn a_file_cut_short_anywhere_is_refused() {
        for format in [Format::Text, Format::Binary] {
            let whole = stored(format);
            // Without its last bytes (line feed, and the space before in text) a file still says all. Cut within the
            // last number of a text it can't be told from a whole one.
            let last_number = whole.trim_ascii_end().iter().rev().position(|&b| b == b' ').unwrap();
            let end = if format == Format::Text { whole.trim_ascii_end().len() - last_number } else { whole.len() - 1 };
            for cut in 0..end {
                let error = read(&whole[..cut], format).unwrap_err();
                assert!(["ends", "expected", "UTF-8"].iter().any(|said| error.contains(said)), "{cut}: {error}");
            }
        }
    }

    #[test]
    fn ill_formed_text_is_told_by_line() {
        let message = |text: &str| read(text.as_bytes(), Format::Text).unwrap_err();
        assert_eq!(message(""), "1: \"\"; expected two numbers, of words and of the values of each");
        assert_eq!(message("the 0.5\n"), "1: \"the 0.5\"; expected two numbers, of words and of the values of each");
        assert_eq!(message("3 0\n"), "1: \"3 0\"; expected 1 to 1000000 values a word");
        assert_eq!(message("2 2\na 1 2\n"), "2: the file ends after 1 words of 2");
        assert_eq!(message("2 2\na 1 2\nb 1\n"), "3: 1 values of \"b\"; expected 2");
        assert_eq!(message("2 2\na 1 2\nb 1"), "3: 1 values of \"b\", where the file ends; expected 2");
        assert_eq!(message("1 2\na 1 2 3\n"), "2: 3 values of \"a\"; expected 2");
        assert_eq!(message("1 2\na 1 two\n"), "2: value 2 of \"a\" is \"two\"; expected a finite number");
        assert_eq!(message("1 1\na nan\n"), "2: value 1 of \"a\" is \"nan\"; expected a finite number");
        assert_eq!(message("1 1\na 1\nb 2\n"), "3: more than the 1 words of the first line");
        assert_eq!(message("1 1\n\n"), "2: an empty line; expected a word and 1 values");
        let binary = read(&stored(Format::Binary), Format::Text).unwrap_err();
        assert!(binary.contains("expected") || binary.contains("--format binary"), "{binary}");
    }

    #[test]
    fn ill_formed_binary_is_told_by_byte() {
        let message = |bytes: &[u8]| read(bytes, Format::Binary).unwrap_err();
        assert_eq!(message(b"2 1\na \0\0\0\0\n"), " byte 11: the file ends before word 2 of 2");
        assert_eq!(message(b"1 2\na \0\0\0\0\0"), " byte 11: the file ends in the values of \"a\", word 1 of 1");
        let infinite = [&b"1 1\na "[..], &f32::INFINITY.to_le_bytes()].concat();
        assert_eq!(message(&infinite), " byte 10: value 1 of \"a\", word 1, is inf; expected a finite number");
        assert_eq!(message(b"1 1\n\xff\xff \0\0\0\0"), " byte 7: word 1 of 1 isn't UTF-8 text");
        assert_eq!(message(b"1 1\na \0\0\0\0\nb"), " byte 12: more than the 1 words of the first line");
        let endless = [&b"1 1\n"[..], &[b'a'; 20_000]].concat();
        assert_eq!(message(&endless), " byte 10004: word 1 of 1 has no end; expected a space after it");
    }

    #[test]
    fn claims_are_not_believed() {
        let huge = format!("{} 1000000\na 1\n", usize::MAX);
        assert!(read(huge.as_bytes(), Format::Text).unwrap_err().starts_with("2: 1 values of \"a\""));
        assert!(read(huge.as_bytes(), Format::Binary).unwrap_err().contains("the file ends in the values of \"a\""));
    }
}
