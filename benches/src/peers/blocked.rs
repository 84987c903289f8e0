//! The blocked loop, as a competent programmer writes it by hand: the ratings bucketed once into a grid of user
//! parts and item parts of about equal weight, the blocks run diagonal by diagonal. A thread keeps its share of the
//! user parts, item parts rotate, and all threads meet at a barrier after each diagonal.

use std::ops::Range;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use stradsap_examples::model::sgd_step;

use super::{Contestant, sum_of};
use crate::data::{Rating, RatingSet};
use crate::model::Factors;

/// The ratings of a set in blocks.
pub struct Grid {
    user_parts: Vec<Range<usize>>,
    item_parts: Vec<Range<usize>>,
    /// By user part, then item part; inside a block in the set's order.
    blocks: Vec<Vec<Rating>>,
}

impl Grid {
    /// The training ratings in `side` x `side` blocks.
    pub fn new(set: &RatingSet, side: usize) -> Self {
        let user_parts = parts(set.users, side, set.train.iter().map(|r| r.user as usize));
        let item_parts = parts(set.items, side, set.train.iter().map(|r| r.item as usize));
        let part_of_user = part_of(&user_parts);
        let part_of_item = part_of(&item_parts);
        let block = |r: &Rating| part_of_user[r.user as usize] * side + part_of_item[r.item as usize];
        let mut sizes = vec![0; side * side];
        set.train.iter().for_each(|r| sizes[block(r)] += 1);
        let mut blocks: Vec<Vec<Rating>> = sizes.into_iter().map(Vec::with_capacity).collect();
        set.train.iter().for_each(|r| blocks[block(r)].push(*r));
        Self { user_parts, item_parts, blocks }
    }

    /// The users of a part.
    pub fn user_part(&self, part: usize) -> Range<usize> {
        self.user_parts[part].clone()
    }

    /// The items of a part.
    pub fn item_part(&self, part: usize) -> Range<usize> {
        self.item_parts[part].clone()
    }

    /// The ratings of a user part for an item part.
    pub fn block(&self, user_part: usize, item_part: usize) -> &[Rating] {
        &self.blocks[user_part * self.side() + item_part]
    }

    fn side(&self) -> usize {
        self.user_parts.len()
    }
}

/// Cuts 0..`count` into `side` ranges that `touched` hits about equally often.
fn parts(count: usize, side: usize, touched: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut weights = vec![0usize; count];
    touched.for_each(|i| weights[i] += 1);
    let total: usize = weights.iter().sum();
    let (mut parts, mut start, mut passed) = (Vec::with_capacity(side), 0, 0);
    for (i, weight) in weights.iter().enumerate() {
        passed += weight;
        if parts.len() + 1 < side && passed * side >= total * (parts.len() + 1) {
            parts.push(start..i + 1);
            start = i + 1;
        }
    }
    parts.resize(side - 1, start..start);
    parts.push(start..count);
    parts
}

fn part_of(parts: &[Range<usize>]) -> Vec<usize> {
    parts.iter().enumerate().flat_map(|(part, range)| range.clone().map(move |_| part)).collect()
}

/// The blocked loop on some threads.
pub struct Blocked<const K: usize> {
    grid: Arc<Grid>,
    threads: usize,
    factors: Factors<K>,
    alpha: f32,
    lambda: f32,
}

impl<const K: usize> Blocked<K> {
    /// The blocked loop over `grid`, at the initial factors. The result doesn't depend on `threads`.
    pub fn new(set: &RatingSet, grid: Arc<Grid>, threads: usize) -> Self {
        Self { grid, threads, factors: Factors::initial(set), alpha: set.alpha, lambda: set.lambda }
    }
}

impl<const K: usize> Contestant<K> for Blocked<K> {
    fn name(&self) -> &'static str {
        "blocked by hand"
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn epoch(&mut self) -> Result<f64> {
        let grid = &*self.grid;
        let mut users = split(&mut self.factors.p, &grid.user_parts);
        let items: Vec<_> = split(&mut self.factors.q, &grid.item_parts).into_iter().map(Mutex::new).collect();
        let share = grid.side().div_ceil(self.threads);
        let barrier = Barrier::new(users.chunks(share).len());
        let (items, barrier, alpha, lambda) = (&items, &barrier, self.alpha, self.lambda);

        let work = move |first: usize, users: &mut [&mut [[f32; K]]]| {
            let mut loss = 0.0;
            for diagonal in 0..grid.side() {
                for (i, p) in users.iter_mut().enumerate().map(|(i, p)| (first + i, p)) {
                    let j = (i + diagonal) % grid.side();
                    // Never waits: no other thread has item part j on this diagonal.
                    let mut q = items[j].lock().unwrap_or_else(PoisonError::into_inner);
                    let (user_0, item_0) = (grid.user_parts[i].start, grid.item_parts[j].start);
                    for r in &grid.blocks[i * grid.side() + j] {
                        let (user, item) = (r.user as usize - user_0, r.item as usize - item_0);
                        let e = sgd_step(&mut p[user], &mut q[item], r.stars, alpha, lambda);
                        loss += f64::from(e * e);
                    }
                }
                barrier.wait();
            }
            loss
        };
        let loss = thread::scope(|scope| {
            let mut shares = users.chunks_mut(share).enumerate().map(|(t, users)| (t * share, users));
            let mine = shares.next();
            let others: Vec<_> = shares.map(|(first, users)| scope.spawn(move || work(first, users))).collect();
            mine.map_or(0.0, |(first, users)| work(first, users)) + sum_of(others)
        });
        Ok(loss)
    }

    fn factors(&self) -> Result<Factors<K>> {
        Ok(self.factors.clone())
    }
}

/// The rows of each part, side by side.
fn split<'a, R>(mut rows: &'a mut [R], parts: &[Range<usize>]) -> Vec<&'a mut [R]> {
    let cut = |part: &Range<usize>| {
        let (head, tail) = std::mem::take(&mut rows).split_at_mut(part.len());
        rows = tail;
        head
    };
    parts.iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Shape, generate};

    #[test]
    fn every_thread_count_trains_the_same_factors() {
        let set = generate("small", Shape::skewed().small());
        let grid = Arc::new(Grid::new(&set, 8));
        assert_eq!(grid.blocks.iter().map(Vec::len).sum::<usize>(), set.train.len());
        let trained = |threads| {
            let mut blocked = Blocked::<16>::new(&set, Arc::clone(&grid), threads);
            blocked.epoch().expect("an epoch");
            blocked.factors
        };
        let (one, three) = (trained(1), trained(3));
        assert!(one.p == three.p && one.q == three.q);
    }

    #[test]
    fn parts_have_equal_weight() {
        assert_eq!(parts(6, 3, [0, 0, 1, 1, 5, 5].into_iter()), [0..1, 1..2, 2..6]);
        assert_eq!(parts(2, 4, [0, 0, 0].into_iter()), [0..1, 1..2, 2..2, 2..2]);
    }
}
