//! The recording of a whole loop: what each of its iterations touches.
//!
//! A loop is recorded in slices of [`SLICE`] iterations or fewer, by as many threads as there are: a [`CaptureLog`] for each
//! slice and each capture. Where accesses follow rules, the recording has the [`Rule`]s instead and computes them.
//!
//! (STRADS-AP section 3, "virtual iteration"; IterStore section 3.2.)

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::survey::Survey;

pub use crate::log::{CaptureLog, LISTED, MAX_LEN};
pub use crate::rule::{FieldPlace, Fields, IndexFields, Rule};

/// How many iterations one log covers at most.
pub const SLICE: usize = 1 << 14;
/// Shorter loops have about this many slices, since their iterations may be long.
const SLICES: usize = 64;

/// The slices in which loops are recorded. They depend on the loop's length alone: plans must not depend on the number of
/// threads.
pub fn slices(range: &Range<usize>) -> Vec<Range<usize>> {
    slices_of(range, slice_of(range.len()))
}

/// The same for loops of which beginning a slice is expensive.
pub fn long_slices(range: &Range<usize>) -> Vec<Range<usize>> {
    slices_of(range, SLICE)
}

fn slices_of(range: &Range<usize>, each: usize) -> Vec<Range<usize>> {
    range.clone().step_by(each).map(|start| start..range.end.min(start + each)).collect()
}

fn slice_of(iterations: usize) -> usize {
    iterations.div_ceil(SLICES).next_power_of_two().min(SLICE)
}

/// How the loop uses one DDS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Usage {
    /// No iteration touches it.
    Untouched,
    /// Iteration `i` touches only element `i + offset`, and no other iteration touches it.
    InStep {
        /// What is added to the iteration.
        offset: usize,
        /// Whether some iteration writes its element.
        written: bool,
    },
    /// No iteration writes it.
    ReadOnly,
    /// Several iterations touch the same elements, and some write them.
    Shared,
    /// A reduction, or a DDS that blocks add up in tallies.
    Reduction,
}

/// The log of a whole loop.
#[derive(Debug)]
pub struct Recording<'f> {
    /// The loop's indices.
    pub range: Range<usize>,
    /// For each capture: how the loop uses it.
    pub usage: Vec<Usage>,
    /// `slices[s][c]`: the accesses to capture `c` in slice `s`. Empty if the accesses are inferred.
    pub slices: Vec<Vec<CaptureLog>>,
    /// The rules that accesses to shared DDSs follow, where they were found.
    rules: Vec<Option<Rule<'f>>>,
    /// The iterations of each slice, where the loop may be one over a table, and only its outline was recorded.
    outline: Vec<Range<usize>>,
    /// A capture that each block's scratch touches and that is written: every block conflicts with every other.
    pub in_all_blocks: Option<usize>,
    /// How many accesses of all kinds an iteration makes on average, with repeated ones.
    pub accesses_each: f64,
    /// The same of each capture, to which the iterations that were recorded make them.
    accesses_of: Vec<f64>,
    /// The capture of which iterations reach the same elements again and again, and how often each.
    pub repeated: Option<(usize, f64)>,
    /// How many iterations ended early, with a panic or without coming to an end.
    pub cut_short: usize,
    /// The most bytes that the log took.
    pub peak_bytes: usize,
    /// Nanoseconds that recording an iteration took, or 0 if they weren't measured. How work is dealt out may depend on them, but
    /// the bits may not.
    pub nanos_each: f64,
    /// How many iterations each slice has but the last.
    slice: usize,
    /// How other processes find out what the iterations touch, if this one can't.
    survey: Option<Survey>,
    /// Whether this is a sample of a loop that is too long to be recorded in full.
    no_more: bool,
    /// Whether it is a sample that shows that the loop should run serially, since few iterations could run at the same time.
    pub(crate) narrow: bool,
}

/// Loops with more iterations than this are never recorded in full, and have no plan that lists iterations: it has 32 bits for each.
pub const LONGEST_LISTED: usize = u32::MAX as usize;

/// What the recording has to know about a capture.
#[derive(Debug, Clone, Copy)]
pub struct CaptureShape {
    /// How many elements it has.
    pub len: usize,
    /// Whether it is a reduction or relaxed state, which causes no conflicts. If it has elements, they are added up in tallies.
    pub reduction: bool,
    /// Whether its bits depend on where blocks begin, as those of a sum of floats do.
    pub by_block: bool,
    /// Whether an element may own memory elsewhere, as rows of a `Vec` do. Such elements are not laid out in the order of execution.
    pub owning: bool,
    /// Whether its elements are only with the workers that run iterations with them, though nobody writes them.
    pub dealt: bool,
}

impl<'f> Recording<'f> {
    /// Joins the logs of the slices.
    pub fn new(range: Range<usize>, mut slices: Vec<Vec<CaptureLog>>, shapes: &[CaptureShape]) -> Self {
        let mut usage: Vec<Usage> =
            shapes.iter().enumerate().map(|(c, shape)| usage_of(&range, &mut slices, c, *shape)).collect();
        let in_all_blocks = by_scratch(&mut usage, &slices);
        let peak_bytes = slices.iter().flatten().map(CaptureLog::bytes).sum();
        let lens = || slices.iter().filter_map(|slice| slice.first()).map(|log| log.iterations);
        let (iterations, slice): (usize, _) = (lens().sum(), lens().next().unwrap_or(SLICE).max(1));
        let of = |c: usize| slices.iter().map(|slice| slice[c].total).sum::<u64>() as f64 / iterations.max(1) as f64;
        let accesses_of: Vec<f64> = (0..usage.len()).map(of).collect();
        let accesses: u64 = slices.iter().flatten().map(|log| log.total).sum();
        let accesses_each = accesses as f64 / iterations.max(1) as f64;
        let cut_short = slices.iter().filter_map(|slice| slice.iter().map(|log| log.cut_short).max()).sum();
        let repeated = repeated(&usage, &slices);
        let nothing = Recording::of_rules(range, usage, Vec::new());
        Recording {
            slices,
            in_all_blocks,
            accesses_each,
            accesses_of,
            repeated,
            cut_short,
            peak_bytes,
            slice,
            ..nothing
        }
    }

    /// A loop of which nothing is known but rules.
    pub(crate) fn of_rules(range: Range<usize>, usage: Vec<Usage>, rules: Vec<Option<Rule<'f>>>) -> Self {
        Recording {
            range,
            usage,
            slices: Vec::new(),
            rules,
            outline: Vec::new(),
            in_all_blocks: None,
            accesses_each: 0.0,
            accesses_of: Vec::new(),
            repeated: None,
            cut_short: 0,
            peak_bytes: 0,
            nanos_each: 0.0,
            slice: SLICE,
            survey: None,
            no_more: false,
            narrow: false,
        }
    }

    /// A sample that stands for a loop that is too long to be recorded in full.
    pub fn and_no_more(self) -> Self {
        Recording { no_more: true, ..self }
    }

    /// The same of one that shows that the loop should run serially.
    pub fn as_narrow(self) -> Self {
        Recording { narrow: true, ..self }
    }

    /// Why no plan can list what the iterations touch, or them, if that is so.
    pub(crate) fn unlisted(&self, shapes: &[CaptureShape]) -> Option<&'static str> {
        let shared = self.shared();
        // Elements that a plan's order leaves with workers are handed out by numbers of 32 bits.
        let too_long = |(usage, shape): (&Usage, &CaptureShape)| match usage {
            Usage::Shared => shape.len > LISTED,
            Usage::InStep { written: true, .. } => !shared.is_empty() && shape.len > LONGEST_LISTED,
            _ => false,
        };
        if self.usage.iter().zip(shapes).any(too_long) {
            Some(
                "iterations share elements, and a DDS has more than a plan can list: 2^31, or 2^32 - 1 that are written in step",
            )
        } else if self.no_more || (!shared.is_empty() && self.iterations() > LONGEST_LISTED) {
            Some("iterations share elements, and are more than a plan can list: 2^32 - 1")
        } else {
            None
        }
    }

    /// A recording whose accesses to shared DDSs follow rules about elements that other processes have.
    pub fn surveyed(sampled: &Recording<'_>, survey: Survey) -> Option<Recording<'static>> {
        let Recording { rules, .. } = survey.recording(&[])?;
        Some(Recording { survey: Some(survey), ..Recording::by_rules(sampled, rules) })
    }

    /// How other processes find out what the iterations touch, if this one can't.
    pub fn survey(&self) -> Option<&Survey> {
        self.survey.as_ref()
    }

    /// Whether all indices of a capture in a slice are below `len`, by its rule.
    pub(crate) fn is_within(&self, s: usize, capture: usize, len: usize) -> bool {
        self.rule(capture).is_some_and(|rule| rule.within(self.slice(s), len))
    }

    /// Records how many nanoseconds, summed over threads, making the logs took.
    pub fn took(&mut self, nanos: u64) {
        let lens = self.slices.iter().filter_map(|slice| slice.first()).map(|log| log.iterations);
        self.nanos_each = nanos as f64 / lens.sum::<usize>().max(1) as f64;
    }

    /// A recording whose accesses to shared DDSs follow rules.
    pub fn by_rules(sampled: &Recording<'_>, rules: Vec<Option<Rule<'f>>>) -> Self {
        Recording {
            range: sampled.range.clone(),
            usage: sampled.usage.clone(),
            accesses_of: sampled.accesses_of.clone(),
            slices: Vec::new(),
            outline: Vec::new(),
            rules,
            peak_bytes: 0,
            slice: SLICE,
            survey: None,
            ..*sampled
        }
    }

    /// Whether the distances between an iteration's number and the elements of one capture that it touches differ widely.
    pub fn reaches_far(&self) -> bool {
        self.rules.iter().flatten().any(Rule::reaches_far)
    }

    /// Whether its rules say that each iteration writes an element that the next one touches.
    pub(crate) fn is_a_chain(&self) -> bool {
        self.rules.iter().flatten().any(Rule::is_a_chain)
    }

    pub(crate) fn rule(&self, capture: usize) -> Option<&Rule<'f>> {
        self.rules.get(capture).and_then(Option::as_ref)
    }

    /// The fields that hold an iteration's indices of a capture, where its rule has some.
    pub fn index_fields(&self, capture: usize) -> Option<IndexFields> {
        self.rule(capture).and_then(Rule::index_fields)
    }

    /// How many slices there are.
    pub fn slice_count(&self) -> usize {
        self.iterations().div_ceil(self.slice)
    }

    /// How many iterations come before a slice.
    pub fn slice_start(&self, s: usize) -> usize {
        s * self.slice
    }

    /// How many iterations a slice has.
    pub fn slice_len(&self, s: usize) -> usize {
        self.slice.min(self.iterations() - self.slice_start(s))
    }

    /// The iterations of a slice, by their indices.
    pub(crate) fn slice(&self, s: usize) -> Range<usize> {
        let start = self.range.start + self.slice_start(s);
        start..start + self.slice_len(s)
    }

    /// The accesses to a shared capture in a slice.
    pub fn log(&self, s: usize, capture: usize) -> Cow<'_, CaptureLog> {
        match self.rule(capture) {
            Some(rule) => Cow::Owned(rule.log(self.slice(s))),
            None => Cow::Borrowed(&self.slices[s][capture]),
        }
    }

    /// Calls `f` for the one access of each iteration of a slice to a capture that [is single](Self::is_single).
    #[inline]
    pub fn each_single(&self, s: usize, capture: usize, f: impl FnMut(u32)) {
        match self.rule(capture) {
            Some(rule) => rule.each_single(self.slice(s), f),
            None => self.slices[s][capture].entries().iter().copied().for_each(f),
        }
    }

    /// Calls `f` for each access to a shared capture in one of `every` short runs of a slice's iterations, and returns the number
    /// of these iterations.
    pub fn each_sampled(&self, s: usize, capture: usize, every: usize, mut f: impl FnMut(u32)) -> usize {
        /// Short, since the iterations of a run often touch the same elements.
        const RUN: usize = 16;
        /// 2^64 by the golden ratio: the products with consecutive numbers, modulo 2^64, lie evenly in any stretch of the loop, and no
        /// rhythm of the loop is theirs.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let most = u64::MAX / every.max(1) as u64;
        let n = self.slice_len(s);
        let mut entries = Vec::new();
        let mut seen = 0;
        let first = self.slice_start(s);
        let mut from = 0;
        while from < n {
            let run = (first + from) / RUN;
            let to = n.min((run + 1) * RUN - first);
            if (run as u64).wrapping_mul(GOLDEN) > most {
                from = to;
                continue;
            }
            seen += to - from;
            match self.rule(capture) {
                Some(rule) if rule.per_iteration() == 1 => {
                    let start = self.range.start + first;
                    rule.each_single(start + from..start + to, &mut f);
                }
                Some(rule) => {
                    entries.clear();
                    (from..to).for_each(|k| rule.entries_of(self.range.start + first + k, &mut entries));
                    entries.iter().copied().for_each(&mut f);
                }
                None => (from..to).for_each(|k| self.slices[s][capture].of(k).iter().copied().for_each(&mut f)),
            }
            from = to;
        }
        seen
    }

    /// Appends the accesses of one iteration, given by its offset from the first.
    pub fn entries_of(&self, offset: usize, capture: usize, out: &mut Vec<u32>) {
        match self.rule(capture) {
            Some(rule) => rule.entries_of(self.range.start + offset, out),
            None => out.extend_from_slice(self.slices[offset / self.slice][capture].of(offset % self.slice)),
        }
    }

    /// Whether every iteration has exactly one access to a shared capture.
    pub fn is_single(&self, capture: usize) -> bool {
        match self.rule(capture) {
            Some(rule) => rule.per_iteration() == 1,
            None => self.slices.iter().all(|slice| slice[capture].uniform() == Some(1)),
        }
    }

    /// For a capture of which a rule gives each iteration's one element: whether the element is written.
    pub fn single_mode(&self, capture: usize) -> Option<bool> {
        self.rule(capture).filter(|rule| rule.per_iteration() == 1)?.mode()
    }

    /// The iterations of each slice, if they are the outline of a table; empty if the whole loop was recorded.
    pub fn outline(&self) -> &[Range<usize>] {
        &self.outline
    }

    /// Adds the slices of further iterations, as the outline of a table.
    pub fn outlined(
        self,
        parts: Vec<Range<usize>>,
        (more, logs): (Vec<Range<usize>>, Vec<Vec<CaptureLog>>),
        shapes: &[CaptureShape],
    ) -> Self {
        // Iterations at borders make fewer accesses than most.
        let Recording { range, mut slices, accesses_each, .. } = self;
        slices.extend(logs);
        Recording { outline: [parts, more].concat(), accesses_each, ..Recording::new(range, slices, shapes) }
    }

    /// Turns the recording of samples of a loop into one from which its plan can be made.
    pub fn as_outline(&self, samples: &[Range<usize>]) -> Recording<'f> {
        let (usage, slices, accesses_of) = (self.usage.clone(), self.slices.clone(), self.accesses_of.clone());
        let (rules, survey, outline) = (Vec::new(), None, samples.to_vec());
        Recording { usage, slices, accesses_of, rules, survey, outline, range: self.range.clone(), ..*self }
    }

    /// About this many iterations of a sample as a loop of their own.
    pub(crate) fn by_itself(&self, iterations: usize) -> Recording<'f> {
        let (usage, every) = (self.usage.clone(), (self.recorded() / iterations).max(1));
        let slices: Vec<_> = self.slices.iter().step_by(every).cloned().collect();
        let (rules, survey, outline) = (Vec::new(), None, Vec::new());
        let accesses_of = self.accesses_of.clone();
        let sample = Recording { usage, slices, accesses_of, rules, survey, outline, range: 0..0, ..*self };
        Recording { range: 0..sample.recorded(), ..sample }
    }

    /// Whether the accesses were computed from the data.
    pub fn is_inferred(&self) -> bool {
        !self.rules.is_empty()
    }

    /// How many iterations the loop has.
    pub fn iterations(&self) -> usize {
        self.range.len()
    }

    /// How many accesses all iterations make to a capture, estimated from those that were logged.
    pub fn accesses(&self, capture: usize) -> f64 {
        self.accesses_of.get(capture).map_or(0.0, |each| each * self.iterations() as f64)
    }

    /// How many iterations were run virtually: fewer than the loop has if it was sampled.
    pub fn recorded(&self) -> usize {
        let run: usize = self.slices.iter().filter_map(|slice| slice.first()).map(|log| log.iterations).sum();
        if self.slices.is_empty() { self.iterations() } else { run }
    }

    /// The captures that iterations touch and may write.
    pub fn writable(&self) -> impl Iterator<Item = usize> {
        let of = |c: usize| self.slices.iter().any(|slice| slice[c].is_writable_and_touched());
        (0..self.usage.len()).filter(move |&c| of(c))
    }

    /// Makes a capture cause no conflicts: each block adds to a tally of its own.
    pub fn leave_out(&mut self, capture: usize) {
        self.usage[capture] = Usage::Reduction;
        self.slices.iter_mut().for_each(|slice| slice[capture].forget());
    }

    /// The captures that are shared and written, and so cause conflicts.
    pub fn shared(&self) -> Vec<usize> {
        (0..self.usage.len()).filter(|&c| self.usage[c] == Usage::Shared).collect()
    }

    /// All listed accesses of a capture.
    pub fn listed(&self, capture: usize) -> usize {
        if let Some(rule) = self.rule(capture) {
            return rule.per_iteration() * self.iterations();
        }
        self.slices.iter().map(|slice| slice[capture].listed()).sum()
    }
}

/// What each block's scratch touches may be any element: a DDS that nobody writes is read by all then. Gives the first
/// capture that is written as well.
fn by_scratch(usage: &mut [Usage], slices: &[Vec<CaptureLog>]) -> Option<usize> {
    let mut written = None;
    for (c, usage) in usage.iter_mut().enumerate() {
        let seen = slices.iter().map(|slice| slice[c].by_scratch());
        let (touches, writes) = seen.fold((false, false), |all, one| (all.0 | one.0, all.1 | one.1));
        if !touches || *usage == Usage::Reduction {
            continue;
        }
        match usage {
            Usage::Untouched | Usage::ReadOnly | Usage::InStep { written: false, .. } if !writes => {
                *usage = Usage::ReadOnly;
            }
            _ => written = written.or(Some(c)),
        }
    }
    written
}

/// The capture that may be written of which an iteration reaches the same elements most often.
fn repeated(usage: &[Usage], slices: &[Vec<CaptureLog>]) -> Option<(usize, f64)> {
    let often = |c: usize| {
        let logs = || slices.iter().map(|slice| &slice[c]);
        let elements: usize = match usage[c] {
            Usage::InStep { written: true, .. } => logs().map(|log| log.iterations).sum(),
            Usage::Shared => logs().map(CaptureLog::listed).sum(),
            _ => return None,
        };
        let accesses: u64 = logs().map(|log| log.total).sum();
        Some((c, accesses as f64 / elements.max(1) as f64))
    };
    (0..usage.len()).filter_map(often).max_by(|one, other| one.1.total_cmp(&other.1))
}

fn usage_of(range: &Range<usize>, slices: &mut [Vec<CaptureLog>], c: usize, shape: CaptureShape) -> Usage {
    if shape.reduction {
        return Usage::Reduction;
    }
    let logs = || slices.iter().map(|slice| &slice[c]);
    let mut offsets = logs().filter_map(|log| log.offset);
    let Some(offset) = offsets.next() else { return Usage::Untouched };
    let stepping = offsets.all(|other| other == offset) && !logs().any(|log| log.left_step);
    let ends = (range.start.wrapping_add(offset), range.end.wrapping_add(offset));
    if stepping && ends.0 <= ends.1 && ends.1 <= shape.len {
        return Usage::InStep { offset, written: logs().any(CaptureLog::wrote_in_step) };
    }
    let mut wrote = false;
    for log in slices.iter_mut().map(|slice| &mut slice[c]) {
        if !log.left_step {
            log.wrote |= log.wrote_in_step();
            log.leave_step();
        }
        wrote |= log.wrote;
    }
    if wrote || shape.dealt {
        return Usage::Shared;
    }
    // Nothing of a DDS that is only read can conflict.
    for slice in slices {
        slice[c].forget();
    }
    Usage::ReadOnly
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
