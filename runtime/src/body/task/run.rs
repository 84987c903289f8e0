//! The loops that run a body for real: a loop a kind of block.
//!
//! # Why this is sound
//! By rule 2 of [`super`].
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Iterations, LoopTask};
use crate::body::capture::Handles;
use crate::body::context::Context;
use crate::body::outcome::Outcome;
use crate::body::value::Values;
use crate::planner::plan::{Run, TOGETHER};
use crate::session::error::BodyError;
use crate::session::options::Indices;

impl<X, V, H, S, I, F, R> LoopTask<X, V, H, S, I, F, R>
where
    X: Indices,
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    /// Whether a block may be run in several parts: it has no scratch, which would be set up for each.
    pub(super) const HAS_RUNS: bool = size_of::<S>() == 0 && !std::mem::needs_drop::<S>();

    /// Runs a block's `n` iterations, as `run` runs those at some places. Where the loop may be stopped, that is in turns of some
    /// milliseconds: nobody waits for the end of a long block. One with scratch is run at once.
    pub(super) fn in_turns(
        &self,
        context: &Context<'_>,
        n: usize,
        mut run: impl FnMut(usize, usize) -> Option<(usize, BodyError)>,
    ) -> Option<(usize, BodyError)> {
        if !Self::HAS_RUNS || context.state.stop.get().is_none() {
            return run(0, n);
        }
        let mut place = 0;
        while place < n && !context.state.is_stopped() {
            let (begun, turn) = (Instant::now(), self.turn.load(Relaxed).clamp(1, n - place));
            let error = run(place, turn);
            if error.is_some() {
                return error;
            }
            place += turn;
            let took = begun.elapsed();
            if took < SHORT_TURN {
                self.turn.fetch_max(2 * turn, Relaxed);
            } else if took > LONG_TURN {
                self.turn.fetch_min(turn.div_ceil(2), Relaxed);
            }
        }
        None
    }

    /// The `n` consecutive iterations from `first` on, from the block's `place`-th on: those at the borders apart from the others.
    ///
    /// # Safety
    /// Rule 2. Nothing is packed or listed.
    pub(super) unsafe fn run_range(
        &self,
        context: &Context<'_>,
        mut place: usize,
        mut first: usize,
        n: usize,
    ) -> Option<(usize, BodyError)> {
        let end = first + n;
        while first < end {
            // SAFETY: rule 2.
            match unsafe { self.run_part(context, place, first, end - first) } {
                Ok(done) => (place, first) = (place + done, first + done),
                Err(error) => return Some(error),
            }
        }
        None
    }

    /// A list of which most iterations follow their neighbour, from the block's `place`-th on.
    ///
    /// # Safety
    /// Rule 2. Nothing is packed or listed.
    pub(super) unsafe fn run_joined(
        &self,
        context: &Context<'_>,
        place: usize,
        first: usize,
        offsets: &[u32],
    ) -> Option<(usize, BodyError)> {
        let (mut done, mut n) = (0, run_of(offsets));
        while done < offsets.len() {
            // The next run is fetched while this one runs: it is elsewhere.
            let rest = &offsets[done + n..];
            let next = run_of(rest);
            if let Some(&offset) = rest.first() {
                context.slots.iter().for_each(|slot| slot.fetch(first + offset as usize, next));
            }
            // SAFETY: rule 2.
            let error = unsafe { self.run_range(context, place + done, first + offsets[done] as usize, n) };
            if error.is_some() {
                return error;
            }
            (done, n) = (done + n, next);
        }
        None
    }

    /// The hot loop over consecutive iterations. It runs as many of the first as are alike in what they own around them, and says
    /// how many. It doesn't look whether the block has strayed: one that has goes on to its end (`astray`).
    ///
    /// # Safety
    /// Rule 2. Nothing is packed or listed.
    #[inline(never)]
    unsafe fn run_part(
        &self,
        context: &Context<'_>,
        place: usize,
        first: usize,
        n: usize,
    ) -> Result<usize, (usize, BodyError)> {
        let values = self.values.refs();
        // SAFETY: rule 2.
        let mut views = unsafe { H::views(&context.slots) };
        let mut scratch = (self.scratch)(values, &mut views);
        H::begin(&mut views, &context.slots);
        let (mut alike, mut near) = first_part(first, n, H::enter(&mut views, place, first, n));
        if !Self::HAS_RUNS && alike < n {
            (alike, near) = (n, false);
        }
        let whole = H::HAS_WHOLE && H::may_be_whole(&views);
        let fast = (H::HAS_NEAR || H::HAS_WHOLE) && near && (whole || !H::HAS_WHOLE);
        let error = if fast {
            H::set_near(&mut views, true);
            H::set_whole(&mut views, true);
            self.run_alike(values, &mut views, &mut scratch, first..first + alike)
        } else {
            H::set_near(&mut views, near);
            H::set_whole(&mut views, whole);
            self.run_alike(values, &mut views, &mut scratch, first..first + alike)
        };
        if let Some(error) = error {
            return Err(error);
        }
        H::finish(&views, &context.slots);
        Ok(alike)
    }

    /// Two loops come of it, one of them for views that know that they own what is near, or may read all of their DVector. (What a
    /// closure has by reference stays in memory, so that both loops are written out.)
    #[inline(always)]
    fn run_alike<'v>(
        &self,
        values: V::Refs<'v>,
        views: &mut H::Views<'v>,
        scratch: &mut S,
        range: Range<usize>,
    ) -> Option<(usize, BodyError)> {
        if !X::IN_ROWS {
            for i in range {
                H::step(views, i);
                if let Some(error) = (self.body)(values, views, scratch, X::index(self.rule, i)).into_error() {
                    return Some((i, error));
                }
            }
            return None;
        }
        let Range { start: mut first, end } = range;
        while first < end {
            // A division a row.
            let start = X::start(self.rule, first);
            let n = X::left(self.rule, start).min(end - first);
            for by in 0..n {
                let i = first + by;
                H::step(views, i);
                let ended = (self.body)(values, views, scratch, X::in_row(self.rule, start, i, by));
                if let Some(error) = ended.into_error() {
                    return Some((i, error));
                }
            }
            first += n;
        }
        None
    }

    /// The hot loop over the runs of a tile. They are short: the views are made once.
    ///
    /// # Safety
    /// Rule 2.
    #[inline(never)]
    pub(super) unsafe fn run_tile(
        &self,
        context: &Context<'_>,
        first: usize,
        runs: &[Run],
    ) -> Option<(usize, BodyError)> {
        let values = self.values.refs();
        // SAFETY: rule 2.
        let mut views = unsafe { H::views(&context.slots) };
        let mut scratch = (self.scratch)(values, &mut views);
        H::begin(&mut views, &context.slots);
        for run in runs {
            let at = first + run.offset as usize;
            H::enter(&mut views, 0, at, run.len as usize);
            let (rows, stride) = (run.rows as usize, run.stride as usize);
            assert!(rows <= TOGETHER);
            let mut starts = [X::Start::default(); TOGETHER];
            let begin = |(k, start): (usize, &mut X::Start)| *start = X::start(self.rule, at + k * stride);
            starts[..rows].iter_mut().enumerate().for_each(begin);
            for t in 0..run.len as usize {
                for (k, &start) in starts.iter().enumerate().take(rows) {
                    let i = at + t + k * stride;
                    H::step(&mut views, i);
                    if X::IN_ROWS {
                        H::turn_to_row(&mut views, k);
                    }
                    let index = X::behind(self.rule, start, i, t);
                    let ended = (self.body)(values, &mut views, &mut scratch, index);
                    if let Some(error) = ended.into_error() {
                        return Some((i, error));
                    }
                }
            }
        }
        H::finish(&views, &context.slots);
        None
    }

    /// The hot loop over iterations in an order of the plan's, from the block's `place`-th on.
    ///
    /// # Safety
    /// Rule 2. No slot is tracked.
    #[inline(never)]
    pub(super) unsafe fn run_list(
        &self,
        context: &Context<'_>,
        place: usize,
        first: usize,
        offsets: &[u32],
    ) -> Option<(usize, BodyError)> {
        let values = self.values.refs();
        // SAFETY: rule 2.
        let mut views = unsafe { H::views(&context.slots) };
        let mut scratch = (self.scratch)(values, &mut views);
        H::begin(&mut views, &context.slots);
        // Two loops: light bodies take a quarter to a half less time where no view is asked what changes with the iteration, and the
        // compiler knows that the iteration's own elements are packed.
        let whole = H::HAS_WHOLE && H::may_be_whole(&views);
        let error = if H::are_fixed(&views) && !H::are_scattered(&views) && (whole || !H::HAS_WHOLE) {
            H::set_whole(&mut views, true);
            self.run_each(values, &mut views, &mut scratch, (place, first, offsets), H::turn_own)
        } else {
            let ahead = offsets.get(AHEAD..).unwrap_or_default();
            let turn_to = |views: &mut H::Views<'_>, at: usize, i| {
                if let Some(&ahead) = ahead.get(at - place) {
                    H::fetch_own(views, first + ahead as usize);
                }
                H::turn_to(views, at, i);
            };
            self.run_each(values, &mut views, &mut scratch, (place, first, offsets), turn_to)
        };
        if error.is_none() {
            H::finish(&views, &context.slots);
        }
        error
    }

    #[inline(always)]
    fn run_each<'v>(
        &self,
        values: V::Refs<'v>,
        views: &mut H::Views<'v>,
        scratch: &mut S,
        (place, first, offsets): (usize, usize, &[u32]),
        turn_to: impl Fn(&mut H::Views<'v>, usize, usize),
    ) -> Option<(usize, BodyError)> {
        for (j, &offset) in offsets.iter().enumerate() {
            let i = first + offset as usize;
            turn_to(views, place + j, i);
            H::step(views, i);
            if let Some(error) = (self.body)(values, views, scratch, X::index(self.rule, i)).into_error() {
                return Some((i, error));
            }
        }
        None
    }

    /// Iterations one after the other, counted: for blocks that no other loop fits.
    ///
    /// # Safety
    /// Rule 2.
    pub(super) unsafe fn run_singly(
        &self,
        context: &Context<'_>,
        iterations: Iterations<'_>,
        after: fn(&Context<'_>) -> bool,
    ) -> Option<(usize, BodyError)> {
        // SAFETY: rule 2.
        let mut views = unsafe { H::views(&context.slots) };
        let mut scratch = (self.scratch)(self.values.refs(), &mut views);
        H::begin(&mut views, &context.slots);
        let error = self.one_by_one(context, &mut views, &mut scratch, iterations, after);
        H::finish(&views, &context.slots);
        error
    }

    /// The body on each iteration, its number recorded before, `after` called behind, which says whether to go on. Stops at
    /// the first error. One instance of the body serves recording and tracing.
    #[inline(never)]
    pub(super) fn one_by_one<'v>(
        &'v self,
        context: &'v Context<'_>,
        views: &mut H::Views<'v>,
        scratch: &mut S,
        iterations: Iterations<'_>,
        after: fn(&Context<'_>) -> bool,
    ) -> Option<(usize, BodyError)> {
        let values = self.values.refs();
        let (n, runs) = match iterations {
            Iterations::Range { start, end } => (end - start, [].as_slice()),
            Iterations::List { offsets, .. } => (offsets.len(), [].as_slice()),
            Iterations::Runs { runs, .. } => (runs.iter().map(Run::iterations).sum(), runs),
        };
        let mut in_runs = runs.iter().flat_map(Run::offsets);
        for j in 0..n {
            let i = match iterations {
                Iterations::Range { start, .. } => start + j,
                Iterations::List { first, offsets } => first + offsets[j] as usize,
                Iterations::Runs { first, .. } => first + in_runs.next().unwrap_or_default(),
            };
            context.state.at.set(i);
            H::enter(views, j, i, 1);
            H::step(views, i);
            if let Some(error) = (self.body)(values, views, scratch, X::index(self.rule, i)).into_error() {
                return Some((i, error));
            }
            if !after(context) {
                return None;
            }
        }
        None
    }
}

/// Turns that take no longer than this become longer,
const SHORT_TURN: Duration = Duration::from_millis(5);
/// and those that take longer than this, shorter.
const LONG_TURN: Duration = Duration::from_millis(50);

/// How many iterations of a list ahead elements of their own are fetched.
const AHEAD: usize = 8;

/// How many iterations at the beginning of a run are all within a range, or all outside of it; and which.
#[inline(always)]
fn first_part(first: usize, n: usize, within: Range<usize>) -> (usize, bool) {
    if first < within.start {
        (n.min(within.start - first), false)
    } else if first < within.end {
        (n.min(within.end - first), true)
    } else {
        (n, false)
    }
}

/// How many of the first offsets are consecutive.
fn run_of(offsets: &[u32]) -> usize {
    const AT_ONCE: usize = 16;
    let Some(&first) = offsets.first() else { return 0 };
    let follows = |at: usize, offset: u32| offset.wrapping_sub(first) as usize == at;
    // Without a branch for each.
    let follow = |&(at, chunk): &(usize, &[u32; AT_ONCE])| {
        chunk.iter().enumerate().fold(true, |all, (k, &offset)| all & follows(at + k, offset))
    };
    let (chunks, _) = offsets.as_chunks::<AT_ONCE>();
    let whole = chunks.iter().enumerate().map(|(k, chunk)| (k * AT_ONCE, chunk)).take_while(follow).count() * AT_ONCE;
    whole + offsets[whole..].iter().enumerate().take_while(|&(k, &offset)| follows(whole + k, offset)).count()
}
