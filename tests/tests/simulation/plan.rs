//! What a seed decides: how many processes there are, what the program does, and what goes wrong when.

use std::sync::Arc;
use std::time::Duration;

use stradsap_dds_server::simulation::random::Random;
use stradsap_dds_server::simulation::{End, Pace, Process, World};

/// How long a way or a process may be out without being given up by anybody, in milliseconds.
const HARMLESS: u64 = 1_500;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A process dies.
    Kill,
    /// A process dies, after some more packets of its own.
    KillAfter(u64),
    /// A process's machine is gone: nobody hears of it.
    Vanish,
    /// A process is stopped for so long.
    Stop(u64),
    /// The driver is stopped for so long.
    StopDriver(u64),
    /// Nothing passes from one process to another for so long.
    OneWay(u64),
    /// Nothing passes in either direction for so long.
    Cut(u64),
    /// Two workers can't reach each other for so long.
    Between(u64),
    /// Ways between many processes are clogged one after the other, and freed in another order.
    Swizzle,
}

/// What a seed decides.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) pace: Pace,
    pub(crate) workers: usize,
    pub(crate) servers: usize,
    pub(crate) snapshot_every: usize,
    /// When, in milliseconds, and what.
    pub(crate) faults: Vec<(u64, Fault)>,
    /// The program's own numbers.
    pub(crate) program: Random,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let mut random = Random::new(seed ^ 0x5eed_0000_0000_0000);
        let pace = Pace {
            packet: *random.one_of(&[0, 1, 3, 10]),
            late: *random.one_of(&[50, 300, 1_000_000]),
            step: *random.one_of(&[0, 2, 20]),
            slow: *random.one_of(&[20, 100, 1_000_000]),
        };
        let workers = random.of(1..=4) as usize;
        let servers = random.of(0..=2) as usize;
        let count = *random.one_of(&[0, 1, 1, 1, 2, 3, 5]);
        // All at once, or spread over what the program takes.
        let span = *random.one_of(&[300, 2_000, 6_000, 20_000]);
        let first = random.of(0..=1_000);
        let faults = (0..count).map(|_| (first + random.of(0..=span), Fault::any(&mut random))).collect();
        let snapshot_every = random.of(1..=4) as usize;
        Plan { seed, pace, workers, servers, snapshot_every, faults, program: Random::new(random.any()) }
    }

    /// How many of the faults may cost a process.
    pub(crate) fn losses(&self) -> usize {
        self.faults.iter().filter(|(_, fault)| fault.costs()).count()
    }

    /// Begins what goes wrong.
    pub(crate) fn begin(&self, world: &Arc<World>) {
        for &(at, fault) in &self.faults {
            let own = Arc::clone(world);
            world.handle().spawn(async move {
                tokio::time::sleep(Duration::from_millis(at)).await;
                fault.happen(&own).await;
            });
        }
    }
}

impl Fault {
    fn any(random: &mut Random) -> Fault {
        let long = |random: &mut Random| match random.of(0..=2) {
            0 => random.of(50..=HARMLESS),
            1 => random.of(HARMLESS..=4_000),
            _ => random.of(4_000..=30_000),
        };
        match random.of(0..=11) {
            11 => Fault::StopDriver(long(random)),
            10 => Fault::Between(long(random)),
            0 | 1 => Fault::Kill,
            2 | 3 => Fault::KillAfter(random.of(0..=60)),
            4 => Fault::Vanish,
            5 | 6 => Fault::Stop(long(random)),
            7 => Fault::OneWay(long(random)),
            8 => Fault::Cut(long(random)),
            _ => Fault::Swizzle,
        }
    }

    fn costs(self) -> bool {
        match self {
            Fault::Kill | Fault::KillAfter(_) | Fault::Vanish => true,
            Fault::Stop(time) | Fault::OneWay(time) | Fault::Cut(time) | Fault::Between(time) => time > HARMLESS,
            // Nobody ends without a driver that is stopped.
            Fault::Swizzle | Fault::StopDriver(_) => false,
        }
    }

    async fn happen(self, world: &Arc<World>) {
        // The driver is the first; it is never the one to go.
        let all = world.running();
        let Some((driver, others @ [_, ..])) = all.split_first() else { return };
        let one = world.random(|random| Arc::clone(random.one_of(others)));
        let other = world.random(|random| Arc::clone(random.one_of(&all)));
        match self {
            Fault::Kill => one.end(End::Signal(9), false),
            Fault::KillAfter(packets) => one.kill_after(packets),
            Fault::Vanish => {
                for process in &all {
                    world.block(one.number(), process.number(), Duration::from_secs(100_000));
                    world.block(process.number(), one.number(), Duration::from_secs(100_000));
                }
                one.end(End::Signal(9), true);
            }
            Fault::Stop(time) => {
                one.stop();
                tokio::time::sleep(Duration::from_millis(time)).await;
                one.go_on();
            }
            Fault::StopDriver(time) => {
                driver.stop();
                tokio::time::sleep(Duration::from_millis(time)).await;
                driver.go_on();
            }
            Fault::OneWay(time) => world.block(one.number(), other.number(), Duration::from_millis(time)),
            Fault::Cut(time) => {
                world.block(one.number(), other.number(), Duration::from_millis(time));
                world.block(other.number(), one.number(), Duration::from_millis(time));
            }
            Fault::Between(time) => {
                if let [one, other, ..] = world.random(|random| two_of(random, others)).as_slice() {
                    world.block(one.number(), other.number(), Duration::from_millis(time));
                    world.block(other.number(), one.number(), Duration::from_millis(time));
                }
            }
            Fault::Swizzle => swizzle(world).await,
        }
    }
}

/// Two of these that are no DDS servers, where there are two.
fn two_of(random: &mut Random, these: &[Arc<Process>]) -> Vec<Arc<Process>> {
    let mut workers: Vec<_> = these.iter().filter(|one| one.name().starts_with("worker")).cloned().collect();
    while workers.len() > 2 {
        workers.swap_remove(random.of(0..=workers.len() as u64 - 1) as usize);
    }
    workers
}

async fn swizzle(world: &Arc<World>) {
    let all = world.running();
    let mut ways: Vec<(u32, u32)> = Vec::new();
    for one in &all {
        for other in &all {
            if one.number() != other.number() && world.random(|random| random.once_in(2)) {
                ways.push((one.number(), other.number()));
            }
        }
    }
    while !ways.is_empty() {
        let (from, to) = ways.swap_remove(world.random(|random| random.of(0..=ways.len() as u64 - 1)) as usize);
        let time = world.random(|random| random.of(50..=HARMLESS));
        world.block(from, to, Duration::from_millis(time));
        tokio::time::sleep(Duration::from_millis(world.random(|random| random.of(0..=100)))).await;
    }
}
