//! Bodies that don't end: the driver names them, and goes on waiting.

use std::sync::Arc;
use std::time::Duration;

use stradsap_dds_server::tasks;

use crate::cluster::driver::Cluster;
use crate::cluster::driver::hub::Hub;
use crate::cluster::wire::protocol::{Node, RemoteTask};
use crate::session::logging::warning;

/// Ends with this.
#[must_use]
pub(crate) struct Watched(Option<tokio::task::JoinHandle<()>>);

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl Cluster {
    /// While what is given lives: names, of each worker, the body that has run for longest, once that is longer than the user wants to
    /// wait without a word, and again each time that it has run for twice as long.
    pub(crate) fn name_slow_bodies(&self, generation: u32, nodes: &[Node], task: &RemoteTask) -> Watched {
        let limit = self.options.slow_body_after();
        if limit.is_zero() {
            return Watched(None);
        }
        let (hub, nodes, site) = (Arc::clone(&self.hub), nodes.to_vec(), Arc::clone(&task.site));
        Watched(Some(tasks::spawn_on(&self.handle, async move {
            let mut after = limit;
            loop {
                tokio::time::sleep(after).await;
                for &node in &nodes {
                    name_slowest(&hub, node, generation, (&site, limit)).await;
                }
                after *= 2;
            }
        })))
    }
}

async fn name_slowest(hub: &Hub, node: Node, generation: u32, (site, limit): (&str, Duration)) {
    let Some(client) = hub.client(node) else { return };
    let asked = client.slowest(tarpc::context::current(), generation, limit.as_secs()).await;
    // Who doesn't answer is lost, or about to be.
    if let Ok(Ok(Some((unit, seconds)))) = asked {
        let s = if seconds == 1 { "" } else { "s" };
        warning!("{site}: {unit} has been running for {seconds} second{s} on {}", hub.name(node));
    }
}
