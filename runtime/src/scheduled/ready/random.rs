//! Random numbers by counter: each is a function of the seed and its index alone, so that a clone goes on as the original.

/// Mixes 64 bits so that each of them depends on all the others (the finaliser of SplitMix64).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Random numbers one after the other.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    key: u64,
    index: u64,
}

impl Numbers {
    pub(super) fn new(seed: u64) -> Numbers {
        Numbers { key: mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)), index: 0 }
    }

    /// A number in [0, 1) with 53 random bits.
    pub(super) fn unit(&mut self) -> f64 {
        let bits = mix(self.key ^ mix(self.index.wrapping_add(0xd1b5_4a32_d192_ed03)));
        self.index = self.index.wrapping_add(1);
        (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}
