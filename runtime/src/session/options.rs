//! Options of a loop, besides its range, captures and body.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use crate::planner::PlanOptions;
pub use crate::planner::{Order, Strategy};
use crate::session::error::LoopProblem;

/// The options behind a loop's closure, which the macro makes of `order = Preserve, parts = 8, label = "epoch"`.
///
/// ```
/// use stradsap_runtime::{LoopOptions, Order, Strategy};
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

    /// `parts = N`: every shared DDS is cut into `N` ranges of about equal access weight; a loop without conflicts into `N`
    /// blocks.
    pub fn parts(mut self, parts: usize) -> Self {
        self.parts = Some(parts);
        self
    }

    /// `grain = N`: so many iterations are work enough for a block, from 1 on. Otherwise that follows from how much iterations
    /// access, and for loops without conflicts from how long they took while they were recorded.
    pub fn grain(mut self, iterations: usize) -> Self {
        self.grain = Some(iterations);
        self
    }

    /// `strategy = ...`: only this one is considered.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// The loop has `scratch = ...`: the iterations of a block keep the loop's order, since one builds on what others left.
    pub fn scratch(mut self) -> Self {
        self.scratch = true;
        self
    }

    /// `staleness = N`: by how many strata of blocks reads of relaxed state may lag behind, from 1 on; 2 if it isn't
    /// given.
    pub fn staleness(mut self, strata: usize) -> Self {
        self.staleness = Some(strata);
        self
    }

    /// What the loop's plan depends on.
    pub(crate) fn planning(&self) -> PlanOptions {
        let &LoopOptions { order, parts, grain, strategy, scratch, .. } = self;
        PlanOptions { order, parts, grain, strategy, scratch }
    }

    /// `label = "..."`: a name for reports.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
}

/// Where a loop stands in the source, and how it names its captures.
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

/// What a loop can run over: `a..b` and `a..=b` of `usize`, `u32`, `u64`, `i32` and `i64`, from 0 on.
#[diagnostic::on_unimplemented(
    message = "a loop can't run over `{Self}`",
    label = "not a range of indices",
    note = "give a range like `0..x.len()`"
)]
pub trait LoopRange {
    /// The indices from the first to before the last, or none if one is negative.
    #[doc(hidden)]
    fn bounds(self) -> Option<Range<usize>>;
}

macro_rules! ranges {
    ($($t:ty)*) => {$(
        impl LoopRange for Range<$t> {
            fn bounds(self) -> Option<Range<usize>> {
                if self.is_empty() {
                    return Some(0..0);
                }
                Some(usize::try_from(self.start).ok()?..usize::try_from(self.end).ok()?)
            }
        }

        impl LoopRange for RangeInclusive<$t> {
            fn bounds(self) -> Option<Range<usize>> {
                if self.is_empty() {
                    return Some(0..0);
                }
                Some(usize::try_from(*self.start()).ok()?..usize::try_from(*self.end()).ok()?.checked_add(1)?)
            }
        }
    )*};
}
ranges!(usize u32 u64 i32 i64);

/// What a loop runs over, as indices.
pub fn range(range: impl LoopRange) -> Bounds {
    Bounds(range.bounds().ok_or(LoopProblem::NegativeIndex))
}

/// Checked bounds of a loop.
pub struct Bounds(pub(crate) Result<Range<usize>, LoopProblem>);

#[cfg(test)]
mod tests {
    use super::*;

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
