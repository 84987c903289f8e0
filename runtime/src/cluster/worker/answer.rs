//! How a worker answers the driver's questions about operators: what comes over the network first, the work on its second
//! thread then.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::cluster::wire::protocol::{OperateEnd, OperateJob, Problem, ShuffleJob};
use crate::cluster::worker::Worker;
use crate::session::locked;

impl Worker {
    /// Runs an operator over this worker's chunks.
    pub(crate) async fn operate(self: &Arc<Self>, job: OperateJob) -> std::result::Result<OperateEnd, Problem> {
        self.blobs.clear();
        self.apart(|worker| worker.bench.commit()).await?;
        let operating = crate::cluster::worker::operate::begin(&self.bench, &job)?;
        self.fill_all(&job.pulls).await?;
        let (runtime, stopped) = (tokio::runtime::Handle::current(), Arc::clone(&locked(&self.stopped)));
        let work = self.apart(move |worker| {
            let pages = crate::cluster::worker::operate::pages(&job, worker, runtime, Arc::clone(&stopped));
            let end = crate::cluster::worker::operate::run(operating, &job, worker, &pages, &stopped);
            pages.forget();
            match pages.failed() {
                None | Some(Problem::Stopped) => end,
                Some(problem) => Err(problem),
            }
        });
        let trouble = self.trouble.wait();
        tokio::select! {
            biased;
            end = work => end?,
            (node, why) = trouble => Err(Problem::Peer { node, why }),
        }
    }

    /// Brings together what the workers have dealt out to this one.
    pub(crate) async fn shuffle(self: &Arc<Self>, job: ShuffleJob) -> std::result::Result<OperateEnd, Problem> {
        let me = self.node.load(Relaxed);
        let mut arrived = Vec::new();
        for from in job.from {
            let mut pieces = Vec::with_capacity(from.len());
            for (node, blob, n) in from {
                let bytes = if node == me || n == 0 {
                    Vec::new()
                } else {
                    let got = self.links.blob(node, blob).await;
                    got.map_err(|error| error.problem(node))?
                };
                pieces.push((node, n, bytes));
            }
            arrived.push(pieces);
        }
        self.apart(move |worker| {
            crate::cluster::worker::operate::shuffle(&worker.bench, job.call, job.partitions, arrived, me)
        })
        .await?
    }
}
