//! Plays layouts on workers with versioned memory, in random interleavings, and checks what every block sees.

use stradsap_planner::layout::Layout;
use stradsap_planner::plan::{Parts, Plan};

/// Small random numbers (SplitMix64).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// A worker's memory while a layout is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Memory {
    Nothing,
    /// After this many blocks of the serial order have written: 0 for none, else the last of them plus one.
    Version(u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Over,
}

struct World<'p> {
    plan: &'p Plan,
    layout: &'p Layout,
    memory: Vec<Vec<Memory>>,
    waits_for: Vec<u32>,
    followers: Vec<Vec<u32>>,
    blocks: Vec<State>,
    /// Waiting: not sent. Running: on its way. Over: in place.
    transfers: Vec<State>,
    /// What each block must find, by touch.
    expected: Vec<Vec<u32>>,
}

enum Step {
    Start(usize),
    End(usize),
    Place(usize),
}

impl<'p> World<'p> {
    fn new(plan: &'p Plan, layout: &'p Layout) -> Self {
        let resources = plan.parts.as_ref().map_or(0, Parts::resources);
        let mut memory = vec![vec![Memory::Nothing; resources]; layout.workers];
        for (r, holder) in layout.holders.iter().enumerate() {
            match holder {
                Some(holder) => memory[*holder as usize][r] = Memory::Version(0),
                None => layout.readers[r].iter().for_each(|&w| memory[w as usize][r] = Memory::Version(0)),
            }
        }
        let blocks = plan.blocks.len();
        let mut waits_for = vec![0; blocks];
        let mut followers = vec![Vec::new(); blocks];
        for worker in 0..layout.workers as u32 {
            let (mine, graph) = layout.graph_of(plan, worker);
            for (k, &b) in mine.iter().enumerate() {
                waits_for[b as usize] = graph.waits_for[k];
                followers[b as usize] = graph.followers(k).iter().map(|&f| mine[f as usize]).collect();
            }
        }
        let mut versions = vec![0; resources];
        let mut expected = Vec::new();
        for b in 0..blocks {
            expected.push(plan.touches(b).iter().map(|t| versions[t.resource as usize]).collect());
            for touch in plan.touches(b).iter().filter(|touch| touch.write) {
                versions[touch.resource as usize] = b as u32 + 1;
            }
        }
        World {
            plan,
            layout,
            memory,
            waits_for,
            followers,
            blocks: vec![State::Waiting; blocks],
            transfers: vec![State::Waiting; layout.transfers.len()],
            expected,
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let layout = self.layout;
        for (b, state) in self.blocks.iter().enumerate() {
            let arrived = || {
                let needed =
                    layout.transfers.iter().zip(&self.transfers).filter(|(t, _)| t.before.contains(&(b as u32)));
                needed.into_iter().all(|(_, &state)| state == State::Over)
            };
            match state {
                State::Waiting if self.waits_for[b] == 0 && arrived() => steps.push(Step::Start(b)),
                State::Running => steps.push(Step::End(b)),
                _ => {}
            }
        }
        for (t, transfer) in layout.transfers.iter().enumerate() {
            let free = || transfer.behind.iter().all(|&b| self.blocks[b as usize] == State::Over);
            if self.transfers[t] == State::Running && free() {
                steps.push(Step::Place(t));
            }
        }
        steps
    }

    fn send(&mut self, after: Option<u32>) {
        for (t, transfer) in self.layout.transfers.iter().enumerate().filter(|(_, t)| t.after.first().copied() == after)
        {
            assert!(self.transfers[t] == State::Waiting);
            let version = Memory::Version(after.map_or(0, |block| block + 1));
            assert_eq!(self.memory[transfer.from as usize][transfer.resource as usize], version, "what {t} sends");
            self.transfers[t] = State::Running;
        }
    }

    /// Nobody may be using memory that is about to be overwritten.
    fn overwrite(&mut self, worker: u32, resource: u32, version: u32, by: &str) {
        for (t, transfer) in self.layout.transfers.iter().enumerate() {
            let reading = transfer.from == worker && transfer.resource == resource && !transfer.copy;
            assert!(!(reading && self.transfers[t] == State::Running), "{by} overwrites what transfer {t} still reads");
        }
        self.memory[worker as usize][resource as usize] = Memory::Version(version);
    }

    fn users(&self, worker: u32, resource: u32) -> impl Iterator<Item = (usize, bool)> + '_ {
        let running = (0..self.blocks.len())
            .filter(move |&b| self.blocks[b] == State::Running && self.layout.worker_of[b] == worker);
        running.flat_map(move |b| {
            let touches = self.plan.touches(b).iter().filter(move |t| t.resource == resource);
            touches.map(move |t| (b, t.write))
        })
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Start(b) => {
                let worker = self.layout.worker_of[b];
                for (k, touch) in self.plan.touches(b).iter().enumerate() {
                    let found = self.memory[worker as usize][touch.resource as usize];
                    assert_eq!(found, Memory::Version(self.expected[b][k]), "block {b}, part {}", touch.resource);
                    for (other, writes) in self.users(worker, touch.resource) {
                        assert!(!writes && !touch.write, "blocks {b} and {other} share part {}", touch.resource);
                    }
                }
                // From its first iteration on a block changes what it writes.
                for touch in self.plan.touches(b).iter().filter(|touch| touch.write) {
                    self.overwrite(worker, touch.resource, u32::MAX, &format!("block {b}"));
                }
                self.blocks[b] = State::Running;
            }
            Step::End(b) => {
                let worker = self.layout.worker_of[b];
                for touch in self.plan.touches(b).iter().filter(|touch| touch.write) {
                    self.memory[worker as usize][touch.resource as usize] = Memory::Version(b as u32 + 1);
                }
                self.blocks[b] = State::Over;
                self.send(Some(b as u32));
                for &f in &self.followers[b] {
                    self.waits_for[f as usize] -= 1;
                }
            }
            Step::Place(t) => {
                let transfer = &self.layout.transfers[t];
                let users = self.users(transfer.to, transfer.resource).count();
                assert_eq!(users, 0, "transfer {t} overwrites what a block uses");
                let version = transfer.after.first().map_or(0, |block| block + 1);
                self.transfers[t] = State::Over;
                self.overwrite(transfer.to, transfer.resource, version, &format!("transfer {t}"));
            }
        }
    }
}

/// Plays a layout to its end and checks everything on the way.
pub(crate) fn play(plan: &Plan, layout: &Layout, seed: u64) {
    let mut chance = Chance(seed);
    let mut world = World::new(plan, layout);
    world.send(None);
    loop {
        let steps = world.steps();
        if steps.is_empty() {
            break;
        }
        world.step(&steps[chance.below(steps.len())]);
    }
    assert!(world.blocks.iter().all(|&b| b == State::Over), "blocks wait for ever");
    assert!(world.transfers.iter().all(|&t| t == State::Over), "transfers wait for ever");
    let mut last = vec![0; layout.holders.len()];
    for b in 0..plan.blocks.len() {
        for touch in plan.touches(b).iter().filter(|touch| touch.write) {
            last[touch.resource as usize] = b as u32 + 1;
        }
    }
    for (r, holder) in layout.holders.iter().enumerate() {
        if let Some(holder) = holder {
            assert_eq!(world.memory[*holder as usize][r], Memory::Version(last[r]), "what is held of part {r}");
        }
    }
}
