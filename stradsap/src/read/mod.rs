//! Reading DVectors from files.

pub(crate) mod address;
mod apart;
mod bag;
mod blocks;
mod csv;
mod edges;
mod gzip;
mod libsvm;
mod lines;
mod npy;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "remote")]
pub(crate) mod remote;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod whole;

use std::path::Path;

use serde::de::DeserializeOwned;

use self::apart::Travelling;
pub use self::bag::{BagOfWords, Entry};
pub(crate) use self::blocks::MARK;
use self::blocks::Reading;
pub use self::csv::Csv;
pub(crate) use self::csv::border::{Marks, borders};
pub use self::edges::Edge;
pub use self::libsvm::Labelled;
pub(crate) use self::source::extension;
pub use self::source::open_unpacked;
pub(crate) use self::text::one_line;
use crate::{DMatrix, DVector, Element, Numeric, Result, Session};

/// Readers of files, as methods of a [`Session`].
///
/// Files are read in blocks, which the session's threads parse in parallel. The elements are in the order of the file, on any
/// number of threads. Files whose names end in `.gz` or `.zst` are unpacked. A pattern such as `data/*.csv.gz` stands for all files
/// that match it, in sorted order. A name without `*`, `?` and `[`, or the name of an existing file, stands for itself. With the
/// feature `remote`, addresses such as `s3://bucket/key` are read as well.
///
/// A text may begin with a byte order mark, and its lines may end in LF or CR LF. The last line need not end.
///
/// # Errors
/// Of all readers: [`Error::File`](crate::Error::File) for a file that can't be read or unpacked and for a pattern that
/// matches none, [`Error::Input`](crate::Error::Input) for the first malformed record, with its line and
/// column (in bytes, from 1), and [`Error::TooLong`](crate::Error::TooLong) for more than a DVector holds.
///
/// # Cost
/// One pass. The peak of memory is little more than the DVector, and a few megabytes for each thread.
pub trait ReadFiles {
    /// Reads a table with a header line; each record is one element. `.tsv` files have tabs between fields, all others commas.
    /// Columns are matched to the fields of `T` by their names (or by the names that serde's `rename` gives). A tuple, an array or
    /// a number takes the columns in their order. Blanks at both ends of fields are ignored unless they are between quotes and the field is a text;
    /// quoted fields may hold any characters.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// #[derive(Clone, Copy, Debug, Element, serde::Deserialize)]
    /// struct Rating {
    ///     user: u32,
    ///     stars: f32,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "ratings.csv";
    /// # let path = &folder.path().join(path);
    /// std::fs::write(&path, "user,stars\n7,4.5\n8,3\n")?;
    ///
    /// let session = Session::new()?;
    /// let ratings = session.read_csv::<Rating>(&path)?;
    /// assert_eq!((ratings.len(), ratings.get(1)?.user), (2, 8));
    ///
    /// std::fs::write(&path, "user,stars\n7,4.5\n8,many\n")?;
    /// let error = session.read_csv::<Rating>(&path).unwrap_err().to_string();
    /// assert!(error.ends_with("ratings.csv:3:3: `stars` is \"many\"; a number was expected"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors).
    fn read_csv<T: Element + DeserializeOwned>(&self, path: impl AsRef<Path>) -> Result<DVector<T>>;

    /// Reads a table of another form, such as without a header or with another delimiter: see [`Csv`].
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors), and [`Error::Usage`](crate::Error::Usage) for an impossible delimiter or prefix.
    fn read_csv_with<T: Element + DeserializeOwned>(&self, path: impl AsRef<Path>, csv: &Csv) -> Result<DVector<T>>;

    /// Reads labelled sparse vectors: lines `label index:value index:value ...`, with `#` before comments. In the result indices
    /// begin at 0. In the files they begin at 1, or at 0 if one of the files has an index 0, as scikit-learn writes them. So read
    /// all files of one data set by one pattern. `qid:` is ignored.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "examples.txt";
    /// # let path = &folder.path().join(path);
    /// std::fs::write(&path, "+1 1:0.5 7:2\n-1 3:1 # rare\n")?;
    ///
    /// let examples = Session::new()?.read_libsvm(&path)?;
    /// assert_eq!((examples.len(), examples.get(0)?.indices), (2, vec![0, 6]));
    ///
    /// std::fs::write(&path, "3 qid:1 0:0.5 7:2\n1 qid:1 3:1\n")?;
    /// assert_eq!(Session::new()?.read_libsvm(&path)?.get(0)?.indices, [0, 7]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors). Indices that aren't in ascending order are an error.
    fn read_libsvm(&self, path: impl AsRef<Path>) -> Result<DVector<Labelled>>;

    /// Reads a collection of documents in the format of the UCI repository: three lines with the numbers of documents, words and
    /// entries, then lines `document word count`. Documents and words are counted from 1 in the file, and from 0 in the result.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "docword.txt";
    /// # let path = &folder.path().join(path);
    /// std::fs::write(&path, "2\n5\n3\n1 1 4\n1 5 1\n2 2 1\n")?;
    ///
    /// let bag = Session::new()?.read_bag_of_words(&path)?;
    /// assert_eq!((bag.documents, bag.words, bag.entries.get(1)?.word), (2, 5, 4));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors). A file that contradicts its first three numbers is an error.
    fn read_bag_of_words(&self, path: impl AsRef<Path>) -> Result<BagOfWords>;

    /// Reads a graph in SNAP's format: two nodes in each line, with blanks between them. Lines that begin with `#` are skipped.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "graph.txt";
    /// # let path = &folder.path().join(path);
    /// std::fs::write(&path, "# FromNodeId\tToNodeId\n30\t1412\n30\t3352\n")?;
    ///
    /// let edges = Session::new()?.read_edges(&path)?;
    /// assert_eq!((edges.len(), edges.get(1)?.to), (2, 3352));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors).
    fn read_edges(&self, path: impl AsRef<Path>) -> Result<DVector<Edge>>;

    /// Reads text: a string for each line, also for empty lines.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "text.txt";
    /// # let path = &folder.path().join(path);
    /// std::fs::write(&path, "to be\r\n\r\nor not")?;
    ///
    /// let session = Session::new()?;
    /// assert_eq!(session.read_lines(&path)?.to_vec()?, ["to be", "", "or not"]);
    /// assert_eq!(session.read_tokens(&path)?.get(2)?, ["or", "not"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors); text that isn't UTF-8 is one.
    fn read_lines(&self, path: impl AsRef<Path>) -> Result<DVector<String>>;

    /// Reads text: a list of words for each line, which is empty for an empty line.
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors); text that isn't UTF-8 is one.
    fn read_tokens(&self, path: impl AsRef<Path>) -> Result<DVector<Vec<String>>>;

    /// Reads an array that numpy saved: numbers from an array of one axis, rows `[f32; N]` from an array of two.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "rows.npy";
    /// # let path = &folder.path().join(path);
    /// let session = Session::new()?;
    /// DVector::from_fn(&session, 4, |i| [i as f32; 3])?.write_npy(&path)?;
    ///
    /// assert_eq!(session.read_npy::<[f32; 3]>(&path)?.get(2)?, [2.0; 3]);
    /// let error = session.read_npy::<[f64; 3]>(&path).unwrap_err().to_string();
    /// assert!(error.ends_with(r#"rows.npy:1: the array's numbers are "<f4"; "<f8" was expected"#));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors). The file's type of numbers, shape and order must be those of `T`.
    fn read_npy<T: Numeric>(&self, path: impl AsRef<Path>) -> Result<DVector<T>>;

    /// Reads an array of two axes that numpy saved: rows, as wide as the file says.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "rows.npy";
    /// # let path = &folder.path().join(path);
    /// let session = Session::new()?;
    /// DMatrix::from_fn(&session, 4, 1000, |i, k| (i + k) as f32)?.write_npy(&path)?;
    ///
    /// let rows = session.read_npy_rows::<f32>(&path)?;
    /// assert_eq!((rows.len(), rows.width(), rows.get(2)?[7]), (4, 1000, 9.0));
    /// assert!(session.read_npy::<f32>(&path).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors). An array of one axis, or of rows without numbers, is an error.
    fn read_npy_rows<T: Numeric>(&self, path: impl AsRef<Path>) -> Result<DMatrix<T>>;

    /// Reads a Parquet file. Columns are matched to the fields of `T` by their names; other columns aren't read.
    ///
    /// # Errors
    /// Those of all [readers](ReadFiles#errors), with the record's number as the line.
    #[cfg(feature = "parquet")]
    fn read_parquet<T: Element + DeserializeOwned>(&self, path: impl AsRef<Path>) -> Result<DVector<T>>;
}

impl ReadFiles for Session {
    fn read_csv<T: Element + DeserializeOwned>(&self, path: impl AsRef<Path>) -> Result<DVector<T>> {
        csv::read(self, path.as_ref(), &Csv::new())
    }

    fn read_csv_with<T: Element + DeserializeOwned>(&self, path: impl AsRef<Path>, csv: &Csv) -> Result<DVector<T>> {
        csv::read(self, path.as_ref(), csv)
    }

    fn read_libsvm(&self, path: impl AsRef<Path>) -> Result<DVector<Labelled>> {
        libsvm::read(self, path.as_ref())
    }

    fn read_bag_of_words(&self, path: impl AsRef<Path>) -> Result<BagOfWords> {
        bag::read(self, path.as_ref())
    }

    fn read_edges(&self, path: impl AsRef<Path>) -> Result<DVector<Edge>> {
        read(self, path.as_ref(), &edges::Edges)
    }

    fn read_lines(&self, path: impl AsRef<Path>) -> Result<DVector<String>> {
        read(self, path.as_ref(), &lines::Lines)
    }

    fn read_tokens(&self, path: impl AsRef<Path>) -> Result<DVector<Vec<String>>> {
        read(self, path.as_ref(), &lines::Tokens)
    }

    fn read_npy<T: Numeric>(&self, path: impl AsRef<Path>) -> Result<DVector<T>> {
        npy::read(self, path.as_ref())
    }

    fn read_npy_rows<T: Numeric>(&self, path: impl AsRef<Path>) -> Result<DMatrix<T>> {
        npy::read_rows(self, path.as_ref())
    }

    #[cfg(feature = "parquet")]
    fn read_parquet<T: Element + DeserializeOwned>(&self, path: impl AsRef<Path>) -> Result<DVector<T>> {
        parquet::read(self, path.as_ref())
    }
}

fn read<F: Travelling>(session: &Session, path: &Path, format: &F) -> Result<DVector<F::Item>> {
    let inputs = source::resolve(path)?;
    Reading::new(session, &inputs).vector(format)
}
