//! The operators that run a pipe.

use std::marker::PhantomData;
use std::ops::Add;
use std::panic::Location;

use super::body::{Body, ByChance, Plain, Travels, With, WithPlace};
use super::folding::FoldBody;
use super::grouped::{Grouped, Listing, Pairwise, Unite};
use super::kernel::{Kernel, Mapped};
use super::pipe::{Pipe, site};
use super::stage::{Collected, Folded, Items, Keys, PARTITIONS, Reduced, Sorted, Stage, Top, joined, keep_top, unpack};
use crate::body::capture::{Handles, Named};
use crate::body::panics;
use crate::body::value::Values;
use crate::dds::dmap::{DMap, DMultiMap, Key};
use crate::dds::dvector::DVector;
use crate::memory::element::Element;
use crate::session::error::{BatchProblem, Error, Result};

/// This many items of a source make another partition worth while.
const ITEMS_A_PARTITION: usize = 4096;
/// This many sampled keys decide on the border of a partition.
const SAMPLES_A_BORDER: usize = 32;

/// The different keys of a table, numbered from 0: [`Pipe::number_by_key`].
pub struct Numbering<Q: Key> {
    /// The keys, by number.
    pub keys: DVector<Q>,
    /// The numbers, by key.
    pub numbers: DMap<Q, u32>,
}

fn partitions_of(len: usize) -> usize {
    (len / ITEMS_A_PARTITION).clamp(1, PARTITIONS)
}

/// Runs the program's own code in its own process, on what chunks gave.
fn caught<R>(site: &str, f: impl FnOnce() -> R) -> Result<R> {
    panics::caught(f).map_err(|note| {
        let problem = BatchProblem::Panic { message: note.message, location: note.location };
        Error::Operator { site: site.to_string(), element: None, problem }
    })
}

/// What items can be sorted by: an [`Element`] with `Ord`.
#[diagnostic::on_unimplemented(
    message = "items can't be sorted by `{Self}`",
    label = "not an `Element` with `Ord`",
    note = "floats have no order of their own: give `stradsap::Ordered(x)` for a float `x`"
)]
pub trait SortKey: Element + Ord {}

#[diagnostic::do_not_recommend]
impl<S: Element + Ord> SortKey for S {}

impl<'p, K: Kernel> Pipe<'p, K> {
    /// Runs a stage made from the kernel, to get its lists here.
    fn end<S: Stage + Travels>(
        self,
        name: &str,
        at: &Location<'_>,
        stage: impl FnOnce(K) -> S,
    ) -> Result<Vec<Box<dyn Items>>> {
        self.flow.give(&site(name, at), &stage(self.kernel))
    }

    /// All items, as a DVector. Each worker keeps the items that it made.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_fn(&session, 10, |i| i as u32)?;
    /// let squares: DVector<u32> = x.filter(|x| x % 2 == 1).map(|x| x * x).collect()?;
    /// assert_eq!(squares.to_vec()?, [1, 9, 25, 49, 81]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operator`] if a closure panics, [`Error::TooLong`] for more than 2^48 items, [`Error::Cluster`] if processes
    /// are lost for good.
    #[track_caller]
    pub fn collect(self) -> Result<DVector<K::Item>>
    where
        K::Item: Element,
    {
        self.flow.fits::<K>()?;
        self.flow.store(&site("collect", Location::caller()), &Collected(self.kernel))
    }

    /// All items, in the program's own memory.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn to_vec(self) -> Result<Vec<K::Item>>
    where
        K::Item: Element,
    {
        self.flow.fits::<K>()?;
        let lists = self.end("to_vec", Location::caller(), Collected)?;
        Ok(joined(lists))
    }

    /// How many items there are.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn count(self) -> Result<usize> {
        let counting = Plain::new(|n: usize, _: &K::Item| n + 1);
        self.folded(("count", Location::caller()), 0usize, counting, |a, b| a + b)
    }

    /// Folds all items into one value. The items are cut into runs. In each run `f` is called for one item after the other, with
    /// the value so far; it begins with `init`. `unite` joins the values of two neighbouring runs.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_vec(&session, vec![3.0f64, 4.0])?;
    /// assert_eq!(x.fold(0.0, |sum, x| sum + x * x, |a, b| a + b)?.sqrt(), 5.0);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Determinism
    /// Runs depend on the length of the source alone, so a floating-point sum has the same bits wherever it runs.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn fold<A, F>(self, init: A, f: F, unite: impl FnMut(A, A) -> A) -> Result<A>
    where
        A: Element,
        F: Fn(A, &K::Item) -> A + Copy + Sync + 'static,
    {
        self.folded(("fold", Location::caller()), init, Plain::new(f), unite)
    }

    /// [`fold`](Pipe::fold) with captures: `with!([x], pipe.fold(init, ..., unite))`.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[doc(hidden)]
    #[track_caller]
    pub fn fold_with<A, V, H, F>(
        mut self,
        init: A,
        values: V,
        handles: Named<H>,
        f: F,
        unite: impl FnMut(A, A) -> A,
    ) -> Result<A>
    where
        A: Element,
        V: Values + 'p,
        H: Handles + 'p,
        F: for<'a, 'v, 't> Fn(V::Refs<'v>, &'a mut H::Views<'v>, A, &'t K::Item) -> A + Copy + Sync + 'static,
    {
        let body: With<V, H, F> = self.capture(values, handles, f);
        self.folded(("fold", Location::caller()), init, body, unite)
    }

    fn folded<A: Element, B: FoldBody<A, K::Item>>(
        self,
        (operator, at): (&'static str, &Location<'_>),
        init: A,
        body: B,
        unite: impl FnMut(A, A) -> A,
    ) -> Result<A> {
        let first = init.clone();
        let lists = self.end(operator, at, |kernel| Folded { kernel, init, body })?;
        let folded = caught(&site(operator, at), || unpack::<A>(lists).into_iter().flatten().reduce(unite))?;
        Ok(folded.unwrap_or(first))
    }

    /// Unites all items into one, two at a time, in order; `None` if there are no items.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_vec(&session, vec![3, 9, 4])?;
    /// assert_eq!(x.reduce(|a, b| a.max(b))?, Some(9));
    /// assert_eq!(x.filter(|x| *x > 9).reduce(|a, b| a.max(b))?, None);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn reduce<F>(self, f: F) -> Result<Option<K::Item>>
    where
        K::Item: Element,
        F: Fn(K::Item, K::Item) -> K::Item + Copy + Sync + 'static,
    {
        self.reduced(("reduce", Location::caller()), f)
    }

    /// The sum of all items; the type's default if there are none.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let x = DVector::from_vec(&session, vec![3.0, 4.0])?;
    /// assert_eq!(x.map(|x| x * x).sum()?, 25.0);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Determinism
    /// As that of [`fold`](Pipe::fold).
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn sum(self) -> Result<K::Item>
    where
        K::Item: Element + Add<Output = K::Item> + Default,
    {
        Ok(self.reduced(("sum", Location::caller()), |a, b| a + b)?.unwrap_or_default())
    }

    fn reduced<F>(self, (operator, at): (&'static str, &Location<'_>), f: F) -> Result<Option<K::Item>>
    where
        K::Item: Element,
        F: Fn(K::Item, K::Item) -> K::Item + Copy + Sync + 'static,
    {
        let lists = self.end(operator, at, |kernel| Reduced { kernel, body: Plain::new(f) })?;
        caught(&site(operator, at), || unpack::<K::Item>(lists).into_iter().flatten().reduce(f))
    }

    /// All items in the order of their keys. Items with equal keys keep their order. Use [`Ordered(x)`](crate::Ordered) for a float
    /// as the key, and [`Reverse(key)`](std::cmp::Reverse) for descending order.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let words = DVector::from_vec(&session, ["pear", "fig", "apple", "kiwi"].map(String::from).to_vec())?;
    /// assert_eq!(words.sort_by_key(|word| word.len())?.to_vec()?, ["fig", "pear", "kiwi", "apple"]);
    ///
    /// use std::cmp::Reverse;
    /// use stradsap::Ordered;
    /// let scores = DVector::from_vec(&session, vec![0.5, 2.5, -1.0])?;
    /// assert_eq!(scores.sort_by_key(|score| Reverse(Ordered(*score)))?.to_vec()?, [2.5, 0.5, -1.0]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// A pass that samples keys, one that deals items out to at most 64 partitions, and a sort of each. On workers an item
    /// moves to the worker that sorts its partition.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn sort_by_key<S, F>(self, key: F) -> Result<DVector<K::Item>>
    where
        K::Item: Element,
        S: SortKey,
        F: Fn(&K::Item) -> S + Copy + Sync + 'static,
    {
        self.sorted("sort_by_key", Location::caller(), Plain::new(key))
    }

    fn sorted<S: SortKey, B: Body<K::Item, S>>(
        self,
        name: &str,
        at: &Location<'_>,
        mut body: B,
    ) -> Result<DVector<K::Item>>
    where
        K::Item: Element,
    {
        let site = site(name, at);
        let Pipe { flow, mut kernel, .. } = self;
        flow.fits::<K>()?;
        let partitions = partitions_of(flow.len);
        let mut borders = Vec::new();
        if partitions > 1 {
            let every = (flow.len / (partitions * SAMPLES_A_BORDER)).max(1);
            let keys = Keys { kernel, body, every, key: PhantomData };
            let lists = flow.give(&site, &keys)?;
            Keys { kernel, body, .. } = keys;
            let mut sampled: Vec<S> = joined(lists);
            borders = caught(&site, || {
                sampled.sort();
                let border = |p| sampled.get(sampled.len() * p / partitions).cloned();
                let mut borders: Vec<S> = (1..partitions).filter_map(border).collect();
                borders.dedup();
                borders
            })?;
        }
        flow.store(&site, &Sorted { kernel, body, borders })
    }

    /// All items in a random order. It depends only on the seed and the places of the items (in a map, on their keys).
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(2).build()?;
    /// let rows = DVector::from_fn(&session, 1000, |i| i as u32)?;
    /// let shuffled = rows.shuffle(1)?;
    /// assert_ne!(shuffled.to_vec()?, rows.to_vec()?);
    /// assert_eq!(shuffled.digest()?, rows.shuffle(1)?.digest()?);
    /// assert_eq!(shuffled.sort_by_key(|row| *row)?.digest()?, rows.digest()?);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// A pass that deals items out to at most 64 partitions, and a sort of each by a number of 8 bytes. On workers an item moves to
    /// the worker that has its partition, and stays there.
    ///
    /// # Determinism
    /// The order is the same on any number of threads and workers. It is independent of what [`sample`](Pipe::sample) and
    /// [`split`](Pipe::split) choose with the same seed.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn shuffle(self, seed: u64) -> Result<DVector<K::Item>>
    where
        K::Item: Element,
    {
        self.flow.fits::<K>()?;
        // Its numbers are spread evenly, so that borders need no sample of them.
        let partitions = partitions_of(self.flow.len) as u64;
        let borders = (1..partitions).map(|p| p * (u64::MAX / partitions)).collect();
        let sorted = Sorted { kernel: self.kernel, body: ByChance(seed), borders };
        self.flow.store(&site("shuffle", Location::caller()), &sorted)
    }

    /// The `most` items with the largest keys, the largest first. Of items with equal keys the earlier one comes first. If there
    /// are fewer items than `most`, all are returned.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Ordered, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let scores = DVector::from_vec(&session, vec![("fig", 0.5), ("pear", 2.5), ("kiwi", 1.0)].into_iter()
    ///     .map(|(name, score)| (name.to_string(), score)).collect::<Vec<(String, f64)>>())?;
    /// let best = scores.top_k(2, |(_, score)| Ordered(*score))?;
    /// assert_eq!(best[0].0, "pear");
    /// assert_eq!(best[1].0, "kiwi");
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// One pass. At most `most` items of each chunk are sent to the program's own process.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn top_k<S, F>(self, most: usize, key: F) -> Result<Vec<K::Item>>
    where
        K::Item: Element,
        S: SortKey,
        F: Fn(&K::Item) -> S + Copy + Sync + 'static,
    {
        let at = Location::caller();
        let lists = self.end("top_k", at, |kernel| Top { kernel, body: Plain::new(key), most, key: PhantomData })?;
        let mut best: Vec<(S, K::Item)> = joined(lists);
        caught(&site("top_k", at), || keep_top(&mut best, most))?;
        Ok(best.into_iter().map(|(_, item)| item).collect())
    }

    /// Numbers the different keys of the items from 0, in the order in which they first appear. Use it to replace the ids of a
    /// table by dense numbers.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let visits = DVector::from_vec(&session, ["ada", "alan", "ada", "grace"].map(String::from).to_vec())?;
    /// let users = visits.number_by_key(|user| user.clone())?;
    /// assert_eq!(users.keys.to_vec()?, ["ada", "alan", "grace"]);
    /// assert_eq!(users.numbers.get("grace")?, Some(2));
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// This replaces keys by numbers: `with!([&users], rows.map(|row| users[&row.user])).collect()`, where `users` is the map
    /// [`numbers`](Numbering::numbers).
    ///
    /// # Cost
    /// A pass like that of [`count_by_key`](Pipe::count_by_key), then a sort of the different keys, and making a map of them.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn number_by_key<Q: Key, F>(self, key: F) -> Result<Numbering<Q>>
    where
        F: Fn(&K::Item) -> Q + Copy + Sync + 'static,
    {
        let at = Location::caller();
        let places = self.then(|before| Mapped::new(before, WithPlace(Plain::new(key))));
        let first = places.united("number_by_key", at, Pairwise(|a: (u64, u64), b| a.min(b)))?;
        let ordered = first.pipe().sorted("number_by_key", at, Plain::new(|(_, place): &(Q, (u64, u64))| *place))?;
        let keys = ordered.map(|(key, _)| key.clone()).collect()?;
        let numbers = keys.enumerate().map(|(number, key)| (key.clone(), *number as u32)).collect_map()?;
        Ok(Numbering { keys, numbers })
    }

    /// How many items have each key.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let words = DVector::from_vec(&session, vec!["fig".to_string(), "pear".to_string(), "fig".to_string()])?;
    /// let counts = words.count_by_key(|word| word.clone())?;
    /// assert_eq!((counts.get("fig")?, counts.get("pear")?), (Some(2), Some(1)));
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// One pass. Each worker first counts the items of its runs. Then one pair of key and count moves for each key of each run to the
    /// worker that has the key's partition, and the map stays where it is made.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn count_by_key<Q: Key, F>(self, key: F) -> Result<DMap<Q, u64>>
    where
        F: Fn(&K::Item) -> Q + Copy + Sync + 'static,
    {
        let at = Location::caller();
        let pairs = self.map(move |item| (key(item), 1u64));
        pairs.united("count_by_key", at, Pairwise(|a: u64, b: u64| a + b))
    }

    /// Splits the items at random into those that [`sample`](Pipe::sample) takes with the same seed, and all others. Both stay in
    /// order.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let ratings = DVector::from_fn(&session, 1000, |i| i as u32)?;
    /// let (train, test) = ratings.split(0.9, 1)?;
    /// assert_eq!(train.len() + test.len(), 1000);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// Two passes.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect); [`LoopProblem::Probability`](crate::LoopProblem::Probability) for a probability that isn't
    /// from 0 to 1.
    #[track_caller]
    #[allow(clippy::type_complexity)]
    pub fn split(self, probability: f64, seed: u64) -> Result<(DVector<K::Item>, DVector<K::Item>)>
    where
        K::Item: Element,
    {
        let site = site("split", Location::caller());
        let Pipe { flow, kernel, .. } = self.chosen("split", probability, seed);
        let mut stage = Collected(kernel);
        let first = flow.store(&site, &stage)?;
        stage.0.keep = false;
        Ok((first, flow.store(&site, &stage)?))
    }
}

impl<'p, Q: Key, W: Element, K: Kernel<Item = (Q, W)>> Pipe<'p, K> {
    /// All values of each key, in the order of the items.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let links = DVector::from_vec(&session, vec![[1u32, 2], [2, 1], [1, 3]])?;
    /// let out = links.map(|[from, to]| (*from, *to)).group_by_key()?;
    /// assert_eq!(out.get(&1)?, [2, 3]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// One pass. On workers, each pair moves to the worker that has its key's partition, and the map stays where it is made.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn group_by_key(self) -> Result<DMultiMap<Q, W>> {
        self.united("group_by_key", Location::caller(), Listing).map(|map| DMultiMap { map })
    }

    /// Unites all values of each key into one, two at a time, in the order of the items.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let sales = DVector::from_vec(&session, vec![("fig".to_string(), 2.0), ("pear".to_string(), 1.5), ("fig".to_string(), 0.5)])?;
    /// let sums = sales.map(|sale| sale.clone()).reduce_by_key(|a, b| a + b)?;
    /// assert_eq!(sums.get("fig")?, Some(2.5));
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// As [`count_by_key`](Pipe::count_by_key).
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn reduce_by_key<F>(self, f: F) -> Result<DMap<Q, W>>
    where
        F: Fn(W, W) -> W + Copy + Sync + 'static,
    {
        self.united("reduce_by_key", Location::caller(), Pairwise(f))
    }

    /// A map of the pairs. Of several pairs with the same key the last one stays.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let words = DVector::from_vec(&session, vec!["fig".to_string(), "pear".to_string()])?;
    /// let numbers = words.enumerate().map(|(i, word)| (word.clone(), *i as u32)).collect_map()?;
    /// assert_eq!(numbers.get("pear")?, Some(1));
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect).
    #[track_caller]
    pub fn collect_map(self) -> Result<DMap<Q, W>> {
        self.united("collect_map", Location::caller(), Pairwise(|_, last: W| last))
    }

    fn united<U: Unite<W>>(self, name: &str, at: &Location<'_>, unite: U) -> Result<DMap<Q, U::United>> {
        self.united_with_room(1, name, at, unite)
    }

    /// The same with room for `room` times as many entries.
    fn united_with_room<U: Unite<W>>(
        self,
        room: usize,
        name: &str,
        at: &Location<'_>,
        unite: U,
    ) -> Result<DMap<Q, U::United>> {
        let partitions = partitions_of(self.flow.len).next_power_of_two();
        let types = PhantomData::<fn() -> (Q, W)>;
        let grouped = Grouped { kernel: self.kernel, partitions, room, unite: Plain::new(unite), types };
        self.flow.store_map(&site(name, at), &grouped)
    }
}

impl<Q: Key, W: Element> DMap<Q, W> {
    /// The same map with more buckets, made where its entries are.
    #[track_caller]
    pub(crate) fn made_roomier(&self) -> Result<Self> {
        let entries = self.pipe().map(Clone::clone);
        entries.united_with_room(2, "making room in a map", Location::caller(), Pairwise(|_, last: W| last))
    }
}
