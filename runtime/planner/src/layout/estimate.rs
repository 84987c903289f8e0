//! How long a layout takes, by playing it with costs instead of work.
//!
//! Links work beside the processors, but each transfer also takes processor time at both ends (copies into and out of
//! the kernel, checksums), which is not there for blocks. Both ends together are charged what the link is: that is
//! what keeps an assignment from shuffling large parts about to even out the last few per cent.

use crate::layout::Layout;
use crate::layout::events::{self, Costs, Machines, Moving};
use crate::plan::Plan;

/// How many bytes move in the time of one access.
///
/// An access takes from 1.5 ns (rows of 32 numbers that lie in the caches) to some 20. Both ends together copy a byte in about
/// 0.8 ns. With 64 bytes, as it was, three workers on rows of 32 numbers moved 13 MB an epoch and took 6.5 ms, where they now move
/// 1.3 MB and take 4.3 (docs/scaling.md). Slower networks make all candidates slower alike: it is their order that counts.
const BYTES_AN_ACCESS: u64 = 8;
/// What a transfer costs however short it is, in accesses: about 5 us at each end.
pub(super) const TRANSFER_COST: u64 = 2048;

/// What moving this many bytes costs, in accesses.
fn transfer_cost(bytes: u64) -> u64 {
    TRANSFER_COST + bytes / BYTES_AN_ACCESS
}

/// The same for every worker and link, each on a machine of its own.
struct Alike<'p>(&'p Plan);

impl Costs for Alike<'_> {
    fn block(&self, block: u32, _: u32, _: usize) -> u64 {
        self.0.graph.cost(block as usize)
    }

    fn moving(&self, bytes: u64, _: bool) -> Moving {
        Moving { link: transfer_cost(bytes), latency: 0, sending: 0, receiving: 0 }
    }

    fn begins(&self, _: u32) -> u64 {
        0
    }
}

/// What a layout costs: the makespan, one block at a time on each worker, and every worker's share of the processor time that
/// transfers take.
pub(super) fn cost(plan: &Plan, layout: &Layout, bytes: &dyn Fn(u32) -> u64) -> u64 {
    let plan = layout.plan(plan);
    let moving: u64 = layout.transfers.iter().map(|transfer| transfer_cost(bytes(transfer.resource))).sum();
    let each = Machines { threads: 1, cores: 1, shared: false, workers: 1 };
    events::play((plan, layout), bytes, 0, &Alike(plan), each).makespan + moving / layout.workers as u64
}
