//! The program's own reading and writing of a DDS, between loops.

use std::ops::Range;

use super::driver::{Cluster, Fault, State};
use super::placement::Placement;
use crate::error::Result;
use crate::memory::RawBuf;
use crate::session::{locked, next_id};

impl Cluster {
    /// Does something until no process is lost meanwhile.
    pub(crate) fn insist<R>(
        &self,
        state: &mut State,
        mut f: impl AsyncFnMut(&Cluster, &mut State) -> std::result::Result<R, Fault>,
    ) -> Result<R> {
        self.wait(async {
            loop {
                if *self.hub.lost.borrow() != state.seen_losses {
                    self.recover(state).await?;
                }
                match f(self, state).await {
                    Ok(done) => return Ok(done),
                    Err(Fault::Lost) => self.recover(state).await?,
                    Err(Fault::Error(error)) => return Err(error),
                }
            }
        })
    }

    /// Copies of elements; none if the home of the DDS has them.
    pub(crate) fn read(&self, dds: u64, range: Range<usize>) -> Result<Option<RawBuf>> {
        let mut state = locked(&self.state);
        let Some(entry) = state.entries.get(&dds) else { return Ok(None) };
        if entry.scattered.is_none() && entry.placement.is_home() {
            return Ok(None);
        }
        let fetched =
            self.insist(&mut state, async |cluster, state| cluster.fetch(state, dds, range.clone()).await)?;
        Ok(Some(fetched))
    }

    /// Changes the home of a DDS, which is made current before.
    pub(crate) fn change(&self, dds: u64, change: impl FnOnce()) -> Result<()> {
        let mut state = locked(&self.state);
        if state.entries.contains_key(&dds) {
            self.insist(&mut state, async |cluster, state| {
                cluster.bring_home(state, dds).await?;
                // Loops that would be run again have seen the elements as they are now.
                let seen = state.log.iter().any(|logged| logged.plan.vectors.iter().flatten().any(|v| v.id == dds));
                if seen { cluster.snapshot(state).await } else { Ok(()) }
            })?;
        }
        change();
        if let Some(entry) = state.entries.get_mut(&dds) {
            entry.placement = Placement::home(entry.len);
            entry.base = Placement::home(entry.len);
            entry.version = next_id();
            entry.base_version = entry.version;
        }
        Ok(())
    }
}
