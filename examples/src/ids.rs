//! Dense numbers for the ids of a file of ratings, by operators: in parallel, and the same as those of
//! [`Ratings::read`], which numbers one rating after the other.

use std::fmt;
use std::path::Path;

use stradsap::Numbering;
use stradsap::prelude::*;

use crate::ratings::{Rating, Ratings, id_of, read_rows};
use crate::{AnyError, files};

/// An id as it stands in a file: a number of any size, or a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Element)]
pub enum Id {
    /// Digits without zeros before them.
    Number(u64),
    /// Anything else.
    Text(String),
}

impl From<&str> for Id {
    fn from(text: &str) -> Id {
        match text.parse() {
            Ok(number) if text.len() == 1 || !text.starts_with(['0', '+']) => Id::Number(number),
            _ => Id::Text(text.to_owned()),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => number.fmt(f),
            Id::Text(text) => text.fmt(f),
        }
    }
}

/// A rating as it stands in a file.
#[derive(Debug, Clone, Element)]
struct Row {
    user: Id,
    item: Id,
    stars: f32,
}

impl Row {
    fn id(&self, user: bool) -> &Id {
        if user { &self.user } else { &self.item }
    }
}

/// Numbers the users' ids, or the items', in the order in which they first appear. (Which of them is a value, not a type: so the
/// operators are compiled once.)
fn number(rows: &DVector<Row>, users: bool) -> stradsap::Result<Numbering<Id>> {
    with!([users], rows.map(|row| row.id(users).clone())).number_by_key(Id::clone)
}

/// Reads a file of ratings, and numbers users and items on the session's threads or workers.
///
/// # Errors
/// As [`Ratings::read`], and those of the operators.
pub fn read(session: &Session, path: &Path) -> Result<Ratings, AnyError> {
    let mut rows = Vec::new();
    read_rows(path, files::open(path)?, |[user, item, _], stars| {
        rows.push(Row { user: id_of(user, 0)?.into(), item: id_of(item, 1)?.into(), stars });
        Ok(())
    })?;
    let rows = DVector::from_vec(session, rows)?;
    let (users, items) = (number(&rows, true)?, number(&rows, false)?);
    let (user, item) = (&users.numbers, &items.numbers);
    let numbered = with!([&user, &item], rows.map(|row| (user[&row.user], item[&row.item], row.stars)).to_vec())?;
    Ok(Ratings {
        rows: numbered.into_iter().map(|(user, item, stars)| Rating { user, item, stars }).collect(),
        users: users.keys.iter()?.map(|id| id.to_string().into()).collect(),
        items: items.keys.iter()?.map(|id| id.to_string().into()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_text() {
        for text in ["0", "7", "18446744073709551615", "18446744073709551616", "007", "+7", "-7", "x y", "٣"] {
            assert_eq!(Id::from(text).to_string(), text);
        }
        assert_eq!(Id::from("42"), Id::Number(42));
    }

    #[test]
    fn numbers_are_those_of_reading_one_by_one() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("r.csv");
        let text: String = (0..7000u64).map(|n| format!("u{},{},{}\n", n * n % 997, n * 7919 % 613, n % 5)).collect();
        std::fs::write(&path, text)?;
        let plain = Ratings::read(&path)?;
        for threads in [1, 3] {
            let session = Session::builder().threads(threads).build()?;
            let ratings = read(&session, &path)?;
            assert_eq!((&ratings.rows, &ratings.users), (&plain.rows, &plain.users));
            assert_eq!(ratings.items, plain.items);
        }
        Ok(())
    }
}
