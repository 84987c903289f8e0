//! What the scenario tests share.

use stradsap::prelude::*;

/// A session that the environment has no say in.
pub fn session(threads: usize) -> Session {
    Session::builder().threads(threads).verify(false).explain(false).build().unwrap()
}

/// Spreads numbers.
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number below `n` that looks random.
pub fn below(x: u64, n: usize) -> usize {
    (mix(x) % n as u64) as usize
}

#[derive(Clone, Copy, Debug, PartialEq, Element)]
pub struct Rating {
    pub user: u32,
    pub item: u32,
    pub stars: f32,
}

/// Ratings of users and items at random.
pub fn ratings(n: usize, users: usize, items: usize) -> Vec<Rating> {
    (0..n as u64)
        .map(|k| Rating {
            user: below(3 * k, users) as u32,
            item: below(3 * k + 1, items) as u32,
            stars: 1.0 + below(3 * k + 2, 9) as f32 / 2.0,
        })
        .collect()
}

/// The bits of floats, for exact comparison.
pub fn bits(floats: impl IntoIterator<Item = f64>) -> Vec<u64> {
    floats.into_iter().map(f64::to_bits).collect()
}

/// As `bits`.
pub fn bits32(floats: impl IntoIterator<Item = f32>) -> Vec<u32> {
    floats.into_iter().map(f32::to_bits).collect()
}

/// How a loop is made to find parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Aligned,
    Grid,
    Coloured,
    Serial,
}

pub const WAYS: [Way; 4] = [Way::Aligned, Way::Grid, Way::Coloured, Way::Serial];

impl Way {
    /// The option that asks for it. (A loop in step with its data is aligned whatever else is asked for, but serial.)
    pub fn option(self) -> Strategy {
        match self {
            Way::Aligned | Way::Grid => Strategy::Grid,
            Way::Coloured => Strategy::Coloured,
            Way::Serial => Strategy::Serial,
        }
    }

    /// What the report must say then.
    pub fn strategy(self) -> Strategy {
        match self {
            Way::Aligned => Strategy::Aligned,
            Way::Grid => Strategy::Grid,
            Way::Coloured => Strategy::Coloured,
            Way::Serial => Strategy::Serial,
        }
    }

    /// Two elements that iteration `i` of `n` touches: its own, or some that others touch as well.
    pub fn pair(self, i: usize, rows: usize, cols: usize) -> [u32; 2] {
        if self == Way::Aligned {
            [i as u32, i as u32]
        } else {
            [below(2 * i as u64, rows) as u32, below(2 * i as u64 + 1, cols) as u32]
        }
    }
}
