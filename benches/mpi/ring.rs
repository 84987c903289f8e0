//! A rank's share of the grid, and an epoch of it.

use mpi::request::{LocalScope, Request, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Source};
use stradsap_benches::data::{Rating, RatingSet};
use stradsap_benches::model::initial;
use stradsap_benches::peers::blocked::Grid;
use stradsap_examples::model::{Matrix, sgd_step};

use crate::rows::Rows;

/// What one rank has: the blocks of its user parts, their rows of P, and the item parts that begin with it.
pub(crate) struct Share<const K: usize> {
    alpha: f32,
    lambda: f32,
    ranks: usize,
    rank: usize,
    /// Rows of this rank's users.
    p: Rows<K>,
    /// By item part, then by user part of this rank; items count from the beginning of their part, users from the
    /// first of this rank.
    blocks: Vec<Vec<Vec<Rating>>>,
    /// The item parts in the order in which this rank has them, round after round, and once more the first round's.
    order: Vec<usize>,
    /// Memory for each of these.
    q: Vec<Rows<K>>,
}

impl<const K: usize> Share<K> {
    pub(crate) fn new(set: &RatingSet, parts: usize, rank: usize, ranks: usize) -> Self {
        let grid = Grid::new(set, parts);
        let share = |rank: usize| parts * rank / ranks..parts * (rank + 1) / ranks;
        let users = share(rank).map(|user_part| grid.user_part(user_part));
        let users = users.reduce(|all, part| all.start..part.end).unwrap_or(0..0);
        let user_0 = users.start as u32;
        let block = |user_part: usize, item_part: usize| {
            let item_0 = grid.item_part(item_part).start as u32;
            let inside = |r: &Rating| Rating { user: r.user - user_0, item: r.item - item_0, ..*r };
            grid.block(user_part, item_part).iter().map(inside).collect()
        };
        let blocks = (0..parts).map(|item_part| share(rank).map(|user_part| block(user_part, item_part)).collect());
        let order: Vec<usize> = (0..=ranks).flat_map(|round| share((rank + round) % ranks)).collect();
        let items = order.iter().map(|&item_part| grid.item_part(item_part));
        let q = items.map(|items| Rows::new(items.map(|item| initial(set, Matrix::Items, item))));
        Self {
            alpha: set.alpha,
            lambda: set.lambda,
            ranks,
            rank,
            p: Rows::new(users.map(|user| initial(set, Matrix::Users, user))),
            blocks: blocks.collect(),
            q: q.collect(),
            order,
        }
    }

    /// A pass over this rank's ratings; returns the sum of the squared errors met on the way.
    pub(crate) fn epoch(&mut self, world: &SimpleCommunicator) -> f64 {
        let parts = self.blocks.len();
        let own = self.order.len() - parts;
        let next = world.process_at_rank(((self.rank + self.ranks - 1) % self.ranks) as i32);
        let previous = world.process_at_rank(((self.rank + 1) % self.ranks) as i32);
        let (p, blocks, order, rates) = (self.p.rows_mut(), &self.blocks, &self.order, (self.alpha, self.lambda));
        let mut loss = 0.0;
        scope(|epoch| {
            let mut sent = Vec::with_capacity(parts);
            let mut rest = self.q.as_mut_slice();
            for at in 0..order.len() {
                let Some((here, coming)) = std::mem::take(&mut rest).split_first_mut() else { break };
                let item_part = order[at];
                scope(|part| {
                    // What is first in the next round arrives while the last of this one is here, and so on.
                    let expected = (at + 1 >= own).then(|| coming.first_mut()).flatten();
                    let expected = expected.map(|memory| {
                        let memory = memory.numbers_mut();
                        previous.immediate_receive_into_with_tag(part, memory, order[at + 1] as i32)
                    });
                    if at < parts {
                        for block in &blocks[item_part] {
                            loss += run(block, p, here.rows_mut(), rates);
                            progress(&mut sent);
                        }
                        sent.push(next.immediate_send_with_tag(epoch, here.numbers(), item_part as i32));
                    }
                    if let Some(request) = expected {
                        request.wait_without_status();
                    }
                });
                rest = coming;
            }
            sent.into_iter().for_each(Request::wait_without_status);
        });
        // The last round's memory is where the next epoch begins.
        let (first, last) = self.q.split_at_mut(parts);
        first[..own].swap_with_slice(last);
        loss
    }
}

/// MPI moves data when it is called, and only then.
fn progress<'a>(sent: &mut Vec<Request<'a, [f32], &LocalScope<'a>>>) {
    let under_way = std::mem::take(sent).into_iter().filter_map(|request| request.test().err());
    *sent = under_way.collect();
}

fn run<const K: usize>(block: &[Rating], p: &mut [[f32; K]], q: &mut [[f32; K]], rates: (f32, f32)) -> f64 {
    let mut loss = 0.0;
    for r in block {
        let e = sgd_step(&mut p[r.user as usize], &mut q[r.item as usize], r.stars, rates.0, rates.1);
        loss += f64::from(e * e);
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;
    use stradsap_benches::generate::{Shape, generate};

    #[test]
    fn shares_hold_each_rating_once_and_pass_on_whole_parts() {
        let set = generate("small", Shape::skewed().small());
        let (parts, ranks) = (7, 3);
        let shares: Vec<_> = (0..ranks).map(|rank| Share::<16>::new(&set, parts, rank, ranks)).collect();
        let blocks = shares.iter().flat_map(|share| share.blocks.iter().flatten());
        assert_eq!(blocks.map(Vec::len).sum::<usize>(), set.train.len());
        assert_eq!(shares.iter().map(|share| share.p.numbers().len()).sum::<usize>(), set.users * 16);
        for (rank, share) in shares.iter().enumerate() {
            // What this rank expects is what its neighbour has had, in the same order and sizes.
            let own = share.order.len() - parts;
            let neighbour = &shares[(rank + 1) % ranks];
            assert_eq!(share.order[own..], neighbour.order[..parts]);
            let sizes = |share: &Share<16>| share.q.iter().map(|q| q.numbers().len()).collect::<Vec<_>>();
            assert_eq!(sizes(share)[own..], sizes(neighbour)[..parts]);
            assert_eq!(share.order[..own], share.order[parts..]);
        }
    }
}
