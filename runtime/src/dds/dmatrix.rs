//! `DMatrix`: rows of equal width, which is chosen at run time.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::body::capture::Captured;
use crate::dds::elements::{Elements, RawVector};
use crate::memory::buffer::RawBuf;
use crate::memory::element::Element;
use crate::memory::element_ops::{ElementOps, ops_of, row_ops};
use crate::memory::home::Home;
use crate::planner::recording::MAX_LEN;
use crate::session::error::{Error, Result};
use crate::session::{Session, SessionInner};

/// Rows of numbers, all equally wide, that parallel loops read and write by index.
///
/// It is like a [`DVector`](crate::DVector) of arrays, `DVector<[f32; 100]>`, but its width is chosen at run time: by an option of
/// the program, or by a file. In an asynchronous loop a row is a slice: `m[i]` is a `[T]`, so `m[i][k]`, `for x in &m[i]` and
/// `m.pair_mut(i, j)` mean what they mean for slices. In a synchronous loop it is a [`Shared`](crate::Shared) row. A row is one
/// element: loops record, order, undo and send whole rows, and the indices of `m` are row numbers.
///
/// The numbers are plain: integers, floats, and arrays and structs of them without padding. Rows follow each other without gaps,
/// and the first begins on a cache line. There are at most 2^48 rows. If rows are short and their width is known when you
/// compile, a DVector of arrays is faster, since the compiler knows more.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{DMatrix, Session};
///
/// let session = Session::builder().threads(1).build()?;
/// let width = 3;
/// let mut m = DMatrix::from_fn(&session, 2, width, |i, k| (10 * i + k) as f32)?;
/// assert_eq!((m.len(), m.width()), (2, 3));
/// assert_eq!(m.get(1)?, [10.0, 11.0, 12.0]);
/// m.set(0, &[7.0, 8.0, 9.0])?;
/// assert_eq!(m.to_vec()?, [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
pub struct DMatrix<T> {
    pub(crate) rows: RawVector,
    number: PhantomData<T>,
}

impl<T: Element> DMatrix<T> {
    /// The operations on rows of this width.
    pub(crate) fn ops(rows: usize, width: usize) -> Result<&'static ElementOps> {
        const {
            assert!(
                T::PLAIN,
                "rows of a DMatrix have plain elements: numbers, arrays and structs of numbers without padding"
            );
        }
        if width == 0 {
            return Err(refused("a DMatrix has rows of one number at least, and the width is 0"));
        }
        if rows > MAX_LEN {
            return Err(Error::TooLong { len: rows, max: MAX_LEN });
        }
        let ops = row_ops(ops_of::<T>(), width);
        ops.filter(|ops| ops.size.checked_mul(rows).is_some_and(|bytes| isize::try_from(bytes).is_ok())).ok_or_else(
            || {
                let size = size_of::<T>();
                refused(format!(
                    "{rows} rows of {width} numbers of {size} bytes each are more than memory has addresses for"
                ))
            },
        )
    }

    /// `rows` rows of `width` numbers, the `k`-th of the `i`-th row being `f(i, k)`. They are made one after the other in the program's
    /// own process, so `f` may have state. [`Session::range`] makes rows on all threads, or on the workers.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let m = DMatrix::from_fn(&session, 100, 1000, |i, k| i as f64 / (k + 1) as f64)?;
    /// assert_eq!(m.get(99)?[1], 49.5);
    /// assert!(DMatrix::from_fn(&session, 100, 0, |_, _| 0u8).is_err());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rows`] if `width` is 0, or if the rows don't fit into the address space; [`Error::TooLong`] for more than 2^48
    /// rows.
    pub fn from_fn(
        session: &Session,
        rows: usize,
        width: usize,
        mut f: impl FnMut(usize, usize) -> T,
    ) -> Result<DMatrix<T>> {
        let mut buffer = RawBuf::for_random_access(Self::ops(rows, width)?, rows);
        let mut row = Vec::with_capacity(width);
        for i in 0..rows {
            row.clear();
            row.extend((0..width).map(|k| f(i, k)));
            buffer.push_numbers(&row);
        }
        Ok(Self::of_buffer(session.inner(), buffer))
    }

    /// These rows, in their order: `Vec`s, slices or arrays, all equally long.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let m = DMatrix::from_rows(&session, vec![vec![1, 2, 3], vec![4, 5, 6]])?;
    /// assert_eq!(m.get(1)?, [4, 5, 6]);
    /// let unequal = DMatrix::from_rows(&session, vec![vec![1, 2, 3], vec![4, 5]]);
    /// let said = "row 1 has 2 numbers and row 0 has 3: all rows of a DMatrix are equally wide";
    /// assert_eq!(unequal.unwrap_err().to_string(), said);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rows`] if a row is not as long as the first one, if the first row is empty, or if there are no rows. (Use
    /// [`from_vec`](DMatrix::from_vec) for a matrix without rows.) [`Error::TooLong`] for more than 2^48 rows.
    pub fn from_rows<R: AsRef<[T]>>(session: &Session, rows: impl IntoIterator<Item = R>) -> Result<DMatrix<T>> {
        let rows = rows.into_iter();
        let (mut numbers, mut width, mut count) = (Vec::new(), None, 0);
        for (i, row) in rows.enumerate() {
            let row = row.as_ref();
            let first = *width.get_or_insert(row.len());
            if row.len() != first {
                let (there, numbers) = (row.len(), if row.len() == 1 { "number" } else { "numbers" });
                let problem = format!(
                    "row {i} has {there} {numbers} and row 0 has {first}: all rows of a DMatrix are equally wide"
                );
                return Err(refused(problem));
            }
            numbers.extend_from_slice(row);
            count = i + 1;
        }
        let Some(width) = width else {
            return Err(refused(
                "without rows nothing says how wide they are: `DMatrix::from_vec(session, width, vec![])`",
            ));
        };
        Self::ops(count, width)?;
        Self::from_vec(session, width, numbers)
    }

    /// Rows of `width` numbers, which follow each other in a `Vec`.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let m = DMatrix::from_vec(&session, 2, vec![1u8, 2, 3, 4, 5, 6])?;
    /// assert_eq!((m.len(), m.get(2)?), (3, vec![5, 6]));
    /// assert!(DMatrix::from_vec(&session, 4, vec![1u8, 2, 3, 4, 5, 6]).is_err());
    /// assert!(DMatrix::<f32>::from_vec(&session, 4, vec![])?.is_empty());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rows`] if the numbers don't form whole rows, or if `width` is 0; [`Error::TooLong`] for more than 2^48 rows.
    #[allow(clippy::needless_pass_by_value, reason = "as of a DVector")]
    pub fn from_vec(session: &Session, width: usize, numbers: Vec<T>) -> Result<DMatrix<T>> {
        let rows = numbers.len().checked_div(width).unwrap_or(0);
        let ops = Self::ops(rows, width)?;
        if !numbers.len().is_multiple_of(width) {
            return Err(refused(format!("{} numbers don't make whole rows of {width}", numbers.len())));
        }
        let mut buffer = RawBuf::for_random_access(ops, rows);
        buffer.push_numbers(&numbers);
        Ok(Self::of_buffer(session.inner(), buffer))
    }

    /// The rows of a buffer of such numbers.
    pub(crate) fn of_buffer(session: Arc<SessionInner>, buffer: RawBuf) -> DMatrix<T> {
        assert!(buffer.ops().of_one().is(ops_of::<T>()), "rows of other numbers");
        DMatrix { rows: RawVector::of_rows(session, buffer), number: PhantomData }
    }

    /// `len` rows that are with workers.
    pub(crate) fn elsewhere(session: Arc<SessionInner>, id: u64, len: usize, home: Home) -> DMatrix<T> {
        assert!(home.ops().of_one().is(ops_of::<T>()), "rows of other numbers");
        DMatrix { rows: RawVector::rows_elsewhere(session, id, len, home), number: PhantomData }
    }
}

fn refused(problem: impl Into<String>) -> Error {
    Error::Rows { problem: problem.into() }
}

impl<T: 'static> DMatrix<T> {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of numbers in a row.
    pub fn width(&self) -> usize {
        self.rows.ops().width()
    }

    /// The numbers of the `i`-th row.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let m = DMatrix::from_fn(&session, 3, 2, |i, k| i + k)?;
    /// assert_eq!(m.get(2)?, [2, 3]);
    /// assert!(m.get(3).is_err());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; [`Error::Cluster`] if the row is with a worker and can't be fetched.
    pub fn get(&self, i: usize) -> Result<Vec<T>>
    where
        T: Clone,
    {
        self.read(i..i.saturating_add(1))
    }

    /// Replaces the `i`-th row. The plans of loops stay valid.
    ///
    /// If loops run on workers, the first change after a loop brings all rows back to this process.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; [`Error::Rows`] if `row` doesn't have the matrix's width.
    pub fn set(&mut self, i: usize, row: &[T]) -> Result<()>
    where
        T: Clone,
    {
        let width = self.width();
        if i >= self.len() {
            return Err(self.rows.out_of_bounds(&(i..i.saturating_add(1))));
        }
        if row.len() != width {
            return Err(refused(format!("{} numbers were given for row {i}, and rows have {width}", row.len())));
        }
        self.rows.change(|rows| rows.as_mut_slice::<T>()[i * width..][..width].clone_from_slice(row))
    }

    /// The numbers of a range of rows, one row after the other.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; [`Error::Cluster`] if rows are with workers and can't be fetched.
    pub fn read(&self, rows: Range<usize>) -> Result<Vec<T>>
    where
        T: Clone,
    {
        Ok(self.rows.elements(rows)?.as_slice::<T>().to_vec())
    }

    /// All rows, one after the other.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let m = DMatrix::from_vec(&session, 2, vec![3.0, 4.0, 5.0, 12.0])?;
    /// let norms: Vec<f64> = m.iter()?.map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt()).collect();
    /// assert_eq!(norms, [5.0, 13.0]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// None in one process; where rows are elsewhere, that they can't be fetched.
    pub fn iter(&self) -> Result<impl ExactSizeIterator<Item = Vec<T>> + '_>
    where
        T: Clone,
    {
        let (elements, width) = (self.rows.elements(0..self.len())?, self.width());
        Ok((0..self.len()).map(move |i| elements.as_slice::<T>()[i * width..][..width].to_vec()))
    }

    /// All numbers, row after row.
    ///
    /// # Errors
    /// None in one process; where rows are elsewhere, that they can't be fetched.
    pub fn to_vec(&self) -> Result<Vec<T>>
    where
        T: Clone,
    {
        self.read(0..self.len())
    }

    /// A BLAKE3 hash of all numbers, row after row. A DVector of arrays with the same bits has the same digest.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let m = DMatrix::from_fn(&session, 5, 2, |i, k| (i + k) as f32)?;
    /// let arrays = DVector::from_fn(&session, 5, |i| [i as f32, (i + 1) as f32])?;
    /// assert_eq!(m.digest()?, arrays.digest()?);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// None in one process; where rows are elsewhere, that they can't be fetched.
    pub fn digest(&self) -> Result<String> {
        self.rows.digest()
    }

    pub(crate) fn describe(&self, writable: bool) -> Captured {
        self.rows.describe(writable)
    }

    /// A range of rows, from wherever they are.
    pub(crate) fn elements(&self, rows: Range<usize>) -> Result<Elements> {
        self.rows.elements(rows)
    }
}

/// A number that changes with the contents; no two contents of this process have the same.
#[doc(hidden)]
pub fn version_of_rows<T>(matrix: &DMatrix<T>) -> u64 {
    matrix.rows.version()
}

/// Calls a function with the numbers of a range of rows, a few megabytes at a time and in order.
#[doc(hidden)]
pub fn each_row<T: 'static, E: From<Error>>(
    matrix: &DMatrix<T>,
    rows: Range<usize>,
    mut f: impl FnMut(&[T]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    matrix.rows.each(rows, |rows| f(rows.as_slice()))
}

impl<T: std::fmt::Debug + 'static> std::fmt::Debug for DMatrix<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.elements(0..self.len()) {
            Ok(elements) => f.debug_list().entries(elements.as_slice::<T>().chunks(self.width())).finish(),
            Err(error) => write!(f, "[{} rows elsewhere: {error}]", self.len()),
        }
    }
}
