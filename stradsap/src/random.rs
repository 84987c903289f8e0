//! Random numbers that depend on a seed and an index alone: the same on any number of threads and processes.
//!
//! A generator with a state gives its numbers in the order in which it is asked, which in a parallel program is another one
//! in each run. A [`Stream`] has no state: its number at an index is a function of the seed, the stream's purpose and the
//! index. So initial values, the choice of test examples and the draws of an iteration are the same on any thread of any process.
//!
//! # Examples
//! [`session.rng(purpose)`](RandomNumbers::rng) is the stream of the session's seed for one purpose. A stream is a value that
//! loops and operators capture as they do a number.
//!
//! ```
//! use stradsap::prelude::*;
//!
//! # fn main() -> stradsap::Result<()> {
//! let session = Session::builder().threads(2).seed(1).build()?;
//! let (start, walk) = (session.rng(0), session.rng(1));
//! let mut x = DVector::from_fn(&session, 1000, |i| start.unit(i) - 0.5)?;
//! async_parallel_for!(0..x.len(), [walk, &mut x], |i| {
//!     let mut steps = walk.sequence(i); // numbers of its own for each element
//!     for _ in 0..10 {
//!         x[i] += steps.unit() - 0.5;
//!     }
//! })?;
//!
//! // What a plain loop gives.
//! let (mut plain, mut steps) = (session.rng(0).unit(7) - 0.5, session.rng(1).sequence(7));
//! (0..10).for_each(|_| plain += steps.unit() - 0.5);
//! assert_eq!(x.get(7)?, plain);
//! # Ok(())
//! # }
//! ```
//!
//! # Determinism
//! The numbers are part of this crate's interface: later versions give the same. They pass for independent in simulations
//! (SplitMix64); they are no secret from anybody who sees a few.

use crate::{Element, ElementIndex, Session};
use serde::{Deserialize, Serialize};

/// Random numbers of a [`Session`]'s seed; part of the prelude.
pub trait RandomNumbers {
    /// The random numbers of the session's [seed](Session::set_seed) for one purpose. Any number can stand for a purpose. The
    /// random numbers are indexed, by an element's number for instance, so they are the same on any number of threads and workers.
    /// It is [`Stream::new`] with the session's seed.
    fn rng(&self, purpose: u64) -> Stream;
}

impl RandomNumbers for Session {
    fn rng(&self, purpose: u64) -> Stream {
        Stream::new(self.seed(), purpose)
    }
}

/// Mixes 64 bits so that each of them depends on all the others (the finaliser of SplitMix64).
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 24 of 64 random bits, as many as an `f32` holds, as a number in [0, 1).
#[inline(always)]
fn unit(bits: u64) -> f32 {
    (bits >> 40) as f32 * (1.0 / (1u64 << 24) as f32)
}

/// 64 random bits as a number below `n`: the high half of a product, as good as evenly spread.
#[inline(always)]
fn below(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

/// The random numbers of one seed and one purpose, by index: any integer that indexes a DDS.
///
/// # Examples
/// ```
/// use stradsap::random::Stream;
///
/// const SPLIT: u64 = 1;
/// let split = Stream::new(42, SPLIT);
/// let (train, test) = split.split(0..1000, 0.1);
/// assert!(train.len() + test.len() == 1000 && (50..200).contains(&test.len()));
/// assert_eq!((train, test), Stream::new(42, SPLIT).split(0..1000, 0.1));
/// ```
///
/// # Cost
/// Four multiplications for each number, and no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Element)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The numbers of a seed for one purpose. Any number can stand for a purpose. Streams of different purposes are unrelated.
    pub const fn new(seed: u64, purpose: u64) -> Stream {
        Stream { key: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.rotate_left(32) }
    }

    /// 64 random bits for an index.
    #[inline]
    pub fn bits(self, index: impl ElementIndex) -> u64 {
        let index = index.to_usize() as u64;
        mix(mix(self.key.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(index.wrapping_add(0xd1b5_4a32_d192_ed03)))
    }

    /// A number in [0, 1) for an index, with 24 random bits.
    #[inline]
    pub fn unit(self, index: impl ElementIndex) -> f32 {
        unit(self.bits(index))
    }

    /// A whole number below `n` for an index; 0 where `n` is 0.
    #[inline]
    pub fn below(self, index: impl ElementIndex, n: u64) -> u64 {
        below(self.bits(index), n)
    }

    /// A sequence of numbers for an index. Use it for an iteration that needs many.
    pub fn sequence(self, index: impl ElementIndex) -> Sequence {
        Sequence { state: self.bits(index) }
    }

    /// True for about `fraction` of all indices; for none with 0 or less, for all with 1 or more.
    pub fn chosen(self, index: impl ElementIndex, fraction: f64) -> bool {
        // 53 bits, as many as an f64 holds, so that a fraction of 0 chooses nothing.
        ((self.bits(index) >> 11) as f64) < fraction * (1u64 << 53) as f64
    }

    /// Splits elements into a training set and a test set. The test set has about `fraction` of all: the elements whose positions
    /// [`chosen`](Stream::chosen) chooses. Both sets keep the order.
    ///
    /// # Cost
    /// One pass.
    pub fn split<T>(self, elements: impl IntoIterator<Item = T>, fraction: f64) -> (Vec<T>, Vec<T>) {
        let elements = elements.into_iter();
        let (mut train, mut test) = (Vec::with_capacity(elements.size_hint().0), Vec::new());
        for (index, element) in elements.enumerate() {
            let side = if self.chosen(index, fraction) { &mut test } else { &mut train };
            side.push(element);
        }
        (train, test)
    }

    /// Puts elements into a random order.
    ///
    /// # Examples
    /// ```
    /// let mut rows = [1, 2, 3, 4, 5];
    /// stradsap::random::Stream::new(1, 0).shuffle(&mut rows);
    /// rows.sort();
    /// assert_eq!(rows, [1, 2, 3, 4, 5]);
    /// ```
    ///
    /// # Cost
    /// One pass, in place.
    pub fn shuffle<T>(self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            let at = below(self.bits(last), last as u64 + 1);
            elements.swap(last, at as usize);
        }
    }
}

/// Random numbers one after the other (SplitMix64): [`Stream::sequence`].
///
/// # Examples
/// ```
/// use stradsap::random::Stream;
///
/// let mut dice = Stream::new(1, 0).sequence(17);
/// let throws: Vec<u64> = (0..5).map(|_| 1 + dice.below(6)).collect();
/// assert!(throws.iter().all(|throw| (1..=6).contains(throw)));
/// ```
#[derive(Clone, Debug)]
pub struct Sequence {
    state: u64,
}

impl Sequence {
    /// The next 64 random bits.
    #[inline(always)]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// The next whole number below `n`; 0 where `n` is 0.
    #[inline(always)]
    pub fn below(&mut self, n: u64) -> u64 {
        below(self.bits(), n)
    }

    /// The next number in [0, 1), with 24 random bits.
    #[inline(always)]
    pub fn unit(&mut self) -> f32 {
        unit(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_seed_purpose_and_index() {
        let numbers = [
            Stream::new(1, 1).bits(0),
            Stream::new(2, 1).bits(0),
            Stream::new(1, 2).bits(0),
            Stream::new(1, 1).bits(1),
        ];
        for (i, a) in numbers.iter().enumerate() {
            assert!(numbers[..i].iter().all(|b| a != b));
        }
        assert_eq!(numbers[0], Stream::new(1, 1).bits(0));
    }

    #[test]
    fn units_are_spread_evenly() {
        let stream = Stream::new(7, 3);
        let mut tenths = [0u32; 10];
        for i in 0..100_000 {
            tenths[(stream.unit(i) * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|&n| (9_500..10_500).contains(&n)), "{tenths:?}");
    }

    #[test]
    fn a_shuffle_keeps_all_and_its_order_is_the_seed_s() {
        let shuffled = |seed| {
            let mut all: Vec<u32> = (0..1000).collect();
            Stream::new(seed, 1).shuffle(&mut all);
            all
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let in_place = shuffled(1).iter().zip(0..).filter(|&(&a, b)| a == b).count();
        assert!(in_place < 10, "{in_place}");
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
    }

    #[test]
    fn a_fraction_is_chosen() {
        let stream = Stream::new(1, 9);
        let chosen = |fraction| (0..100_000).filter(|&i| stream.chosen(i, fraction)).count();
        assert_eq!(chosen(0.0), 0);
        assert!((9_500..10_500).contains(&chosen(0.1)), "{}", chosen(0.1));
    }

    #[test]
    fn a_split_is_by_position() {
        let stream = Stream::new(3, 2);
        let (train, test) = stream.split((0..1000).map(|n| n * 10), 0.3);
        assert_eq!(test, (0..1000).filter(|&n| stream.chosen(n, 0.3)).map(|n| n * 10).collect::<Vec<_>>());
        let mut all = [train, test].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq((0..1000).map(|n| n * 10)));
        assert_eq!(stream.split(0..9, 0.0), ((0..9).collect(), vec![]));
        assert_eq!(stream.split(0..9, 1.0), (vec![], (0..9).collect()));
    }
}
