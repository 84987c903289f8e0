//! `DVector`: a vector whose elements parallel loops share.

mod capture;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::body::capture::Captured;
use crate::dds::chunks::{check_len, concatenate};
use crate::dds::elements::{Elements, RawVector};
use crate::memory::buffer::RawBuf;
use crate::memory::element::Element;
use crate::memory::element_ops::ops_of;
use crate::memory::home::Home;
use crate::session::backend::Whereabouts;
use crate::session::error::{Error, Result};
use crate::session::{Session, SessionInner};

/// A vector of `T` that parallel loops read and write by index.
///
/// Create one from a function, an iterator or a `Vec`; capture it in a loop as `&x` (read) or `&mut x` (read
/// and write); read it back by index, by range or as a whole. It has at most 2^48 elements. Rows start on
/// cache lines, and large vectors use huge pages where the system offers them.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{DVector, Session};
///
/// let session = Session::builder().threads(1).build()?;
/// let squares = DVector::from_fn(&session, 5, |i| (i * i) as u64)?;
/// assert_eq!(squares.get(3)?, 9);
/// assert_eq!(squares.read(1..4)?, [1, 4, 9]);
/// assert_eq!(squares.iter()?.sum::<u64>(), 30);
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
///
/// # Cost
/// The memory of its elements. With workers, each worker holds the parts that it uses, and `get`, `read`, `iter` and `to_vec` fetch
/// elements from the workers.
pub struct DVector<T> {
    pub(crate) elements: RawVector,
    element: PhantomData<T>,
}

impl<T: Element> DVector<T> {
    /// `len` elements, the `i`-th being `f(i)`. They are made one after the other in the program's own process, so `f` may have state.
    /// [`Session::range`] makes elements on all threads, or on the workers.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let rows = DVector::from_fn(&session, 3, |i| [i as f32; 4])?;
    /// assert_eq!(rows.get(2)?, [2.0; 4]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn from_fn(session: &Session, len: usize, f: impl FnMut(usize) -> T) -> Result<Self> {
        Self::collect(session, len, (0..len).map(f))
    }

    /// The elements of a `Vec`, in its order.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let words = DVector::from_vec(&session, vec!["a".to_string(), "b".to_string()])?;
    /// assert_eq!(words.get(1)?, "b");
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn from_vec(session: &Session, elements: Vec<T>) -> Result<Self> {
        Self::collect(session, elements.len(), elements.into_iter())
    }

    /// The elements of an iterator, in its order.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let odd = DVector::from_iter(&session, (0u32..10).filter(|i| i % 2 == 1))?;
    /// assert_eq!(odd.to_vec()?, [1, 3, 5, 7, 9]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn from_iter(session: &Session, elements: impl IntoIterator<Item = T>) -> Result<Self> {
        Self::from_vec(session, elements.into_iter().collect())
    }

    /// The elements of several `Vec`s, one after the other. Use it for chunks that threads have made in parallel.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(2).build()?;
    /// let numbers = DVector::from_chunks(&session, vec![vec![1u8, 2], vec![], vec![3]])?;
    /// assert_eq!(numbers.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// Elements are moved, not cloned; if there are megabytes of them, all threads move. Each chunk is freed as soon as it was
    /// moved: small chunks need little more memory than the DVector itself, and a single chunk twice as much.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more than 2^48 elements; [`Error::Threads`] if the session's threads can't be started.
    pub fn from_chunks(session: &Session, chunks: Vec<Vec<T>>) -> Result<Self> {
        Ok(Self::of_buffer(session.inner(), concatenate(&session.inner(), ops_of::<T>(), chunks)?))
    }

    fn collect(session: &Session, len: usize, elements: impl Iterator<Item = T>) -> Result<Self> {
        check_len(len, size_of::<T>())?;
        let mut buffer = RawBuf::for_random_access(ops_of::<T>(), len);
        elements.for_each(|element| buffer.push(element));
        Ok(Self::of_buffer(session.inner(), buffer))
    }

    /// The elements of a buffer of this type.
    pub(crate) fn of_buffer(session: Arc<SessionInner>, buffer: RawBuf) -> Self {
        DVector { elements: RawVector::new(session, buffer), element: PhantomData }
    }
}

/// Only creating a DVector asks for `T: Element`, so that rustc reports a missing derive there and nowhere else.
impl<T: 'static> DVector<T> {
    /// The number of elements.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// assert_eq!(DVector::from_fn(&session, 3, |_| 0u8)?.len(), 3);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// True if there are no elements.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// assert!(DVector::from_vec(&session, Vec::<f64>::new())?.is_empty());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A clone of the `i`-th element.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_vec(&session, vec![1.5, 2.5])?;
    /// assert_eq!(x.get(1)?, 2.5);
    /// assert_eq!(x.get(2).unwrap_err().to_string(), "elements 2..3 were asked for, but the DVector has 2");
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; [`Error::Cluster`] if the element is with a worker and can't be fetched.
    pub fn get(&self, i: usize) -> Result<T>
    where
        T: Clone,
    {
        let elements = self.elements(i..i.saturating_add(1))?;
        elements.as_slice::<T>().first().cloned().ok_or_else(|| self.elements.out_of_bounds(&(i..i.saturating_add(1))))
    }

    /// Replaces the `i`-th element. The plans of loops stay valid.
    ///
    /// If loops run on workers, the first change after a loop brings all elements back to this process.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let mut x = DVector::from_vec(&session, vec![1.5, 2.5])?;
    /// x.set(1, 4.0)?;
    /// assert_eq!(x.to_vec()?, [1.5, 4.0]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn set(&mut self, i: usize, value: T) -> Result<()> {
        if i >= self.len() {
            return Err(self.elements.out_of_bounds(&(i..i.saturating_add(1))));
        }
        self.change(|elements| {
            if let Some(element) = elements.get_mut(i) {
                *element = value;
            }
        })
    }

    /// Replaces the elements from the `start`-th on by clones of these, in one step: that takes much less time than many calls of
    /// [`set`](DVector::set). The plans of loops stay valid.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let mut order = DVector::from_fn(&session, 5, |i| i as u32)?;
    /// order.write(1, &[4, 3, 2])?;
    /// assert_eq!(order.to_vec()?, [0, 4, 3, 2, 4]);
    /// assert!(order.write(3, &[0, 0, 0]).is_err());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; nothing is replaced then.
    pub fn write(&mut self, start: usize, elements: &[T]) -> Result<()>
    where
        T: Clone,
    {
        let range = start..start.saturating_add(elements.len());
        if range.end > self.len() {
            return Err(self.elements.out_of_bounds(&range));
        }
        // A clone that panics leaves all elements as they were.
        let fresh = elements.to_vec();
        self.change(|own| {
            let places = own.get_mut(range).into_iter().flatten();
            places.zip(fresh).for_each(|(place, element)| *place = element);
        })
    }

    /// `len` elements that are with workers.
    pub(crate) fn elsewhere(session: Arc<SessionInner>, id: u64, len: usize, home: Home) -> Self
    where
        T: Element,
    {
        DVector { elements: RawVector::elsewhere(session, id, len, home), element: PhantomData }
    }

    /// Changes elements in this process's memory, where they are all brought first.
    pub(crate) fn change<R>(&mut self, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        self.change_settled(f)
    }

    /// The same through a shared borrow: a reader of the elements goes on with those from before.
    pub(crate) fn change_settled<R>(&self, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        self.elements.change(|elements| f(elements.as_mut_slice::<T>()))
    }

    pub(crate) fn id(&self) -> u64 {
        self.elements.id()
    }

    pub(crate) fn session(&self) -> &Arc<SessionInner> {
        self.elements.session()
    }

    /// Another one whenever the contents are.
    pub(crate) fn version(&self) -> u64 {
        self.elements.version()
    }

    /// Where the elements are.
    pub(crate) fn whereabouts(&self) -> Result<Whereabouts> {
        self.session().elements().whereabouts(self.id())
    }

    /// Clones of a range of elements.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_fn(&session, 5, |i| i as u32)?;
    /// assert_eq!(x.read(1..4)?, [1, 2, 3]);
    /// assert!(x.read(3..6).is_err());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn read(&self, range: Range<usize>) -> Result<Vec<T>>
    where
        T: Clone,
    {
        Ok(self.elements(range)?.as_slice::<T>().to_vec())
    }

    /// Clones of all elements, one after the other.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_vec(&session, vec![3.0, 4.0])?;
    /// assert_eq!(x.iter()?.map(|x: f64| x * x).sum::<f64>(), 25.0);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// None in one process; where elements are elsewhere, that they can't be fetched.
    pub fn iter(&self) -> Result<impl ExactSizeIterator<Item = T> + '_>
    where
        T: Clone,
    {
        let elements = self.elements(0..self.len())?;
        Ok((0..self.len()).map(move |i| elements.as_slice::<T>()[i].clone()))
    }

    /// Clones of all elements.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// assert_eq!(DVector::from_fn(&session, 3, |i| i as u8)?.to_vec()?, [0, 1, 2]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// None in one process; where elements are elsewhere, that they can't be fetched.
    pub fn to_vec(&self) -> Result<Vec<T>>
    where
        T: Clone,
    {
        self.read(0..self.len())
    }

    /// A BLAKE3 hash of the elements in index order: equal bits, equal digest.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let (a, b) = (DVector::from_fn(&session, 9, |_| 0.0)?, DVector::from_fn(&session, 9, |_| -0.0)?);
    /// assert_eq!(a.digest()?, DVector::from_vec(&session, a.to_vec()?)?.digest()?);
    /// assert_ne!(a.digest()?, b.digest()?); // equal numbers, other bits
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// One pass over the elements. Plain elements are hashed as their bytes in memory.
    ///
    /// # Errors
    /// None in one process; where elements are elsewhere, that they can't be fetched.
    pub fn digest(&self) -> Result<String>
    where
        T: Element,
    {
        self.elements.digest()
    }

    /// A range of elements, from wherever they are.
    pub(crate) fn elements(&self, range: Range<usize>) -> Result<Elements> {
        self.elements.elements(range)
    }

    pub(crate) fn describe(&self, writable: bool) -> Captured {
        self.elements.describe(writable)
    }
}

/// A number that changes with the contents; no two contents of this process have the same.
#[doc(hidden)]
pub fn version_of<T>(vector: &DVector<T>) -> u64 {
    vector.elements.version()
}

/// Calls a function with the elements of a range, a few megabytes at a time and in order: no more of what workers have is brought to
/// this process together.
#[doc(hidden)]
pub fn each_element<T: 'static, E: From<Error>>(
    vector: &DVector<T>,
    range: Range<usize>,
    mut f: impl FnMut(&[T]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    vector.elements.each(range, |elements| f(elements.as_slice()))
}

impl<T: std::fmt::Debug + 'static> std::fmt::Debug for DVector<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.elements(0..self.len()) {
            Ok(elements) => f.debug_list().entries(elements.as_slice::<T>()).finish(),
            Err(error) => write!(f, "[{} elements elsewhere: {error}]", self.len()),
        }
    }
}
