//! Layouts of many shapes, played in random interleavings.

use std::cmp::Reverse;

use proptest::prelude::{ProptestConfig, proptest};
use stradsap_planner::Strategy;
use stradsap_planner::layout::{Layout, layout};
use stradsap_planner::plan::{BlockGraph, Plan, Touch};

use crate::play::{Chance, play};

fn write(resource: usize) -> Touch {
    Touch { resource: resource as u32, write: true }
}

fn read(resource: usize) -> Touch {
    Touch { resource: resource as u32, write: false }
}

/// Blocks (i, j) of `rows` and `columns` parts, in strata; some may be missing.
fn grid(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> u64) -> Plan {
    let n = rows.max(columns);
    let cells = (0..n).flat_map(|s| (0..n).map(move |i| (i, (i + s) % n)));
    let cells: Vec<(usize, usize)> = cells.filter(|&(i, j)| i < rows && j < columns && cost(i, j) > 0).collect();
    let costs = cells.iter().map(|&(i, j)| cost(i, j)).collect();
    let touches: Vec<Vec<Touch>> = cells.iter().map(|&(i, j)| vec![write(i), write(rows + j)]).collect();
    Plan::of_touches(&[rows, columns], costs, &touches)
}

/// Insides first, then borders between neighbours.
fn stencil(n: usize, cost: u64) -> Plan {
    let mut touches: Vec<Vec<Touch>> = (0..n).map(|k| vec![write(k)]).collect();
    touches.extend((1..n).map(|k| vec![read(k - 1), write(k)]));
    touches.extend((1..n).map(|k| vec![write(k - 1), read(k)]));
    let costs = (0..touches.len()).map(|b| if b < n { cost } else { 300 }).collect();
    Plan::of_touches(&[n], costs, &touches)
}

/// What holds for every layout, and 4 interleavings of it.
fn check(plan: &Plan, workers: usize, size: impl Fn(u32) -> u64, seed: u64) -> Layout {
    let made = layout(plan, workers, &size);
    assert_eq!(made, layout(plan, workers, &size), "not a function of its arguments");
    assert_eq!(made.worker_of.len(), plan.blocks.len());
    assert!(made.worker_of.iter().all(|&w| (w as usize) < workers));
    assert_eq!(made.loads.iter().sum::<u64>(), plan.graph.work());
    for transfer in &made.transfers {
        assert!(transfer.from != transfer.to && !transfer.before.is_empty());
        assert!(transfer.before.is_sorted() && transfer.behind.is_sorted());
        assert!(transfer.behind.iter().chain(&transfer.before).all(|&b| made.worker_of[b as usize] == transfer.to));
        assert!(
            transfer.after.len() < 2 && transfer.after.iter().all(|&b| made.worker_of[b as usize] == transfer.from)
        );
    }
    for k in 0..4 {
        play(plan, &made, seed.wrapping_mul(31).wrapping_add(k));
    }
    made
}

fn random_touches(seed: u64, dds: usize, parts: usize, blocks: usize, keys: usize, writes: usize) -> Plan {
    let mut chance = Chance(seed);
    let resources = dds * parts;
    let mut key = || {
        let many = chance.below(4);
        let mut touches: Vec<Touch> = (0..many)
            .map(|_| Touch { resource: chance.below(resources) as u32, write: chance.below(4) < writes })
            .collect();
        touches.sort_unstable_by_key(|touch| (touch.resource, Reverse(touch.write)));
        touches.dedup_by_key(|touch| touch.resource);
        touches
    };
    let keys: Vec<Vec<Touch>> = (0..keys).map(|_| key()).collect();
    let touches: Vec<Vec<Touch>> = (0..blocks).map(|_| keys[chance.below(keys.len())].clone()).collect();
    let costs = (0..blocks).map(|_| 256 + chance.below(20_000) as u64).collect();
    Plan::of_touches(&vec![parts; dds], costs, &touches)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn grids(rows in 1..9usize, columns in 1..9usize, workers in 1..6usize, seed: u64, missing in 0..5u64) {
        let cost = |i: usize, j: usize| {
            let z = Chance(seed ^ (i * 16 + j) as u64).below(10_000) as u64;
            if z % 10 < missing && (i, j) != (0, 0) { 0 } else { 256 + z }
        };
        let plan = grid(rows, columns, cost);
        let size = |r: u32| if (r as usize) < rows { 40_000 } else { 8_000 };
        check(&plan, workers, size, seed);
    }

    #[test]
    fn stencils(n in 1..12usize, workers in 1..6usize, cost in 256..50_000u64, seed: u64) {
        check(&stencil(n, cost), workers, |_| 8_000, seed);
    }

    /// As of random bodies, and of plans that keep the loop's order: there the same groups come again and again.
    #[test]
    fn random(seed: u64, dds in 1..4usize, parts in 1..7usize, blocks in 0..40usize, keys in 1..40usize,
              writes in 0..5usize, workers in 1..6usize) {
        let plan = random_touches(seed, dds, parts, blocks, keys, writes);
        check(&plan, workers, |r| u64::from(r) * 1_000, seed);
    }

    /// Not only the assignments that `layout` chooses have to work.
    #[test]
    fn any_assignment(seed: u64, dds in 1..3usize, parts in 1..5usize, blocks in 0..40usize, keys in 1..12usize,
                      writes in 0..5usize, workers in 1..6usize) {
        let plan = random_touches(seed, dds, parts, blocks, keys, writes);
        let mut chance = Chance(!seed);
        let worker_of = (0..blocks).map(|_| chance.below(workers) as u32).collect();
        let layout = Layout::new(&plan, workers, worker_of);
        for k in 0..8 {
            play(&plan, &layout, seed ^ k);
        }
    }
}

#[test]
fn a_rotation_moves_each_part_once_a_worker() {
    for (n, workers) in [(8, 2), (8, 4), (16, 2), (15, 3), (16, 4)] {
        let plan = grid(n, n, |_, _| 100_000);
        // The first DDS is the larger: it must stay.
        let size = |r: u32| if (r as usize) < n { 1 << 20 } else { 1 << 16 };
        let layout = check(&plan, workers, size, 1);
        assert!(layout.transfers.iter().all(|t| t.resource as usize >= n), "a part of the anchor moves");
        for r in n as u32..2 * n as u32 {
            let hops = layout.transfers.iter().filter(|t| t.resource == r).count();
            assert!(hops <= workers, "{hops} hops of part {r} between {workers} workers, n = {n}");
        }
        assert!(layout.imbalance() < 1.2, "{}", layout.imbalance());
        assert_eq!(layout.bytes_moved(&size), layout.transfers.len() as u64 * (1 << 16));
        let holders = |r: std::ops::Range<usize>| layout.holders[r].iter().flatten().count();
        assert_eq!((holders(0..n), holders(n..2 * n)), (n, n));
    }
}

#[test]
fn more_workers_than_parts() {
    let layout = check(&grid(2, 2, |_, _| 10_000), 5, |_| 64, 3);
    let busy = layout.loads.iter().filter(|&&load| load > 0).count();
    assert_eq!(busy, 2, "two parts can keep two workers busy");
}

#[test]
fn parts_that_are_only_read_go_to_each_reader_once() {
    // Part 4 + k of the second DDS is read by all blocks of row k; part 8 by everyone.
    let touches: Vec<Vec<Touch>> = (0..16).map(|b| vec![write(b % 4), read(4 + b % 4), read(8)]).collect();
    let plan = Plan::of_touches(&[4, 4, 1], vec![5000; 16], &touches);
    let layout = check(&plan, 2, |_| 4096, 5);
    assert!(layout.transfers.is_empty());
    assert_eq!(layout.readers[8], [0, 1]);
    assert!((4..8).all(|r| layout.readers[r].len() == 1 && layout.holders[r].is_none()));
    assert!((0..4).all(|r| layout.readers[r].is_empty() && layout.first_writer[r] == Some(r as u32)));
}

#[test]
fn a_copy_is_sent_where_the_memory_may_be_overwritten() {
    // Block 0 writes on worker 0, 1 reads on worker 1, 2 writes on worker 0 again.
    let plan = Plan::of_touches(&[1], vec![1; 3], &[vec![write(0)], vec![read(0)], vec![write(0)]]);
    let made = Layout::new(&plan, 2, vec![0, 1, 0]);
    assert!(made.transfers.len() == 1 && made.transfers[0].copy);
    // Here the next version is made where this one goes to, and comes back.
    let plan = Plan::of_touches(&[1], vec![1; 3], &[vec![write(0)], vec![write(0)], vec![write(0)]]);
    let made = Layout::new(&plan, 2, vec![0, 1, 0]);
    assert!(made.transfers.len() == 2 && made.transfers.iter().all(|t| !t.copy));
    // Here it is made on a third worker, and may be back before the reader has this one.
    let touches = [vec![write(0)], vec![read(0)], vec![write(0)], vec![write(0)]];
    let made = Layout::new(&Plan::of_touches(&[1], vec![1; 4], &touches), 3, vec![0, 1, 2, 0]);
    let copies: Vec<(u32, bool)> = made.transfers.iter().map(|t| (t.to, t.copy)).collect();
    assert_eq!(copies, [(1, true), (2, false), (0, false)]);
}

#[test]
fn a_worker_orders_its_own_blocks_where_the_plan_orders_them_through_another() {
    let plan = Plan::of_touches(&[1], vec![1; 3], &[vec![write(0)], vec![read(0)], vec![write(0)]]);
    assert_eq!(plan.graph.followers(0), [1]);
    let made = Layout::new(&plan, 2, vec![0, 1, 0]);
    let (blocks, graph) = made.graph_of(&plan, 0);
    assert_eq!((blocks.as_slice(), graph.followers(0)), (&[0, 2][..], &[1][..]));
    assert_eq!(graph.tail, [3, 1]);
}

#[test]
fn plans_without_parts() {
    let mut plan = Plan::of_touches(&[], vec![10; 12], &vec![Vec::new(); 12]);
    plan.parts = None;
    plan.strategy = Strategy::Aligned;
    let layout = check(&plan, 3, |_| 0, 0);
    assert_eq!(layout.loads, [40, 40, 40]);
    assert!(layout.worker_of.is_sorted() && layout.transfers.is_empty());
    for strategy in [Strategy::Coloured, Strategy::Serial] {
        plan.strategy = strategy;
        plan.graph = BlockGraph::from_edges(vec![10; 12], (0..11).map(|b| (b, b + 1)).collect());
        let layout = check(&plan, 3, |_| 0, 0);
        assert!(layout.worker_of.iter().all(|&w| w == 0));
        assert_eq!(layout.graph_of(&plan, 0).1.edges(), 11);
        assert_eq!(layout.imbalance(), 3.0);
    }
}

#[test]
fn unequal_blocks_rotate_too() {
    for seed in 0..12 {
        let cost = |i: usize, j: usize| 256 + Chance(seed * 1000 + (i * 16 + j) as u64).below(40_000) as u64;
        let plan = grid(16, 16, cost);
        let size = |r: u32| if r < 16 { 1 << 18 } else { 1 << 16 };
        for workers in [2, 3, 4] {
            let layout = layout(&plan, workers, &size);
            for r in 0..32 {
                let hops = layout.transfers.iter().filter(|t| t.resource == r).count();
                assert!(hops <= workers, "seed {seed}, {workers} workers: {hops} hops of part {r}");
            }
            assert!(layout.imbalance() < 1.2, "{}", layout.imbalance());
        }
    }
}
