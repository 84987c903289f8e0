//! Random numbers by counter: each is a function of the seed, a stream and its index alone.
//!
//! So initial values and the test split don't depend on the order in which, or the thread on which, they are computed.

/// Mixes 64 bits so that each of them depends on all the others (the finaliser of SplitMix64).
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A family of random numbers: one seed, one purpose.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The numbers of one purpose; streams of different purposes are unrelated.
    pub const fn new(seed: u64, purpose: u64) -> Stream {
        Stream { key: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.rotate_left(32) }
    }

    /// 64 random bits for an index.
    #[inline]
    pub fn bits(self, index: u64) -> u64 {
        mix(mix(self.key.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(index.wrapping_add(0xd1b5_4a32_d192_ed03)))
    }

    /// A number in [0, 1) with 24 random bits.
    #[inline]
    pub fn unit(self, index: u64) -> f32 {
        (self.bits(index) >> 40) as f32 * (1.0 / (1u64 << 24) as f32)
    }

    /// A sequence of numbers of its own for an index.
    pub fn sequence(self, index: u64) -> Sequence {
        Sequence { state: self.bits(index) }
    }

    /// True for about `fraction` of all indices.
    pub fn chosen(self, index: u64, fraction: f64) -> bool {
        // 53 bits, as many as an f64 holds, so that a fraction of 0 chooses nothing.
        ((self.bits(index) >> 11) as f64) < fraction * (1u64 << 53) as f64
    }

    /// Puts elements into a random order.
    pub fn shuffle<T>(self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            // The high half of the product is below `last + 1`, and as good as evenly spread.
            let at = (u128::from(self.bits(last as u64)) * (last as u128 + 1)) >> 64;
            elements.swap(last, at as usize);
        }
    }
}

/// Random numbers one after the other (SplitMix64).
#[derive(Debug, Clone)]
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

    /// The next number in [0, 1), with 24 random bits.
    #[inline(always)]
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 * (1.0 / (1u64 << 24) as f32)
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
}
