//! The timeline of all processes, brought together when the driver ends.

use std::time::Duration;

use stradsap_dds_server::codec;

use crate::cluster::driver::{Answer, Cluster, join_all};
use crate::cluster::wire::protocol::Node;
use crate::session::locked;
use crate::session::logging::warning;
use crate::session::timeline::file::TimelineFile;
use crate::session::timeline::json::Process;
use crate::session::timeline::{self, RecordedEvents};

/// How long the end of the program waits for events.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest of this many round trips shows how far a worker's clock is from the driver's.
const ROUND_TRIPS: usize = 8;

impl Cluster {
    /// Writes the timeline of the driver, of those workers that are still there, and of those that were let go.
    pub(super) fn write_timeline(&self, file: &mut TimelineFile) {
        let state = &mut *locked(&self.state);
        let there = state.workers.iter().copied().filter(|&node| self.hub.is_member(node));
        let others = self.wait(join_all(there.map(|node| self.timeline_of(node, state.generation))));
        file.write(std::mem::take(&mut state.let_go).into_iter().chain(others.into_iter().flatten()).collect());
    }

    /// What a worker has recorded, if it answers.
    pub(super) async fn timeline_of(&self, node: Node, generation: u32) -> Option<Process> {
        let events = tokio::time::timeout(PATIENCE, self.events_of(node, generation)).await;
        let events = events.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
        events.inspect_err(|why| warning!("the timeline lacks {}: {why}", self.hub.name(node))).ok()
    }

    async fn events_of(&self, node: Node, generation: u32) -> Result<Process, String> {
        let mut shortest: Option<(u64, i64)> = None;
        for _ in 0..ROUND_TRIPS {
            let asked = timeline::now();
            let theirs = self.question(node, async |client, context| client.clock(context).await).await?;
            let took = timeline::now().saturating_sub(asked);
            let ahead = theirs.wrapping_sub(asked + took / 2).cast_signed();
            if shortest.is_none_or(|(least, _)| took < least) {
                shortest = Some((took, ahead));
            }
        }
        let blob = self.question(node, async |client, context| client.timeline(context, generation).await).await?;
        let bytes = self.hub.links.blob(node, blob).await.map_err(|error| error.to_string())?;
        let recorded: RecordedEvents = codec::decode(&bytes, codec::MAX_BYTES).map_err(|error| error.to_string())?;
        let recorded = recorded.checked().ok_or("events on tracks that aren't there")?;
        let ahead = shortest.map_or(0, |(_, ahead)| ahead);
        Ok(Process { name: self.hub.name(node), place: node, ahead, recorded })
    }

    async fn question<R>(
        &self,
        node: Node,
        ask: impl AsyncFnOnce(crate::cluster::wire::protocol::ControlClient, tarpc::context::Context) -> Answer<R>,
    ) -> Result<R, String> {
        let client = self.hub.client(node).ok_or("it is lost")?;
        let answer = ask(client, tarpc::context::current()).await;
        answer.map_err(|error| error.to_string())?.map_err(|problem| problem.to_string())
    }
}
