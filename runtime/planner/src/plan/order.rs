//! A serial order of groups that leaves much to do at the same time.
//!
//! The parts are machines and the groups are jobs that need several of them at once, as in an open shop. The
//! order is the one in which an unlimited number of workers would start the groups if each, as soon as its parts
//! are free, took the group whose busiest part has the most work left. For a matrix in blocks this gives the
//! rotation of strata (STRADS section 3.3.1), also where blocks are unequal.
//!
//! Which groups conflict is asked of the parts that they touch. As edges of their own, all conflicts of 128 x 128 blocks
//! are 2,080,768 (`petgraph::graph::UnGraph`: 32.2 MiB, 68 ms to make, release, one core); of these the finished order
//! leaves the 32,512 of [`BlockGraph`](super::BlockGraph) (0.4 MiB, 0.24 ms).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::Touch;

/// The groups in their serial order. `touches[g]` lists what group `g` needs, `cost[g]` how long it takes.
pub(crate) fn open_shop(touches: &[Box<[Touch]>], cost: &[u64], resources: usize) -> Vec<u32> {
    let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); resources];
    let mut left = vec![0u64; resources];
    for (g, group) in touches.iter().enumerate() {
        for touch in group {
            waiting[touch.resource as usize].push(g as u32);
            left[touch.resource as usize] += cost[g];
        }
    }
    // How many readers share each part, or ALONE.
    let mut users = vec![0u32; resources];
    let mut started = vec![false; touches.len()];
    let mut order = Vec::with_capacity(touches.len());
    let mut running: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let mut now = 0u64;
    let mut candidates: Vec<u32> = (0..touches.len() as u32).collect();
    loop {
        // Start the best of those that can start, until none can.
        candidates.retain(|&g| !started[g as usize]);
        start_all(&mut candidates, touches, cost, &mut users, &mut left, |g| {
            started[g as usize] = true;
            order.push(g);
            running.push(Reverse((now + cost[g as usize], g)));
        });
        candidates.clear();
        // All groups that end at the next moment free their parts together.
        let Some(&Reverse((then, _))) = running.peek() else { return order };
        now = then;
        while let Some(&Reverse((end, g))) = running.peek() {
            if end != now {
                break;
            }
            running.pop();
            for touch in &touches[g as usize] {
                let at = touch.resource as usize;
                users[at] = if touch.write { 0 } else { users[at] - 1 };
                waiting[at].retain(|&w| !started[w as usize]);
                candidates.extend_from_slice(&waiting[at]);
            }
        }
        // Most wait for further parts, and needn't be put in order.
        candidates.retain(|&g| startable(&touches[g as usize], &users));
        candidates.sort_unstable();
        candidates.dedup();
    }
}

/// A part that nobody else uses is taken alone by writers.
const ALONE: u32 = u32::MAX;

/// Loads that differ by less than one in this many of the largest count as equal.
const LEVELS: u64 = 16;

/// Starts groups until none can start: those on the busiest parts first, and of these the one that has a part with the
/// fewest others to choose from, since that part would be left idle.
fn start_all(
    candidates: &mut Vec<u32>,
    touches: &[Box<[Touch]>],
    cost: &[u64],
    users: &mut [u32],
    left: &mut [u64],
    mut start: impl FnMut(u32),
) {
    let mut choices = vec![0u32; users.len()];
    loop {
        candidates.retain(|&g| startable(&touches[g as usize], users));
        let parts = |g: u32| touches[g as usize].iter().map(|touch| touch.resource as usize);
        let Some(most) = candidates.iter().flat_map(|&g| parts(g)).map(|part| left[part]).max() else {
            // Groups that touch nothing can all start.
            candidates.drain(..).for_each(start);
            return;
        };
        candidates.iter().flat_map(|&g| parts(g)).for_each(|part| choices[part] = 0);
        candidates.iter().flat_map(|&g| parts(g)).for_each(|part| choices[part] += 1);
        let urgency = |g: u32| {
            let busiest = parts(g).map(|part| left[part]).max().unwrap_or(0);
            let fewest = parts(g).map(|part| choices[part]).min().unwrap_or(0);
            (busiest * LEVELS / most.max(1), Reverse(fewest), busiest, cost[g as usize], Reverse(g))
        };
        let Some(&best) = candidates.iter().max_by_key(|&&g| urgency(g)) else { return };
        for touch in &touches[best as usize] {
            let part = touch.resource as usize;
            users[part] = if touch.write { ALONE } else { users[part] + 1 };
            left[part] -= cost[best as usize];
        }
        candidates.retain(|&g| g != best);
        start(best);
    }
}

fn startable(group: &[Touch], users: &[u32]) -> bool {
    group.iter().all(|touch| {
        let users = users[touch.resource as usize];
        users == 0 || (!touch.write && users != ALONE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::graph::BlockGraph;

    fn grid(n: u32, cost: impl Fn(u32, u32) -> u64) -> (Vec<Box<[Touch]>>, Vec<u64>) {
        let cells = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        cells
            .map(|(i, j)| {
                let touch = |resource| Touch { resource, write: true };
                (Box::from([touch(i), touch(n + j)]), cost(i, j))
            })
            .unzip()
    }

    fn critical_path(touches: &[Box<[Touch]>], cost: &[u64], resources: usize) -> u64 {
        let order = open_shop(touches, cost, resources);
        assert_eq!(order.len(), touches.len());
        let costs = order.iter().map(|&g| cost[g as usize]).collect();
        BlockGraph::from_touches(costs, resources, order.iter().map(|&g| &*touches[g as usize])).critical_path()
    }

    #[test]
    fn equal_blocks_rotate() {
        for n in [1, 2, 3, 4, 8, 16] {
            let (touches, cost) = grid(n, |_, _| 10);
            assert_eq!(critical_path(&touches, &cost, 2 * n as usize), 10 * u64::from(n), "{n} x {n}");
        }
    }

    #[test]
    fn unequal_blocks_come_close_to_the_busiest_part() {
        let (touches, cost) = grid(8, |i, j| u64::from(100 + (i * 37 + j * 61) % 50));
        let busiest = (0..8).map(|i| (0..8).map(|j| cost[i * 8 + j]).sum::<u64>()).max().unwrap();
        assert!(critical_path(&touches, &cost, 16) as f64 <= 1.25 * busiest as f64);
    }

    #[test]
    fn readers_start_together() {
        let read = |resource| Touch { resource, write: false };
        let touches: Vec<Box<[Touch]>> = (0..10).map(|_| Box::from([read(0)])).collect();
        assert_eq!(critical_path(&touches, &[5; 10], 1), 5);
    }
}
