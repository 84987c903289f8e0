//! Ratings from a text file: user, item, rating, and perhaps more that isn't used.
//!
//! One rating a line, the fields separated by commas (with quotes where needed), tabs or `::`, as the first line shows.
//! A first line without any number is a header: its names say which columns are read ([`NAMES`]), and where they say nothing,
//! or there is none, the first three are. A name that ends in `.gz` is unpacked. Ids are any text: users and items are
//! numbered from 0 in the order in which they first appear. Blank lines are skipped.

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
    /// Fewer fields than are read.
    TooFewFields {
        /// How many there are.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// The header names some of the columns that are read, but not this one.
    NoColumn {
        /// Which of them.
        role: usize,
        /// What the header names.
        found: String,
    },
    /// An id has no characters.
    NoId(Field),
    /// A field isn't UTF-8.
    NotText(Field),
    /// The rating isn't a number, or is infinite or NaN.
    NotANumber {
        /// Where it stands.
        field: Field,
        /// What stands there.
        found: String,
    },
    /// More users or items than a `u32` counts.
    TooManyIds(Field),
}

/// A field of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Field {
    /// What it is: 0 the user, 1 the item, 2 the rating.
    role: usize,
    /// In which column it stands, from 0.
    column: usize,
}

impl Field {
    /// As it stands in a file without a header.
    fn of(role: usize) -> Field {
        Field { role, column: role }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {} ({})", self.column + 1, FIELDS[self.role])
    }
}

const FIELDS: [&str; 3] = ["user", "item", "rating"];

/// What headers call the user, the item and the rating, the more usual before the less usual: in any case, with or without
/// `id`, `_`, `-` and blanks (`userId`, `User-ID`).
pub const NAMES: [&[&str]; 3] = [
    &["user", "customer", "reviewer", "member", "viewer", "reader", "listener", "u"],
    &[
        "item", "movie", "film", "book", "product", "business", "anime", "song", "track", "artist", "game", "recipe",
        "isbn", "asin", "title", "i",
    ],
    &["rating", "score", "stars", "star", "feedback", "overall", "preference", "value", "r"],
];

/// The columns that a header names; none if it names none of them.
fn columns_of<'a>(names: impl Iterator<Item = &'a [u8]>) -> std::result::Result<Option<[usize; 3]>, RowProblem> {
    let texts: Vec<String> = names.map(|name| String::from_utf8_lossy(name).trim().to_lowercase()).collect();
    let plain: Vec<String> = texts.iter().map(|text| text.replace(['_', '-', ' ', '.'], "")).collect();
    let is = |column: &String, name: &str| column == name || column.strip_suffix("id") == Some(name);
    let found = NAMES.map(|known| known.iter().find_map(|name| plain.iter().position(|column| is(column, name))));
    match (found, found.iter().position(Option::is_none)) {
        ([Some(user), Some(item), Some(rating)], _) => Ok(Some([user, item, rating])),
        ([None, None, None], _) | (_, None) => Ok(None),
        (_, Some(role)) => Err(RowProblem::NoColumn { role, found: excerpt(texts.join(", ").as_bytes()) }),
    }
}

impl fmt::Display for RowProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowProblem::Empty => write!(f, "no ratings; expected lines of user, item, rating"),
            RowProblem::TooFewFields { found, expected } => write!(
                f,
                "{found} field{}; expected at least {expected} (user, item, rating) between commas, tabs or ::",
                if *found == 1 { "" } else { "s" }
            ),
            RowProblem::NoColumn { role, found } => write!(
                f,
                "the header names {found}, and no {}; expected a column called {}, ... or a file without a header: user, item, rating",
                FIELDS[*role],
                NAMES[*role][..4].join(", "),
            ),
            RowProblem::NoId(field) => write!(f, "{field} is empty; expected the {}'s id", FIELDS[field.role]),
            RowProblem::NotText(field) => write!(f, "{field} isn't UTF-8 text"),
            RowProblem::NotANumber { field, found } => write!(f, "{field} is {found:?}; expected a finite number"),
            RowProblem::TooManyIds(field) => write!(f, "more than {} {}s", u32::MAX, FIELDS[field.role]),
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
            let user = number_of(&mut ratings.users, user, 0)?;
            let item = number_of(&mut ratings.items, item, 1)?;
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
        if first && fields.take_header(text).map_err(|problem| bad(line, problem))? {
            continue;
        }
        let columns = fields.columns;
        let row = fields.split(text);
        row.and_then(|row| each(row, stars_at(row)?)).map_err(|problem| bad(line, problem.at(columns)))?;
        any = true;
    }
    if any { Ok(()) } else { Err(bad(line, RowProblem::Empty)) }
}

/// The fields that count: user, item, rating.
pub(crate) type Row<'a> = [&'a [u8]; 3];

fn stars_at([_, _, stars]: Row<'_>) -> std::result::Result<f32, RowProblem> {
    let value = stars_of(stars).filter(|x| x.is_finite());
    value.ok_or_else(|| RowProblem::NotANumber { field: Field::of(2), found: excerpt(stars) })
}

impl RowProblem {
    /// The problem in a file whose fields stand in these columns.
    fn at(mut self, columns: [usize; 3]) -> RowProblem {
        if let RowProblem::NoId(field) | RowProblem::NotText(field) | RowProblem::NotANumber { field, .. } = &mut self {
            field.column = columns[field.role];
        }
        self
    }
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
    /// Where the user, the item and the rating stand.
    columns: [usize; 3],
    csv: csv_core::Reader,
    unquoted: Vec<u8>,
    /// Where the fields of `unquoted` end.
    ends: Vec<usize>,
}

impl Fields {
    fn new(separator: Separator) -> Fields {
        Fields { separator, columns: [0, 1, 2], csv: csv_core::Reader::new(), unquoted: Vec::new(), ends: Vec::new() }
    }

    /// Whether the first line is a header: it has no number where a rating has at least one. What it names is read from there on.
    fn take_header(&mut self, line: &[u8]) -> std::result::Result<bool, RowProblem> {
        let fields: Vec<&[u8]> = match self.separator {
            Separator::Tab => line.split(|&b| b == b'\t').collect(),
            Separator::Colons => split_colons(line).collect(),
            Separator::Comma => {
                self.unquote(line, usize::MAX);
                self.unquoted().collect()
            }
        };
        if fields.len() < 3 || fields.iter().any(|field| stars_of(field.trim_ascii()).is_some()) {
            return Ok(false);
        }
        if let Some(columns) = columns_of(fields.into_iter())? {
            self.columns = columns;
        }
        Ok(true)
    }

    fn split<'a>(&'a mut self, line: &'a [u8]) -> std::result::Result<Row<'a>, RowProblem> {
        match self.separator {
            Separator::Tab => pick(line.split(|&b| b == b'\t'), self.columns),
            Separator::Colons => pick(split_colons(line), self.columns),
            Separator::Comma if !line.contains(&b'"') => pick(line.split(|&b| b == b','), self.columns),
            Separator::Comma => {
                self.unquote(line, needed(self.columns));
                pick(self.unquoted(), self.columns)
            }
        }
    }

    /// Finds up to `most` fields of a line with quotes.
    fn unquote(&mut self, line: &[u8], most: usize) {
        self.unquoted.resize(line.len().max(self.unquoted.len()), 0);
        self.csv.reset();
        self.ends.clear();
        let (mut read, mut written) = (0, 0);
        while self.ends.len() < most {
            let (result, used, filled) = self.csv.read_field(&line[read..], &mut self.unquoted[written..]);
            read += used;
            written += filled;
            match result {
                // An empty input after the line's end closes its last field.
                csv_core::ReadFieldResult::InputEmpty if read == line.len() => {}
                csv_core::ReadFieldResult::Field { .. } => self.ends.push(written),
                _ => break,
            }
        }
    }

    fn unquoted(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.unquoted[start..end])
    }
}

/// How many fields a line must have.
fn needed(columns: [usize; 3]) -> usize {
    columns.into_iter().max().unwrap_or(0) + 1
}

fn pick<'a>(
    mut fields: impl Iterator<Item = &'a [u8]>,
    columns: [usize; 3],
) -> std::result::Result<Row<'a>, RowProblem> {
    let mut row = [&b""[..]; 3];
    let expected = needed(columns);
    for found in 0..expected {
        let field = fields.next().ok_or(RowProblem::TooFewFields { found, expected })?;
        if let Some(role) = columns.iter().position(|&column| column == found) {
            row[role] = field.trim_ascii();
        }
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

fn stars_of(field: &[u8]) -> Option<f32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The text of an id: the user's (0) or the item's (1).
pub(crate) fn id_of(id: &[u8], role: usize) -> std::result::Result<&str, RowProblem> {
    if id.is_empty() {
        return Err(RowProblem::NoId(Field::of(role)));
    }
    std::str::from_utf8(id).map_err(|_| RowProblem::NotText(Field::of(role)))
}

fn number_of(ids: &mut IndexSet<Box<str>>, id: &[u8], role: usize) -> std::result::Result<u32, RowProblem> {
    let id = id_of(id, role)?;
    let number = match ids.get_index_of(id) {
        Some(number) => number,
        None => ids.insert_full(id.into()).0,
    };
    u32::try_from(number).map_err(|_| RowProblem::TooManyIds(Field::of(role)))
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
