//! Workers that come and go while a job runs. Both happen between two calls: a snapshot is taken first, so no loop runs again, and then
//! a new generation begins, as after a loss.

use stradsap_dds_server::hello::Role;

use crate::cluster::driver::{Cluster, Fault, State};
use crate::cluster::wire::protocol::Node;
use crate::session::error::Result;
use crate::session::logging::warning;
use crate::session::stopping;

impl Cluster {
    /// Takes in workers that have joined, and lets one go that was told to end. Whether there was any.
    pub(crate) async fn change_members(&self, state: &mut State) -> Result<bool> {
        let leaving = self.leaving(state);
        if leaving.is_none() && !self.has_newcomers(state) {
            return Ok(false);
        }
        match self.snapshot(state).await {
            // Who is lost now is noticed by the caller.
            Ok(()) | Err(Fault::Lost) if self.hub.lost.get() != state.seen_losses => return Ok(true),
            Ok(()) => {}
            Err(Fault::Lost) => state.tainted = true,
            Err(Fault::Error(error)) => return Err(error),
        }
        if let Some(node) = leaving {
            warning!("{} leaves the job, since it was told to end", self.hub.name(node));
            if self.timeline.is_some() {
                state.let_go.extend(self.timeline_of(node, state.generation).await);
            }
            self.dismiss(node).await;
        }
        self.recover(state).await?;
        state.tainted = false;
        Ok(true)
    }

    /// A worker that was told to end, where others stay: if all were told, or the driver, it is the job that ends. One at a time
    /// goes, since the next one may have the other copy of its parts.
    fn leaving(&self, state: &State) -> Option<Node> {
        let told: Vec<Node> = state.workers.iter().copied().filter(|&node| self.hub.is_leaving(node)).collect();
        told.first().copied().filter(|_| told.len() < state.workers.len() && !stopping::is_asked())
    }

    /// Whether more could take part than do.
    pub(crate) fn has_newcomers(&self, state: &State) -> bool {
        let more = |role, have: usize, wanted| have < wanted && self.hub.complete(role).len() > have;
        more(Role::Worker, state.workers.len(), self.options.workers())
            || more(Role::Server, state.servers.len(), self.options.servers())
    }

    /// Ends a worker that has nothing to do any more.
    async fn dismiss(&self, node: Node) {
        if let Some(client) = self.hub.client(node) {
            let _gone_already = client.bye(tarpc::context::current()).await;
        }
        self.hub.release(node);
    }
}
