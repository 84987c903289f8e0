//! Threads of processes: threads of the system, of which one runs at a time. A task stands for each; it hands its turn to the thread
//! and has it back when the thread waits or ends.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;

use tokio::time::{Instant, Sleep};

use super::{Process, Within, locked};

/// A thread of a process that has ended goes on until it sees that; after this many turns it never will.
const MOST_TURNS: usize = 100_000;

thread_local! {
    static OWN: RefCell<Option<Arc<Baton>>> = const { RefCell::new(None) };
}

/// What a thread and its task say to each other.
#[derive(Default)]
struct Turn {
    is_threads: bool,
    ended: bool,
    /// It may have a reason to go on.
    woken: bool,
    /// When it goes on at the latest.
    until: Option<Instant>,
    task: Option<Waker>,
}

struct Baton {
    turn: Mutex<Turn>,
    handed_over: Condvar,
    process: Arc<Process>,
}

impl Baton {
    /// Waits on this thread of the system until it is the thread's turn, or is not.
    fn await_turn(&self, threads: bool) {
        let turn = locked(&self.turn);
        let not_yet = |turn: &mut Turn| turn.is_threads != threads;
        drop(self.handed_over.wait_while(turn, not_yet).unwrap_or_else(PoisonError::into_inner));
    }

    fn hand_over(&self, to_thread: bool, change: impl FnOnce(&mut Turn)) {
        let mut turn = locked(&self.turn);
        turn.is_threads = to_thread;
        change(&mut turn);
        drop(turn);
        self.handed_over.notify_all();
    }
}

impl Wake for Baton {
    fn wake(self: Arc<Self>) {
        let mut turn = locked(&self.turn);
        turn.woken = true;
        let task = turn.task.clone();
        drop(turn);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The threads of a world that have not ended.
#[derive(Default)]
pub(super) struct Threads(Mutex<Vec<Weak<Baton>>>);

impl Threads {
    pub(super) fn count(&self) -> u64 {
        let mut batons = locked(&self.0);
        batons.retain(|baton| baton.upgrade().is_some_and(|baton| !locked(&baton.turn).ended));
        batons.len() as u64
    }

    pub(super) fn wake(&self, process: u32) {
        let batons: Vec<_> = locked(&self.0).iter().filter_map(Weak::upgrade).collect();
        batons.into_iter().filter(|baton| baton.process.number() == process).for_each(Wake::wake);
    }
}

/// Begins a thread of a process.
pub(super) fn begin(process: &Arc<Process>, work: Box<dyn FnOnce() + Send>) {
    let world = process.world();
    let turn = Mutex::new(Turn { woken: true, ..Turn::default() });
    let baton = Arc::new(Baton { turn, handed_over: Condvar::new(), process: Arc::clone(process) });
    locked(&world.threads.0).push(Arc::downgrade(&baton));
    let (own, handle) = (Arc::clone(&baton), world.handle.clone());
    let thread = std::thread::spawn(move || {
        own.await_turn(true);
        let entered = handle.enter();
        let within = Within::new(Some(Arc::clone(&own.process)));
        OWN.set(Some(Arc::clone(&own)));
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            own.process.panicked();
        }
        OWN.set(None);
        drop((within, entered));
        own.hand_over(false, |turn| turn.ended = true);
    });
    // Not a task of the process's: it ends with the thread.
    world.handle.spawn(Running { baton, thread: Some(thread), sleep: None, turns: 0 });
}

/// The task of a thread.
struct Running {
    baton: Arc<Baton>,
    thread: Option<JoinHandle<()>>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// How many it has had since its process ended.
    turns: usize,
}

impl Future for Running {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let has_ended = this.baton.process.ended().is_some();
        if !has_ended && !this.baton.process.may_go_on(cx) {
            return Poll::Pending;
        }
        loop {
            let is_due = this.sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready());
            {
                let mut turn = locked(&this.baton.turn);
                turn.task = Some(cx.waker().clone());
                if !(std::mem::take(&mut turn.woken) || is_due || has_ended) {
                    return Poll::Pending;
                }
            }
            this.baton.hand_over(true, |_| ());
            this.baton.await_turn(false);
            let (ended, until) = {
                let turn = locked(&this.baton.turn);
                (turn.ended, turn.until)
            };
            if ended {
                if let Some(thread) = this.thread.take() {
                    let _caught_above = thread.join();
                }
                return Poll::Ready(());
            }
            if has_ended {
                this.turns += 1;
                assert!(this.turns < MOST_TURNS, "a thread of {} never ends", this.baton.process.name());
                // What tells it to end is dropped with the tasks of its process.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            this.sleep = until.map(|until| Box::pin(tokio::time::sleep_until(until)));
        }
    }
}

/// Whether this is the thread of a process.
pub fn is_one() -> bool {
    OWN.with_borrow(Option::is_some)
}

fn own() -> Arc<Baton> {
    OWN.with_borrow(Clone::clone).unwrap_or_else(|| panic!("only on the thread of a process"))
}

/// What ends the next [`park`] of this thread.
///
/// # Panics
/// On any other thread.
pub fn waker() -> Waker {
    own().into()
}

/// Waits until this thread is woken, or until then, or for no reason at all.
///
/// # Panics
/// On any other thread.
pub fn park(until: Option<Instant>) {
    let own = own();
    own.hand_over(false, |turn| turn.until = until);
    own.await_turn(true);
}

/// Does what takes a step's time, on the thread of a process; nothing elsewhere.
pub fn compute() {
    if !is_one() {
        return;
    }
    let process = own().process.clone();
    let until = Instant::now() + process.world().step();
    while process.ended().is_none() && Instant::now() < until {
        park(Some(until));
    }
}

/// Waits for a future on this thread. None: its process has ended.
pub(crate) fn block_on<F: Future>(future: F) -> Option<F::Output> {
    let (own, waker) = (own(), waker());
    let mut cx = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    while own.process.ended().is_none() {
        if let Poll::Ready(done) = future.as_mut().poll(&mut cx) {
            return Some(done);
        }
        park(None);
    }
    None
}
