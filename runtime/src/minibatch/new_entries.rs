//! The new entries of all maps that a synchronous loop adds to, by who added them.

use std::collections::BTreeMap;
#[cfg(feature = "cluster")]
use std::ops::Range;
use std::sync::Mutex;

use super::policy::{MergeRule, SyncPolicy};
use super::schedule::Schedule;
use crate::body::new_entries::{NewEntries, NewEntryOps};
use crate::body::panics::{self, CaughtPanic};
#[cfg(feature = "cluster")]
use crate::memory::decode::take_array;
use crate::memory::merge::Union;
use crate::session::locked;

/// Who adds entries that others don't see: a copy and, where threads share one, the thread.
pub(crate) type Part = (usize, usize);

/// By capture.
pub(crate) type NewByCapture = Vec<Option<NewEntries>>;

/// What the parts of a loop have added so far.
#[derive(Default)]
pub(crate) struct NewByPart(Mutex<BTreeMap<Part, NewByCapture>>);

impl NewByPart {
    /// Gives a part what it has added before.
    pub(crate) fn take(&self, part: Part) -> NewByCapture {
        locked(&self.0).remove(&part).unwrap_or_default()
    }

    pub(crate) fn put_back(&self, part: Part, entries: NewByCapture) {
        if entries.iter().any(Option::is_some) {
            locked(&self.0).insert(part, entries);
        }
    }

    /// Unites what all parts have added to each capture, in the order of the parts. The program's own code may panic in that: then
    /// the loop fails, as if its last round had.
    pub(crate) fn unite(
        &self,
        ops: &[Option<&'static NewEntryOps>],
        (policy, rule, schedule): (SyncPolicy, MergeRule, Schedule),
    ) -> Result<NewByCapture, (usize, CaughtPanic)> {
        let how = match (policy, rule) {
            (SyncPolicy::ModelAverage { .. }, _) if schedule.copies > 1 => Union::Mean(schedule.active(0)),
            (_, MergeRule::Combine) => Union::Combine,
            _ => Union::Sum,
        };
        panics::caught(|| self.united(ops, how)).map_err(|note| (schedule.last(), note))
    }

    fn united(&self, ops: &[Option<&'static NewEntryOps>], how: Union) -> NewByCapture {
        let mut parts = std::mem::take(&mut *locked(&self.0));
        let united = |(c, ops): (usize, &Option<&'static NewEntryOps>)| {
            let of_parts: Vec<NewEntries> = parts.values_mut().filter_map(|part| part.get_mut(c)?.take()).collect();
            if of_parts.is_empty() { None } else { ops.map(|ops| (ops.unite)(of_parts, how)) }
        };
        ops.iter().enumerate().map(united).collect()
    }

    /// All of it as bytes: of each part and capture their numbers, then the entries. None if there are none.
    #[cfg(feature = "cluster")]
    pub(crate) fn encode(&self, ops: &[Option<&'static NewEntryOps>]) -> Option<Vec<u8>> {
        let (parts, mut bytes) = (locked(&self.0), Vec::new());
        for (&(copy, thread), entries) in parts.iter() {
            for (capture, (entries, ops)) in entries.iter().zip(ops).enumerate() {
                if let (Some(entries), Some(ops)) = (entries, ops) {
                    for number in [copy, thread, capture] {
                        bytes.extend_from_slice(&(number as u64).to_le_bytes());
                    }
                    (ops.encode)(entries, &mut bytes);
                }
            }
        }
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Takes in what a process has sent that runs these copies.
    #[cfg(feature = "cluster")]
    pub(crate) fn decode(
        &self,
        mut bytes: &[u8],
        ops: &[Option<&'static NewEntryOps>],
        copies: &Range<usize>,
    ) -> Result<(), String> {
        let mut parts = locked(&self.0);
        while !bytes.is_empty() {
            let mut number = || take_array(&mut bytes, "a number").map(u64::from_le_bytes).map_err(|e| e.to_string());
            let [copy, thread, capture] = [number()?, number()?, number()?].map(|n| usize::try_from(n).ok());
            let (Some(copy), Some(thread)) = (copy.filter(|copy| copies.contains(copy)), thread) else {
                return Err("entries of a copy of others".to_string());
            };
            let Some((capture, ops)) = capture.and_then(|c| Some((c, (*ops.get(c)?)?))) else {
                return Err("entries of a capture that takes none".to_string());
            };
            let entries = (ops.decode)(&mut bytes).map_err(|error| error.to_string())?;
            let part = parts.entry((copy, thread)).or_default();
            part.resize_with(part.len().max(capture + 1), || None);
            if part[capture].replace(entries).is_some() {
                return Err(format!("entries of copy {copy} and capture {capture} came before"));
            }
        }
        Ok(())
    }
}

/// Whether two runs of a loop have added the same to a capture.
pub(crate) fn are_same(ops: &'static NewEntryOps, [a, b]: [Option<&NewEntries>; 2]) -> bool {
    let encoded = |entries: Option<&NewEntries>| {
        let mut bytes = Vec::new();
        entries.inspect(|entries| (ops.encode)(entries, &mut bytes));
        bytes
    };
    panics::caught(|| encoded(a) == encoded(b)).unwrap_or(false)
}
