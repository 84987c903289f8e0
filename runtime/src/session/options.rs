//! Options of a loop, besides its range, captures and body.

use std::borrow::Cow;
use std::iter::{Rev, StepBy};
use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};

use crate::memory::element::Element;
use crate::planner::PlanOptions;
pub use crate::planner::{Order, Strategy};
use crate::session::error::LoopProblem;

/// The options of an asynchronous loop. The macro makes them from `order = Preserve, parts = 8, label = "epoch"` after the closure.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{LoopOptions, Order, Strategy};
///
/// let options = LoopOptions::new().order(Order::Preserve).parts(8).strategy(Strategy::Grid).label("epoch");
/// assert_ne!(options, LoopOptions::new());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct LoopOptions {
    pub(crate) order: Order,
    pub(crate) parts: Option<usize>,
    pub(crate) grain: Option<usize>,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) label: Option<String>,
    pub(crate) scratch: bool,
    pub(crate) staleness: Option<usize>,
    pub(crate) unsaved: bool,
    /// The program wrote no loop, and can give it no options: an operator.
    pub(crate) of_operator: bool,
    pub(crate) floats: Option<&'static [(usize, usize)]>,
    /// Of those: only if the loop runs in its own order.
    pub(crate) floats_in_order: bool,
    pub(crate) on_failure: OnFailure,
    pub(crate) writes_own: bool,
    /// How many iterations each row has of a loop over pairs.
    pub(crate) columns: Option<usize>,
}

/// What happens to the DDSs that an asynchronous loop writes if its body fails. A body fails if it returns an error, panics, or
/// uses an index out of range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// They are as before the loop. For that the loop copies elements before it writes them.
    #[default]
    Undo,
    /// They can't be used any more: each use is an [`Error::Poisoned`](crate::Error::Poisoned) until the program makes them anew or
    /// reads them from a checkpoint. The loop copies nothing, unless the engine needs copies for itself.
    Poison,
}

impl LoopOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// `order = ...`
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// `parts = N`: every shared DDS is cut into `N` ranges with about equally many accesses. A loop without conflicts is cut into
    /// `N` blocks.
    pub fn parts(mut self, parts: usize) -> Self {
        self.parts = Some(parts);
        self
    }

    /// `grain = N`: `N` iterations, at least one, are enough work for a block. Without this option the runtime estimates it from
    /// the number of accesses, and for loops without conflicts also from the time that recording took.
    pub fn grain(mut self, iterations: usize) -> Self {
        self.grain = Some(iterations);
        self
    }

    /// `strategy = ...`: only this strategy is considered.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// The loop has `scratch = ...`. The iterations of a block keep the loop's order, since each builds on what the one before
    /// left.
    pub fn scratch(mut self) -> Self {
        self.scratch = true;
        self
    }

    /// `staleness = N`: by how many strata of blocks reads of relaxed state may lag behind, at least 1; 2 by default.
    pub fn staleness(mut self, strata: usize) -> Self {
        self.staleness = Some(strata);
        self
    }

    /// What the loop writes may be anything after a failure: nothing has to be saved before.
    pub(crate) fn unsaved(mut self) -> Self {
        self.unsaved = true;
        self
    }

    /// The loop is an operator's.
    pub(crate) fn of_operator(mut self) -> Self {
        self.of_operator = true;
        self
    }

    /// `on_failure = ...`
    pub fn on_failure(mut self, outcome: OnFailure) -> Self {
        self.on_failure = outcome;
        self
    }

    /// All that the body does with what it may write is `x[i]`, by its own index.
    #[doc(hidden)]
    pub fn writes_own(mut self) -> Self {
        self.writes_own = true;
        self
    }

    /// The body does nothing but compute with what it captures, which it indexes by its own index and numbers up to these before and behind
    /// it: if all of that are floats, it can't fail. If it reads what it writes near its own element, this holds only `in_order`.
    #[doc(hidden)]
    pub fn floats(mut self, reach: &'static [(usize, usize)], in_order: bool) -> Self {
        (self.floats, self.floats_in_order) = (Some(reach), in_order);
        self
    }

    /// What the loop's plan depends on.
    pub(crate) fn planning(&self, one_process: bool) -> PlanOptions {
        let &LoopOptions { order, parts, grain, strategy, scratch, columns, .. } = self;
        PlanOptions { order, parts, grain, strategy, scratch, one_process, columns }
    }

    /// `label = "..."`: a name for reports.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
}

/// The place of a loop in the source, and the names of its captures.
#[derive(Debug)]
pub struct Site {
    file: &'static str,
    line: u32,
    column: u32,
    captures: &'static [&'static str],
}

impl Site {
    /// A loop at a place in a file, with the names of its captures by reference, in their order.
    pub const fn new(file: &'static str, line: u32, column: u32, captures: &'static [&'static str]) -> Self {
        Site { file, line, column, captures }
    }

    pub(crate) fn name(&self, capture: usize) -> &'static str {
        self.captures.get(capture).copied().unwrap_or("?")
    }

    pub(crate) fn column(&self) -> u32 {
        self.column
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", tidy(self.file), self.line)
    }
}

/// A path without `folder/..`: the compiler names files so that lie outside the folder of their package.
fn tidy(file: &str) -> Cow<'_, str> {
    if !file.contains("/../") {
        return Cow::Borrowed(file);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in file.split('/') {
        match parts.last() {
            Some(&folder) if part == ".." && !matches!(folder, "" | "." | "..") => _ = parts.pop(),
            _ => parts.push(part),
        }
    }
    Cow::Owned(parts.join("/"))
}

/// What a loop can run over: `a..b` and `a..=b` of integers of up to 64 bits, from 0 on; and `(a..b).rev()` and
/// `(a..b).step_by(k)` of those, and both in either order, of negative numbers, too. The body's index is of the range's type.
/// `(a..b, c..d)` are pairs in the order in which two nested loops would have them.
#[diagnostic::on_unimplemented(
    message = "a loop can't run over `{Self}`",
    label = "not a range of indices",
    note = "give a range like `0..x.len()`, two for pairs, `(0..rows, 0..columns)`, or a DVector of indices, `&order`"
)]
pub trait LoopRange {
    /// What the numbers of iterations become for the body.
    #[doc(hidden)]
    type Indices: Indices;
    /// The numbers of the iterations from the first to before the last, or none if one is negative; and the rule by which
    /// they become indices.
    #[doc(hidden)]
    fn bounds(self) -> (Option<Range<usize>>, <Self::Indices as Indices>::Rule);
}

/// How the numbers of a loop's iterations become what its body is given.
#[doc(hidden)]
pub trait Indices: 'static {
    /// What the body is given.
    type Index;
    /// Travels with the loop.
    type Rule: Element + Copy;
    /// What is known of an iteration from which others are counted.
    type Start: Copy + Default;
    /// Whether iterations have rows.
    const IN_ROWS: bool = false;
    fn index(rule: Self::Rule, iteration: usize) -> Self::Index;
    /// How many iterations a row has, where they have rows.
    fn columns(_rule: Self::Rule) -> Option<usize> {
        None
    }
    fn start(rule: Self::Rule, iteration: usize) -> Self::Start;
    /// The index of the iteration `by` behind a start, which is mostly in the same row.
    fn behind(rule: Self::Rule, start: Self::Start, iteration: usize, by: usize) -> Self::Index;
    /// The same within a row, of which that many iterations are left.
    #[inline(always)]
    fn in_row(rule: Self::Rule, _start: Self::Start, iteration: usize, _by: usize) -> Self::Index {
        Self::index(rule, iteration)
    }
    /// How many iterations of a row begin with a start.
    fn left(_rule: Self::Rule, _start: Self::Start) -> usize {
        usize::MAX
    }
}

/// The number itself.
#[doc(hidden)]
pub struct Same<T>(PhantomData<T>);

impl<T: Int> Indices for Same<T> {
    type Index = T;
    type Rule = ();
    type Start = ();
    #[inline(always)]
    fn index((): (), iteration: usize) -> T {
        T::from_word(iteration as u64)
    }
    fn start((): (), _: usize) {}
    #[inline(always)]
    fn behind((): (), (): (), iteration: usize, _: usize) -> T {
        Self::index((), iteration)
    }
}

/// `first + iteration * step`, modulo 2^64.
#[doc(hidden)]
pub struct Progression<T>(PhantomData<T>);

impl<T: Int> Indices for Progression<T> {
    type Index = T;
    type Rule = [u64; 2];
    type Start = ();
    #[inline(always)]
    fn index([first, step]: [u64; 2], iteration: usize) -> T {
        T::from_word(first.wrapping_add(step.wrapping_mul(iteration as u64)))
    }
    fn start(_: [u64; 2], _: usize) {}
    #[inline(always)]
    fn behind(rule: [u64; 2], (): (), iteration: usize, _: usize) -> T {
        Self::index(rule, iteration)
    }
}

/// Pairs in row-major order: first of each, and how many columns there are.
#[doc(hidden)]
pub struct Pairs<A, B>(PhantomData<(A, B)>);

impl<A: Int, B: Int> Indices for Pairs<A, B> {
    type Index = (A, B);
    type Rule = [u64; 3];
    /// Row and column, from 0 on.
    type Start = (u32, u32);
    const IN_ROWS: bool = true;
    #[inline(always)]
    fn index(rule: [u64; 3], iteration: usize) -> (A, B) {
        let (i, j) = Self::start(rule, iteration);
        Self::pair(rule, i, j)
    }
    fn columns([.., columns]: [u64; 3]) -> Option<usize> {
        usize::try_from(columns).ok().filter(|&columns| columns > 0)
    }
    #[inline(always)]
    fn start([.., columns]: [u64; 3], iteration: usize) -> (u32, u32) {
        // A loop over pairs has fewer than 2^32 iterations; division of so small numbers is faster.
        let (iteration, columns) = (iteration as u32, columns as u32);
        (iteration / columns, iteration % columns)
    }
    #[inline(always)]
    fn behind(rule: [u64; 3], (i, j): (u32, u32), iteration: usize, by: usize) -> (A, B) {
        let j = j as usize + by;
        if j < rule[2] as usize { Self::pair(rule, i, j as u32) } else { Self::index(rule, iteration) }
    }
    #[inline(always)]
    fn in_row(rule: [u64; 3], (i, j): (u32, u32), _: usize, by: usize) -> (A, B) {
        Self::pair(rule, i, (j as usize + by) as u32)
    }
    fn left([.., columns]: [u64; 3], (_, j): (u32, u32)) -> usize {
        columns as usize - j as usize
    }
}

impl<A: Int, B: Int> Pairs<A, B> {
    #[inline(always)]
    fn pair([row, column, _]: [u64; 3], i: u32, j: u32) -> (A, B) {
        (A::from_word(row.wrapping_add(u64::from(i))), B::from_word(column.wrapping_add(u64::from(j))))
    }
}

/// An integer of up to 64 bits.
#[doc(hidden)]
pub trait Int: Copy + PartialOrd + TryInto<usize> + sealed::Sealed + 'static {
    /// The lowest bits of a word.
    fn from_word(word: u64) -> Self;
    /// As a word, a negative one modulo 2^64.
    fn word(self) -> u64;
}

macro_rules! ints {
    ($($t:ty)*) => {$(
        impl Int for $t {
            #[inline(always)]
            fn from_word(word: u64) -> $t {
                word as $t
            }
            fn word(self) -> u64 {
                self as u64
            }
        }
        impl sealed::Sealed for $t {}
    )*};
}
ints!(usize u8 u16 u32 u64 isize i8 i16 i32 i64);

// One implementation for all integers, by which a body tells the type of `0..10`, as in a plain `for`.
#[diagnostic::do_not_recommend]
impl<T: Int> LoopRange for Range<T> {
    type Indices = Same<T>;
    fn bounds(self) -> (Option<Range<usize>>, ()) {
        if self.is_empty() {
            return (Some(0..0), ());
        }
        let bound = |bound: T| bound.try_into().ok();
        (bound(self.start).zip(bound(self.end)).map(|(start, end)| start..end), ())
    }
}

#[diagnostic::do_not_recommend]
impl<T: Int> LoopRange for RangeInclusive<T> {
    type Indices = Same<T>;
    fn bounds(self) -> (Option<Range<usize>>, ()) {
        if self.is_empty() {
            return (Some(0..0), ());
        }
        let bound = |bound: &T| (*bound).try_into().ok();
        let end = bound(self.end()).and_then(|end: usize| end.checked_add(1));
        (bound(self.start()).zip(end).map(|(start, end)| start..end), ())
    }
}

#[diagnostic::do_not_recommend]
impl<A: Int, B: Int, R, S> LoopRange for (R, S)
where
    R: LoopRange<Indices = Same<A>>,
    S: LoopRange<Indices = Same<B>>,
{
    type Indices = Pairs<A, B>;
    fn bounds(self) -> (Option<Range<usize>>, [u64; 3]) {
        let ((rows, ()), (columns, ())) = (self.0.bounds(), self.1.bounds());
        let Some((rows, columns)) = rows.zip(columns) else { return (None, [0; 3]) };
        let rule = [rows.start as u64, columns.start as u64, columns.len() as u64];
        (Some(0..rows.len().saturating_mul(columns.len())), rule)
    }
}

/// An iterator over numbers at equal distances.
#[doc(hidden)]
pub trait Even: sealed::Sealed {}
impl<T> sealed::Sealed for Range<T> {}
impl<T> sealed::Sealed for RangeInclusive<T> {}
impl<R: Even> sealed::Sealed for Rev<R> {}
impl<R: Even> sealed::Sealed for StepBy<R> {}
impl<T> Even for Range<T> {}
impl<T> Even for RangeInclusive<T> {}
impl<R: Even> Even for Rev<R> {}
impl<R: Even> Even for StepBy<R> {}

#[diagnostic::do_not_recommend]
impl<R: Even> LoopRange for Rev<R>
where
    Rev<R>: Iterator<Item: Int>,
{
    type Indices = Progression<<Self as Iterator>::Item>;
    fn bounds(self) -> (Option<Range<usize>>, [u64; 2]) {
        progression(self)
    }
}

#[diagnostic::do_not_recommend]
impl<R: Even> LoopRange for StepBy<R>
where
    StepBy<R>: Iterator<Item: Int>,
{
    type Indices = Progression<<Self as Iterator>::Item>;
    fn bounds(self) -> (Option<Range<usize>>, [u64; 2]) {
        progression(self)
    }
}

/// How many numbers there are, the first, and the distance to the next.
fn progression(mut range: impl Iterator<Item: Int>) -> (Option<Range<usize>>, [u64; 2]) {
    let len = match range.size_hint() {
        (len, Some(most)) if len == most => Some(0..len),
        _ => None,
    };
    let first = range.next().map_or(0, Int::word);
    let second = range.next().map_or(first, Int::word);
    (len, [first, second.wrapping_sub(first)])
}

mod sealed {
    pub trait Sealed {}
}

/// What a loop runs over, as iterations.
pub fn range<R: LoopRange>(range: R) -> Bounds<R::Indices> {
    let (bounds, rule) = range.bounds();
    Bounds { iterations: bounds.ok_or(LoopProblem::NegativeIndex), rule }
}

/// Checked bounds of a loop.
pub struct Bounds<X: Indices> {
    pub(crate) iterations: Result<Range<usize>, LoopProblem>,
    pub(crate) rule: X::Rule,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_as_nested_loops_have_them() {
        fn all<R: LoopRange>(range: R) -> Option<Vec<<R::Indices as Indices>::Index>> {
            let (bounds, rule) = range.bounds();
            Some(bounds?.map(|iteration| R::Indices::index(rule, iteration)).collect())
        }
        let nested: Vec<(u8, i64)> = (3..6).flat_map(|i| (1..=4).map(move |j| (i, j))).collect();
        assert_eq!(all((3..6u8, 1..=4i64)), Some(nested));
        assert_eq!(all((0..4, 7..7)), Some(Vec::<(i32, i32)>::new()));
        assert_eq!(all((0..4, -1..7)), None);
        assert_eq!((0..usize::MAX, 0..3).bounds().0, Some(0..usize::MAX));
    }

    #[test]
    fn sites_have_paths_without_detours() {
        for (file, shown) in [
            ("src/main.rs", "src/main.rs:7"),
            ("examples/gallery/../lda.rs", "examples/lda.rs:7"),
            ("a/b/../../c.rs", "c.rs:7"),
            ("../a/../c.rs", "../c.rs:7"),
            ("a/../../../c.rs", "../../c.rs:7"),
            ("/../c.rs", "/../c.rs:7"),
            ("./../c.rs", "./../c.rs:7"),
        ] {
            assert_eq!(Site::new(file, 7, 1, &[]).to_string(), shown, "{file}");
        }
    }
}
