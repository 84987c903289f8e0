//! The hash that places keys: the same in every process, on every machine and in every version of this library.

use std::hash::{Hash, Hasher};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// XXH3 over what a key feeds it, piece by piece. Numbers count as little-endian bytes.
#[derive(Default)]
struct StableHasher(u64);

macro_rules! numbers {
    ($($method:ident $t:ty;)*) => {$(
        #[inline]
        fn $method(&mut self, number: $t) {
            self.write(&number.to_le_bytes());
        }
    )*};
}

impl Hasher for StableHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    numbers! {
        write_u16 u16; write_u32 u32; write_u64 u64; write_u128 u128;
        write_i16 i16; write_i32 i32; write_i64 i64; write_i128 i128;
    }

    /// Mostly the byte behind a text, which has been hashed then: a multiplication is enough.
    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b1_85eb_ca87);
        self.0 ^= self.0 >> 32;
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_i64(number as i64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The hash of a key.
#[inline]
pub(crate) fn hash_of<Q: Hash + ?Sized>(key: &Q) -> u64 {
    let mut hasher = StableHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Which of `n` buckets a hash belongs to. Rises with the hash, so that the order of all keys is that of their hashes,
/// however many buckets there are.
#[inline]
pub(crate) fn bucket_of(hash: u64, n: usize) -> usize {
    ((u128::from(hash) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_stay_the_same() {
        // Written down once: checkpoints and orders of keys rely on them.
        let seen = [hash_of(&7u32), hash_of("word"), hash_of(&(1u64, 2u64)), hash_of(&String::from("word"))];
        assert_eq!(seen[1], seen[3]);
        assert_eq!(seen[..3], GOLDEN);
    }

    const GOLDEN: [u64; 3] = [6318062648460624204, 17596008351137830392, 14218548282796293256];

    #[test]
    fn buckets_rise_with_hashes() {
        for n in [1, 2, 3, 256, 1 << 20] {
            assert_eq!((bucket_of(0, n), bucket_of(u64::MAX, n)), (0, n - 1));
        }
        assert!((0..1000u64).map(|i| bucket_of(i << 54, 1000)).is_sorted());
    }
}
