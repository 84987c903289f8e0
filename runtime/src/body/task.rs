//! A loop body as the engine runs it: without its types.
//!
//! # Why this is sound
//! 1. A closure without captures is a type of one value, which has no bytes. Nobody can name the function that conjures it
//!    up without having had that value: it is reached through a task that was made from one, in a program with the same
//!    code.
//! 2. Who runs a task vouches for the context: its slots are those of the captures that `H` describes. All views of a slot are
//!    made one after the other.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::body::capture::Handles;
use crate::body::context::{AccessTrouble, Context};
use crate::body::outcome::{Failure, Outcome, outcome, unwound};
use crate::body::panics;
use crate::body::sharing::Watch;
use crate::body::slot::Slot;
use crate::body::slow_path::{Doing, Recorder};
use crate::body::value::Values;
use crate::memory::codec::CodecError;
use crate::memory::element::Element;
use crate::memory::named::{Maker, Makes, Named};
use crate::planner::plan::Run;
use crate::session::error::BodyError;
use crate::session::options::Indices;

/// Which iterations a block runs.
#[derive(Clone, Copy)]
pub(crate) enum Iterations<'p> {
    /// Consecutive ones.
    Range { start: usize, end: usize },
    /// A list: offsets from `first`, in the order of execution.
    List { first: usize, offsets: &'p [u32] },
    /// Runs of rows: offsets from `first`.
    Runs { first: usize, runs: &'p [Run] },
}

/// A loop body, its captured values and its capture types.
pub(crate) trait Task: Sync {
    /// Runs iterations for real. On failure says which iteration it was, unless it was one that unwound: the hot
    /// loop doesn't keep count for the sake of failures.
    ///
    /// # Safety
    /// The context has a slot for each capture that this body was made for (and then for each key index), made of that
    /// capture's description, for these iterations.
    unsafe fn run(&self, context: &Context<'_>, iterations: Iterations<'_>) -> Result<(), (Option<usize>, Failure)>;
    /// The same, slower, and keeping count.
    ///
    /// # Safety
    /// As for `run`.
    unsafe fn trace(&self, context: &Context<'_>, iterations: Iterations<'_>) -> Result<(), (Option<usize>, Failure)>;
    /// Runs iterations virtually: the slow paths of the context's slots note what they touch.
    ///
    /// # Safety
    /// As for `run`; the slots record.
    unsafe fn record(&self, context: &Context<'_>, range: Range<usize>);
    /// What tells this body from others at the same place in the source.
    fn type_id(&self) -> TypeId;
    /// What bodies must not change of its values.
    fn watch(&self) -> Watch;
}

pub(crate) struct LoopTask<X: Indices, V: Values, H, S, I, F, R> {
    rule: X::Rule,
    values: Given<V>,
    /// Sets up what a block has for itself, from which on the body goes.
    scratch: I,
    body: F,
    /// How many iterations a turn has where the loop may be stopped.
    turn: AtomicUsize,
    types: PhantomData<fn(H, S) -> R>,
}

/// Captured values: where the loop is called they are borrowed, elsewhere they arrived as bytes.
pub(crate) enum Given<V: Values> {
    Borrowed(V),
    Arrived(V::Owned),
}

impl<V: Values> Given<V> {
    /// What bodies must not change.
    pub(crate) fn watch(&self) -> Watch {
        match self {
            Given::Borrowed(values) => values.watch(),
            Given::Arrived(values) => V::watch_owned(values),
        }
    }

    pub(crate) fn refs(&self) -> V::Refs<'_> {
        match self {
            Given::Borrowed(values) => values.refs(),
            Given::Arrived(values) => V::owned_refs(values),
        }
    }
}

/// Makes a task from the bytes of its values: what a loop is, apart from where it is called.
pub(crate) type MakeTask = Make<'static>;

type Make<'t> = for<'b> fn(&'b [u8]) -> Result<Box<dyn Task + 't>, CodecError>;

impl<'t, X, V, H, S, I, F, R> MakerOf<'t, LoopTask<X, V, H, S, I, F, R>>
where
    X: Indices,
    V: Values + 't,
    H: Handles + 't,
    S: 't,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome + 't,
{
    const MAKER: &'static Named<Maker> =
        // SAFETY: that is what it makes.
        &Named::new(unsafe { Maker::new(make_task::<X, V, H, S, I, F, R> as Make<'t> as *const (), Makes::Loop) });
}

/// The [`MakeTask`] of a loop, for all types of it.
struct MakerOf<'t, T>(PhantomData<&'t T>);

fn make_task<'t, X, V, H, S, I, F, R>(mut bytes: &[u8]) -> Result<Box<dyn Task + 't>, CodecError>
where
    X: Indices,
    V: Values + 't,
    H: Handles + 't,
    S: 't,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome + 't,
{
    const { assert!(size_of::<F>() == 0 && size_of::<I>() == 0) };
    // SAFETY: rule 1.
    let (scratch, body) =
        unsafe { (std::ptr::NonNull::<I>::dangling().read(), std::ptr::NonNull::<F>::dangling().read()) };
    let rule = X::Rule::decode(&mut bytes).map_err(|source| CodecError::Decode { index: 0, of: "range", source })?;
    let values = Given::Arrived(V::decode(bytes)?);
    Ok(Box::new(LoopTask::<X, V, H, S, I, F, R> {
        rule,
        values,
        scratch,
        body,
        turn: AtomicUsize::new(1),
        types: PhantomData,
    }))
}

impl<X, V, H, S, I, F, R> LoopTask<X, V, H, S, I, F, R>
where
    X: Indices,
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    pub(crate) fn new(rule: X::Rule, values: V, _handles: &H, scratch: I, body: F) -> Self {
        const {
            assert!(
                size_of::<I>() == 0,
                "the `scratch` of this parallel loop uses a variable that is not in its capture list: add it there, \
                 as `x` (a value), `&x` (a DDS that is read) or `&mut x` (a DDS that is written)"
            );
            assert!(
                size_of::<F>() == 0,
                "the body of this parallel loop uses a variable that is not in its capture list: add it there, \
                 as `x` (a value), `&x` (a DDS that is read) or `&mut x` (a DDS that is written)"
            );
        }
        LoopTask { rule, values: Given::Borrowed(values), scratch, body, turn: AtomicUsize::new(1), types: PhantomData }
    }

    /// A number for each of its values: the same for the same value.
    pub(crate) fn digests(&self) -> Vec<u64> {
        match &self.values {
            Given::Borrowed(values) => values.digests(),
            Given::Arrived(_) => Vec::new(),
        }
    }

    /// What the loop needs to run in another process: its [`MakeTask`], and its range's rule and its values as bytes.
    pub(crate) fn pack(&self) -> Result<(&'static Maker, Vec<u8>), CodecError> {
        let mut bytes = Vec::new();
        if let Given::Borrowed(values) = &self.values {
            self.rule.encode(&mut bytes);
            bytes.append(&mut values.encode()?);
        }
        Ok((&MakerOf::<'_, Self>::MAKER.value, bytes))
    }
}

impl<X, V, H, S, I, F, R> Task for LoopTask<X, V, H, S, I, F, R>
where
    X: Indices,
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    unsafe fn run(&self, context: &Context<'_>, iterations: Iterations<'_>) -> Result<(), (Option<usize>, Failure)> {
        let tracked = context.slots.iter().any(Slot::is_tracked);
        let packed = context.slots.iter().any(|slot| slot.here().is_packed());
        let listed = context.slots.iter().any(|slot| slot.slow_path().is_listed());
        let ran = unwound(|| match iterations {
            Iterations::Range { start, end } if !listed => self.in_turns(context, end - start, |place, n| {
                // SAFETY: rule 2, and nothing is packed or listed.
                unsafe { self.run_range(context, place, start + place, n) }
            }),
            Iterations::List { first, offsets } if Self::HAS_RUNS && !packed && !listed && are_neighbours(offsets) => {
                self.in_turns(context, offsets.len(), |place, n| {
                    // SAFETY: rule 2, and nothing is packed or listed.
                    unsafe { self.run_joined(context, place, first, &offsets[place..place + n]) }
                })
            }
            // SAFETY: rule 2.
            Iterations::Runs { first, runs } if H::IN_TILES && Self::HAS_RUNS => unsafe {
                self.run_tile(context, first, runs)
            },
            Iterations::List { first, offsets } if !tracked => self.in_turns(context, offsets.len(), |place, n| {
                // SAFETY: rule 2, and nothing is tracked.
                unsafe { self.run_list(context, place, first, &offsets[place..place + n]) }
            }),
            // SAFETY: rule 2.
            _ => unsafe { self.run_singly(context, iterations, |context| !context.state.is_stopped()) },
        });
        outcome(context, None, ran)
    }

    unsafe fn trace(&self, context: &Context<'_>, iterations: Iterations<'_>) -> Result<(), (Option<usize>, Failure)> {
        // SAFETY: rule 2.
        let goes_on = |context: &Context<'_>| !context.state.is_astray() && !context.state.is_stopped();
        // SAFETY: rule 2.
        let ran = unwound(|| unsafe { self.run_singly(context, iterations, goes_on) });
        outcome(context, Some(context.state.at.get()), ran)
    }

    unsafe fn record(&self, context: &Context<'_>, range: Range<usize>) {
        let at = &context.state.at;
        let (mut done, mut runaways, mut ended) = (range.start, 0, 0);
        while done < range.end {
            let ran = unwound(|| {
                // SAFETY: rule 2.
                let mut views = unsafe { H::views(&context.slots) };
                let mut scratch = self.scratch_to_record(context, &mut views, done);
                // What an iteration returns means nothing: the values that it saw were not the real ones.
                let mut rest = Iterations::Range { start: done, end: range.end };
                while self.one_by_one(context, &mut views, &mut scratch, rest, ends_recorded_iteration).is_some() {
                    end_recorded_iteration(context);
                    rest = Iterations::Range { start: at.get() + 1, end: range.end };
                }
            });
            if ran.is_ok() {
                return;
            }
            runaways += u32::from(matches!(context.state.take_trouble(), Some((AccessTrouble::Runaway, _))));
            let now = at.get();
            let cut_short = if is_concrete(context) {
                // The real run will show whether the iteration fails.
                true
            } else {
                // Placeholders may be to blame: once more, with real values.
                each_recorder(context, |recorder| recorder.log.borrow_mut().discard_iteration());
                self.ends_early(context, now)
            };
            if cut_short {
                each_recorder(context, |recorder| recorder.log.borrow_mut().cut_short());
                ended += 1;
            }
            end_after_failure(context);
            // Each one takes milliseconds to be found out, and one is seldom alone.
            set_concrete(context, runaways >= MOST_RUNAWAYS);
            done = now + 1;
            if ended == PATIENCE && done - range.start == PATIENCE {
                if self.all_end_early(context, done..range.end) {
                    (done..range.end).for_each(|_| skip_iteration(context));
                    return;
                }
                set_concrete(context, runaways >= MOST_RUNAWAYS);
            }
        }
    }

    fn type_id(&self) -> TypeId {
        TypeId::of::<F>()
    }

    fn watch(&self) -> Watch {
        self.values.watch()
    }
}

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
    const HAS_RUNS: bool = size_of::<S>() == 0 && !std::mem::needs_drop::<S>();

    /// Runs a block's `n` iterations, as `run` runs those at some places. Where the loop may be stopped, that is in turns of some
    /// milliseconds: nobody waits for the end of a long block. One with scratch is run at once.
    fn in_turns(
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
    unsafe fn run_range(
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
    unsafe fn run_joined(
        &self,
        context: &Context<'_>,
        place: usize,
        first: usize,
        offsets: &[u32],
    ) -> Option<(usize, BodyError)> {
        let mut done = 0;
        while done < offsets.len() {
            let n = run_of(&offsets[done..]);
            // SAFETY: rule 2.
            let error = unsafe { self.run_range(context, place + done, first + offsets[done] as usize, n) };
            if error.is_some() {
                return error;
            }
            done += n;
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
        let error = if H::HAS_NEAR && near {
            H::set_near(&mut views, true);
            self.run_alike(values, &mut views, &mut scratch, first..first + alike)
        } else {
            H::set_near(&mut views, near);
            self.run_alike(values, &mut views, &mut scratch, first..first + alike)
        };
        if let Some(error) = error {
            return Err(error);
        }
        H::finish(&views, &context.slots);
        Ok(alike)
    }

    /// Two loops come of it, one of them for views that know that they own what is near.
    #[inline(always)]
    fn run_alike<'v>(
        &self,
        values: V::Refs<'v>,
        views: &mut H::Views<'v>,
        scratch: &mut S,
        range: Range<usize>,
    ) -> Option<(usize, BodyError)> {
        for i in range {
            H::step(views, i);
            if let Some(error) = (self.body)(values, views, scratch, X::index(self.rule, i)).into_error() {
                return Some((i, error));
            }
        }
        None
    }

    /// The hot loop over the runs of a tile. They are short: the views are made once.
    ///
    /// # Safety
    /// Rule 2.
    #[inline(never)]
    unsafe fn run_tile(&self, context: &Context<'_>, first: usize, runs: &[Run]) -> Option<(usize, BodyError)> {
        let values = self.values.refs();
        // SAFETY: rule 2.
        let mut views = unsafe { H::views(&context.slots) };
        let mut scratch = (self.scratch)(values, &mut views);
        H::begin(&mut views, &context.slots);
        for run in runs {
            let at = first + run.offset as usize;
            H::enter(&mut views, 0, at, run.len as usize);
            for at in at..at + run.len as usize {
                for k in 0..run.rows as usize {
                    let i = at + k * run.stride as usize;
                    H::step(&mut views, i);
                    let ended = (self.body)(values, &mut views, &mut scratch, X::index(self.rule, i));
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
    unsafe fn run_list(
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
        for (j, &offset) in offsets.iter().enumerate() {
            let i = first + offset as usize;
            H::turn_to(&mut views, place + j, i);
            H::step(&mut views, i);
            if let Some(error) = (self.body)(values, &mut views, &mut scratch, X::index(self.rule, i)).into_error() {
                return Some((i, error));
            }
        }
        H::finish(&views, &context.slots);
        None
    }

    /// The same for all others, and where iterations are counted.
    ///
    /// # Safety
    /// Rule 2.
    unsafe fn run_singly(
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

    /// Scratch for the virtual iteration. What setting it up touches, every block will touch.
    fn scratch_to_record<'v>(&'v self, context: &'v Context<'_>, views: &mut H::Views<'v>, first: usize) -> S {
        context.state.at.set(first);
        each_recorder(context, |recorder| recorder.log.borrow_mut().begin_scratch());
        let scratch = (self.scratch)(self.values.refs(), views);
        each_recorder(context, |recorder| recorder.log.borrow_mut().end_scratch());
        H::begin(views, &context.slots);
        scratch
    }

    /// Records one iteration with real values, and says whether it ends early.
    #[inline(never)]
    fn ends_early(&self, context: &Context<'_>, i: usize) -> bool {
        set_concrete(context, true);
        let once = Iterations::Range { start: i, end: i + 1 };
        let ran = unwound(|| {
            // SAFETY: rule 2.
            let mut views = unsafe { H::views(&context.slots) };
            let mut scratch = self.scratch_to_record(context, &mut views, i);
            self.one_by_one(context, &mut views, &mut scratch, once, |_| true)
        });
        context.state.take_trouble();
        ran.is_err()
    }

    /// Whether iterations all over a range end early; nothing is recorded of them.
    fn all_end_early(&self, context: &Context<'_>, range: Range<usize>) -> bool {
        let logs = RefCell::new(Vec::new());
        each_recorder(context, |recorder| logs.borrow_mut().push(recorder.log.borrow().clone()));
        let all = range.clone().step_by(range.len() / PATIENCE + 1).all(|i| {
            let ends = self.ends_early(context, i);
            // (Copies may be in any state: dropping one may panic, too.)
            let _dropped = panics::caught(|| set_concrete(context, true));
            ends
        });
        let logs = RefCell::new(logs.into_inner().into_iter());
        each_recorder(context, |recorder| _ = logs.borrow_mut().next().map(|log| recorder.log.replace(log)));
        all
    }

    /// The body on each iteration, its number recorded before, `after` called behind, which says whether to go on. Stops at
    /// the first error. One instance of the body serves recording and tracing.
    #[inline(never)]
    fn one_by_one<'v>(
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

/// Lists with at most one gap in this many iterations are taken apart into runs.
const WORTH_JOINING: usize = 32;

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

/// Whether most of some offsets are followed by the next number, as far as a few of them show.
fn are_neighbours(offsets: &[u32]) -> bool {
    let pairs = offsets.windows(2).step_by(offsets.len() / 64 + 1);
    let (seen, apart) =
        pairs.fold((0, 0), |(seen, apart), pair| (seen + 1, apart + usize::from(pair[1] != pair[0] + 1)));
    apart * WORTH_JOINING <= seen
}

/// How many of the first offsets are consecutive: one, at least.
fn run_of(offsets: &[u32]) -> usize {
    1 + offsets.windows(2).take_while(|pair| pair[1] == pair[0].wrapping_add(1)).count()
}

fn each_recorder(context: &Context<'_>, f: impl Fn(&Recorder<'_>)) {
    for slot in &context.slots {
        if let Doing::Record(recorder) = slot.slow_path().doing() {
            f(recorder);
        }
    }
}

#[inline]
fn end_recorded_iteration(context: &Context<'_>) {
    each_recorder(context, |recorder| {
        recorder.log.borrow_mut().end_iteration();
        recorder.next_iteration();
    });
}

fn ends_recorded_iteration(context: &Context<'_>) -> bool {
    end_recorded_iteration(context);
    true
}

/// Leaves out an iteration that would end early.
fn skip_iteration(context: &Context<'_>) {
    each_recorder(context, |recorder| {
        let mut log = recorder.log.borrow_mut();
        log.cut_short();
        log.end_iteration();
    });
}

/// The same where scratch copies may be in any state: dropping one may panic, too.
fn end_after_failure(context: &Context<'_>) {
    let _ended = panics::caught(|| end_recorded_iteration(context));
}

/// Where this many iterations at the beginning of a slice end early, and as many more all over it, the others are left out: a
/// panic takes a microsecond or two.
const PATIENCE: usize = 8;

/// After this many iterations that never end on placeholders, the rest of a slice is recorded with real values.
const MOST_RUNAWAYS: u32 = 3;

/// Recorders that were concrete from the start stay so.
fn set_concrete(context: &Context<'_>, concrete: bool) {
    each_recorder(context, |recorder| {
        recorder.next_iteration();
        recorder.concrete.set(concrete || recorder.always_concrete);
    });
}

/// Whether no capture is on placeholders.
fn is_concrete(context: &Context<'_>) -> bool {
    context.slots.iter().all(|slot| match slot.slow_path().doing() {
        Doing::Record(recorder) => recorder.concrete.get(),
        _ => true,
    })
}
