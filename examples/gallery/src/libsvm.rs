//! Examples of two classes in LIBSVM's text format.
//!
//! One example a line: a label, then `index:value` for each feature that isn't zero, indices ascending from 1, or from 0 in a file
//! that has an index 0. `qid:` isn't used. `#` begins a comment; blank lines are skipped; a name that ends in `.gz` is
//! unpacked. The labels are any two numbers, of which the larger is the positive class.

use std::io::BufRead;
use std::path::Path;

use stradsap::random::Stream;
use stradsap_examples::{Error, Result};

use crate::lines::{Lines, excerpt, words};

/// The purpose of the random numbers that order examples.
const ORDER: u64 = 0x11b5;

/// One value of an example.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feature {
    /// Which feature, from 0.
    pub index: u32,
    /// Its value, finite.
    pub value: f32,
}

/// What the files of a data set have in common: its two labels, and from where features are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Classes {
    /// The smaller.
    pub negative: f32,
    /// The larger.
    pub positive: f32,
    /// Whether features are counted from 0.
    pub from_zero: bool,
}

/// A file of examples in memory: 8 bytes a value and 12 bytes an example.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    labels: Vec<f32>,
    /// Where each example's values end.
    ends: Vec<usize>,
    values: Vec<Feature>,
    classes: Classes,
}

impl Examples {
    /// Reads a file. With `classes`, those of the training set, other labels are errors.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be read, [`Error::Line`] with the line and column that isn't as it should be,
    /// [`Error::Data`] when all examples are of one class and `classes` aren't known.
    pub fn read(path: &Path, classes: Option<Classes>) -> Result<Examples> {
        parse(path, Lines::open(path)?, classes)
    }

    /// Reads from memory or a stream; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Examples::read`].
    pub fn parse(path: &Path, input: impl BufRead, classes: Option<Classes>) -> Result<Examples> {
        parse(path, Lines::of(path, input), classes)
    }

    /// How many examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none: never so for a file that was read.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// How many values aren't zero.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// The largest index of a feature, counted from 1; 0 when no example has any.
    pub fn features(&self) -> usize {
        self.values.iter().map(|f| f.index as usize + 1).max().unwrap_or(0)
    }

    /// The labels of the file.
    pub fn classes(&self) -> Classes {
        self.classes
    }

    /// The examples: the label, -1 or 1, and the values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (f32, &[Feature])> + Clone {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Example `i`.
    fn get(&self, i: usize) -> (f32, &[Feature]) {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        (self.labels[i], &self.values[start..self.ends[i]])
    }

    /// Puts the examples into a random order, chosen by the seed: files are often sorted by class, and steps that follow
    /// each other would all pull one way.
    pub fn shuffle(&mut self, seed: u64) {
        let mut order: Vec<usize> = (0..self.len()).collect();
        Stream::new(seed, ORDER).shuffle(&mut order);
        *self = self.select(&order);
    }

    /// The first `count` examples.
    pub fn first(&self, count: usize) -> Examples {
        self.select(&(0..count.min(self.len())).collect::<Vec<_>>())
    }

    fn select(&self, order: &[usize]) -> Examples {
        let mut chosen = Examples { values: Vec::new(), ..Examples::none(self.classes) };
        for &i in order {
            let (label, values) = self.get(i);
            chosen.labels.push(label);
            chosen.values.extend_from_slice(values);
            chosen.ends.push(chosen.values.len());
        }
        chosen
    }

    /// Appends the example of a line, if it has one.
    fn push(&mut self, line: &[u8], labels: &mut Labels) -> std::result::Result<(), Misplaced> {
        let line = line.split(|&b| b == b'#').next().unwrap_or_default();
        let mut words = words(line);
        let Some((column, word)) = words.next() else { return Ok(()) };
        let label = finite(word).ok_or_else(|| format!("the label is {}; expected a finite number", excerpt(word)));
        let label = label.and_then(|label| labels.check(label)).map_err(|problem| (column, problem))?;
        let values = &mut self.values;
        let from_zero = pairs(words, |index, value| values.push(Feature { index, value }))?;
        if from_zero && labels.fixed && !self.classes.from_zero {
            return Err((column, "there is a feature 0; those of the training set are counted from 1".to_owned()));
        }
        self.classes.from_zero |= from_zero;
        self.labels.push(label);
        self.ends.push(self.values.len());
        Ok(())
    }

    fn none(classes: Classes) -> Examples {
        Examples { labels: Vec::new(), ends: Vec::new(), values: Vec::new(), classes }
    }
}

/// The labels that were seen so far, at most two.
#[derive(Default)]
struct Labels {
    seen: Vec<f32>,
    /// Whether they were given, and no other may come.
    fixed: bool,
}

impl Labels {
    fn check(&mut self, label: f32) -> std::result::Result<f32, String> {
        if self.seen.contains(&label) {
            return Ok(label);
        }
        match self.seen[..] {
            [a, b] if self.fixed => Err(format!("the label is {label}; the training set's are {a} and {b}")),
            [a, b] => Err(format!("the label is {label}, a third beside {a} and {b}; expected two classes")),
            _ => {
                self.seen.push(label);
                Ok(label)
            }
        }
    }
}

fn parse(path: &Path, mut lines: Lines<'_>, classes: Option<Classes>) -> Result<Examples> {
    let mut labels = Labels::default();
    if let Some(classes) = classes {
        labels = Labels { seen: vec![classes.negative, classes.positive], fixed: true };
    }
    let mut all = Examples::none(classes.unwrap_or(Classes { negative: -1.0, positive: 1.0, from_zero: false }));
    let mut widest = (0, 0);
    while let Some(line) = lines.advance()? {
        let before = all.values.len();
        all.push(line, &mut labels).map_err(|(column, problem)| lines.error(Some(column), problem))?;
        let features = all.values[before..].last().map_or(0, |last| last.index.wrapping_add(1) as usize);
        if features > widest.0 {
            widest = (features, lines.number());
        }
    }
    check_width(path, widest, all.values())?;
    if all.classes.from_zero {
        all.values.iter_mut().for_each(|feature| feature.index = feature.index.wrapping_add(1));
    }
    if all.is_empty() {
        return Err(lines.error(None, "no examples; expected lines of a label and index:value pairs".to_owned()));
    }
    all.classes = match labels.seen[..] {
        [a, b] => Classes { negative: a.min(b), positive: a.max(b), ..all.classes },
        _ => {
            let problem = format!("all examples have the label {}; expected two classes", labels.seen[0]);
            return Err(Error::Data { path: path.to_path_buf(), problem });
        }
    };
    for label in &mut all.labels {
        *label = if *label == all.classes.positive { 1.0 } else { -1.0 };
    }
    Ok(all)
}

/// Room is made for each feature up to the largest: a file may name more than fit into memory, or many for each value.
const MOST_UNSEEN: usize = 1 << 24;
const UNSEEN_A_VALUE: usize = 16;

/// Refuses an index, which stands in this line, that so few values don't bear out.
pub(crate) fn check_width(path: &Path, (features, line): (usize, u64), values: usize) -> Result<()> {
    let most = MOST_UNSEEN.max(values.saturating_mul(UNSEEN_A_VALUE));
    if features <= most {
        return Ok(());
    }
    let problem =
        format!("the index {features} is too large for a file of {values} values; at most {most} was expected");
    Err(Error::Line { path: path.to_path_buf(), line, column: None, problem })
}

/// A column, from 1, and what is wrong there.
pub(crate) type Misplaced = (usize, String);

/// A number that a file may hold.
pub(crate) trait Number: Sized {
    /// The number that the text says, if it is finite.
    fn finite(text: &str) -> Option<Self>;
}

impl Number for f32 {
    fn finite(text: &str) -> Option<f32> {
        text.parse().ok().filter(|x: &f32| x.is_finite())
    }
}

impl Number for f64 {
    fn finite(text: &str) -> Option<f64> {
        text.parse().ok().filter(|x: &f64| x.is_finite())
    }
}

/// The largest index that a feature may have.
const LARGEST: u32 = u32::MAX - 1;

/// Gives the index and the value of each word `index:value` of a line, after checking them: the index less 1, so that it is
/// `u32::MAX` for feature 0 until it is known that the file counts from 0. Says whether there is a feature 0.
pub(crate) fn pairs<'a, N: Number>(
    words: impl Iterator<Item = (usize, &'a [u8])>,
    mut take: impl FnMut(u32, N),
) -> std::result::Result<bool, Misplaced> {
    let (mut last, mut from_zero) = (None, false);
    for (column, word) in words.filter(|(_, word)| !word.starts_with(b"qid:")) {
        let Some(colon) = word.iter().position(|&b| b == b':') else {
            return Err((column, format!("{} has no colon; expected index:value", excerpt(word))));
        };
        let (index, value) = (&word[..colon], &word[colon + 1..]);
        let number = text(index).and_then(|text| text.parse::<u32>().ok()).filter(|index| *index <= LARGEST);
        let Some(number) = number else {
            let problem = format!("the index is {}; expected a number from 0 to {LARGEST}", excerpt(index));
            return Err((column, problem));
        };
        if let Some(last) = last.filter(|last| number <= *last) {
            return Err((column, format!("index {number} after {last}; expected ascending indices")));
        }
        let Some(value) = finite(value) else {
            let problem = format!("the value is {}; expected a finite number", excerpt(value));
            return Err((column + colon + 1, problem));
        };
        take(number.wrapping_sub(1), value);
        (last, from_zero) = (Some(number), from_zero || number == 0);
    }
    Ok(from_zero)
}

/// The number of a word, if it is one and finite.
pub(crate) fn finite<N: Number>(word: &[u8]) -> Option<N> {
    N::finite(text(word)?)
}

fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}
