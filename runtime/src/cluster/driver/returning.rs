//! Where DDS servers are the home of elements, workers have none of them between calls: what a call has changed is in a snapshot, and
//! the workers free their memory of it.

use crate::cluster::driver::snapshots::tags;
use crate::cluster::driver::{Cluster, Entry, Fault, Scattered, State};
use crate::cluster::wire::protocol::ControlClient;
use crate::session::error::Result;
use crate::session::timeline::{Category, span};

impl Entry {
    /// Whether this snapshot has stored elements that are with workers as well. Copies of what was stored before stay there, since they
    /// are still current. So do elements in a plan's own order: the plan's next call begins with them.
    fn can_be_returned(&self, snapshot: u64) -> bool {
        let stored = self.version == self.base_version && tags(&self.base).contains(&snapshot);
        let by_plan = matches!(self.scattered, Some(Scattered::ByPlan(..)));
        stored && !by_plan && !self.is_apart()
    }
}

impl Cluster {
    /// Has workers free the elements that are at home on the servers.
    pub(crate) fn return_elements(&self, state: &mut State) -> Result<()> {
        self.retry(state, async |cluster, state| cluster.return_all(state).await)
    }

    async fn return_all(&self, state: &mut State) -> std::result::Result<(), Fault> {
        let (mut ddss, last) = (Vec::new(), state.next_snapshot);
        for (&dds, entry) in state.entries.iter_mut().filter(|(_, entry)| entry.can_be_returned(last)) {
            (entry.placement, entry.scattered) = (entry.base.clone(), None);
            ddss.push(dds);
        }
        if ddss.is_empty() {
            return Ok(());
        }
        let _span = span(Category::Snapshot, ddss.len() as u64);
        let generation = state.generation;
        let free = |_, client: ControlClient, context| {
            let ddss = ddss.clone();
            async move { client.free(context, generation, ddss).await }
        };
        self.ask_all(&state.workers, free).await?;
        Ok(())
    }
}
