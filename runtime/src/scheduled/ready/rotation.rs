//! Blocks of parameters that rotate over the shards.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::scheduled::Schedule;

/// A block of parameters, and the shard that has it in a round.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Block;
///
/// let block = Block { shard: 1, block: 2, start: 20, end: 30 };
/// assert_eq!(block.parameters().len(), 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The number of the shard.
    pub shard: usize,
    /// The number of the block.
    pub block: usize,
    /// The block's first parameter.
    pub start: usize,
    /// One past the block's last parameter.
    pub end: usize,
}

impl Block {
    /// The block's parameters.
    pub fn parameters(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The shard that has the block in the next round, if there are `shards` shards.
    ///
    /// ```
    /// # use stradsap_runtime::Block;
    /// let block = Block { shard: 0, block: 2, start: 20, end: 30 };
    /// assert_eq!(block.next_shard(4), 3);
    /// ```
    pub fn next_shard(&self, shards: usize) -> usize {
        self.shard.checked_sub(1).unwrap_or(shards.saturating_sub(1))
    }
}

/// A schedule in which blocks of parameters rotate over the shards: [`schedule_static_rota`].
#[derive(Clone, Debug)]
pub struct StaticRota {
    cuts: Vec<usize>,
    turn: usize,
}

/// STRADS's `scheduleStaticRota` (section 4.2). The parameters `0..parameters` are cut into as many contiguous blocks as there are
/// shards. In a round each shard has one block, and in the next round the block that the following shard had. After as many rounds
/// as there are shards every shard has had every block once. The next call continues where this one ends.
///
/// A program's [`updated_on`](crate::Program::updated_on) is then `Shards::One(job.shard)`. Where the parameters are to lie with the
/// workers instead of the program's own process, it is a [`Rotation`](crate::Rotation), which [`StaticRota::rotate`] runs.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{Schedule, schedule_static_rota};
///
/// let mut schedule = schedule_static_rota(10, 2);
/// let mut round = |t| {
///     let mut jobs = Vec::new();
///     Schedule::<(), _, ()>::schedule(&mut schedule, t, &(), &mut jobs);
///     jobs.iter().map(|job: &stradsap::Block| (job.shard, job.parameters())).collect::<Vec<_>>()
/// };
/// assert_eq!(round(0), [(0, 0..5), (1, 5..10)]);
/// assert_eq!(round(1), [(0, 5..10), (1, 0..5)]);
/// ```
pub fn schedule_static_rota(parameters: usize, shards: usize) -> StaticRota {
    let cut = |b: usize| (parameters as u128 * b as u128 / shards.max(1) as u128) as usize;
    StaticRota { cuts: if shards == 0 { vec![0] } else { (0..=shards).map(cut).collect() }, turn: 0 }
}

impl StaticRota {
    /// A rotation with given blocks, for instance of about equal work. Block `i` is the parameters `cuts[i]..cuts[i + 1]`; there
    /// must be as many blocks as shards.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::StaticRota;
    ///
    /// let schedule = StaticRota::with_cuts(vec![0, 3, 10])?; // two blocks
    /// assert!(StaticRota::with_cuts(vec![0, 7, 3]).is_err());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if the cuts don't begin at 0 or are not in order.
    pub fn with_cuts(cuts: Vec<usize>) -> crate::Result<StaticRota> {
        if cuts.first() != Some(&0) || !cuts.is_sorted() {
            return Err(crate::Error::usage(
                "the cuts of a rotation begin at 0 and ascend to the number of parameters",
            ));
        }
        Ok(StaticRota { cuts, turn: 0 })
    }

    /// How many rounds a whole rotation has: as many as there are shards.
    pub fn rotation(&self) -> usize {
        self.cuts.len() - 1
    }

    /// The parameters of a block.
    ///
    /// # Panics
    /// If there is no such block.
    ///
    /// ```
    /// # use stradsap_runtime::schedule_static_rota;
    /// assert_eq!(schedule_static_rota(10, 4).parameters(1), 2..5);
    /// ```
    pub fn parameters(&self, block: usize) -> Range<usize> {
        self.cuts[block]..self.cuts[block + 1]
    }

    pub(super) fn cuts(&self) -> &Vec<usize> {
        &self.cuts
    }

    /// How many rounds the next one is behind one in which each shard has the block of its own number.
    pub(super) fn turn(&self) -> usize {
        self.turn
    }
}

impl<M, C> Schedule<M, Block, C> for StaticRota {
    fn schedule(&mut self, _round: usize, _model: &M, jobs: &mut Vec<Block>) {
        let shards = self.rotation();
        for shard in 0..shards {
            let block = (shard + self.turn) % shards;
            jobs.push(Block { shard, block, start: self.cuts[block], end: self.cuts[block + 1] });
        }
        self.turn = if self.turn + 1 >= shards { 0 } else { self.turn + 1 };
    }
}
