//! A job in one thread, with a network, processes and a clock that one seed decides: the code of driver, workers and servers is the
//! one that runs everywhere, and what it takes from the system comes from here.
//!
//! A [`World`] has a runtime whose clock stands still while anything can go on, and jumps to the next timer when nothing can. The
//! program under test has the world's own thread: whenever it waits ([`block_on`]), everybody else goes on. A [`Process`] is what its
//! tasks ([`Owned`]) and threads ([`thread`]) belong to; connections ([`wire`]) deliver what is written after delays that the seed
//! decides, and break as TCP does. [`faults`] are done to processes and to the ways between them.
//!
//! Exactly one thread runs at any time, and nothing looks at the system's clock or random numbers to decide what to do. So a seed
//! decides everything, and the same seed gives the same events; [`World::digest`] is the hash of all of them.

pub mod faults;
mod process;
pub mod random;
pub mod thread;
pub mod wire;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

pub use process::{End, Owned, Process};
use random::Random;

/// How many events are kept to be shown.
const SHOWN: usize = 400;

/// More events than this happen only where somebody goes round in circles.
const MOST_EVENTS: u64 = 3_000_000;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Process>>> = const { RefCell::new(None) };
    static RUNTIME: RefCell<Option<Rc<Runtime>>> = const { RefCell::new(None) };
}

/// The process that what runs now belongs to; none outside of a simulation.
pub fn current() -> Option<Arc<Process>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Makes a process the current one until this is dropped.
struct Within(Option<Arc<Process>>);

impl Within {
    fn new(process: Option<Arc<Process>>) -> Within {
        Within(CURRENT.replace(process))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A way from one process to another on which nothing passes, from when and until when.
type Blocked = BTreeMap<(u32, u32), (Instant, Instant)>;

#[derive(Default)]
struct State {
    processes: BTreeMap<u32, Arc<Process>>,
    listening: BTreeMap<SocketAddr, Arc<wire::Incoming>>,
    connections: BTreeMap<u64, Weak<wire::Connection>>,
    blocked: Blocked,
    next_process: u32,
    next_connection: u64,
    next_port: u16,
}

/// What has happened.
struct Log {
    hash: u64,
    events: u64,
    last: VecDeque<String>,
    shown: bool,
    counted: BTreeMap<&'static str, u64>,
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The longest that a packet usually takes, in milliseconds.
    pub packet: u64,
    /// One packet in this many takes much longer.
    pub late: u64,
    /// The longest that a step of a computation usually takes, in milliseconds.
    pub step: u64,
    /// One step in this many takes much longer.
    pub slow: u64,
}

/// A simulation.
pub struct World {
    handle: Handle,
    begun: Instant,
    end: Instant,
    pace: Pace,
    random: Mutex<Random>,
    state: Mutex<State>,
    log: Mutex<Log>,
    threads: thread::Threads,
    /// How many tasks and threads of processes have panicked.
    panics: AtomicU64,
}

impl World {
    /// Runs a program as the first process of a new world, on this thread; gives what it gives.
    ///
    /// Its clock ends after `limit`: a program that waits for longer panics.
    ///
    /// # Panics
    /// As the program does; where it waits beyond the end of the clock; where tasks or threads are left after it.
    pub fn run<R>(seed: u64, pace: Pace, limit: Duration, program: impl FnOnce(&Arc<World>) -> R) -> R {
        // No timer of the system's is behind it, and no socket.
        let built = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = Rc::new(built.unwrap_or_else(|error| panic!("no runtime for a simulation: {error}")));
        let entered = runtime.enter();
        let begun = Instant::now();
        let world = Arc::new(World {
            handle: runtime.handle().clone(),
            begun,
            end: begun + limit,
            pace,
            random: Mutex::new(Random::new(seed)),
            state: Mutex::new(State { next_port: 40_000, ..State::default() }),
            log: Mutex::new(Log {
                hash: 0xcbf2_9ce4_8422_2325,
                events: 0,
                last: VecDeque::new(),
                shown: std::env::var_os("STRADSAP_SHOW").is_some(),
                counted: BTreeMap::new(),
            }),
            threads: thread::Threads::default(),
            panics: AtomicU64::new(0),
        });
        RUNTIME.set(Some(Rc::clone(&runtime)));
        let given = {
            let _thread = Restored;
            let driver = world.process("driver", Vec::new());
            let _within = Within::new(Some(driver));
            program(&world)
        };
        world.settle(&runtime);
        drop(entered);
        given
    }

    /// Ends all processes, and sees that nothing of them is left.
    fn settle(&self, runtime: &Runtime) {
        let processes: Vec<Arc<Process>> = locked(&self.state).processes.values().cloned().collect();
        processes.iter().for_each(|process| process.end(End::Code(0), false));
        let left = || runtime.metrics().num_alive_tasks() as u64 + self.threads.count();
        runtime.block_on(async {
            for _ in 0..100 {
                if left() == 0 {
                    return;
                }
                // Those that the world itself has begun wait for what never comes now.
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
        });
        assert_eq!(left(), 0, "tasks and threads were left when all processes had ended");
    }

    /// What its tasks run on.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// A new process, which ends by [`Process::end`] or with the world. Its environment has these variables.
    pub fn process(self: &Arc<Self>, name: &str, environment: Vec<(String, String)>) -> Arc<Process> {
        let mut state = locked(&self.state);
        state.next_process += 1;
        let number = state.next_process;
        let process = Arc::new(Process::new(number, format!("{name} {number}"), Arc::downgrade(self), environment));
        state.processes.insert(number, Arc::clone(&process));
        drop(state);
        self.note("start", format_args!("{}", process.name()));
        process
    }

    /// The processes that run, in the order in which they began. The first of all is the program's own.
    pub fn running(&self) -> Vec<Arc<Process>> {
        locked(&self.state).processes.values().filter(|process| process.ended().is_none()).cloned().collect()
    }

    /// The seed's numbers.
    pub fn random<R>(&self, f: impl FnOnce(&mut Random) -> R) -> R {
        f(&mut locked(&self.random))
    }

    /// How long the world has been there, on its own clock.
    pub fn now(&self) -> Duration {
        Instant::now() - self.begun
    }

    /// How long a step of a computation takes.
    pub fn step(&self) -> Duration {
        let Pace { step, slow, .. } = self.pace;
        Duration::from_millis(
            self.random(|random| if random.once_in(slow) { random.of(100..=1500) } else { random.of(0..=step) }),
        )
    }

    fn packet(&self) -> Duration {
        let Pace { packet, late, .. } = self.pace;
        Duration::from_millis(
            self.random(|random| if random.once_in(late) { random.of(20..=400) } else { random.of(0..=packet) }),
        )
    }

    /// Notes that something has happened.
    ///
    /// # Panics
    /// Where so much has happened that there can be no end to it.
    pub fn note(&self, kind: &'static str, what: fmt::Arguments<'_>) {
        let now = self.now();
        let mut log = locked(&self.log);
        let line = format!("{:>9.3} {kind} {what}", now.as_secs_f64());
        for byte in line.bytes() {
            log.hash = (log.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        log.events += 1;
        *log.counted.entry(kind).or_default() += 1;
        if log.shown {
            eprintln!("{line}");
        }
        if log.last.len() == SHOWN {
            log.last.pop_front();
        }
        log.last.push_back(line);
        assert!(log.events < MOST_EVENTS, "there is no end to what happens");
    }

    /// A hash of all that has happened, and when.
    pub fn digest(&self) -> u64 {
        locked(&self.log).hash
    }

    /// What has happened, by kind, and how often.
    pub fn counted(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.log).counted.clone()
    }

    /// The last things that have happened.
    pub fn last_events(&self) -> Vec<String> {
        locked(&self.log).last.iter().cloned().collect()
    }

    /// How many tasks and threads of processes have panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    fn blocked(&self, from: u32, to: u32, now: Instant) -> Option<(Instant, Instant)> {
        locked(&self.state).blocked.get(&(from, to)).copied().filter(|&(_, until)| until > now)
    }

    /// Since when, and until when, nothing passes on the way there or back.
    fn parted(&self, one: u32, other: u32, now: Instant) -> Option<(Instant, Instant)> {
        match (self.blocked(one, other, now), self.blocked(other, one, now)) {
            (Some(there), Some(back)) => Some((there.0.min(back.0), there.1.max(back.1))),
            (there, back) => there.or(back),
        }
    }

    fn connections(&self) -> Vec<Arc<wire::Connection>> {
        let mut state = locked(&self.state);
        state.connections.retain(|_, connection| connection.strong_count() > 0);
        state.connections.values().filter_map(Weak::upgrade).collect()
    }

    fn next_port(&self) -> u16 {
        let mut state = locked(&self.state);
        state.next_port += 1;
        state.next_port
    }
}

/// Forgets the runtime of this thread.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        RUNTIME.set(None);
    }
}

/// Waits for something on the world's own thread, while all others go on.
///
/// # Panics
/// Outside of a simulation; where the world's clock ends before.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let process = current().unwrap_or_else(|| panic!("only within a simulation"));
    let world = process.world();
    let runtime = RUNTIME.with_borrow(Clone::clone).unwrap_or_else(|| panic!("only on the world's own thread"));
    // An end that was reached once lets those pass who clean up after it.
    let end = if Instant::now() < world.end { world.end } else { Instant::now() + Duration::from_secs(600) };
    let mut end = std::pin::pin!(tokio::time::sleep_until(end));
    let mut future = std::pin::pin!(future);
    let done = runtime.block_on(std::future::poll_fn(|cx| {
        if process.may_go_on(cx)
            && let Poll::Ready(done) = future.as_mut().poll(cx)
        {
            return Poll::Ready(Some(done));
        }
        end.as_mut().poll(cx).map(|()| None)
    }));
    done.unwrap_or_else(|| panic!("no end within {} s of the simulation", world.now().as_secs()))
}
