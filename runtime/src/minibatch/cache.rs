//! What a synchronous loop keeps from one call to the next: its copies' tables and the buffers that it is undone from.

use std::any::TypeId;

use super::hot::Chosen;
use super::table::Table;
use crate::memory::buffer::RawBuf;

/// What tables belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyncKey {
    pub(crate) site: usize,
    pub(crate) body: TypeId,
    /// Identity and length of every DDS that is written; zeros for the other captures.
    pub(crate) written: Vec<(u64, usize)>,
    pub(crate) copies: usize,
    /// Under `Ssp` with several copies, which keep what rows held before.
    pub(crate) staleness: Option<usize>,
}

/// Tables and buffers, to be used again.
pub(crate) struct CachedLoop {
    pub(crate) key: SyncKey,
    /// By copy, by capture.
    pub(crate) tables: Vec<Vec<Option<Table>>>,
    /// The last stamp that the tables have seen.
    pub(crate) stamp: u32,
    /// By capture: what the elements held before the loop.
    pub(crate) backup: Vec<Option<RawBuf>>,
    pub(crate) hot: Chosen,
}

impl CachedLoop {
    /// The stamp after which a run of this many rounds counts on.
    pub(crate) fn stamps_for(&mut self, rounds: usize) -> u32 {
        let (from, stamp) = next_stamps(self.stamp, rounds, &self.tables);
        self.stamp = stamp;
        from
    }
}

/// The stamp after which a run of this many rounds counts on, and its last; the tables forget what they have seen when stamps
/// run out.
pub(crate) fn next_stamps(stamp: u32, rounds: usize, tables: &[Vec<Option<Table>>]) -> (u32, u32) {
    let wanted = 2 * rounds as u64 + 4;
    if u64::from(stamp) + wanted < u64::from(u32::MAX) {
        return (stamp, stamp + wanted as u32);
    }
    tables.iter().flatten().flatten().for_each(Table::reset);
    (0, u32::try_from(wanted).unwrap_or(u32::MAX))
}

/// How many loops' tables a session keeps.
const MOST: usize = 4;

#[derive(Default)]
pub(crate) struct SyncCache {
    kept: Vec<CachedLoop>,
}

impl SyncCache {
    pub(crate) fn take(&mut self, key: &SyncKey) -> Option<CachedLoop> {
        let at = self.kept.iter().position(|kept| kept.key == *key)?;
        Some(self.kept.remove(at))
    }

    /// Keeps tables, and gives back those that had to make room.
    pub(crate) fn put(&mut self, kept: CachedLoop) -> Option<CachedLoop> {
        let oldest = (self.kept.len() >= MOST).then(|| self.kept.remove(0));
        self.kept.push(kept);
        oldest
    }

    /// Takes out what belongs to a DDS.
    pub(crate) fn remove_users_of(&mut self, dds: u64) -> Vec<CachedLoop> {
        let uses = |kept: &mut CachedLoop| kept.key.written.iter().any(|&(id, _)| id == dds);
        self.kept.extract_if(.., uses).collect()
    }
}
