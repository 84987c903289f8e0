//! Numbers that a seed decides (SplitMix64).

use std::ops::RangeInclusive;

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of a range.
    pub fn of(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (first, last) = range.into_inner();
        let count = last.saturating_sub(first).saturating_add(1);
        first + self.any() % count
    }

    /// True once in this number of times, about.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.any().is_multiple_of(times.max(1))
    }

    /// One of these.
    ///
    /// # Panics
    /// Where there is none.
    pub fn one_of<'t, T>(&mut self, these: &'t [T]) -> &'t T {
        &these[(self.any() % these.len() as u64) as usize]
    }
}
