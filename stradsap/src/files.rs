//! Reading DVectors from files.

use std::fs::File;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{DVector, Element, Error, Result, Session};

/// Readers of files, as methods of a [`Session`].
pub trait ReadFiles {
    /// Reads a table with a header line, one element a record: `.tsv` files with tabs between fields, all others with
    /// commas. Columns are matched to the fields of `T` by their names.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// #[derive(Clone, Copy, Element, serde::Deserialize)]
    /// struct Rating {
    ///     user: u32,
    ///     stars: f32,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("ratings.csv");
    /// std::fs::write(&path, "user,stars\n7,4.5\n8,3\n")?;
    ///
    /// let session = Session::new()?;
    /// let ratings = session.read_csv::<Rating>(&path)?;
    /// assert_eq!((ratings.len(), ratings.get(1)?.user), (2, 8));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] if the file can't be read, [`Error::Input`] with the line if a record doesn't fit `T`,
    /// [`Error::TooLong`] if there are too many.
    fn read_csv<T: Element + DeserializeOwned>(&self, path: impl AsRef<Path>) -> Result<DVector<T>>;
}

impl ReadFiles for Session {
    fn read_csv<T: Element + DeserializeOwned>(&self, path: impl AsRef<Path>) -> Result<DVector<T>> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| Error::File { path: path.to_path_buf(), source })?;
        let tabs = path.extension().is_some_and(|extension| extension == "tsv");
        let delimiter = if tabs { b'\t' } else { b',' };
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::All).from_reader(file);
        let header = reader.headers().map_err(|error| at_line(path, error))?;
        if header.is_empty() {
            let problem = "the file is empty; a header line with the names of the fields was expected".to_string();
            return Err(Error::Input { path: path.to_path_buf(), line: 1, problem });
        }
        let records: Result<Vec<T>> =
            reader.deserialize().map(|record| record.map_err(|error| at_line(path, error))).collect();
        DVector::from_vec(self, records?)
    }
}

fn at_line(path: &Path, error: csv::Error) -> Error {
    let line = error.position().map_or(1, csv::Position::line);
    let path = path.to_path_buf();
    let problem = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => match err.field() {
            Some(field) => format!("field {}: {}", field + 1, err.kind()),
            None => err.kind().to_string(),
        },
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields, but the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { err, .. } => format!("field {} is not UTF-8", err.field() + 1),
        _ => error.to_string(),
    };
    match error.into_kind() {
        csv::ErrorKind::Io(source) => Error::File { path, source },
        _ => Error::Input { path, line, problem },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Element, serde::Deserialize)]
    struct Rating {
        user: String,
        stars: f32,
    }

    fn read(name: &str, text: &str) -> std::result::Result<Vec<Rating>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        let session = Session::builder().threads(1).build().unwrap();
        let vector = session.read_csv::<Rating>(&path);
        vector.and_then(|vector| vector.to_vec()).map_err(|error| {
            let folder = format!("{}/", folder.path().display());
            error.to_string().replace(&folder, "")
        })
    }

    #[test]
    fn fields_are_matched_by_name() {
        let want = vec![Rating { user: "a".into(), stars: 4.5 }];
        assert_eq!(read("r.csv", "stars,user\n4.5, a\n"), Ok(want.clone()));
        assert_eq!(read("r.tsv", "user\tstars\na\t4.5\n"), Ok(want));
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let bad = |text| read("r.csv", text).unwrap_err();
        assert_eq!(bad("user,stars\na,4\nb,x\n"), "r.csv:3: field 2: invalid float literal");
        assert_eq!(bad("user,stars\na\n"), "r.csv:2: 1 fields, but the header has 2");
        assert!(bad("").starts_with("r.csv:1: the file is empty"));
        assert!(bad("user\na\n").contains("missing field `stars`"));
    }
}
