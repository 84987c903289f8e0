//! Word vectors in files, in the text and the binary format of the original, and what they are worth.
//!
//! Both formats begin with a line of two numbers, the words and the values of each. In the text format a line follows for
//! each word: the word and its values, with spaces between. In the binary format it is the word, a space, the values as
//! little-endian `f32`, and a line feed.

mod analogies;
mod pairs;
mod read;
mod search;
mod write;

use std::path::Path;
use std::str::FromStr;

use indexmap::IndexMap;

pub use analogies::{Analogies, AnalogyScore, SectionScore};
pub use pairs::{PairScore, Pairs};
pub use write::store;

/// How vectors stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line of decimal numbers a word.
    Text,
    /// 4 bytes a value.
    Binary,
}

impl Format {
    /// The format that a file's name stands for: binary for `.bin` (and `.bin.gz`), else text.
    pub fn of(path: &Path) -> Format {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().to_ascii_lowercase());
        let packed = name.strip_suffix(".gz").unwrap_or(&name);
        if packed.ends_with(".bin") { Format::Binary } else { Format::Text }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Format, String> {
        match text {
            "text" => Ok(Format::Text),
            "binary" => Ok(Format::Binary),
            _ => Err("expected text or binary".to_owned()),
        }
    }
}

/// Words and their vectors, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    words: Vec<Box<str>>,
    size: usize,
    values: Vec<f32>,
}

impl Vectors {
    /// The words.
    pub fn words(&self) -> &[Box<str>] {
        &self.words
    }

    /// How many values each has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// A word's vector, by its number.
    pub fn row(&self, word: usize) -> &[f32] {
        &self.values[self.size * word..][..self.size]
    }

    /// The vector over its length. A vector of zeros stays as it is.
    fn unit(&self, word: usize) -> Vec<f32> {
        let row = self.row(word);
        let length = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        row.iter().map(|&x| (f64::from(x) * scale) as f32).collect()
    }

    /// The first words by their upper-case form; of several that differ in case alone, the first.
    fn by_upper_case(&self, first: usize) -> IndexMap<String, usize> {
        let mut numbers = IndexMap::new();
        for (number, word) in self.words.iter().take(first).enumerate() {
            numbers.entry(word.to_uppercase()).or_insert(number);
        }
        numbers
    }
}
