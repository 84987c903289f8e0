//! Ratings from a text file: user, item, rating, and perhaps more that isn't used.
//!
//! One rating a line, the fields separated by commas (with quotes where needed), tabs or `::`, as the first line shows;
//! a first line without any number is a header; a name that ends in `.gz` is unpacked. Ids are any text: users and
//! items are numbered from 0 in the order in which they first appear. Blank lines are skipped.

use std::fmt;
use std::io::BufRead;
use std::path::Path;

use indexmap::IndexSet;
use stradsap::Element;
use stradsap::random::Stream;

use crate::{Error, Result, files};

/// The purpose of the random numbers that choose the test ratings.
const SPLIT: u64 = 0x7e57;
/// The purposes of the random numbers that order users, items and training ratings.
const ORDERS: [u64; 3] = [0x0bde, 0x0bdf, 0x0be0];

/// One rating: who, what, how much. Users and items are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Element)]
pub struct Rating {
    /// The user's number.
    pub user: u32,
    /// The item's number.
    pub item: u32,
    /// The rating, finite, in the data's own scale.
    pub stars: f32,
}

/// A file of ratings in memory: 12 bytes a rating, and each id once.
#[derive(Debug, Default)]
pub struct Ratings {
    /// The ratings in the order of the file.
    pub rows: Vec<Rating>,
    /// The users' ids in the order of their numbers.
    pub users: IndexSet<Box<str>>,
    /// The items' ids in the order of their numbers.
    pub items: IndexSet<Box<str>>,
}

/// The two parts of a [`Ratings`], each in the order of the file until it is shuffled.
#[derive(Debug)]
pub struct Split {
    /// What the model learns from.
    pub train: Vec<Rating>,
    /// What it is judged by.
    pub test: Vec<Rating>,
}

/// What is wrong with a line, and what was expected.
#[derive(Debug, PartialEq)]
pub enum RowProblem {
    /// Nothing in the file but, perhaps, a header.
    Empty,
    /// Fewer than three fields.
    TooFewFields {
        /// How many there are.
        found: usize,
    },
    /// The id in field 1 or 2 has no characters.
    NoId {
        /// The field, from 1.
        field: usize,
    },
    /// A field isn't UTF-8.
    NotText {
        /// The field, from 1.
        field: usize,
    },
    /// The rating isn't a number, or is infinite or NaN.
    NotANumber {
        /// What stands there.
        found: String,
    },
    /// More users or items than a `u32` counts.
    TooManyIds {
        /// The field, from 1.
        field: usize,
    },
}

const FIELDS: [&str; 3] = ["user", "item", "rating"];

impl fmt::Display for RowProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |field: &usize| FIELDS[field - 1];
        match self {
            RowProblem::Empty => write!(f, "no ratings; expected lines of user, item, rating"),
            RowProblem::TooFewFields { found } => write!(
                f,
                "{found} field{}; expected at least 3 (user, item, rating) between commas, tabs or ::",
                if *found == 1 { "" } else { "s" }
            ),
            RowProblem::NoId { field } => write!(f, "field {field} ({0}) is empty; expected the {0}'s id", name(field)),
            RowProblem::NotText { field } => {
                write!(f, "field {field} ({}) isn't UTF-8 text", name(field))
            }
            RowProblem::NotANumber { found } => {
                write!(f, "field 3 (rating) is {found:?}; expected a finite number")
            }
            RowProblem::TooManyIds { field } => {
                write!(f, "more than {} {}s", u32::MAX, name(field))
            }
        }
    }
}

impl Ratings {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be read, [`Error::Row`] with the line that isn't a rating.
    pub fn read(path: &Path) -> Result<Ratings> {
        Ratings::parse(path, files::open(path)?)
    }

    /// Reads from memory or a stream; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Ratings::read`].
    pub fn parse(path: &Path, input: impl BufRead) -> Result<Ratings> {
        let mut ratings = Ratings::default();
        read_rows(path, input, |[user, item, _], stars| {
            let user = number_of(&mut ratings.users, user, 1)?;
            let item = number_of(&mut ratings.items, item, 2)?;
            ratings.rows.push(Rating { user, item, stars });
            Ok(())
        })?;
        Ok(ratings)
    }

    /// Numbers users and items anew, in a random order. Numbers that follow each other then have nothing in common; in
    /// the order of a file they often do (early items are popular ones), and training that takes a range of items
    /// after the other, as blocks do, would end each epoch on items of one kind.
    pub fn renumber(&mut self, seed: u64) {
        let users = shuffle_ids(&mut self.users, Stream::new(seed, ORDERS[0]));
        let items = shuffle_ids(&mut self.items, Stream::new(seed, ORDERS[1]));
        for row in &mut self.rows {
            row.user = users[row.user as usize];
            row.item = items[row.item as usize];
        }
    }

    /// Keeps about `fraction` of the ratings apart, chosen by seed and position in the file.
    /// A user or an item may have all its ratings on one side.
    ///
    /// # Errors
    /// [`Error::Data`] when nothing is left to train on; `path` is what it names.
    pub fn split(&self, path: &Path, seed: u64, fraction: f64) -> Result<Split> {
        let (train, test) = Stream::new(seed, SPLIT).split(self.rows.iter().copied(), fraction);
        if train.is_empty() {
            let problem = format!("no training ratings: all {} are for the test", test.len());
            return Err(Error::Data { path: path.to_path_buf(), problem });
        }
        Ok(Split { train, test })
    }
}

impl Split {
    /// Puts the training ratings into a random order: where the file is sorted, as by user, steps that follow each other
    /// pull the same row, and the model gets worse.
    pub fn shuffle(&mut self, seed: u64) {
        Stream::new(seed, ORDERS[2]).shuffle(&mut self.train);
    }
}

/// Reads a file's rows: passes the fields and the rating of each to `each`.
pub(crate) fn read_rows(
    path: &Path,
    mut input: impl BufRead,
    mut each: impl FnMut(Row<'_>, f32) -> std::result::Result<(), RowProblem>,
) -> Result<()> {
    let mut fields = None;
    let mut text = Vec::new();
    let (mut line, mut any) = (0, false);
    let bad = |line: u64, problem| Error::Row { path: path.to_path_buf(), line: line.max(1), problem };
    loop {
        text.clear();
        if input.read_until(b'\n', &mut text).map_err(|e| Error::file("read", path, e))? == 0 {
            break;
        }
        line += 1;
        let text = match line {
            1 => text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text),
            _ => &text,
        };
        let text = text.trim_ascii_end();
        if text.is_empty() {
            continue;
        }
        let first = fields.is_none();
        let fields = fields.get_or_insert_with(|| Fields::new(Separator::detect(text)));
        let row = fields.split(text);
        if first && row.as_ref().is_ok_and(is_header) {
            continue;
        }
        row.and_then(|row| each(row, stars_at(row)?)).map_err(|problem| bad(line, problem))?;
        any = true;
    }
    if any { Ok(()) } else { Err(bad(line, RowProblem::Empty)) }
}

/// The fields that count: user, item, rating.
pub(crate) type Row<'a> = [&'a [u8]; 3];

fn stars_at([_, _, stars]: Row<'_>) -> std::result::Result<f32, RowProblem> {
    let value = stars_of(stars).filter(|x| x.is_finite());
    value.ok_or_else(|| RowProblem::NotANumber { found: excerpt(stars) })
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Separator {
    Comma,
    Tab,
    Colons,
}

impl Separator {
    /// The first of tab, `::` and comma that makes three fields of the line.
    fn detect(line: &[u8]) -> Separator {
        if line.iter().filter(|&&b| b == b'\t').count() >= 2 {
            Separator::Tab
        } else if split_colons(line).nth(2).is_some() {
            Separator::Colons
        } else {
            Separator::Comma
        }
    }
}

/// Cuts lines into fields; commas follow the rules of CSV for quotes.
struct Fields {
    separator: Separator,
    csv: csv_core::Reader,
    unquoted: Vec<u8>,
}

impl Fields {
    fn new(separator: Separator) -> Fields {
        Fields { separator, csv: csv_core::Reader::new(), unquoted: Vec::new() }
    }

    fn split<'a>(&'a mut self, line: &'a [u8]) -> std::result::Result<Row<'a>, RowProblem> {
        match self.separator {
            Separator::Tab => first_three(line.split(|&b| b == b'\t')),
            Separator::Colons => first_three(split_colons(line)),
            Separator::Comma if !line.contains(&b'"') => first_three(line.split(|&b| b == b',')),
            Separator::Comma => self.split_quoted(line),
        }
    }

    fn split_quoted(&mut self, line: &[u8]) -> std::result::Result<Row<'_>, RowProblem> {
        self.unquoted.resize(line.len().max(self.unquoted.len()), 0);
        self.csv.reset();
        let mut ends = [0; 3];
        let (mut read, mut written, mut found) = (0, 0, 0);
        while found < ends.len() {
            let (result, used, filled) = self.csv.read_field(&line[read..], &mut self.unquoted[written..]);
            read += used;
            written += filled;
            match result {
                // An empty input after the line's end closes its last field.
                csv_core::ReadFieldResult::InputEmpty if read == line.len() => {}
                csv_core::ReadFieldResult::Field { .. } => {
                    ends[found] = written;
                    found += 1;
                }
                _ => break,
            }
        }
        if found < ends.len() {
            return Err(RowProblem::TooFewFields { found });
        }
        let field = |from: usize, to: usize| self.unquoted[from..to].trim_ascii();
        Ok([field(0, ends[0]), field(ends[0], ends[1]), field(ends[1], ends[2])])
    }
}

fn first_three<'a>(mut fields: impl Iterator<Item = &'a [u8]>) -> std::result::Result<Row<'a>, RowProblem> {
    let mut row = [&b""[..]; 3];
    for (found, field) in row.iter_mut().enumerate() {
        *field = fields.next().ok_or(RowProblem::TooFewFields { found })?.trim_ascii();
    }
    Ok(row)
}

fn split_colons(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        match line.windows(2).position(|pair| pair == b"::") {
            Some(at) => {
                rest = Some(&line[at + 2..]);
                Some(&line[..at])
            }
            None => rest.take(),
        }
    })
}

/// A header has no number where a row has at least one.
fn is_header(row: &Row<'_>) -> bool {
    row.iter().all(|field| stars_of(field).is_none())
}

fn stars_of(field: &[u8]) -> Option<f32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The text of an id, in field 1 or 2.
pub(crate) fn id_of(id: &[u8], field: usize) -> std::result::Result<&str, RowProblem> {
    if id.is_empty() {
        return Err(RowProblem::NoId { field });
    }
    std::str::from_utf8(id).map_err(|_| RowProblem::NotText { field })
}

fn number_of(ids: &mut IndexSet<Box<str>>, id: &[u8], field: usize) -> std::result::Result<u32, RowProblem> {
    let id = id_of(id, field)?;
    let number = match ids.get_index_of(id) {
        Some(number) => number,
        None => ids.insert_full(id.into()).0,
    };
    u32::try_from(number).map_err(|_| RowProblem::TooManyIds { field })
}

/// Orders ids randomly; gives each old number's new one.
fn shuffle_ids(ids: &mut IndexSet<Box<str>>, stream: Stream) -> Vec<u32> {
    let mut numbered: Vec<(u32, Box<str>)> = (0..).zip(std::mem::take(ids)).collect();
    stream.shuffle(&mut numbered);
    let mut new = vec![0; numbered.len()];
    for (number, (old, _)) in (0..).zip(&numbered) {
        new[*old as usize] = number;
    }
    ids.extend(numbered.into_iter().map(|(_, id)| id));
    new
}

/// Enough of a field to recognise it by.
fn excerpt(field: &[u8]) -> String {
    const LENGTH: usize = 40;
    let text = String::from_utf8_lossy(field);
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}
