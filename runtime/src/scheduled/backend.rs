//! What scheduled programs ask of a backend: calls, and shards that are elsewhere, without their types.

use std::ops::Range;
use std::time::Instant;

use super::drive::{Done, Field, Round, RoundFailure};
use super::program::Program;
use super::wire::{self, Writer};
use crate::body::capture::Captured;
use crate::memory::codec::CodecError;
use crate::memory::named::Maker;
use crate::session::error::Error;
use crate::session::report::WorkerTime;

pub(crate) trait ScheduledBackend: Send + Sync {
    /// Runs a program. If one of its functions fails, everything is as it was, schedule and model apart.
    fn run_scheduled(&self, call: &mut dyn ProgramCall) -> Result<ProgramOutcome, Unfinished>;
}

/// A call of a program, without its types.
pub(crate) trait ProgramCall {
    /// Shards and locals.
    fn captures(&self) -> [Captured; 2];
    /// Where it was called.
    fn site(&self) -> &str;
    /// What the program needs to run elsewhere.
    fn pack(&self) -> Result<(&'static Maker, Vec<u8>), CodecError>;
    /// Puts schedule and model back to what they were.
    fn begin_again(&mut self);
    /// Runs all rounds on this session's threads.
    fn run_here(&mut self) -> Result<ProgramOutcome, Unfinished>;
    /// Runs all rounds on shards that are elsewhere.
    fn run_away(&mut self, shards: &mut dyn ShardsAway) -> Result<Done, Stopped>;
    /// The locals have been changed elsewhere.
    fn committed(&self);
}

/// What a call came to.
pub(crate) struct ProgramOutcome {
    pub(crate) done: Done,
    pub(crate) bytes_sent: u64,
    pub(crate) threads: usize,
    pub(crate) prepared: Instant,
    pub(crate) workers: Vec<WorkerTime>,
}

/// Why a call did not end well.
pub(crate) enum Unfinished {
    /// One of the program's functions failed.
    Failed(RoundFailure),
    Error(Error),
}

impl From<Error> for Unfinished {
    fn from(error: Error) -> Unfinished {
        Unfinished::Error(error)
    }
}

/// Why rounds on shards that are elsewhere can't go on.
pub(crate) enum Stopped {
    Failed(RoundFailure),
    /// The backend knows why.
    Backend,
}

impl From<RoundFailure> for Stopped {
    fn from(failed: RoundFailure) -> Stopped {
        Stopped::Failed(failed)
    }
}

/// What the updates on a range of the shards gave, as bytes.
pub(crate) type OfRange = (Vec<u8>, Range<usize>);

/// Shards that are elsewhere.
pub(crate) trait ShardsAway {
    /// Sends each process that has shards a message, which is made for a range of them.
    fn tell(&mut self, message: &dyn Fn(&Range<usize>) -> Vec<u8>);
    /// Waits for what a round's updates gave: the bytes for each range of the shards, in their order.
    fn collect(&mut self, round: usize) -> Result<Vec<OfRange>, Stopped>;
    /// Waits until everything is applied.
    fn finish(&mut self) -> Result<(), Stopped>;
    /// Gives up, since the bytes from one of the ranges are wrong, or with none since something can't be sent.
    fn give_up(&mut self, range: Option<usize>, problem: String) -> Stopped;
}

/// The same with the types of a program.
pub(super) struct Away<'a, P> {
    pub(super) program: &'a P,
    pub(super) all: usize,
    pub(super) writer: Writer,
    pub(super) shards: &'a mut dyn ShardsAway,
}

impl<P: Program> Field<P> for Away<'_, P> {
    type Stop = Stopped;

    fn step(&mut self, settled: Option<&Round<P>>, fresh: Option<&mut Round<P>>) -> Result<(), Stopped> {
        let written = self.writer.begin(self.program, settled, fresh.as_deref());
        if let Err(error) = written {
            return Err(self.shards.give_up(None, format!("a job or a change can't be sent: {error}")));
        }
        self.shards.tell(&|range| self.writer.message(range));
        Ok(())
    }

    fn collect(&mut self, round: &mut Round<P>) -> Result<(), Stopped> {
        let given = self.shards.collect(round.number)?;
        let mut answers: Vec<_> = given.iter().map(|(bytes, own)| (bytes.as_slice(), own.clone())).collect();
        wire::unite(self.program, round, self.all, &mut answers)
            .map_err(|(range, why)| self.shards.give_up(Some(range), why))
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        self.shards.finish()
    }
}
