//! A pipe: data on their way from a DDS through closures to wherever they end.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use super::body::{Body, Plain, Travels, With};
use super::kernel::{
    Elements, Filtered, FlatMapped, IndexedKernel, Kernel, MapEntries, Mapped, Numbered, Rows, Sampled, Zipped,
};
use super::run::{Operation, OperatorBackend};
use super::stage::{Items, Stage, maker_of};
use crate::body::capture::{Captured, Handles, Named, Read};
use crate::body::value::Values;
use crate::dds::chunks::check_len;
use crate::dds::dmap::{DMap, DMultiMap, Key, MapView, MultiMapView};
use crate::dds::dmatrix::DMatrix;
use crate::dds::dvector::DVector;
use crate::memory::element::Element;
use crate::session::SessionInner;
use crate::session::error::{Error, LoopProblem, Result};

/// Steps over the items of a DDS. Nothing runs before an operator asks for the result.
///
/// [`DVector`](crate::DVector), [`DMatrix`] and [`DMap`] have all of these methods themselves: `ratings.filter(...)` begins a pipe.
/// Steps (`map`, `filter`, `flat_map`, `enumerate`, `zip`, `sample`, `join`) only record what is to be done. All steps run in one
/// pass over the data when an operator such as `collect`, `to_vec`, `count`, `fold`, `reduce`, `sort_by_key`, `count_by_key`,
/// `group_by_key` or `reduce_by_key` asks for the result, on the session's threads or workers. A pipe can be used once.
///
/// Closures get references to items. They must have no side effects, and they use no variables: put a closure that does into
/// `stradsap::with!`, which takes a capture list as loops do. Workers know a closure by its type alone. So rustc rejects every
/// capture that has bytes. It can't see captures without bytes; a closure must not capture such a value if it stands for something
/// done in this process (a token).
///
/// # Determinism
/// Results depend on the data and the closures alone, not on the number of threads or workers. Items stay in order, and
/// floating-point sums are rounded in the same places.
pub struct Pipe<'p, K> {
    pub(super) flow: Flow,
    pub(super) kernel: K,
    pub(super) borrowed: PhantomData<&'p ()>,
}

/// What a pipe is about, without the types of its steps.
pub(super) struct Flow {
    pub(super) session: Arc<SessionInner>,
    sources: Vec<Captured>,
    pub(super) len: usize,
    captured: Vec<Captured>,
    /// Which of these are maps in which joins look up keys.
    looked_up: Vec<usize>,
    /// What a step was given that it can't do: an error of the operator that runs the pipe.
    refused: Option<LoopProblem>,
    /// See [`Operation`].
    chunk: Option<usize>,
    again: bool,
}

impl Flow {
    /// What begins with these sources, or with numbers alone.
    pub(super) fn of(session: Arc<SessionInner>, sources: Vec<Captured>, len: usize) -> Flow {
        let (captured, looked_up) = (Vec::new(), Vec::new());
        Flow { session, sources, len, captured, looked_up, refused: None, chunk: None, again: true }
    }

    /// What begins with the numbers of some pieces. `again`: whether they can be made a second time.
    pub(super) fn of_pieces(session: Arc<SessionInner>, pieces: usize, again: bool) -> Flow {
        Flow { chunk: Some(1), again, ..Flow::of(session, Vec::new(), pieces) }
    }

    /// What begins with the elements of one DDS, this many at a time.
    pub(super) fn of_runs(source: Captured, len: usize, each: usize) -> Flow {
        Flow { chunk: Some(each), ..Flow::of(Arc::clone(&source.session), vec![source], len) }
    }

    /// Checks that a DVector has room for the items of a kernel, as far as their number is known.
    pub(super) fn fits<K: Kernel>(&self) -> Result<()> {
        if K::ONE_EACH { check_len(self.len, size_of::<K::Item>()) } else { Ok(()) }
    }

    /// Runs a stage that was made from the pipe's kernel, here or on workers, as `run` has it run.
    pub(super) fn operate<S: Stage + Travels, R>(
        &self,
        site: &str,
        stage: &S,
        run: impl FnOnce(&dyn OperatorBackend, &Operation<'_>) -> Result<R>,
    ) -> Result<R> {
        let Flow { session, sources, len, captured, looked_up, refused, chunk, again } = self;
        if let Some(problem) = refused {
            return Err(Error::Loop { site: site.to_string(), problem: problem.clone() });
        }
        let pack = || {
            let mut bytes = Vec::new();
            stage.encode(&mut bytes)?;
            Ok((maker_of(stage), bytes))
        };
        let (len, chunk, again) = (*len, *chunk, *again);
        let operation =
            Operation { session, site, sources, captured, looked_up, len, chunk, again, stage, pack: &pack };
        operation.check()?;
        run(&*session.backend::<dyn OperatorBackend>(), &operation)
    }

    /// The lists of a stage, in this process.
    pub(super) fn give<S: Stage + Travels>(&self, site: &str, stage: &S) -> Result<Vec<Box<dyn Items>>> {
        self.operate(site, stage, |backend, operation| backend.give(operation))
    }
}

/// Where an operator was called, as errors name it.
pub(super) fn site(name: &str, location: &Location<'_>) -> String {
    format!("{}:{} ({name})", location.file(), location.line())
}

impl<'p, K: Kernel> Pipe<'p, K> {
    pub(super) fn of(source: Captured, len: usize, kernel: K) -> Self {
        let session = Arc::clone(&source.session);
        Pipe { flow: Flow::of(session, vec![source], len), kernel, borrowed: PhantomData }
    }

    pub(super) fn then<L>(self, kernel: impl FnOnce(K) -> L) -> Pipe<'p, L> {
        Pipe { flow: self.flow, kernel: kernel(self.kernel), borrowed: self.borrowed }
    }

    /// A closure with what it captures, whose borrows last as long as the pipe.
    pub(super) fn capture<V: Values + 'p, H: Handles + 'p, F: Copy>(
        &mut self,
        values: V,
        (mut handles, names): Named<H>,
        body: F,
    ) -> With<V, H, F> {
        let slot = self.flow.captured.len();
        let names = names.iter().copied().map(Some).chain(std::iter::repeat(None));
        let named = |(captured, name)| Captured { name, ..captured };
        self.flow.captured.extend(handles.describe().into_iter().zip(names).map(named));
        With::new(values, slot, body)
    }

    /// The result of a closure for each item.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_vec(&session, vec![1.0, 2.0, 3.0])?;
    /// assert_eq!(x.map(|x| 2.0 * x).to_vec()?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn map<U: 'static, F>(self, body: F) -> Pipe<'p, Mapped<K, Plain<F>, U>>
    where
        F: Fn(&K::Item) -> U + Copy + Sync + 'static,
    {
        self.then(|before| Mapped::new(before, Plain::new(body)))
    }

    /// [`map`](Pipe::map) with captures: `with!([x], pipe.map(...))`.
    #[doc(hidden)]
    pub fn map_with<U: 'static, V, H, F>(
        mut self,
        values: V,
        handles: Named<H>,
        body: F,
    ) -> Pipe<'p, Mapped<K, With<V, H, F>, U>>
    where
        V: Values + 'p,
        H: Handles + 'p,
        F: for<'a, 'v, 't> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'t K::Item) -> U + Copy + Sync + 'static,
    {
        let body = self.capture(values, handles, body);
        self.then(|before| Mapped::new(before, body))
    }

    /// The items for which a closure returns `true`, in order.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_fn(&session, 10, |i| i as u32)?;
    /// assert_eq!(x.filter(|x| x % 3 == 1).to_vec()?, [1, 4, 7]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn filter<F>(self, body: F) -> Pipe<'p, Filtered<K, Plain<F>>>
    where
        F: Fn(&K::Item) -> bool + Copy + Sync + 'static,
    {
        self.then(|before| Filtered::new(before, Plain::new(body)))
    }

    /// [`filter`](Pipe::filter) with captures: `with!([x], pipe.filter(...))`.
    #[doc(hidden)]
    pub fn filter_with<V, H, F>(mut self, values: V, handles: Named<H>, body: F) -> Pipe<'p, Filtered<K, With<V, H, F>>>
    where
        V: Values + 'p,
        H: Handles + 'p,
        F: for<'a, 'v, 't> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'t K::Item) -> bool + Copy + Sync + 'static,
    {
        let body = self.capture(values, handles, body);
        self.then(|before| Filtered::new(before, body))
    }

    /// All items of the collections that a closure returns, one after the other. The collection (a `Vec`, an `Option`, an array, an
    /// iterator) can't borrow from the item.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let lines = DVector::from_vec(&session, vec!["a b".to_string(), "".to_string(), "c".to_string()])?;
    /// let words = lines.flat_map(|line| line.split_whitespace().map(str::to_string).collect::<Vec<_>>());
    /// assert_eq!(words.to_vec()?, ["a", "b", "c"]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn flat_map<R, F>(self, body: F) -> Pipe<'p, FlatMapped<K, Plain<F>, R>>
    where
        R: IntoIterator<Item: 'static> + 'static,
        F: Fn(&K::Item) -> R + Copy + Sync + 'static,
    {
        self.then(|before| FlatMapped::new(before, Plain::new(body)))
    }

    /// [`flat_map`](Pipe::flat_map) with captures: `with!([x], pipe.flat_map(...))`.
    #[doc(hidden)]
    pub fn flat_map_with<R, V, H, F>(
        mut self,
        values: V,
        handles: Named<H>,
        body: F,
    ) -> Pipe<'p, FlatMapped<K, With<V, H, F>, R>>
    where
        R: IntoIterator<Item: 'static> + 'static,
        V: Values + 'p,
        H: Handles + 'p,
        F: for<'a, 'v, 't> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'t K::Item) -> R + Copy + Sync + 'static,
    {
        let body = self.capture(values, handles, body);
        self.then(|before| FlatMapped::new(before, body))
    }

    /// Items chosen at random, each with this probability, from 0 to 1. The choice depends only on the seed and the places of the
    /// items (in a map, on their keys). To take two different samples use two seeds. If the probability isn't from 0 to 1, the
    /// operator that runs the pipe returns [`LoopProblem::Probability`].
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_fn(&session, 10_000, |i| i as u32)?;
    /// let some = x.sample(0.1, 7).to_vec()?;
    /// assert!((900..1100).contains(&some.len()) && some.is_sorted());
    /// assert_eq!(x.sample(0.1, 7).to_vec()?, some);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn sample(self, probability: f64, seed: u64) -> Pipe<'p, Sampled<K>> {
        self.chosen("sample", probability, seed)
    }

    pub(super) fn chosen(mut self, operator: &'static str, probability: f64, seed: u64) -> Pipe<'p, Sampled<K>> {
        if !(0.0..=1.0).contains(&probability) {
            let problem = LoopProblem::Probability { operator, given: probability.to_string() };
            self.flow.refused.get_or_insert(problem);
        }
        // 1 chooses all but one of 2^64 numbers, which no item has to fear.
        let below = (probability * 2f64.powi(64)) as u64;
        self.then(|before| Sampled { before, seed, below, keep: true })
    }

    /// Pairs of each item with the value that a map has for its key. Items without a value are left out, and a [`DMultiMap`] gives
    /// a pair for each value. The items stay in order.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMap, DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let names = DMap::from_entries(&session, [(1u32, "Ada".to_string()), (2, "Alan".to_string())])?;
    /// let visits = DVector::from_vec(&session, vec![2u32, 3, 1, 2])?;
    /// let joined = visits.join(&names, |user| *user).map(|(user, name)| format!("{user} {name}"));
    /// assert_eq!(joined.to_vec()?, ["2 Alan", "1 Ada", "2 Alan"]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// One look-up for each item. On workers, a worker with fewer items than an eighth of the map's buckets runs the steps before this one
    /// twice, and fetches only what it looks up, for some thousand items at a time; so does every worker if the map takes more than 1 GiB.
    /// Otherwise it fetches the whole map once.
    pub fn join<'m, M, F>(self, map: &'m M, key: F) -> Pipe<'p, M::Joined<'m, K, F>>
    where
        M: JoinWith<K::Item>,
        K::Item: Clone,
        F: Fn(&K::Item) -> M::Key + Copy + Sync + 'static,
        'm: 'p,
    {
        map.join(self, key)
    }
}

impl<'p, K: Kernel> Pipe<'p, K> {
    /// Items with their indices. After `filter`, `flat_map`, `sample` or `join` call `collect` first, since the indices are not
    /// known before.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_vec(&session, vec!['a', 'b'])?;
    /// assert_eq!(x.enumerate().to_vec()?, [(0, 'a'), (1, 'b')]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn enumerate(self) -> Pipe<'p, Numbered<K>>
    where
        K: IndexedKernel,
    {
        self.then(Numbered)
    }

    /// Pairs of the items of two pipes with equal indices, as many as the shorter pipe has.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_vec(&session, vec![1.0, 2.0])?;
    /// let y = DVector::from_vec(&session, vec![3.0, 4.0, 5.0])?;
    /// assert_eq!(x.zip(&y).map(|(x, y)| x * y).fold(0.0, |sum, xy| sum + xy, |a, b| a + b)?, 11.0);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn zip<'q: 'p, L: IndexedKernel>(self, other: impl IntoPipe<'q, Kernel = L>) -> Pipe<'p, Zipped<K, L>>
    where
        K: IndexedKernel,
    {
        let Pipe { mut flow, kernel, borrowed } = self;
        let Pipe { flow: theirs, kernel: mut other, .. } = other.into_pipe();
        other.shift(flow.sources.len(), flow.captured.len());
        flow.looked_up.extend(theirs.looked_up.iter().map(|slot| flow.captured.len() + slot));
        flow.sources.extend(theirs.sources);
        flow.captured.extend(theirs.captured);
        flow.len = flow.len.min(theirs.len);
        flow.refused = flow.refused.or(theirs.refused);
        Pipe { flow, kernel: Zipped(kernel, other), borrowed }
    }
}

/// What a pipe can begin with: a DVector, a DMatrix, a map, or the pipe itself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no pipe",
    label = "neither a DDS nor a pipe",
    note = "give a reference to a DVector, a DMatrix or a map, or a pipe such as `x.map(...)`"
)]
pub trait IntoPipe<'p> {
    #[doc(hidden)]
    type Kernel: Kernel;
    #[doc(hidden)]
    fn into_pipe(self) -> Pipe<'p, Self::Kernel>;
}

impl<'p, K: Kernel> IntoPipe<'p> for Pipe<'p, K> {
    type Kernel = K;
    fn into_pipe(self) -> Pipe<'p, K> {
        self
    }
}

impl<'p, T: Element> IntoPipe<'p> for &'p DVector<T> {
    type Kernel = Elements<T>;
    fn into_pipe(self) -> Pipe<'p, Elements<T>> {
        self.pipe()
    }
}

impl<'p, T: Element> IntoPipe<'p> for &'p DMatrix<T> {
    type Kernel = Rows<T>;
    fn into_pipe(self) -> Pipe<'p, Rows<T>> {
        self.pipe()
    }
}

impl<'p, Q: Key, V: Element> IntoPipe<'p> for &'p DMap<Q, V> {
    type Kernel = MapEntries<Q, V>;
    fn into_pipe(self) -> Pipe<'p, MapEntries<Q, V>> {
        self.pipe()
    }
}

/// A map whose values can be joined with items: a [`DMap`] or a [`DMultiMap`].
pub trait JoinWith<T> {
    /// The type of the keys.
    type Key;
    #[doc(hidden)]
    type Joined<'m, K: Kernel<Item = T>, F: Fn(&T) -> Self::Key + Copy + Sync + 'static>: Kernel
    where
        Self: 'm;
    #[doc(hidden)]
    fn join<'p, 'm: 'p, K: Kernel<Item = T>, F: Fn(&T) -> Self::Key + Copy + Sync + 'static>(
        &'m self,
        pipe: Pipe<'p, K>,
        key: F,
    ) -> Pipe<'p, Self::Joined<'m, K, F>>;
}

/// A closure that finds an item's values in a captured map.
#[doc(hidden)]
pub struct Lookup<'m, M, F> {
    slot: usize,
    key: Plain<F>,
    map: PhantomData<fn(&'m M)>,
}

impl<M, F: Copy> Travels for Lookup<'_, M, F> {
    fn encode(&self, out: &mut Vec<u8>) -> std::result::Result<(), crate::memory::codec::CodecError> {
        self.slot.encode(out);
        Ok(())
    }

    #[allow(unsafe_code)]
    unsafe fn decode(bytes: &mut &[u8]) -> std::result::Result<Self, crate::memory::codec::CodecError> {
        let slot = super::body::decode_one(bytes)?;
        // SAFETY: the caller's promise.
        Ok(Lookup { slot, key: unsafe { Travels::decode(bytes)? }, map: PhantomData })
    }
}

macro_rules! lookups {
    ($($map:ident, $view:ident => $pairs:ty, |$item:ident, $found:ident| $give:expr;)*) => {$(
        impl<'m, T, Q, V, F> Body<T, $pairs> for Lookup<'m, $map<Q, V>, F>
        where
            T: Clone + 'static,
            Q: Key,
            V: Element,
            F: Fn(&T) -> Q + Copy + Sync + 'static,
        {
            #[inline(always)]
            fn bind<'v>(&'v self, cx: &super::kernel::Cx<'v>) -> impl FnMut(&T) -> $pairs + 'v
            where
                T: 'v,
                $pairs: 'v,
            {
                // SAFETY: the slot was made from the map that the pipe captured here.
                #[allow(unsafe_code)]
                let ($found,) = unsafe { <(Read<'m, $map<Q, V>>,) as Handles>::views(&cx.slots[self.slot..]) };
                let (key, slot, asked) = (self.key.0, self.slot, cx.asked);
                move |$item| {
                    let key = key($item);
                    if asked.is_some_and(|elsewhere| elsewhere(slot, $found.bucket_of(&key))) {
                        return <$pairs>::default();
                    }
                    $give(&$found, &key, $item)
                }
            }

            fn shift(&mut self, slots: usize) {
                self.slot += slots;
            }
        }

        impl<T: Clone + 'static, Q: Key, V: Element> JoinWith<T> for $map<Q, V> {
            type Key = Q;
            type Joined<'m, K: Kernel<Item = T>, F: Fn(&T) -> Q + Copy + Sync + 'static> =
                FlatMapped<K, Lookup<'m, $map<Q, V>, F>, $pairs>;

            fn join<'p, 'm: 'p, K: Kernel<Item = T>, F: Fn(&T) -> Q + Copy + Sync + 'static>(
                &'m self,
                mut pipe: Pipe<'p, K>,
                key: F,
            ) -> Pipe<'p, Self::Joined<'m, K, F>> {
                let slot = pipe.flow.captured.len();
                pipe.flow.captured.extend((Read::<_, 0>(self),).describe());
                pipe.flow.looked_up.push(slot);
                pipe.then(|before| FlatMapped::new(before, Lookup { slot, key: Plain::new(key), map: PhantomData }))
            }
        }
    )*};
}

lookups! {
    DMap, MapView => Option<(T, V)>, |item, found| |found: &MapView<'_, Q, V, 0>, key: &Q, item: &T| {
        found.get(key).map(|value| (item.clone(), value.clone()))
    };
    DMultiMap, MultiMapView => Vec<(T, V)>, |item, found| |found: &MultiMapView<'_, Q, V, 0>, key: &Q, item: &T| {
        found[key].iter().map(|value| (item.clone(), value.clone())).collect()
    };
}
