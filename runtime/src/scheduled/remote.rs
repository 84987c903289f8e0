//! A program on a worker: without its types, from its bytes.
//!
//! # Why this is sound
//! A name of a maker comes from the driver alone, with values that were encoded for it (see `memory::named`). A caller that calls
//! `run` has shards and locals of the types that `fits` has compared, all of its own ones there, and lends them for the call.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::time::Instant;

use super::drive::RoundFailure;
use super::here::LocalShards;
use super::program::Program;
use super::wire::Reader;
use crate::body::panics;
use crate::memory::codec::{self, CodecError};
use crate::memory::element_ops::{ElementOps, ops_of};
use crate::memory::named::{Maker, Makes, Named};
use crate::session::pool::Pool;
use crate::session::slow_bodies::{self, Unit};
use crate::session::timeline::{Category, span};

/// Where a worker's shards are.
pub(crate) struct ShardMemory<'p> {
    /// The first of its own ones.
    pub(crate) shards: *const u8,
    pub(crate) locals: *mut u8,
    pub(crate) own: Range<usize>,
    pub(crate) all: usize,
    /// Rounds that ran before are only applied.
    pub(crate) replay: bool,
    pub(crate) pool: &'p Pool,
}

/// The driver, as a program sees it.
pub(crate) trait Port {
    /// The next message; none at the end.
    fn next(&mut self) -> Option<Vec<u8>>;
    fn answer(&mut self, round: usize, answer: Result<Vec<u8>, RoundFailure>);
}

/// How a worker's part ended.
#[derive(Default)]
pub(crate) struct Left {
    /// What failed after the last round.
    pub(crate) failed: Option<RoundFailure>,
    pub(crate) computing: f64,
}

pub(crate) trait RemoteProgram: Send + Sync {
    /// Whether these are the types of its shards and locals.
    fn fits(&self, shards: &ElementOps, locals: &ElementOps) -> bool;
    /// Does what the messages say.
    ///
    /// # Safety
    /// `fits` has said so of the elements in `place`, which are all there; nobody else uses the locals, or writes the shards.
    unsafe fn run(&self, place: &ShardMemory<'_>, port: &mut dyn Port) -> Result<Left, String>;
}

/// Makes a program from its bytes.
pub(crate) type MakeProgram = for<'b> fn(&'b [u8]) -> Result<Box<dyn RemoteProgram>, CodecError>;

fn make_program<P: Program>(bytes: &[u8]) -> Result<Box<dyn RemoteProgram>, CodecError> {
    let mut rest = bytes;
    let program: P = codec::read_value(0, &mut rest)?;
    match rest.len() {
        0 => Ok(Box::new(Arrived(program))),
        left => Err(CodecError::Trailing { values: 1, left }),
    }
}

struct MakerOf<P>(PhantomData<P>);

impl<P: Program> MakerOf<P> {
    const MAKER: &'static Named<Maker> =
        // SAFETY: that is what it makes.
        &Named::new(unsafe { Maker::new(make_program::<P> as MakeProgram as *const (), Makes::Program) });
}

/// What a program needs to run elsewhere: its [`MakeProgram`], and its bytes.
pub(crate) fn pack<P: Program>(program: &P) -> Result<(&'static Maker, Vec<u8>), CodecError> {
    let mut bytes = Vec::new();
    codec::write_value(0, program, &mut bytes)?;
    Ok((&MakerOf::<P>::MAKER.value, bytes))
}

struct Arrived<P>(P);

impl<P: Program> RemoteProgram for Arrived<P> {
    fn fits(&self, shards: &ElementOps, locals: &ElementOps) -> bool {
        shards.is(ops_of::<P::Shard>()) && locals.is(ops_of::<P::Local>())
    }

    unsafe fn run(&self, place: &ShardMemory<'_>, port: &mut dyn Port) -> Result<Left, String> {
        let n = place.own.len();
        // SAFETY: the caller's promise.
        let (shards, locals) = unsafe {
            (
                std::slice::from_raw_parts(place.shards.cast::<P::Shard>(), n),
                std::slice::from_raw_parts_mut(place.locals.cast::<P::Local>(), n),
            )
        };
        let program = &self.0;
        let mut here = LocalShards::new(program, shards, locals, place.own.start, place.all, place.pool);
        let scope = if place.replay { 0..place.all } else { place.own.clone() };
        let mut reader = Reader::new(scope, place.own.clone(), place.all);
        let mut left = Left::default();
        while let Some(message) = port.next() {
            let since = Instant::now();
            let _span = span(Category::Block, message.len() as u64);
            let _now = slow_bodies::running(Unit::Round);
            let took = panics::caught(|| reader.take(program, &mut here, &message, !place.replay));
            let took = took.map_err(|note| format!("{} ({})", note.message, note.location))??;
            left.computing += since.elapsed().as_secs_f64();
            if let Some((round, answer)) = took {
                port.answer(round, answer);
            }
        }
        left.failed = here.failure(usize::MAX).cloned();
        Ok(left)
    }
}
