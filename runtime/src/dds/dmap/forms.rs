//! A map's two forms: buckets, which all but synchronous loops use, and values apart from their keys, which synchronous
//! loops write as they write a DVector's elements.
//!
//! The second form is made when a synchronous loop first writes the map, and stays. Which form is newer follows from the
//! versions of their DVectors; the older one is brought up to date when somebody needs it, and not before.
//!
//! `catch_up` changes buckets through a shared borrow, and only while the values are newer. They become newer through a
//! `&mut` borrow alone (a loop that writes them); and a later use of the buckets settles first. Two that ask at
//! once take turns (`agreed`), and the second finds nothing left to do.

use std::borrow::Borrow;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::Key;
use super::bucket::Bucket;
use super::hash::{bucket_of, hash_of};
use crate::dds::dvector::{DVector, each_element};
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ops_of;
use crate::memory::merge::Merge;
use crate::session::backend::Whereabouts;
use crate::session::error::Result;
use crate::session::{SessionInner, locked};

/// Both forms of a map. What it dereferences to are the buckets, as new as the map is.
pub(crate) struct Forms<K, V> {
    buckets: DVector<Bucket<K, V>>,
    dense: Option<Dense<K, V>>,
    /// The versions of both when they last held the same entries.
    agreed: Mutex<Agreed>,
    /// Whether one form could not be made from the other when it was last asked for.
    owing: AtomicBool,
}

#[derive(Clone, Copy, Default)]
struct Agreed {
    buckets: u64,
    values: u64,
}

/// Values apart from their keys.
pub(crate) struct Dense<K, V> {
    /// Which value a key has, in as many buckets as the map.
    pub(crate) index: DVector<Bucket<K, u32>>,
    /// In the map's order.
    pub(crate) values: DVector<V>,
    /// Known since the values were written: they can be cloned.
    put_back: fn(&mut [Bucket<K, V>], &[V]),
}

/// The form that is newer.
enum Newer<'f, K, V> {
    Buckets,
    Values(&'f Dense<K, V>),
    Neither(&'f Dense<K, V>),
}

impl<K: 'static, V: 'static> Forms<K, V> {
    pub(crate) fn new(buckets: DVector<Bucket<K, V>>) -> Self {
        Forms { buckets, dense: None, agreed: Mutex::default(), owing: AtomicBool::new(false) }
    }

    fn newer(&self) -> Newer<'_, K, V> {
        let Some(dense) = &self.dense else { return Newer::Buckets };
        let agreed = *locked(&self.agreed);
        if dense.values.version() != agreed.values {
            Newer::Values(dense)
        } else if self.buckets.version() != agreed.buckets {
            Newer::Buckets
        } else {
            Newer::Neither(dense)
        }
    }

    /// Brings the buckets up to date.
    fn settle(&self) -> Result<()> {
        let mut agreed = locked(&self.agreed);
        self.owe(None);
        self.catch_up(&mut agreed)
    }

    /// The same where no error can be returned: the next use finds it.
    fn settle_or_owe(&self) {
        let mut agreed = locked(&self.agreed);
        self.owe(None);
        if let Err(error) = self.catch_up(&mut agreed) {
            self.owe(Some(format!("the values of a map could not be brought together with its keys: {error}")));
        }
    }

    fn catch_up(&self, agreed: &mut Agreed) -> Result<()> {
        let Some(dense) = self.dense.as_ref().filter(|dense| dense.values.version() != agreed.values) else {
            return Ok(());
        };
        let values = dense.values.elements(0..dense.values.len())?;
        self.buckets.change_settled(|buckets| (dense.put_back)(buckets, values.as_slice()))?;
        *agreed = Agreed { buckets: self.buckets.version(), values: dense.values.version() };
        Ok(())
    }

    /// Tries again what failed before.
    fn retry(&self) -> Result<()> {
        if self.owing.load(Relaxed) { self.settle() } else { Ok(()) }
    }

    /// An error that can't be returned where a form is asked for is returned by its next use.
    fn owe(&self, problem: Option<String>) {
        if self.owing.swap(problem.is_some(), Relaxed) == problem.is_some() {
            return;
        }
        self.buckets.session().elements().owe(self.buckets.id(), problem);
    }

    /// The buckets, to be changed.
    pub(crate) fn settled(&mut self) -> Result<&mut DVector<Bucket<K, V>>> {
        self.settle()?;
        Ok(&mut self.buckets)
    }

    /// A number that changes with the contents; no two contents of this process have the same.
    pub(crate) fn version(&self) -> u64 {
        match self.newer() {
            Newer::Values(dense) => dense.values.version(),
            Newer::Buckets | Newer::Neither(_) => self.buckets.version(),
        }
    }

    /// How many entries there are, if that is known without a look at the buckets.
    pub(crate) fn counted(&self) -> Option<usize> {
        match self.newer() {
            Newer::Values(dense) | Newer::Neither(dense) => Some(dense.values.len()),
            Newer::Buckets => None,
        }
    }

    /// A look at a key's value.
    pub(crate) fn look<Q, R>(&self, key: &Q, look: impl FnOnce(&V) -> R) -> Result<Option<R>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.retry()?;
        let at = bucket_of(hash_of(key), self.buckets.len());
        if let Newer::Values(dense) = self.newer() {
            let bucket = dense.index.elements(at..at + 1)?;
            let found = bucket.as_slice::<Bucket<K, u32>>().first().and_then(|bucket| bucket.get(key)).copied();
            let Some(found) = found.map(|found| found as usize) else { return Ok(None) };
            return Ok(dense.values.elements(found..found + 1)?.as_slice::<V>().first().map(look));
        }
        let bucket = self.buckets.elements(at..at + 1)?;
        Ok(bucket.as_slice::<Bucket<K, V>>().first().and_then(|bucket| bucket.get(key)).map(look))
    }

    /// A look at every entry, in the map's order.
    pub(crate) fn each(&self, mut look: impl FnMut(&K, &V)) -> Result<()> {
        self.retry()?;
        let Newer::Values(dense) = self.newer() else {
            return each_element(&self.buckets, 0..self.buckets.len(), |buckets: &[Bucket<K, V>]| {
                buckets.iter().flat_map(Bucket::iter).for_each(|(key, value)| look(key, value));
                Ok(())
            });
        };
        let mut next = 0;
        each_element(&dense.index, 0..dense.index.len(), |index: &[Bucket<K, u32>]| {
            let range = next..next + index.iter().map(Bucket::len).sum::<usize>();
            next = range.end;
            let values = dense.values.elements(range)?;
            let keys = index.iter().flat_map(Bucket::iter);
            keys.zip(values.as_slice()).for_each(|((key, _), value)| look(key, value));
            Ok(())
        })
    }

    /// Where the entries are.
    pub(crate) fn whereabouts(&self) -> Result<Whereabouts> {
        match self.newer() {
            Newer::Values(dense) => dense.values.whereabouts(),
            Newer::Buckets | Newer::Neither(_) => self.buckets.whereabouts(),
        }
    }
}

impl<K: Key, V: Merge> Forms<K, V> {
    /// Which value a key has in what `dense` last gave.
    pub(crate) fn index(&self) -> Option<&DVector<Bucket<K, u32>>> {
        self.dense.as_ref().map(|dense| &dense.index)
    }

    /// The values apart from their keys, as new as the map is: the same DVectors as long as the keys are the same.
    pub(crate) fn dense(&mut self) -> &mut Dense<K, V> {
        let is_older = matches!(self.newer(), Newer::Buckets);
        let there = self.dense.take();
        let dense = match there {
            Some(dense) if !is_older => dense,
            there => self.dense_of_buckets(there),
        };
        self.dense.insert(dense)
    }

    fn dense_of_buckets(&self, before: Option<Dense<K, V>>) -> Dense<K, V> {
        self.owe(None);
        let (buckets, dense) = match self.refreshed(before) {
            Ok(dense) => (self.buckets.version(), dense),
            Err(error) => {
                self.owe(Some(format!("the values of a map could not be taken from their keys: {error}")));
                // Nobody sees it, since the loop ends before it begins. It is older than the buckets.
                (0, Dense::of(&[Bucket::EMPTY], self.buckets.session()))
            }
        };
        *locked(&self.agreed) = Agreed { buckets, values: dense.values.version() };
        dense
    }

    fn refreshed(&self, before: Option<Dense<K, V>>) -> Result<Dense<K, V>> {
        let buckets = self.buckets.elements(0..self.buckets.len())?;
        let buckets = buckets.as_slice::<Bucket<K, V>>();
        if let Some(mut dense) = before
            && dense.has_keys_of(buckets)?
        {
            dense.values.change(|values| {
                let new = buckets.iter().flat_map(Bucket::iter).map(|(_, value)| value);
                values.iter_mut().zip(new).for_each(|(value, new)| value.clone_from(new));
            })?;
            return Ok(dense);
        }
        Ok(Dense::of(buckets, self.buckets.session()))
    }
}

impl<K: Key, V: Merge> Dense<K, V> {
    fn of(buckets: &[Bucket<K, V>], session: &Arc<SessionInner>) -> Self {
        let len = buckets.iter().map(Bucket::len).sum();
        let mut index = RawBuf::for_random_access(ops_of::<Bucket<K, u32>>(), buckets.len());
        let mut values = RawBuf::for_random_access(ops_of::<V>(), len);
        for bucket in buckets {
            let mut places = Bucket::EMPTY;
            for (key, value) in bucket.iter() {
                // A map has fewer entries than a DVector may have elements, which is below 2^31.
                places.push(key.clone(), values.len() as u32);
                values.push(value.clone());
            }
            index.push(places);
        }
        Dense {
            index: DVector::of_buffer(Arc::clone(session), index),
            values: DVector::of_buffer(Arc::clone(session), values),
            put_back,
        }
    }

    /// Whether the keys are those of the buckets.
    fn has_keys_of(&self, buckets: &[Bucket<K, V>]) -> Result<bool> {
        let index = self.index.elements(0..self.index.len())?;
        let own = index.as_slice::<Bucket<K, u32>>();
        let same = |(own, theirs): (&Bucket<K, u32>, &Bucket<K, V>)| {
            own.len() == theirs.len() && own.iter().zip(theirs.iter()).all(|((own, _), (their, _))| own == their)
        };
        Ok(own.len() == buckets.len() && own.iter().zip(buckets).all(same))
    }
}

fn put_back<K, V: Clone>(buckets: &mut [Bucket<K, V>], values: &[V]) {
    let old = buckets.iter_mut().flat_map(Bucket::iter_mut);
    old.zip(values).for_each(|((_, value), new)| value.clone_from(new));
}

/// The buckets, up to date.
impl<K: 'static, V: 'static> Deref for Forms<K, V> {
    type Target = DVector<Bucket<K, V>>;
    fn deref(&self) -> &DVector<Bucket<K, V>> {
        self.settle_or_owe();
        &self.buckets
    }
}

impl<K: 'static, V: 'static> DerefMut for Forms<K, V> {
    fn deref_mut(&mut self) -> &mut DVector<Bucket<K, V>> {
        self.settle_or_owe();
        &mut self.buckets
    }
}
