//! The program's own reading and writing of a DDS, between loops.

use std::ops::Range;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::{Cluster, Fault, State};
use crate::cluster::wire::protocol::MemoryLimit;
use crate::memory::buffer::RawBuf;
use crate::memory::spill::Spill;
use crate::session::backend::{Changing, ElementBackend, Whereabouts};
use crate::session::error::{ClusterError, Result};
use crate::session::{locked, next_id};

/// Bytes that are fetched with an element that is read by itself, where elements are read one after the other,
const NEARBY: usize = 256 << 10;
/// and where each is elsewhere.
const FEW: usize = 4 << 10;

/// After this number of reads elsewhere a DDS is fetched whole, unless it is large.
const READS: u32 = 16;

/// The number of DDSs of which the elements fetched last are kept.
const NEARBY_DDSS: usize = 4;

/// Elements that were fetched last.
pub(crate) struct Nearby {
    dds: u64,
    version: u64,
    start: usize,
    elements: RawBuf,
    /// How many reads were elsewhere.
    elsewhere: u32,
}

impl Nearby {
    pub(crate) fn dds(&self) -> u64 {
        self.dds
    }

    fn end(&self) -> usize {
        self.start + self.elements.len()
    }

    fn holds(&self, range: &Range<usize>) -> bool {
        self.start <= range.start && range.end <= self.end()
    }
}

/// What to fetch of a DDS of which the program reads a few elements: with those that it reads next, as what was fetched last lets
/// expect.
fn around(last: Option<&Nearby>, range: &Range<usize>, len: usize, size: usize, whole: usize) -> (Range<usize>, u32) {
    let of_bytes = |bytes: usize| (bytes / size.max(1)).max(1);
    let follows = |last: &Nearby| (last.end()..last.end() + of_bytes(NEARBY)).contains(&range.start);
    let elsewhere = match last {
        Some(last) if follows(last) => last.elsewhere,
        Some(last) => last.elsewhere + 1,
        None => 0,
    };
    if len <= of_bytes(NEARBY) || elsewhere >= READS && len <= whole / size.max(1) {
        return (0..len, elsewhere);
    }
    let each = of_bytes(if last.is_some_and(follows) { NEARBY } else { FEW });
    let start = range.start / each * each;
    (start..len.min(range.end.max(start + each)), elsewhere)
}

/// The program's own code runs on this thread, which has the state meanwhile.
pub(crate) struct StateHeld<'c>(&'c Cluster);

impl Drop for StateHeld<'_> {
    fn drop(&mut self) {
        *locked(&self.0.holder) = None;
    }
}

impl Cluster {
    /// Until this is dropped the program's own code can't have the state: the functions of a scheduled program, while
    /// workers are busy with it, and bodies that are replayed.
    pub(crate) fn hold_state(&self) -> StateHeld<'_> {
        *locked(&self.holder) = Some(std::thread::current().id());
        StateHeld(self)
    }

    fn held_here(&self) -> bool {
        *locked(&self.holder) == Some(std::thread::current().id())
    }

    fn outside(&self) -> Result<()> {
        if !self.held_here() {
            return Ok(());
        }
        let problem = "a DDS that workers have can't be used within the functions of a scheduled program".to_string();
        Err(ClusterError::Process { who: "the driver".to_string(), problem }.into())
    }

    /// Brings a DDS home, where its elements will be changed.
    pub(crate) fn bring_to_change(&self, state: &mut State, dds: u64) -> Result<()> {
        if !state.entries.contains_key(&dds) {
            return Ok(());
        }
        self.keep_orders(state, &[dds])?;
        self.retry(state, async |cluster, state| {
            cluster.bring_home(state, dds).await?;
            // Loops that would be run again have seen the elements as they are now.
            let seen = state.log.iter().any(|logged| logged.uses(dds));
            if seen { cluster.snapshot(state).await } else { Ok(()) }
        })
    }

    /// Has the workers keep near this process's limit, too.
    async fn limit_workers(&self, state: &State) -> std::result::Result<(), Fault> {
        self.hub.spill_snapshots();
        let (generation, Some(limit)) = (state.generation, memory_limit()) else { return Ok(()) };
        self.ask_all(&state.workers, |_, client, context| {
            let limit = limit.clone();
            async move { client.limit_memory(context, generation, limit).await }
        })
        .await?;
        Ok(())
    }

    /// The home of a DDS has been changed.
    pub(crate) fn changed(state: &mut State, dds: u64) {
        if let Some(entry) = state.entries.get_mut(&dds) {
            entry.placement = Placement::home(entry.len);
            entry.base = Placement::home(entry.len);
            entry.version = next_id();
            entry.base_version = entry.version;
        }
    }
}

/// The limit of this process, which is also one for each worker.
pub(super) fn memory_limit() -> Option<MemoryLimit> {
    Spill::current().map(|spill| MemoryLimit { bytes: spill.limit(), folder: spill.folder().to_path_buf() })
}

/// The program changes the home of a DDS; what the driver knows of it is brought up to date in the end.
struct Change<'c> {
    state: MutexGuard<'c, State>,
    dds: u64,
}

impl Changing for Change<'_> {}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        Cluster::changed(&mut self.state, self.dds);
    }
}

impl ElementBackend for Cluster {
    fn owe(&self, dds: u64, problem: Option<String>) {
        let owed = &mut locked(&self.state).owed;
        match problem {
            Some(problem) => drop(owed.insert(dds, problem)),
            None => drop(owed.remove(&dds)),
        }
    }

    fn limit_memory(&self) -> Result<()> {
        self.outside()?;
        self.retry(&mut locked(&self.state), async |cluster, state| cluster.limit_workers(state).await)
    }

    fn dropped(&self, dds: u64) {
        if self.held_here() {
            locked(&self.late).push(dds);
            return;
        }
        self.dropped_now(&mut locked(&self.state), dds);
    }

    fn workers(&self) -> usize {
        if self.held_here() { self.options.workers() } else { locked(&self.state).workers.len() }
    }

    fn control_messages(&self) -> u64 {
        self.hub.control_messages.load(Relaxed)
    }

    #[allow(unsafe_code)]
    fn read(&self, dds: u64, range: Range<usize>) -> Result<Option<RawBuf>> {
        self.outside()?;
        let mut state = locked(&self.state);
        let state = &mut *state;
        let Some(entry) = state.entries.get(&dds) else { return Ok(None) };
        if !entry.is_apart() && entry.placement.is_home() {
            return Ok(None);
        }
        let (len, version) = (entry.len, entry.version);
        let ops = entry.home.ops();
        if range.len() >= (NEARBY / ops.size.max(1)).max(1) {
            let fetched = self.retry(state, async |cluster, state| cluster.fetch(state, dds, range.clone()).await)?;
            return Ok(Some(fetched));
        }
        let last = state.nearby.iter().find(|near| near.dds == dds && near.version == version);
        if !last.is_some_and(|near| near.holds(&range)) {
            let whole = self.options.bytes_fetched_whole();
            let (around, elsewhere) = around(last, &range, len, ops.size, whole);
            let start = around.start;
            let elements = self.retry(state, async |cluster, state| cluster.fetch(state, dds, around.clone()).await)?;
            // A recovery on the way changes it.
            let version = state.entries.get(&dds).map_or(0, |entry| entry.version);
            state.nearby.retain(|near| near.dds != dds);
            state.nearby.truncate(NEARBY_DDSS - 1);
            state.nearby.insert(0, Nearby { dds, version, start, elements, elsewhere });
        }
        let Some(near) = state.nearby.iter().find(|near| near.dds == dds) else { return Ok(None) };
        let mut wanted = RawBuf::new(ops, range.len());
        // SAFETY: the range lies within what was fetched, which nobody else has.
        unsafe { wanted.push_clones(near.elements.as_ptr().add((range.start - near.start) * ops.size), range.len()) };
        Ok(Some(wanted))
    }

    fn whereabouts(&self, dds: u64) -> Result<Whereabouts> {
        self.outside()?;
        Ok(match locked(&self.state).entries.get(&dds) {
            Some(entry) if entry.is_apart() || !entry.placement.is_home() => Whereabouts::InRanges,
            _ => Whereabouts::Here,
        })
    }

    fn change(&self, dds: u64) -> Result<Box<dyn Changing + '_>> {
        self.outside()?;
        let mut state = locked(&self.state);
        self.bring_to_change(&mut state, dds)?;
        Ok(Box::new(Change { state, dds }))
    }
}
