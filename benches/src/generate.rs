//! A generated set of ratings with skewed popularity and planted low-rank structure. Every number is a function of
//! a stream and a counter, so the set is the same on every machine.

use rayon::prelude::*;
use stradsap::random::Stream;
use stradsap_examples::ratings::Rating;

use crate::data::RatingSet;

/// The rank of the planted structure.
const PLANTED: usize = 8;
/// The bytes of a rating's user and item.
pub const PAIR: usize = 8;

/// The sizes and the skew of a generated set.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Ratings to train on.
    pub train: usize,
    /// Ratings to test on.
    pub test: usize,
    /// Users, and how their activity falls off.
    pub users: Popularity,
    /// Items, and how their popularity falls off.
    pub items: Popularity,
}

/// How often each of `count` things is drawn: the one of rank r with a weight of 1 / (r + `offset`), Zipf's law
/// as Mandelbrot refined it. A small offset makes the head heavy.
#[derive(Clone, Copy)]
pub struct Popularity {
    /// How many things there are.
    pub count: usize,
    /// How many ranks the head is flattened over.
    pub offset: f64,
}

impl Shape {
    /// 10 M ratings, 100 k users, 20 k items, about as skewed as the MovieLens sets are: the most popular item
    /// has 0.3 % of all ratings, the busiest user 2,200, and half of all users fewer than 42.
    pub fn skewed() -> Self {
        Self {
            train: 10_000_000,
            test: 500_000,
            users: Popularity { count: 100_000, offset: 1000.0 },
            items: Popularity { count: 20_000, offset: 50.0 },
        }
    }

    /// As many ratings, about as skewed, of proportionally many users and items: 100 M ratings are the size of Netflix's set.
    pub fn skewed_of(train: usize) -> Self {
        let of = Self::skewed();
        let scaled =
            |p: Popularity, by: f64| Popularity { count: (p.count as f64 * by) as usize, offset: p.offset * by };
        let by = train as f64 / of.train as f64;
        Self { train, test: train / 20, users: scaled(of.users, by), items: scaled(of.items, by.sqrt()) }
    }

    /// The same sizes with a head so heavy that the most popular item has 7 % of all ratings: a hard case, since
    /// no schedule can run those side by side.
    pub fn hot() -> Self {
        Self {
            users: Popularity { count: 100_000, offset: 20.0 },
            items: Popularity { count: 20_000, offset: 1.0 },
            ..Self::skewed()
        }
    }

    /// The same skew with a twentieth of the ratings and a tenth of the users and items.
    pub fn small(self) -> Self {
        let tenth = |p: Popularity| Popularity { count: p.count / 10, offset: p.offset / 10.0 };
        Self { train: self.train / 20, test: self.test / 20, users: tenth(self.users), items: tenth(self.items) }
    }
}

impl Popularity {
    /// The popularity rank for a uniform draw from [0, 1).
    fn rank(self, draw: f64) -> usize {
        let stretch = (self.count as f64 + self.offset) / self.offset;
        let rank = self.offset * (stretch.powf(draw) - 1.0);
        (rank as usize).min(self.count - 1)
    }
}

/// The purposes of the random numbers.
mod purpose {
    pub(super) const USER: u64 = 0xbe01;
    pub(super) const ITEM: u64 = 0xbe02;
    pub(super) const NOISE: u64 = 0xbe03;
    pub(super) const USER_ID: u64 = 0xbe04;
    pub(super) const ITEM_ID: u64 = 0xbe05;
    pub(super) const USER_ROW: u64 = 0xbe06;
    pub(super) const ITEM_ROW: u64 = 0xbe07;
    pub(super) const ORDER: u64 = 0xbe08;
}

/// The random numbers of one purpose.
fn stream(purpose: u64) -> Stream {
    Stream::new(1, purpose)
}

/// The generated set of this shape: stars from 1 to 5 around 3.5, with noise that no model can explain (a standard
/// deviation of 0.5).
pub fn generate(name: &'static str, shape: Shape) -> RatingSet {
    let user_ids = shuffled_ids(shape.users.count, stream(purpose::USER_ID));
    let item_ids = shuffled_ids(shape.items.count, stream(purpose::ITEM_ID));
    let user_rows = planted_rows(shape.users.count, stream(purpose::USER_ROW));
    let item_rows = planted_rows(shape.items.count, stream(purpose::ITEM_ROW));
    let (users, items, noise) = (stream(purpose::USER), stream(purpose::ITEM), stream(purpose::NOISE));
    let rating = |n: usize| {
        let user = user_ids[shape.users.rank(fraction(users, n))];
        let item = item_ids[shape.items.rank(fraction(items, n))];
        let taste: f32 = user_rows[user as usize].iter().zip(&item_rows[item as usize]).map(|(a, b)| a * b).sum();
        let stars = 3.5 + 0.8 * taste / (PLANTED as f32).sqrt() + 0.5 * normal(noise, n);
        Rating { user, item, stars: stars.clamp(1.0, 5.0) }
    };
    let train: Vec<Rating> = (0..shape.train).map(rating).collect();
    let test: Vec<Rating> = (shape.train..shape.train + shape.test).map(rating).collect();
    RatingSet::new(name, shape.users.count, shape.items.count, &train, &test)
}

/// The user and the item of each rating of that set, 4 bytes each, and nothing else: a set that is too large to be trained on
/// has room for them.
pub fn generate_pairs(shape: Shape) -> Vec<u8> {
    let user_ids = shuffled_ids(shape.users.count, stream(purpose::USER_ID));
    let item_ids = shuffled_ids(shape.items.count, stream(purpose::ITEM_ID));
    let (users, items) = (stream(purpose::USER), stream(purpose::ITEM));
    let mut pairs = vec![0; PAIR * shape.train];
    pairs.par_chunks_exact_mut(PAIR).enumerate().for_each(|(n, pair)| {
        let (user, item) = pair.split_at_mut(PAIR / 2);
        user.copy_from_slice(&user_ids[shape.users.rank(fraction(users, n))].to_ne_bytes());
        item.copy_from_slice(&item_ids[shape.items.rank(fraction(items, n))].to_ne_bytes());
    });
    pairs
}

/// Brings ratings into a random order, the same in every run.
pub fn shuffle(ratings: &mut [Rating]) {
    permute(ratings, stream(purpose::ORDER));
}

/// The ids 0 to n in random order, so that popular ones are spread.
fn shuffled_ids(n: usize, stream: Stream) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..n as u32).collect();
    permute(&mut ids, stream);
    ids
}

/// Brings `values` into a random order (Fisher and Yates).
fn permute<T>(values: &mut [T], stream: Stream) {
    for last in (1..values.len()).rev() {
        values.swap(last, (fraction(stream, last) * (last + 1) as f64) as usize);
    }
}

fn planted_rows(n: usize, stream: Stream) -> Vec<[f32; PLANTED]> {
    (0..n).map(|i| std::array::from_fn(|k| normal(stream, i * PLANTED + k))).collect()
}

/// A number from [0, 1) with 53 random bits: popularity needs finer steps than an `f32` has.
fn fraction(stream: Stream, index: usize) -> f64 {
    (stream.bits(index as u64) >> 11) as f64 / (1u64 << 53) as f64
}

/// About a standard normal number: the sum of four uniform ones, scaled.
fn normal(stream: Stream, index: usize) -> f32 {
    let bits = stream.bits(index as u64);
    let sum: u64 = (0..4).map(|quarter| (bits >> (16 * quarter)) & 0xffff).sum();
    ((sum as f64 / 65536.0 - 2.0) * 3f64.sqrt()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_skewed_spread_and_repeatable() {
        let shape = Shape::skewed().small();
        let set = generate("small", shape);
        let mut ratings_of = vec![0usize; set.items];
        for r in &set.train {
            assert!((r.user as usize) < set.users && (1.0..=5.0).contains(&r.stars));
            ratings_of[r.item as usize] += 1;
        }
        let half: usize = ratings_of[..set.items / 2].iter().sum();
        assert!((0.4..0.6).contains(&(half as f64 / set.train.len() as f64)), "popular items lie together");
        ratings_of.sort_unstable_by(|a, b| b.cmp(a));
        let top: usize = ratings_of[..set.items / 10].iter().sum();
        assert!(top * 3 > set.train.len(), "a tenth of the items has a third of the ratings");
        let again = generate("small", shape);
        assert!(set.train.iter().zip(&again.train).all(|(a, b)| a.item == b.item && a.stars == b.stars));
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let numbers: Vec<f64> = (0..100_000).map(|n| f64::from(normal(stream(9), n))).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
