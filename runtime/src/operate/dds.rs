//! Where pipes begin: DDSs, which have the methods of the pipe that flows from them.

use std::ops::Add;

use super::body::{Plain, With};
use super::ends::{Numbering, SortKey};
use super::kernel::{
    Elements, Filtered, FlatMapped, IndexedKernel, MapEntries, Mapped, Numbered, Rows, Sampled, Zipped,
};
use super::pipe::{IntoPipe, JoinWith, Pipe};
use crate::body::capture::{Handles, Named};
use crate::body::value::Values;
use crate::dds::dmap::{DMap, DMultiMap, Key};
use crate::dds::dmatrix::DMatrix;
use crate::dds::dvector::DVector;
use crate::memory::element::Element;
use crate::session::error::Result;

impl<T: Element> DVector<T> {
    /// A pipe of the elements.
    pub fn pipe(&self) -> Pipe<'_, Elements<T>> {
        Pipe::of(self.describe(false), self.len(), Elements::new())
    }
}

impl<T: Element> DMatrix<T> {
    /// A pipe of the rows, each as a `Vec`. [`Pipe::collect_rows`] makes a matrix of rows again.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let m = DMatrix::from_vec(&session, 2, vec![3.0, 4.0, 5.0, 12.0, 8.0, 15.0])?;
    /// let norms = m.map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt()).to_vec()?;
    /// assert_eq!(norms, [5.0, 13.0, 17.0]);
    /// let long = m.filter(|row| row[0] > 4.0).collect_rows(2)?;
    /// assert_eq!(long.to_vec()?, [5.0, 12.0, 8.0, 15.0]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// Closures borrow a copy of each row, in memory that is reused from row to row. Steps and operators that give rows away
    /// (`enumerate`, `zip`, `collect`, `to_vec`) allocate a `Vec` for each row.
    pub fn pipe(&self) -> Pipe<'_, Rows<T>> {
        Pipe::of(self.describe(false), self.len(), Rows::new())
    }
}

impl<K: Key, V: Element> DMap<K, V> {
    /// A pipe of the entries: pairs of a key and a value, in the map's order.
    pub fn pipe(&self) -> Pipe<'_, MapEntries<K, V>> {
        Pipe::of(self.buckets.describe(false), self.buckets.len(), MapEntries::new())
    }
}

impl<K: Key, V: Element> DMultiMap<K, V> {
    /// A pipe of the keys with their values, in the map's order.
    pub fn pipe(&self) -> Pipe<'_, MapEntries<K, Vec<V>>> {
        self.map.pipe()
    }
}

macro_rules! pipe_methods {
    ([$($generic:tt)*] $dds:ty, $kernel:ty, $item:ty) => {
        impl<$($generic)*> $dds {
            /// [`Pipe::map`].
            pub fn map<'p, U: 'static, F>(&'p self, body: F) -> Pipe<'p, Mapped<$kernel, Plain<F>, U>>
            where
                F: Fn(&$item) -> U + Copy + Sync + 'static,
            {
                self.pipe().map(body)
            }

            /// [`Pipe::map`] with captures.
            #[doc(hidden)]
            pub fn map_with<'p, U: 'static, W, H, F>(
                &'p self,
                values: W,
                handles: Named<H>,
                body: F,
            ) -> Pipe<'p, Mapped<$kernel, With<W, H, F>, U>>
            where
                W: Values + 'p,
                H: Handles + 'p,
                F: for<'a, 'v, 't> Fn(W::Refs<'v>, &'a mut H::Views<'v>, &'t $item) -> U + Copy + Sync + 'static,
            {
                self.pipe().map_with(values, handles, body)
            }

            /// [`Pipe::filter`].
            pub fn filter<'p, F>(&'p self, body: F) -> Pipe<'p, Filtered<$kernel, Plain<F>>>
            where
                F: Fn(&$item) -> bool + Copy + Sync + 'static,
            {
                self.pipe().filter(body)
            }

            /// [`Pipe::filter`] with captures.
            #[doc(hidden)]
            pub fn filter_with<'p, W, H, F>(
                &'p self,
                values: W,
                handles: Named<H>,
                body: F,
            ) -> Pipe<'p, Filtered<$kernel, With<W, H, F>>>
            where
                W: Values + 'p,
                H: Handles + 'p,
                F: for<'a, 'v, 't> Fn(W::Refs<'v>, &'a mut H::Views<'v>, &'t $item) -> bool + Copy + Sync + 'static,
            {
                self.pipe().filter_with(values, handles, body)
            }

            /// [`Pipe::flat_map`].
            pub fn flat_map<'p, R, F>(&'p self, body: F) -> Pipe<'p, FlatMapped<$kernel, Plain<F>, R>>
            where
                R: IntoIterator<Item: 'static> + 'static,
                F: Fn(&$item) -> R + Copy + Sync + 'static,
            {
                self.pipe().flat_map(body)
            }

            /// [`Pipe::flat_map`] with captures.
            #[doc(hidden)]
            pub fn flat_map_with<'p, R, W, H, F>(
                &'p self,
                values: W,
                handles: Named<H>,
                body: F,
            ) -> Pipe<'p, FlatMapped<$kernel, With<W, H, F>, R>>
            where
                R: IntoIterator<Item: 'static> + 'static,
                W: Values + 'p,
                H: Handles + 'p,
                F: for<'a, 'v, 't> Fn(W::Refs<'v>, &'a mut H::Views<'v>, &'t $item) -> R + Copy + Sync + 'static,
            {
                self.pipe().flat_map_with(values, handles, body)
            }

            /// [`Pipe::sample`].
            pub fn sample(&self, probability: f64, seed: u64) -> Pipe<'_, Sampled<$kernel>> {
                self.pipe().sample(probability, seed)
            }

            /// [`Pipe::join`].
            pub fn join<'p, M, F>(&'p self, map: &'p M, key: F) -> Pipe<'p, M::Joined<'p, $kernel, F>>
            where
                M: JoinWith<$item>,
                F: Fn(&$item) -> M::Key + Copy + Sync + 'static,
            {
                self.pipe().join(map, key)
            }

            /// [`Pipe::fold`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn fold<A, F>(&self, init: A, f: F, unite: impl FnMut(A, A) -> A) -> Result<A>
            where
                A: Element,
                F: Fn(A, &$item) -> A + Copy + Sync + 'static,
            {
                self.pipe().fold(init, f, unite)
            }

            /// [`Pipe::fold`] with captures.
            ///
            /// # Errors
            /// As there.
            #[doc(hidden)]
            #[track_caller]
            pub fn fold_with<A, W, H, F>(
                &self,
                init: A,
                values: W,
                handles: Named<H>,
                f: F,
                unite: impl FnMut(A, A) -> A,
            ) -> Result<A>
            where
                A: Element,
                W: Values,
                H: Handles,
                F: for<'a, 'v, 't> Fn(W::Refs<'v>, &'a mut H::Views<'v>, A, &'t $item) -> A + Copy + Sync + 'static,
            {
                self.pipe().fold_with(init, values, handles, f, unite)
            }

            /// [`Pipe::sum`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn sum(&self) -> Result<$item>
            where
                $item: Add<Output = $item> + Default,
            {
                self.pipe().sum()
            }

            /// [`Pipe::reduce`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn reduce<F>(&self, f: F) -> Result<Option<$item>>
            where
                F: Fn($item, $item) -> $item + Copy + Sync + 'static,
            {
                self.pipe().reduce(f)
            }

            /// [`Pipe::sort_by_key`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn sort_by_key<S, F>(&self, key: F) -> Result<DVector<$item>>
            where
                S: SortKey,
                F: Fn(&$item) -> S + Copy + Sync + 'static,
            {
                self.pipe().sort_by_key(key)
            }

            /// [`Pipe::shuffle`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn shuffle(&self, seed: u64) -> Result<DVector<$item>> {
                self.pipe().shuffle(seed)
            }

            /// [`Pipe::top_k`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn top_k<S, F>(&self, most: usize, key: F) -> Result<Vec<$item>>
            where
                S: SortKey,
                F: Fn(&$item) -> S + Copy + Sync + 'static,
            {
                self.pipe().top_k(most, key)
            }

            /// [`Pipe::number_by_key`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn number_by_key<Q: Key, F>(&self, key: F) -> Result<Numbering<Q>>
            where
                F: Fn(&$item) -> Q + Copy + Sync + 'static,
            {
                self.pipe().number_by_key(key)
            }

            /// [`Pipe::count_by_key`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn count_by_key<Q: Key, F>(&self, key: F) -> Result<DMap<Q, u64>>
            where
                F: Fn(&$item) -> Q + Copy + Sync + 'static,
            {
                self.pipe().count_by_key(key)
            }

            /// [`Pipe::split`].
            ///
            /// # Errors
            /// As there.
            #[track_caller]
            pub fn split(&self, probability: f64, seed: u64) -> Result<(DVector<$item>, DVector<$item>)> {
                self.pipe().split(probability, seed)
            }
        }
    };
}
pipe_methods!([T: Element] DVector<T>, Elements<T>, T);
pipe_methods!([T: Element] DMatrix<T>, Rows<T>, Vec<T>);
pipe_methods!([K: Key, V: Element] DMap<K, V>, MapEntries<K, V>, (K, V));
pipe_methods!([K: Key, V: Element] DMultiMap<K, V>, MapEntries<K, Vec<V>>, (K, Vec<V>));

macro_rules! indexed_pipe_methods {
    ($dds:ty, $kernel:ty) => {
        impl<T: Element> $dds {
            /// [`Pipe::enumerate`].
            pub fn enumerate(&self) -> Pipe<'_, Numbered<$kernel>> {
                self.pipe().enumerate()
            }

            /// [`Pipe::zip`].
            pub fn zip<'p, L: IndexedKernel>(
                &'p self,
                other: impl IntoPipe<'p, Kernel = L>,
            ) -> Pipe<'p, Zipped<$kernel, L>> {
                self.pipe().zip(other)
            }
        }
    };
}
indexed_pipe_methods!(DVector<T>, Elements<T>);
indexed_pipe_methods!(DMatrix<T>, Rows<T>);
