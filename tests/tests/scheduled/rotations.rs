//! Rotations: blocks that go from shard to shard have the bits of one turn after the other, on any number of threads and workers.

use serde::{Deserialize, Serialize};
use stradsap::prelude::*;
use stradsap::{Block, Error, LoopProblem, Rotation, StaticRota};

use crate::common::mix;
use crate::seen::{Seen, without_worker};

/// Everything depends on the order: of the turns of a block, and of those of a shard.
#[derive(Serialize, Deserialize)]
struct Mixing {
    work: u64,
    /// A turn that panics: shard and block.
    fails: Option<(usize, usize)>,
}

impl Rotation for Mixing {
    type Shard = String;
    type Local = Vec<u64>;
    type Parameters = Parameters;

    fn update(&self, block: &Block, shard: &String, local: &mut Vec<u64>, parameters: &mut Parameters) {
        assert!(self.fails != Some((block.shard, block.block)), "a turn of {}", block.block);
        assert_eq!(
            (parameters.name.as_str(), parameters.values.len()),
            (block.block.to_string().as_str(), block.parameters().len())
        );
        let mut hash = shard.bytes().fold(block.start as u64, |hash, byte| mix(hash ^ u64::from(byte)));
        hash = (0..self.work).fold(hash, |hash, k| mix(hash ^ k));
        for value in &mut parameters.values {
            *value = mix(*value ^ hash).wrapping_add(local[0]);
        }
        local[0] = mix(local[0] ^ parameters.values.iter().fold(hash, |sum, value| sum.wrapping_mul(3) ^ value));
        local.push(block.block as u64);
    }
}

/// The parameters of a block: memory of their own, as a model's rows have.
#[derive(Clone, Debug, PartialEq, Element)]
struct Parameters {
    name: String,
    values: Vec<u64>,
}

fn start(schedule: &StaticRota, block: usize) -> Parameters {
    Parameters { name: block.to_string(), values: schedule.parameters(block).map(|k| k as u64).collect() }
}

fn shard(s: usize) -> String {
    format!("the data of {s}")
}

/// The sequential program.
fn plain(schedule: &StaticRota, program: &Mixing, blocks: &mut [Parameters], locals: &mut [Vec<u64>], first: usize) {
    let n = schedule.rotation();
    for (round, shard_of) in (0..n).flat_map(|round| (0..n).map(move |s| (round, s))) {
        let block = (shard_of + first + round) % n;
        let (start, end) = (schedule.parameters(block).start, schedule.parameters(block).end);
        let turn = Block { shard: shard_of, block, start, end };
        program.update(&turn, &shard(shard_of), &mut locals[shard_of], &mut blocks[block]);
    }
}

pub(crate) fn one_turn_after_the_other(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let cuts = [vec![0, 3], vec![0, 0, 7], vec![0, 1, 10, 11, 40], (0..=9).map(|k| k * k).collect()];
    for (cuts, work) in cuts.into_iter().flat_map(|cuts| [(cuts.clone(), 0), (cuts, 4_000)]) {
        let schedule = StaticRota::with_cuts(cuts)?;
        let (n, program) = (schedule.rotation(), Mixing { work, fails: None });
        let shards = DVector::from_fn(session, n, shard)?;
        let mut blocks = DVector::from_fn(session, n, |b| start(&schedule, b))?;
        let mut locals = DVector::from_fn(session, n, |s| vec![s as u64])?;
        let (mut expected, mut kept) = (blocks.to_vec()?, locals.to_vec()?);
        for rotation in 0..4 {
            let report = schedule.rotate(&program, &mut blocks, &shards, &mut locals)?;
            plain(&schedule, &program, &mut expected, &mut kept, 0);
            assert_eq!((report.iterations(), report.misspeculations()), (n * n, 0), "{report}");
            assert_eq!(report.reused(), rotation > 0, "{report}");
            if rotation % 2 == 1 {
                assert_eq!((blocks.to_vec()?, locals.to_vec()?), (expected.clone(), kept.clone()), "{report}");
            }
        }
        seen.digest("blocks", &blocks)?;
        seen.digest("locals", &locals)?;
    }
    Ok(())
}

/// A rotation begins with the round that is next in the schedule, and ends before it.
pub(crate) fn from_any_round(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (n, program) = (5, Mixing { work: 0, fails: None });
    let mut schedule = schedule_static_rota(23, n);
    let shards = DVector::from_fn(session, n, shard)?;
    let mut blocks = DVector::from_fn(session, n, |b| start(&schedule, b))?;
    let mut locals = DVector::from_fn(session, n, |s| vec![s as u64])?;
    let (mut expected, mut kept) = (blocks.to_vec()?, locals.to_vec()?);
    for first in 0..7 {
        schedule.rotate(&program, &mut blocks, &shards, &mut locals)?;
        plain(&schedule, &program, &mut expected, &mut kept, first % n);
        assert_eq!((blocks.to_vec()?, locals.to_vec()?), (expected.clone(), kept.clone()));
        let mut jobs: Vec<Block> = Vec::new();
        Schedule::<(), Block, ()>::schedule(&mut schedule, 0, &(), &mut jobs);
        assert_eq!(jobs[0].block, first % n);
    }
    seen.digest("blocks", &blocks)
}

/// Each shard is with one worker, and a block comes to each worker once: no more bytes are sent than the blocks have, times the workers,
/// and in the first call once those of the shards.
pub(crate) fn blocks_pass_the_workers_once(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (n, width, long, program) = (8, 2000, 30_000, Mixing { work: 1000, fails: None });
    let schedule = schedule_static_rota(n * width, n);
    let shards = DVector::from_fn(session, n, |s| shard(s).repeat(long / 15))?;
    let mut blocks = DVector::from_fn(session, n, |b| start(&schedule, b))?;
    let mut locals = DVector::from_fn(session, n, |s| vec![s as u64])?;
    let workers = session.workers();
    for rotation in 0..3 {
        let report = schedule.rotate(&program, &mut blocks, &shards, &mut locals)?;
        if workers > 0 {
            let whole = report.shares().iter().filter(|share| share.blocks > 0 && share.blocks % n == 0).count();
            assert_eq!(whole, workers, "{report}");
            let model = n * (9 * width + 200);
            let most = if rotation == 0 { n * long + (workers + 1) * model } else { workers * model };
            assert!(report.bytes_sent() < most as u64, "{} bytes, at most {most}: {report}", report.bytes_sent());
        }
    }
    seen.digest("blocks", &blocks)
}

pub(crate) fn failures_of_turns(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let n = 4;
    let schedule = schedule_static_rota(23, n);
    let shards = DVector::from_fn(session, n, shard)?;
    let mut blocks = DVector::from_fn(session, n, |b| start(&schedule, b))?;
    let mut locals = DVector::from_fn(session, n, |s| vec![s as u64])?;
    for fails in [None, Some((0, 0)), None, Some((2, 1)), Some((3, 3)), None] {
        let before = (blocks.to_vec()?, locals.to_vec()?);
        match schedule.rotate(&Mixing { work: 0, fails }, &mut blocks, &shards, &mut locals) {
            Ok(_) => assert!(fails.is_none() && before.0 != blocks.to_vec()?),
            Err(error) => {
                let (shard, block) = fails.unwrap();
                let round = (block + n - shard) % n;
                let text = format!(
                    ": round {round}: `update` of the round's job {shard} on shard {shard} panicked: a turn of {block} "
                );
                assert!(error.to_string().contains(&text), "{error}");
                assert_eq!((blocks.to_vec()?, locals.to_vec()?), before, "{error}");
                seen.record("failed", without_worker(session, &error.to_string()));
            }
        }
    }
    let short = DVector::from_fn(session, n - 1, shard)?;
    let error = schedule.rotate(&Mixing { work: 0, fails: None }, &mut blocks, &short, &mut locals).unwrap_err();
    let Error::Loop { problem, .. } = &error else { panic!("{error}") };
    assert_eq!(*problem, LoopProblem::Rotation { blocks: 4, given: [4, 3, 4] });
    seen.record("misuse", error);
    seen.digest("blocks", &blocks)
}
