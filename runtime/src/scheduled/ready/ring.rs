//! A rotation whose blocks go from shard to shard, and not through the program's own process.
//!
//! It is a loop: an iteration is a block's turn at a shard, in the order of the rounds. What turns share is a block or a shard's local,
//! so the plan of the loop is the ring (STRADS, section 3.3): each worker has some shards, and hands a block to the worker of the shard
//! that has it next.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rotation::{Block, StaticRota};
use crate::body::capture::{Dealt, Write};
use crate::body::inference::{typed_body, typed_scratch};
use crate::body::value::kinds::ChooseSerde;
use crate::body::value::value;
use crate::dds::dvector::DVector;
use crate::loops::call::async_for;
use crate::memory::element::Element;
use crate::session::error::{Error, LoopProblem, Result, RoundProblem};
use crate::session::locked;
use crate::session::options::{LoopOptions, Order, Site, range};
use crate::session::report::LoopReport;

/// A program whose parameters are cut into blocks that rotate over the shards, each with the shard that has it: [`StaticRota::rotate`].
/// A block's turn at a shard changes both, and concerns no other block or shard, so nothing has to be aggregated elsewhere.
///
/// The value itself holds constants.
pub trait Rotation: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// A part of the data: an element of the DVector of shards. No turn changes it.
    type Shard: Element;
    /// What a shard keeps between turns: the element with the same index in another DVector.
    type Local: Element;
    /// The parameters of a block: an element of the DVector of blocks.
    type Parameters: Element;

    /// A block's turn at a shard. What it does depends on its arguments alone.
    fn update(&self, block: &Block, shard: &Self::Shard, local: &mut Self::Local, parameters: &mut Self::Parameters);
}

/// The names of what a rotation captures.
const CAPTURES: &[&str] = &["shards", "locals", "blocks"];

/// The site of a call. A loop's plans belong to its site, which lives as long as the program: there is one for each place in the source.
fn site_of(place: &'static Location<'static>) -> &'static Site {
    static SITES: Mutex<Option<HashMap<Location<'static>, &'static Site>>> = Mutex::new(None);
    let mut sites = locked(&SITES);
    let new =
        || -> &'static Site { Box::leak(Box::new(Site::new(place.file(), place.line(), place.column(), CAPTURES))) };
    sites.get_or_insert_default().entry(*place).or_insert_with(new)
}

impl StaticRota {
    /// Runs one rotation: as many rounds as there are shards, so that every block has its turn at every shard once. Element `b` of
    /// `blocks` holds the parameters of block `b`.
    ///
    /// The result has the bits of the sequential program, which takes one round after the other and in a round one shard after the other.
    /// On workers a shard's turns all run on one worker. Blocks go straight from worker to worker, and a round has no barrier:
    /// a turn begins when its shard and its block have ended the turns before.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use serde::{Deserialize, Serialize};
    /// use stradsap::{Block, DVector, Rotation, Session, schedule_static_rota};
    ///
    /// /// Counts words. A shard is the words of some documents, a block the counts of some words.
    /// #[derive(Serialize, Deserialize)]
    /// struct Counting;
    ///
    /// impl Rotation for Counting {
    ///     type Shard = Vec<usize>;
    ///     type Local = u64; // the last word counted
    ///     type Parameters = Vec<u64>;
    ///
    ///     fn update(&self, block: &Block, words: &Vec<usize>, last: &mut u64, counts: &mut Vec<u64>) {
    ///         for word in words.iter().filter(|&word| block.parameters().contains(word)) {
    ///             counts[word - block.start] += 1;
    ///             *last = *word as u64;
    ///         }
    ///     }
    /// }
    ///
    /// let session = Session::builder().threads(2).build()?;
    /// let schedule = schedule_static_rota(10, 4);
    /// let shards = DVector::from_fn(&session, 4, |s| (0..100).map(|k| (k * k + s) % 10).collect::<Vec<_>>())?;
    /// let mut locals = DVector::from_fn(&session, 4, |_| 0)?;
    /// let mut blocks = DVector::from_fn(&session, 4, |b| vec![0; schedule.parameters(b).len()])?;
    /// for _epoch in 0..2 {
    ///     let report = schedule.rotate(&Counting, &mut blocks, &shards, &mut locals)?;
    ///     assert_eq!(report.iterations(), 16);
    /// }
    /// assert_eq!(blocks.to_vec()?.concat().iter().sum::<u64>(), 800);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Round`] if `update` panics; [`Error::Loop`] if there aren't as many blocks, shards and locals as the schedule has blocks.
    /// Blocks and locals are then as they were.
    ///
    /// # Determinism
    /// The bits depend on the program, the blocks, the shards and the locals, and on the cuts of the schedule.
    ///
    /// # Cost
    /// On workers each block is sent to each other worker once in a rotation. Shards stay with their workers from call to call. A call copies
    /// blocks and locals, to be able to restore them. The first call makes the plan, without a call of `update`.
    #[track_caller]
    pub fn rotate<P: Rotation>(
        &self,
        program: &P,
        blocks: &mut DVector<P::Parameters>,
        shards: &DVector<P::Shard>,
        locals: &mut DVector<P::Local>,
    ) -> Result<LoopReport> {
        let (site, n) = (site_of(Location::caller()), self.rotation());
        let given = [blocks.len(), shards.len(), locals.len()];
        if given != [n; 3] {
            let problem = LoopProblem::Rotation { blocks: n, given };
            return Err(Error::Loop { site: site.to_string(), problem });
        }
        let turn = self.turn();
        let values = (value(program), value(self.cuts()), value(&turn));
        let values = ((&&&values.0.probe()).kind(), (&&&values.1.probe()).kind(), (&&&values.2.probe()).kind());
        let handles = (Dealt(shards), Write::<_, 0>(locals), Write::<_, 0>(blocks));
        let turns = range(0..n * n);
        let scratch = typed_scratch(&values, &handles, |_, _| ());
        let body = typed_body(&turns, &values, &handles, &scratch, |(program, cuts, turn), views, (), i| {
            let cuts: &Vec<usize> = cuts.0;
            let n = cuts.len() - 1;
            let (round, shard) = (i / n, i % n);
            let block = (shard + turn.0 + round) % n;
            let (shards, locals, blocks) = views;
            // Which elements a turn uses is known without it.
            if !(shards.note(shard, false) && locals.note(shard, true) && blocks.note(block, true)) {
                let turn = Block { shard, block, start: cuts[block], end: cuts[block + 1] };
                program.0.update(&turn, &shards[shard], &mut locals[shard], &mut blocks[block]);
            }
        });
        // A turn is long: each may be a block of the plan.
        let options = LoopOptions::new().order(Order::Preserve).grain(1);
        async_for(site, options, turns, values, handles, scratch, body).map_err(|error| of_round(error, n))
    }
}

/// An iteration's failure as a round's.
fn of_round(error: Error, n: usize) -> Error {
    match error {
        Error::Panic { site, iteration, message, location } => Error::Round {
            site,
            round: iteration / n,
            function: "update",
            job: Some(iteration % n),
            shard: Some(iteration % n),
            problem: Box::new(RoundProblem::Panic { message, location }),
        },
        other => other,
    }
}
