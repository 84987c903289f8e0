//! The order of things: which of the four functions runs when, in any process.
//!
//! Round `t` of a pipeline of depth `d`: `aggregate` of round `t - d`, `schedule` of round `t`; then, on the shards, `apply` of
//! round `t - d` and `update` of round `t`. The updates of a round therefore see exactly the changes of rounds up to `t - d`,
//! wherever they run and however long they take. A failure on the shards is reported when its round is collected, so that
//! every process reports the same failure.

use std::cell::Cell;

use super::program::{Partials, Program, Schedule};
use crate::body::panics::{self, CaughtPanic};

/// The deepest pipeline.
pub(crate) const DEEPEST: usize = 1024;

/// One of the functions of a program or its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) enum Function {
    Schedule,
    Apply,
    Update,
    Aggregate,
    Until,
}

impl Function {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Schedule => "schedule",
            Function::Apply => "apply",
            Function::Update => "update",
            Function::Aggregate => "aggregate",
            Function::Until => "the condition",
        }
    }
}

/// What ended a call.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct RoundFailure {
    pub(crate) round: usize,
    pub(crate) function: Function,
    pub(crate) job: Option<usize>,
    pub(crate) shard: Option<usize>,
    pub(crate) what: RoundCause,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum RoundCause {
    Panic(CaughtPanic),
    NoSuchShard,
}

/// Where the program is, recorded before each of its functions is called.
#[derive(Default)]
pub(crate) struct At {
    pub(crate) job: Cell<usize>,
    pub(crate) shard: Cell<usize>,
}

/// A round in flight. Its room is used again.
pub(crate) struct Round<P: Program> {
    pub(crate) number: usize,
    pub(crate) jobs: Vec<P::Job>,
    /// What the shards gave, job by job, in the order of the shards.
    pub(crate) slots: Vec<Option<P::Partial>>,
    /// Where each job's end.
    pub(crate) ends: Vec<usize>,
    pub(crate) changes: Vec<P::Change>,
}

impl<P: Program> Round<P> {
    pub(crate) fn new() -> Self {
        Round { number: 0, jobs: Vec::new(), slots: Vec::new(), ends: Vec::new(), changes: Vec::new() }
    }
}

/// Whatever has the shards.
pub(crate) trait Field<P: Program> {
    /// Why it can't go on, failures of the program apart.
    type Stop: From<RoundFailure>;

    /// Applies a round's changes, and begins a round's updates.
    fn step(&mut self, settled: Option<&Round<P>>, fresh: Option<&mut Round<P>>) -> Result<(), Self::Stop>;

    /// Waits until a round's updates are there.
    fn collect(&mut self, round: &mut Round<P>) -> Result<(), Self::Stop>;

    /// Waits until everything is applied.
    fn finish(&mut self) -> Result<(), Self::Stop>;
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) rounds: usize,
    pub(crate) jobs: u64,
    pub(crate) updates: u64,
    /// The rounds by which reads were behind: the most, and the sum over all updates.
    pub(crate) behind_most: usize,
    pub(crate) behind: u64,
}

/// How rounds go on, and when they stop.
pub(crate) struct Course<U> {
    pub(crate) shards: usize,
    /// How many rounds are in flight at most.
    pub(crate) depth: usize,
    pub(crate) rounds: usize,
    pub(crate) until: U,
}

fn failed(round: usize, function: Function, job: Option<usize>, note: CaughtPanic) -> RoundFailure {
    RoundFailure { round, function, job, shard: None, what: RoundCause::Panic(note) }
}

/// Runs rounds to the end, within [`panics::quietly`]. After an error model and schedule are in any state.
#[expect(
    clippy::too_many_lines,
    reason = "one loop, whose phases share nearly all of its state, and whose cost is that of a round"
)]
pub(crate) fn drive<P, S, F, U>(
    program: &P,
    schedule: &mut S,
    model: &mut P::Model,
    field: &mut F,
    course: &mut Course<U>,
) -> Result<Done, F::Stop>
where
    P: Program,
    S: Schedule<P::Model, P::Job, P::Change>,
    F: Field<P>,
    U: FnMut(usize, &P::Model) -> bool,
{
    let &mut Course { shards, depth, rounds, ref mut until } = course;
    // One more than are in flight: the oldest round is applied while the newest is updated.
    let ring_len = depth + 1;
    let mut ring: Vec<Round<P>> = (0..ring_len).map(|_| Round::new()).collect();
    let (mut begun, mut settled, mut over) = (0, 0, false);
    let mut done = Done::default();
    let at = At::default();
    panics::caught_within(|| schedule.begin(depth)).map_err(|note| failed(0, Function::Schedule, None, note))?;
    loop {
        let mut aggregated = None;
        let more = !over && begun < rounds;
        if begun - settled == depth || (!more && settled < begun) {
            let slot = settled % ring_len;
            let round = &mut ring[slot];
            field.collect(round)?;
            let function = Cell::new(Function::Aggregate);
            let ran = panics::caught_within(|| {
                settle(program, schedule, model, round, &at);
                function.set(Function::Until);
                over = over || until(settled + 1, model);
            });
            let job = (function.get() == Function::Aggregate).then(|| at.job.get());
            ran.map_err(|note| failed(settled, function.get(), job, note))?;
            done.jobs += round.jobs.len() as u64;
            done.updates += round.slots.len() as u64;
            let behind = settled.min(depth - 1);
            if !round.slots.is_empty() {
                done.behind_most = done.behind_most.max(behind);
            }
            done.behind += (behind * round.slots.len()) as u64;
            settled += 1;
            done.rounds = settled;
            aggregated = Some(slot);
        }
        let fresh = (!over && begun < rounds).then_some(begun % ring_len);
        if let Some(slot) = fresh {
            let round = &mut ring[slot];
            round.number = begun;
            round.jobs.clear();
            round.slots.clear();
            round.ends.clear();
            let ran = panics::caught_within(|| {
                schedule.schedule(begun, model, &mut round.jobs);
                let mut end = 0;
                for (j, job) in round.jobs.iter().enumerate() {
                    let range = program.updated_on(job).range(shards);
                    end += range.map_err(|shard| no_such(begun, Function::Update, j, shard))?.len();
                    let applied = program.applied_to(job).range(shards);
                    applied.map_err(|shard| no_such(begun, Function::Apply, j, shard))?;
                    round.ends.push(end);
                }
                Ok(())
            });
            ran.map_err(|note| failed(begun, Function::Schedule, None, note))??;
            begun += 1;
        }
        match (aggregated, fresh) {
            (Some(old), Some(new)) => match ring.get_disjoint_mut([old, new]) {
                Ok([old, new]) => field.step(Some(old), Some(new))?,
                // The ring has one round more than are in flight.
                Err(_) => unreachable!("rounds {old} and {new} of {ring_len} in flight"),
            },
            (Some(old), None) => field.step(Some(&ring[old]), None)?,
            (None, Some(new)) => field.step(None, Some(&mut ring[new]))?,
            (None, None) => {
                field.finish()?;
                return Ok(done);
            }
        }
    }
}

/// Aggregates a round's jobs in their order.
#[inline(always)]
fn settle<P, S>(program: &P, schedule: &mut S, model: &mut P::Model, round: &mut Round<P>, at: &At)
where
    P: Program,
    S: Schedule<P::Model, P::Job, P::Change>,
{
    round.changes.clear();
    let mut start = 0;
    for (j, (job, &end)) in round.jobs.iter().zip(&round.ends).enumerate() {
        at.job.set(j);
        let change = program.aggregate(job, Partials::new(&mut round.slots[start..end]), model);
        schedule.observe(job, &change);
        round.changes.push(change);
        start = end;
    }
}

#[cold]
fn no_such(round: usize, function: Function, job: usize, shard: usize) -> RoundFailure {
    RoundFailure { round, function, job: Some(job), shard: Some(shard), what: RoundCause::NoSuchShard }
}
