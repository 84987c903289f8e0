//! What the driver sends a worker for a round: what came of an older one, and the jobs of a new one.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | 1: changes follow, 2: jobs follow, 3: both |
//! | | the changes of the oldest round whose changes have not been sent, of those of its jobs that are applied here |
//! | 8 | the number of the new round |
//! | 4 | how many of its jobs are for this worker |
//! | | those: the job's number in the round in 4 bytes, then the job |
//!
//! Which shards a job is sent to follows from the job itself, so that no list of it has to travel.

use std::collections::VecDeque;
use std::ops::Range;

use stradsap_dds_server::codec::{self, CodecError};

use super::drive::{Round, RoundFailure};
use super::here::LocalShards;
use super::program::{Program, Shards};

const CHANGES: u8 = 1;
const JOBS: u8 = 2;

/// Whether some of these shards are in a range of them.
fn touch(shards: Shards, range: &Range<usize>) -> bool {
    match shards {
        Shards::All => !range.is_empty(),
        Shards::One(shard) => range.contains(&shard),
        Shards::None => false,
    }
}

/// Things one after the other in their encoding.
#[derive(Default)]
struct Encoded {
    bytes: Vec<u8>,
    /// Where each ends, and whom it is for.
    ends: Vec<(usize, Shards, Shards)>,
}

impl Encoded {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The number and the bytes of each that is sent to a range of shards.
    fn of<'p>(&'p self, range: &'p Range<usize>) -> impl Iterator<Item = (usize, &'p [u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(end, ..)| end));
        let encoded = self.ends.iter().zip(starts).enumerate();
        let wanted = encoded.filter(|(_, ((_, one, other), _))| touch(*one, range) || touch(*other, range));
        wanted.map(|(k, (&(end, ..), start))| (k, &self.bytes[start..end]))
    }
}

/// Writes messages about rounds.
#[derive(Default)]
pub(crate) struct Writer {
    settled: Option<Encoded>,
    fresh: Option<(u64, Encoded)>,
    spare: Vec<Encoded>,
}

impl Writer {
    /// Encodes what is to be sent.
    pub(crate) fn begin<P: Program>(
        &mut self,
        program: &P,
        settled: Option<&Round<P>>,
        fresh: Option<&Round<P>>,
    ) -> Result<(), CodecError> {
        self.spare.extend(self.settled.take());
        self.spare.extend(self.fresh.take().map(|(_, encoded)| encoded));
        let mut room = || {
            let mut encoded = self.spare.pop().unwrap_or_default();
            encoded.clear();
            encoded
        };
        if let Some(round) = settled {
            let mut encoded = room();
            for (job, change) in round.jobs.iter().zip(&round.changes) {
                codec::encode_into(change, &mut encoded.bytes)?;
                encoded.ends.push((encoded.bytes.len(), program.applied_to(job), Shards::None));
            }
            self.settled = Some(encoded);
        }
        if let Some(round) = fresh {
            let mut encoded = room();
            for job in &round.jobs {
                codec::encode_into(job, &mut encoded.bytes)?;
                encoded.ends.push((encoded.bytes.len(), program.updated_on(job), program.applied_to(job)));
            }
            self.fresh = Some((round.number as u64, encoded));
        }
        Ok(())
    }

    /// The message for the worker that has a range of the shards.
    pub(crate) fn message(&self, range: &Range<usize>) -> Vec<u8> {
        let flags = if self.settled.is_some() { CHANGES } else { 0 } | if self.fresh.is_some() { JOBS } else { 0 };
        let mut out = vec![flags];
        if let Some(encoded) = &self.settled {
            encoded.of(range).for_each(|(_, change)| out.extend_from_slice(change));
        }
        if let Some((round, encoded)) = &self.fresh {
            out.extend_from_slice(&round.to_le_bytes());
            out.extend_from_slice(&(encoded.of(range).count() as u32).to_le_bytes());
            for (number, job) in encoded.of(range) {
                out.extend_from_slice(&(number as u32).to_le_bytes());
                out.extend_from_slice(job);
            }
        }
        out
    }
}

/// A round, and what a worker's updates came to.
pub(crate) type RoundAnswer = (usize, Result<Vec<u8>, RoundFailure>);

/// A worker's rounds in flight.
pub(crate) struct Reader<P: Program> {
    /// The shards that messages are about: those here, or in a replay all of them.
    scope: Range<usize>,
    own: Range<usize>,
    all: usize,
    in_flight: VecDeque<(Round<P>, Vec<u32>)>,
    spare: Vec<(Round<P>, Vec<u32>)>,
    jobs: Vec<P::Job>,
    names: Vec<u32>,
    changes: Vec<P::Change>,
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    let (first, rest) = bytes.split_first_chunk::<N>().ok_or("a message about a round is cut short")?;
    *bytes = rest;
    Ok(*first)
}

impl<P: Program> Reader<P> {
    pub(crate) fn new(scope: Range<usize>, own: Range<usize>, all: usize) -> Self {
        Reader {
            scope,
            own,
            all,
            in_flight: VecDeque::new(),
            spare: Vec::new(),
            jobs: Vec::new(),
            names: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Does what a message says. Gives the number of the new round with what its updates came to, if it has one.
    ///
    /// # Errors
    /// Why the bytes are no such message.
    pub(crate) fn take(
        &mut self,
        program: &P,
        here: &mut LocalShards<'_, P>,
        mut bytes: &[u8],
        updates: bool,
    ) -> Result<Option<RoundAnswer>, String> {
        let [flags] = take(&mut bytes)?;
        if flags == 0 || flags > CHANGES | JOBS {
            return Err(format!("a message about a round of kind {flags}: 1 to 3 was expected"));
        }
        let settled = if flags & CHANGES == 0 { None } else { Some(self.changes(program, &mut bytes)?) };
        let fresh = if flags & JOBS == 0 { None } else { Some(self.round(program, &mut bytes)?) };
        if !bytes.is_empty() {
            return Err(format!("{} bytes are left behind a message about a round", bytes.len()));
        }
        if let Some(old) = settled {
            let told_with = fresh.as_ref().map_or(usize::MAX, |(round, _)| round.number);
            here.apply(old, &self.jobs, &self.changes, told_with);
            here.name_job(&self.names);
            self.jobs.clear();
            self.names.clear();
            self.changes.clear();
        }
        let Some((mut round, names)) = fresh else { return Ok(None) };
        let number = round.number;
        if !updates {
            self.in_flight.push_back((round, names));
            return Ok(None);
        }
        here.update(&mut round);
        here.name_job(&names);
        let answer = match here.failure(number) {
            Some(failed) => Err(failed.clone()),
            None => {
                let mut out = Vec::new();
                for partial in round.slots.drain(..).flatten() {
                    codec::encode_into(&partial, &mut out).map_err(|error| format!("what an update gave: {error}"))?;
                }
                Ok(out)
            }
        };
        self.in_flight.push_back((round, names));
        Ok(Some((number, answer)))
    }

    /// Reads the changes of the oldest round in flight, and keeps those for the shards here. Gives the round's number.
    fn changes(&mut self, program: &P, bytes: &mut &[u8]) -> Result<usize, String> {
        let (mut round, mut names) = self.in_flight.pop_front().ok_or("changes of a round that was never begun")?;
        for (job, name) in round.jobs.drain(..).zip(names.drain(..)) {
            let applied = program.applied_to(&job);
            if !touch(applied, &self.scope) {
                continue;
            }
            let change = codec::decode_front(bytes).map_err(|error| format!("a change: {error}"))?;
            if touch(applied, &self.own) {
                self.jobs.push(job);
                self.names.push(name);
                self.changes.push(change);
            }
        }
        let number = round.number;
        self.spare.push((round, names));
        Ok(number)
    }

    /// Reads a new round's jobs, and their numbers in the whole round.
    fn round(&mut self, program: &P, bytes: &mut &[u8]) -> Result<(Round<P>, Vec<u32>), String> {
        let (mut round, mut names) = self.spare.pop().unwrap_or_else(|| (Round::new(), Vec::new()));
        round.jobs.clear();
        round.slots.clear();
        names.clear();
        let number = u64::from_le_bytes(take(bytes)?);
        round.number = usize::try_from(number).map_err(|_| format!("round {number}"))?;
        for _ in 0..u32::from_le_bytes(take(bytes)?) {
            names.push(u32::from_le_bytes(take(bytes)?));
            let job: P::Job = codec::decode_front(bytes).map_err(|error| format!("a job: {error}"))?;
            for shards in [program.updated_on(&job), program.applied_to(&job)] {
                shards.range(self.all).map_err(|shard| format!("a job for shard {shard} of {}", self.all))?;
            }
            round.jobs.push(job);
        }
        Ok((round, names))
    }
}

/// Reads what workers gave for a round into its slots: the bytes of each, and its shards, in the shards' order.
///
/// # Errors
/// Whose bytes are none, and why.
pub(crate) fn unite<P: Program>(
    program: &P,
    round: &mut Round<P>,
    all: usize,
    answers: &mut [(&[u8], Range<usize>)],
) -> Result<(), (usize, String)> {
    round.slots.clear();
    for job in &round.jobs {
        let shards = program.updated_on(job).range(all).unwrap_or(0..0);
        for (w, (bytes, own)) in answers.iter_mut().enumerate() {
            for _ in shards.start.max(own.start)..shards.end.min(own.end) {
                let partial = codec::decode_front(bytes);
                round.slots.push(Some(partial.map_err(|error| (w, format!("what an update gave: {error}")))?));
            }
        }
    }
    match answers.iter().position(|(bytes, _)| !bytes.is_empty()) {
        Some(w) => Err((w, format!("{} bytes are left behind what the updates gave", answers[w].0.len()))),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
