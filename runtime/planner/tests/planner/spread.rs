//! Coloured plans that are spread over workers, played in random interleavings: element by element.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::{ProptestConfig, proptest};
use stradsap_planner::layout::{Cargo, Layout, Spread, spread, spread_over_all};
use stradsap_planner::plan::{Listed, Plan};
use stradsap_planner::{Order, PlanOptions, Strategy};

use crate::loops::Loop;
use crate::play::Chance;
use crate::random::{check, random_loop};

/// A shared capture and an index.
type Element = (usize, u32);

/// A value that says which iterations have written an element, in their order.
fn written(before: u64, iteration: usize) -> u64 {
    (before ^ iteration as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Over,
}

/// Workers with memory of their own.
struct World<'p> {
    layout: &'p Layout,
    spread: &'p Spread,
    memory: Vec<HashMap<Element, u64>>,
    waits_for: Vec<u32>,
    followers: Vec<Vec<u32>>,
    blocks: Vec<State>,
    transfers: Vec<State>,
    /// Of each transfer: the pieces that are complete, as they were then.
    pieces: Vec<BTreeMap<usize, Vec<u64>>>,
}

/// What the iteration at a place touches, and whether it writes that.
fn touched(plan: &Plan, place: usize) -> impl Iterator<Item = (Element, bool)> + '_ {
    let of = move |(slot, listed): (usize, &'_ Listed)| {
        let start = place.checked_sub(1).map_or(0, |last| listed.ends[last]) as usize;
        let entries = listed.entries[start..listed.ends[place] as usize].to_vec();
        entries.into_iter().map(move |entry| ((slot, entry >> 1), entry & 1 == 1))
    };
    plan.listed.iter().enumerate().flat_map(of)
}

/// What the elements hold in the end where blocks run one after the other, and what each iteration finds.
fn serially(plan: &Plan) -> (HashMap<Element, u64>, HashMap<usize, Vec<u64>>) {
    let (mut memory, mut found) = (HashMap::new(), HashMap::new());
    for place in plan.blocks[0].start..plan.blocks[plan.blocks.len() - 1].end {
        let values = touched(plan, place).map(|(element, _)| *memory.entry(element).or_insert(0)).collect();
        found.insert(plan.offset(place), values);
        for (element, _) in touched(plan, place).filter(|(_, write)| *write) {
            let value = memory.get_mut(&element).unwrap();
            *value = written(*value, plan.offset(place));
        }
    }
    (memory, found)
}

impl<'p> World<'p> {
    fn new(layout: &'p Layout) -> World<'p> {
        let spread = layout.spread.as_ref().unwrap();
        let mut memory = vec![HashMap::new(); layout.workers];
        for (slot, workers) in spread.needed.iter().enumerate() {
            for (worker, ranges) in workers.iter().enumerate() {
                assert!(ranges.windows(2).all(|two| two[0].end < two[1].start));
                memory[worker].extend(ranges.iter().cloned().flatten().map(|index| ((slot, index as u32), 0)));
            }
        }
        let blocks = spread.plan.blocks.len();
        let (mut waits_for, mut followers) = (vec![0; blocks], vec![Vec::new(); blocks]);
        for worker in 0..layout.workers as u32 {
            let (mine, graph) = layout.graph_of(&spread.plan, worker);
            for (k, &b) in mine.iter().enumerate() {
                waits_for[b as usize] = graph.waits_for[k];
                followers[b as usize] = graph.followers(k).iter().map(|&f| mine[f as usize]).collect();
            }
        }
        World {
            layout,
            spread,
            memory,
            waits_for,
            followers,
            blocks: vec![State::Waiting; blocks],
            transfers: vec![State::Waiting; layout.transfers.len()],
            pieces: vec![BTreeMap::new(); layout.transfers.len()],
        }
    }

    fn places(&self, block: usize) -> std::ops::Range<usize> {
        self.spread.plan.blocks[block].start..self.spread.plan.blocks[block].end
    }

    fn complete(&mut self, t: usize, piece: usize) {
        let transfer = &self.layout.transfers[t];
        let cargo = &self.spread.cargo[transfer.resource as usize];
        let from = &self.memory[transfer.from as usize];
        let values = cargo.pieces[piece].iter().map(|&index| from[&(cargo.slot, index)]).collect();
        self.pieces[t].insert(piece, values);
        if self.pieces[t].len() == cargo.pieces.len() {
            self.transfers[t] = State::Running;
        }
    }

    fn may_start(&self, b: usize) -> bool {
        let transfers = self.layout.transfers.iter().zip(&self.transfers);
        self.blocks[b] == State::Waiting
            && self.waits_for[b] == 0
            && transfers.into_iter().all(|(t, &state)| state == State::Over || !t.before.contains(&(b as u32)))
    }

    fn may_be_placed(&self, t: usize) -> bool {
        let behind = &self.layout.transfers[t].behind;
        self.transfers[t] == State::Running && behind.iter().all(|&b| self.blocks[b as usize] == State::Over)
    }

    /// A block that runs has an element to itself, or shares it with readers.
    fn start(&mut self, b: usize, found: &mut HashMap<usize, Vec<u64>>) {
        let (plan, worker) = (&self.spread.plan, self.layout.worker_of[b]);
        let running = |other: &usize| self.blocks[*other] == State::Running && self.layout.worker_of[*other] == worker;
        let elsewhere: HashMap<Element, bool> = (0..self.blocks.len())
            .filter(running)
            .flat_map(|other| self.places(other).flat_map(|place| touched(plan, place)))
            .fold(HashMap::new(), |mut all, (element, write)| {
                *all.entry(element).or_default() |= write;
                all
            });
        for place in self.places(b) {
            for (element, write) in touched(plan, place) {
                let shared = elsewhere.get(&element);
                assert!(shared.is_none_or(|&other| !write && !other), "two blocks at once at {element:?}");
            }
            let memory = &mut self.memory[worker as usize];
            let values = touched(plan, place)
                .map(|(element, _)| *memory.get(&element).unwrap_or_else(|| panic!("{worker} lacks {element:?}")));
            found.insert(plan.offset(place), values.collect());
            for (element, _) in touched(plan, place).filter(|(_, write)| *write) {
                let value = memory.get_mut(&element).unwrap();
                *value = written(*value, plan.offset(place));
            }
        }
        self.blocks[b] = State::Running;
    }

    fn end(&mut self, b: usize) {
        self.blocks[b] = State::Over;
        for t in 0..self.layout.transfers.len() {
            if let Some(piece) = self.layout.transfers[t].after.iter().position(|&after| after == b as u32) {
                self.complete(t, piece);
            }
        }
        for follower in self.followers[b].clone() {
            self.waits_for[follower as usize] -= 1;
        }
    }

    fn place(&mut self, t: usize) {
        let transfer = &self.layout.transfers[t];
        let cargo = &self.spread.cargo[transfer.resource as usize];
        let plan = &self.spread.plan;
        let moved: HashSet<Element> = cargo.pieces.concat().into_iter().map(|index| (cargo.slot, index)).collect();
        for b in (0..self.blocks.len()).filter(|&b| self.blocks[b] == State::Running) {
            let uses = |place| touched(plan, place).any(|(element, _)| moved.contains(&element));
            assert!(
                self.layout.worker_of[b] != transfer.to || !self.places(b).any(uses),
                "{t} overwrites what {b} uses"
            );
        }
        for (piece, values) in &self.pieces[t] {
            let elements = cargo.pieces[*piece].iter().map(|&index| (cargo.slot, index));
            self.memory[transfer.to as usize].extend(elements.zip(values.iter().copied()));
        }
        self.transfers[t] = State::Over;
    }
}

/// Plays a spread plan to its end: each iteration finds what it finds in one process.
fn play(whole: &Plan, layout: &Layout, seed: u64) {
    let mut chance = Chance(seed);
    let mut world = World::new(layout);
    for t in 0..layout.transfers.len() {
        if layout.transfers[t].after.is_empty() {
            world.complete(t, 0);
        }
    }
    let mut found = HashMap::new();
    loop {
        let blocks = 0..world.blocks.len();
        let starts: Vec<usize> = blocks.clone().filter(|&b| world.may_start(b)).collect();
        let ends: Vec<usize> = blocks.filter(|&b| world.blocks[b] == State::Running).collect();
        let places: Vec<usize> = (0..layout.transfers.len()).filter(|&t| world.may_be_placed(t)).collect();
        let many = starts.len() + ends.len() + places.len();
        if many == 0 {
            break;
        }
        match chance.below(many) {
            k if k < starts.len() => world.start(starts[k], &mut found),
            k if k < starts.len() + ends.len() => world.end(ends[k - starts.len()]),
            k => world.place(places[k - starts.len() - ends.len()]),
        }
    }
    assert!(world.blocks.iter().all(|&b| b == State::Over), "blocks wait for ever");
    assert!(world.transfers.iter().all(|&t| t == State::Over), "transfers wait for ever");
    let (memory, expected) = serially(whole);
    // (Which iterations touch an element in which order may differ where none of them writes.)
    assert_eq!(found, expected);
    let mut owners: HashMap<Element, u32> = HashMap::new();
    for (slot, workers) in world.spread.owned.iter().enumerate() {
        for (worker, owned) in workers.iter().enumerate() {
            for &index in owned {
                assert!(owners.insert((slot, index), worker as u32).is_none(), "two owners");
                assert_eq!(
                    world.memory[worker][&(slot, index)],
                    memory[&(slot, index)],
                    "what an owner has in the end"
                );
            }
        }
    }
    assert!(memory.iter().all(|(element, &value)| value == 0 || owners.contains_key(element)), "nobody owns it");
}

fn coloured(of: &Loop, order: Order) -> Option<Plan> {
    let options = PlanOptions { order, strategy: Some(Strategy::Coloured), ..PlanOptions::default() };
    Some(of.plan(&options, 1)).filter(|plan| plan.strategy == Strategy::Coloured)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn random_loops_on_workers(seed: u64, n in 1..1500usize, len in 1..600usize, dds in 1..3usize, most in 1..5usize,
                               writes in 1..5usize, workers in 2..6usize, within: bool, preserve: bool) {
        let of = random_loop(seed, 0, n, &vec![len; dds], most, writes);
        let order = if preserve { Order::Preserve } else { Order::Any };
        if let Some(plan) = coloured(&of, order)
            && let Some(layout) = spread_over_all(&plan, workers, within)
        {
            assert_eq!(Some(&layout), spread_over_all(&plan, workers, within).as_ref(), "not a function of its arguments");
            let spread = layout.spread.as_ref().unwrap();
            check(&of, &spread.plan, Order::Any);
            assert!(within || spread.plan.blocks == plan.blocks && spread.plan.offsets == plan.offsets);
            assert_eq!(layout.loads.iter().sum::<u64>(), plan.graph.work());
            for k in 0..3 {
                play(&plan, &layout, seed.wrapping_mul(31).wrapping_add(k));
            }
        }
    }
}

/// Cells of a square that take the mean of their neighbours, numbered at random or row by row.
fn mesh(side: usize, shuffled: bool) -> Loop {
    let n = side * side;
    let mut number: Vec<usize> = (0..n).collect();
    let mut chance = Chance(5);
    (1..n).rev().filter(|_| shuffled).for_each(|k| number.swap(k, chance.below(k + 1)));
    let mut accesses = vec![Vec::new(); n];
    for cell in 0..n {
        let (row, column) = (cell / side, cell % side);
        let beside = [
            (row > 0).then(|| cell - side),
            (column > 0).then(|| cell - 1),
            (column + 1 < side).then(|| cell + 1),
            (row + 1 < side).then(|| cell + side),
        ];
        let read = beside.into_iter().flatten().map(|other| (0, number[other], false));
        accesses[number[cell]] = read.chain([(0, number[cell], true)]).collect();
    }
    Loop { range: 0..n, captures: vec![(n, true)], accesses }
}

#[test]
fn a_mesh_is_cut_along_short_borders_however_it_is_numbered() {
    for shuffled in [false, true] {
        let side = 200;
        let plan = coloured(&mesh(side, shuffled), Order::Any).unwrap();
        for workers in [2, 4, 8] {
            let layout = spread_over_all(&plan, workers, true).unwrap();
            let moved: usize = layout.spread.as_ref().unwrap().cargo.iter().map(Cargo::len).sum();
            // A cell at a border crosses it once for each of its versions: as it was before, and as it is.
            assert!(moved <= 8 * workers * side, "{workers} workers, {shuffled}: {moved} elements cross");
            assert!(layout.imbalance() < 1.2, "{workers} workers, {shuffled}: {}", layout.imbalance());
        }
        assert!(spread(&plan, 4, &|_| 8, true).is_some_and(|layout| layout.loads.iter().all(|&load| load > 0)));
    }
}

#[test]
fn what_falls_apart_does_not_cross() {
    let touched = |i: usize| vec![(0, i % 3000 / 3, true)];
    let of = Loop { range: 0..12_000, captures: vec![(1000, true)], accesses: (0..12_000).map(touched).collect() };
    let layout = spread_over_all(&coloured(&of, Order::Any).unwrap(), 4, true).unwrap();
    assert!(layout.transfers.is_empty() && layout.imbalance() < 1.1, "{}", layout.imbalance());
}

#[test]
fn short_loops_stay_on_one_worker() {
    let plan = coloured(&mesh(20, true), Order::Any).unwrap();
    assert!(spread(&plan, 2, &|_| 8, true).is_none());
}

/// Each looks at the hub and writes itself: two colours, however many there are.
#[test]
fn a_hub_that_many_read_is_coloured() {
    let hub = |i: usize| vec![(0, 0, i == 0), (0, i, true)];
    let of = Loop { range: 0..5000, captures: vec![(5000, true)], accesses: (0..5000).map(hub).collect() };
    assert_eq!(coloured(&of, Order::Any).unwrap().facts.colours, 2);
}
