//! A rank's share of the grid, and an epoch of it.

use mpi::request::{LocalScope, Request, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Source};
use stradsap_benches::data::{Rating, RatingSet};
use stradsap_benches::peers::blocked::Grid;
use stradsap_examples::model::{Matrix, sgd_step};

/// What one rank has: the blocks of its user parts, their rows of P, and the item parts that begin with it.
pub(crate) struct Share<const K: usize> {
    alpha: f32,
    lambda: f32,
    ranks: usize,
    rank: usize,
    /// Rows of each user part of this rank.
    p: Vec<Vec<[f32; K]>>,
    /// By item part, then by user part of this rank; indices count from the beginning of the parts.
    blocks: Vec<Vec<Vec<Rating>>>,
    /// The item parts in the order in which this rank has them, round after round, and once more the first round's.
    order: Vec<usize>,
    /// Memory for each of these: rows one after the other.
    q: Vec<Vec<f32>>,
}

impl<const K: usize> Share<K> {
    pub(crate) fn new(set: &RatingSet, parts: usize, rank: usize, ranks: usize) -> Self {
        let grid = Grid::new(set, parts);
        let share = |rank: usize| parts * rank / ranks..parts * (rank + 1) / ranks;
        let p = share(rank).map(|user_part| {
            let users = grid.user_part(user_part);
            users.map(|user| set.start.row(Matrix::Users, user)).collect()
        });
        let block = |user_part: usize, item_part: usize| {
            let (user_0, item_0) = (grid.user_part(user_part).start as u32, grid.item_part(item_part).start as u32);
            let inside = |r: &Rating| Rating { user: r.user - user_0, item: r.item - item_0, ..*r };
            grid.block(user_part, item_part).iter().map(inside).collect()
        };
        let blocks = (0..parts).map(|item_part| share(rank).map(|user_part| block(user_part, item_part)).collect());
        let order: Vec<usize> = (0..=ranks).flat_map(|round| share((rank + round) % ranks)).collect();
        let q = order.iter().map(|&item_part| {
            let items = grid.item_part(item_part);
            items.flat_map(|item| set.start.row::<K>(Matrix::Items, item)).collect()
        });
        Self {
            alpha: set.alpha,
            lambda: set.lambda,
            ranks,
            rank,
            p: p.collect(),
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
        let (p, blocks, order, rates) = (&mut self.p, &self.blocks, &self.order, (self.alpha, self.lambda));
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
                        let memory = memory.as_mut_slice();
                        previous.immediate_receive_into_with_tag(part, memory, order[at + 1] as i32)
                    });
                    if at < parts {
                        let (q, _) = here.as_chunks_mut::<K>();
                        for (p, block) in p.iter_mut().zip(&blocks[item_part]) {
                            loss += run(block, p, q, rates);
                            progress(&mut sent);
                        }
                        let here: &[f32] = here;
                        sent.push(next.immediate_send_with_tag(epoch, here, item_part as i32));
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
