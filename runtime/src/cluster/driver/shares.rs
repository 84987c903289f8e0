//! What a person may want to know of a plan's layout: which worker runs and moves how much.

use std::sync::Arc;

use crate::cluster::driver::Cluster;
use crate::cluster::driver::remote_plan::RemotePlan;
use crate::planner::layout::Layout;
use crate::session::locked;
use crate::session::report::{WorkerShare, WorkerShares};

impl Cluster {
    /// How a plan is laid out over the workers, as it is installed or would be now.
    pub(crate) fn shares_of(&self, plan: &RemotePlan) -> Arc<WorkerShares> {
        let workers = locked(&self.state).workers.clone();
        let mut installed = locked(&plan.state);
        if let Some(shares) = &installed.shares {
            return Arc::clone(shares);
        }
        let layout = installed.layout.clone().unwrap_or_else(|| Arc::new(plan.layout(workers.len())));
        let name = |worker: usize| match workers.get(worker) {
            Some(&node) => self.hub.name(node),
            None => format!("worker {}", worker + 1),
        };
        let shares = Arc::new(summary(&layout, name, &|resource| plan.bytes_of(&layout, resource)));
        installed.shares = Some(Arc::clone(&shares));
        shares
    }
}

fn summary(layout: &Layout, name: impl Fn(usize) -> String, bytes: &dyn Fn(u32) -> u64) -> WorkerShares {
    let mut workers: Vec<WorkerShare> = (0..layout.workers)
        .map(|worker| WorkerShare {
            worker: name(worker),
            blocks: 0,
            work: layout.loads[worker],
            bytes_in: 0,
            bytes_out: 0,
        })
        .collect();
    for &worker in &layout.worker_of {
        workers[worker as usize].blocks += 1;
    }
    for transfer in &layout.transfers {
        let size = bytes(transfer.resource);
        workers[transfer.from as usize].bytes_out += size;
        workers[transfer.to as usize].bytes_in += size;
    }
    WorkerShares { imbalance: layout.imbalance(), bytes_moved: layout.bytes_moved(bytes), workers }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::layout::{ShortList, Transfer};

    #[test]
    fn every_transfer_counts_where_it_leaves_and_where_it_arrives() {
        let transfer = |resource, from, to| Transfer {
            resource,
            from,
            to,
            after: ShortList::default(),
            before: ShortList::default(),
            behind: ShortList::default(),
            copy: false,
        };
        let layout = Layout {
            workers: 2,
            worker_of: vec![0, 1, 1],
            transfers: vec![transfer(0, 0, 1), transfer(1, 1, 0), transfer(0, 1, 0)],
            holders: vec![Some(0), Some(0)],
            readers: vec![Vec::new(); 2],
            first_writer: vec![Some(0), Some(1)],
            loads: vec![30, 90],
            spread: None,
        };
        let shares = summary(&layout, |worker| format!("w{worker}"), &|resource| 100 + u64::from(resource));
        let numbers: Vec<_> = shares.workers.iter().map(|w| (w.blocks, w.work, w.bytes_in, w.bytes_out)).collect();
        assert_eq!(numbers, [(1, 30, 201, 100), (2, 90, 100, 201)]);
        assert_eq!((shares.imbalance, shares.bytes_moved), (1.5, 301));
        assert_eq!(
            shares.to_string(),
            "  on 2 workers: the busiest has 1.50 times the average work, 301 bytes move each time\n\
             \x20   w0: 1 block, work 30; 201 bytes in, 100 bytes out\n\
             \x20   w1: 2 blocks, work 90; 100 bytes in, 201 bytes out"
        );
    }
}
