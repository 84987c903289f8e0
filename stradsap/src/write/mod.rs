//! Writing DVectors to files.

mod atomic;
mod csv;
mod npy;
mod safetensors;
#[cfg(test)]
mod tests;
mod word2vec;

use std::path::Path;

use serde::Serialize;

use self::atomic::Failure;
pub use self::safetensors::{Tensor, write_safetensors};
use crate::__private::{each_element, each_row};
use crate::read::extension;
use crate::{DMatrix, DVector, Element, Error, Numeric, Result};

/// Writers of files, as methods of a [`DVector`].
///
/// A file is written under a temporary name, synced to the disk, and renamed. So a name has either the old content or all of the
/// new, and after an error no temporary file is left. A link stays a link, and devices and FIFOs are written to
/// ([`files`](crate::files)). A file whose name ends in `.gz` is packed.
///
/// # Errors
/// Of all writers: [`Error::File`] if the file can't be written, [`Error::Usage`] for a name or an argument that isn't allowed, and
/// [`Error::Cluster`] if elements are with workers and can't be fetched.
///
/// # Cost
/// Some megabytes of memory. Elements that are with workers are fetched a few megabytes at a time.
pub trait WriteFiles<T> {
    /// Writes a table: a header with the fields' names, then a record for each element. `.tsv` files have tabs between fields, all
    /// others commas. Elements whose fields have no names, such as tuples, have no header. A float reads back as the same bits.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// #[derive(Clone, Copy, Element, serde::Serialize)]
    /// struct Rating {
    ///     user: u32,
    ///     stars: f32,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "ratings.csv";
    /// # let path = &folder.path().join(path);
    /// DVector::from_fn(&Session::new()?, 2, |i| Rating { user: i as u32, stars: 4.5 })?.write_csv(&path)?;
    /// assert_eq!(std::fs::read_to_string(&path)?, "user,stars\n0,4.5\n1,4.5\n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of all [writers](WriteFiles#errors). An element that is no record, since it holds a map or a list of structs, is an
    /// [`Error::File`].
    fn write_csv(&self, path: impl AsRef<Path>) -> Result<()>
    where
        T: Element + Serialize;

    /// Writes an array that `numpy.load` reads: numbers with one axis, rows with two.
    ///
    /// # Errors
    /// Those of all [writers](WriteFiles#errors).
    fn write_npy(&self, path: impl AsRef<Path>) -> Result<()>
    where
        T: Numeric;

    /// Writes a file of one named array; [`write_safetensors`] writes several.
    ///
    /// # Errors
    /// Those of all [writers](WriteFiles#errors).
    fn write_safetensors(&self, path: impl AsRef<Path>, name: &str) -> Result<()>
    where
        T: Numeric;

    /// Writes the format that the end of the name says: `.npy`, `.safetensors` (the array is called `data`), or `.csv` and `.tsv`
    /// without a header.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let folder = std::path::Path::new("data");
    /// # let temporary = tempfile::tempdir()?;
    /// # let folder = temporary.path();
    /// let session = Session::new()?;
    /// let rows = DVector::from_fn(&session, 4, |i| [i as f32; 100])?;
    /// rows.store(folder.join("rows.npy"))?;
    /// rows.store(folder.join("rows.csv.gz"))?;
    /// let error = rows.store(folder.join("rows.bin")).unwrap_err().to_string();
    /// assert!(error.ends_with("`write_word2vec_binary`, with the words"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the writer. For a name with another end, an error lists the formats.
    fn store(&self, path: impl AsRef<Path>) -> Result<()>
    where
        T: Numeric;
}

/// Writers of vectors of words, as methods of a DVector of rows.
pub trait WriteWordVectors {
    /// Writes the text format of word2vec: a first line with the number of rows and their width, then a line
    /// `word number number ...` for each row.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "vectors.txt";
    /// # let path = &folder.path().join(path);
    /// let rows = DVector::from_fn(&Session::new()?, 2, |i| [i as f32, 0.5])?;
    /// rows.write_word2vec_text(&path, &["to", "be"])?;
    /// assert_eq!(std::fs::read_to_string(&path)?, "2 2\nto 0 0.5\nbe 1 0.5\n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`WriteFiles`]. There must be one word for each row, and a word may have no blanks.
    fn write_word2vec_text(&self, path: impl AsRef<Path>, words: &[impl AsRef<str>]) -> Result<()>;

    /// Writes the binary format of word2vec: the header line, then each word and its numbers in four bytes each.
    ///
    /// # Errors
    /// As of [`write_word2vec_text`](WriteWordVectors::write_word2vec_text).
    fn write_word2vec_binary(&self, path: impl AsRef<Path>, words: &[impl AsRef<str>]) -> Result<()>;
}

impl<T: 'static> WriteFiles<T> for DVector<T> {
    fn write_csv(&self, path: impl AsRef<Path>) -> Result<()>
    where
        T: Element + Serialize,
    {
        csv::write(self, path.as_ref())
    }

    fn write_npy(&self, path: impl AsRef<Path>) -> Result<()>
    where
        T: Numeric,
    {
        npy::write(self, path.as_ref())
    }

    fn write_safetensors(&self, path: impl AsRef<Path>, name: &str) -> Result<()>
    where
        T: Numeric,
    {
        write_safetensors(path, &[(name, self)])
    }

    fn store(&self, path: impl AsRef<Path>) -> Result<()>
    where
        T: Numeric,
    {
        store(self, path.as_ref())
    }
}

/// Writes the format that a name ends in.
fn store<T: Numeric, D: Numbers<Number = T> + Tensor>(array: &D, path: &Path) -> Result<()> {
    const EXPECTED: &str = "a name that ends in .npy, .safetensors, .csv or .tsv was expected";
    let refuse = |hint: &str| Err(Error::usage(format!("{}: {hint}", crate::files::shown(path))));
    match extension(path).as_deref() {
        Some("npy") => npy::write(array, path),
        Some("safetensors") => write_safetensors(path, &[("data", array)]),
        Some("csv" | "tsv") => csv::write_numbers(array, path),
        Some("txt") => {
            refuse(&format!("{EXPECTED}; vectors of words are written by `write_word2vec_text`, with the words"))
        }
        Some("bin") => {
            refuse(&format!("{EXPECTED}; vectors of words are written by `write_word2vec_binary`, with the words"))
        }
        _ => refuse(EXPECTED),
    }
}

impl<const N: usize> WriteWordVectors for DVector<[f32; N]> {
    fn write_word2vec_text(&self, path: impl AsRef<Path>, words: &[impl AsRef<str>]) -> Result<()> {
        word2vec::write(self, (self.len(), N), path.as_ref(), words, word2vec::Form::Text)
    }

    fn write_word2vec_binary(&self, path: impl AsRef<Path>, words: &[impl AsRef<str>]) -> Result<()> {
        word2vec::write(self, (self.len(), N), path.as_ref(), words, word2vec::Form::Binary)
    }
}

impl WriteWordVectors for DMatrix<f32> {
    fn write_word2vec_text(&self, path: impl AsRef<Path>, words: &[impl AsRef<str>]) -> Result<()> {
        word2vec::write(self, (self.len(), self.width()), path.as_ref(), words, word2vec::Form::Text)
    }

    fn write_word2vec_binary(&self, path: impl AsRef<Path>, words: &[impl AsRef<str>]) -> Result<()> {
        word2vec::write(self, (self.len(), self.width()), path.as_ref(), words, word2vec::Form::Binary)
    }
}

/// Writers of arrays, as methods of a [`DMatrix`]. They write as those of [`WriteFiles`] do.
pub trait WriteRows {
    /// Writes a table without a header, with a line for each row. `.tsv` files have tabs between numbers, all others commas. A
    /// float reads back as the same bits.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let path = "rows.csv";
    /// # let path = &folder.path().join(path);
    /// DMatrix::from_fn(&Session::new()?, 2, 3, |i, k| (i + k) as f32 / 2.0)?.write_csv(&path)?;
    /// assert_eq!(std::fs::read_to_string(&path)?, "0,0.5,1\n0.5,1,1.5\n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of [`WriteFiles`].
    fn write_csv(&self, path: impl AsRef<Path>) -> Result<()>;

    /// Writes an array of two axes that `numpy.load` reads.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let folder = std::path::Path::new("data");
    /// # let temporary = tempfile::tempdir()?;
    /// # let folder = temporary.path();
    /// let session = Session::new()?;
    /// let rows = DMatrix::from_fn(&session, 4, 10, |i, k| (i * k) as f64)?;
    /// rows.write_npy(folder.join("rows.npy"))?;
    /// rows.write_safetensors(folder.join("rows.safetensors"), "rows")?;
    /// assert_eq!(session.read_npy_rows::<f64>(folder.join("rows.npy"))?.digest()?, rows.digest()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of [`WriteFiles`].
    fn write_npy(&self, path: impl AsRef<Path>) -> Result<()>;

    /// Writes a file of one named array; [`write_safetensors`] writes several.
    ///
    /// # Errors
    /// As of [`WriteFiles`].
    fn write_safetensors(&self, path: impl AsRef<Path>, name: &str) -> Result<()>;

    /// Writes the format that the name ends in, as [`WriteFiles::store`] does.
    ///
    /// # Errors
    /// As there.
    fn store(&self, path: impl AsRef<Path>) -> Result<()>;
}

impl<T: Numeric> WriteRows for DMatrix<T> {
    fn write_csv(&self, path: impl AsRef<Path>) -> Result<()> {
        csv::write_numbers(self, path.as_ref())
    }

    fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        npy::write(self, path.as_ref())
    }

    fn write_safetensors(&self, path: impl AsRef<Path>, name: &str) -> Result<()> {
        write_safetensors(path, &[(name, self)])
    }

    fn store(&self, path: impl AsRef<Path>) -> Result<()> {
        store(self, path.as_ref())
    }
}

/// What is an array in a file.
trait Numbers {
    type Number: Numeric;

    /// Its axes.
    fn shape(&self) -> Vec<usize>;

    /// How many of its numbers make a row.
    fn width(&self) -> usize;

    /// Calls a function with all numbers, some whole rows at a time.
    fn each(&self, f: impl FnMut(&[Self::Number]) -> Result<(), Failure>) -> Result<(), Failure>;
}

impl<T: Numeric> Numbers for DVector<T> {
    type Number = T;

    fn shape(&self) -> Vec<usize> {
        [vec![self.len()], T::shape()].concat()
    }

    fn width(&self) -> usize {
        1
    }

    fn each(&self, f: impl FnMut(&[T]) -> Result<(), Failure>) -> Result<(), Failure> {
        each_element(self, 0..self.len(), f)
    }
}

impl<T: Numeric> Numbers for DMatrix<T> {
    type Number = T;

    fn shape(&self) -> Vec<usize> {
        [vec![self.len(), self.width()], T::shape()].concat()
    }

    fn width(&self) -> usize {
        DMatrix::width(self)
    }

    fn each(&self, f: impl FnMut(&[T]) -> Result<(), Failure>) -> Result<(), Failure> {
        each_row(self, 0..self.len(), f)
    }
}

/// The bytes of numbers, the least first.
fn little_endian<T: Numeric>(elements: &[T], bytes: &mut Vec<u8>) {
    bytes.clear();
    crate::__private::encode_slice(elements, bytes);
    T::scalar().swap(bytes, false);
}
