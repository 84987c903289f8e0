//! Processes: what tasks and threads belong to.

use std::ffi::OsString;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

use super::{Within, World, locked, thread};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

#[derive(Default)]
struct State {
    ended: Option<End>,
    stopped: bool,
    /// Who goes on when it is no longer stopped.
    waiting: Vec<Waker>,
    tasks: Vec<AbortHandle>,
    /// After this many more packets it is to be killed.
    packets_left: Option<u64>,
}

/// A process of a simulation.
pub struct Process {
    number: u32,
    name: String,
    world: Weak<World>,
    environment: Vec<(String, String)>,
    state: Mutex<State>,
}

impl Process {
    pub(super) fn new(number: u32, name: String, world: Weak<World>, environment: Vec<(String, String)>) -> Process {
        Process { number, name, world, environment, state: Mutex::default() }
    }

    /// Tells it from the others.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it runs.
    ///
    /// # Panics
    /// When that is over.
    pub fn world(&self) -> Arc<World> {
        self.world.upgrade().unwrap_or_else(|| panic!("the world of {} is over", self.name))
    }

    pub(super) fn try_world(&self) -> Option<Arc<World>> {
        self.world.upgrade()
    }

    /// What a variable of its environment says.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        self.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.into())
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<End> {
        locked(&self.state).ended
    }

    /// Whether it is stopped.
    pub fn is_stopped(&self) -> bool {
        locked(&self.state).stopped
    }

    /// Begins a task of it.
    pub fn spawn<F>(self: &Arc<Self>, runtime: &Handle, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = runtime.spawn(Owned::new(Some(Arc::clone(self)), future));
        let mut state = locked(&self.state);
        if state.ended.is_some() {
            task.abort();
        } else {
            if state.tasks.len() == state.tasks.capacity() {
                state.tasks.retain(|task| !task.is_finished());
            }
            state.tasks.push(task.abort_handle());
        }
        task
    }

    /// Begins a thread of it.
    pub fn thread(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        thread::begin(self, Box::new(work));
    }

    /// Ends it. Its tasks are dropped where they stand; its connections end, or are reset, or, where the machine goes with it
    /// (`silently`), nobody hears of it.
    pub fn end(self: &Arc<Self>, end: End, silently: bool) {
        let tasks = {
            let mut state = locked(&self.state);
            if state.ended.is_some() {
                return;
            }
            state.ended = Some(end);
            state.stopped = false;
            state.waiting.drain(..).for_each(Waker::wake);
            std::mem::take(&mut state.tasks)
        };
        let world = self.world();
        world.note("end", format_args!("{} {end:?}", self.name));
        for connection in world.connections() {
            connection.process_ended(self.number, silently);
        }
        tasks.iter().for_each(AbortHandle::abort);
        world.threads.wake(self.number);
    }

    /// Ends its tasks, and nothing else of it.
    pub fn end_tasks(&self) {
        let tasks = std::mem::take(&mut locked(&self.state).tasks);
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// A task or thread of it has panicked.
    pub(super) fn panicked(&self) {
        if let Some(world) = self.try_world() {
            world.note("panic", format_args!("{}", self.name));
            world.panics.fetch_add(1, Relaxed);
        }
    }

    /// Stops it, as SIGSTOP does: its tasks and threads stay where they are.
    pub fn stop(&self) {
        let mut state = locked(&self.state);
        if state.ended.is_none() {
            state.stopped = true;
            drop(state);
            self.world().note("stop", format_args!("{}", self.name));
        }
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        let mut state = locked(&self.state);
        if std::mem::take(&mut state.stopped) {
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            self.world().note("go on", format_args!("{}", self.name));
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Has it killed at a point of what it says: after this many more packets.
    pub fn kill_after(&self, packets: u64) {
        locked(&self.state).packets_left = Some(packets);
    }

    /// It has sent a packet. True where that was its last one.
    pub(super) fn has_sent(&self) -> bool {
        let mut state = locked(&self.state);
        let left = state.packets_left.take();
        state.packets_left = left.and_then(|left| left.checked_sub(1));
        left == Some(0)
    }

    /// Whether its tasks may go on. Where it is stopped, who asks is woken when it goes on.
    pub(super) fn may_go_on(&self, cx: &Context<'_>) -> bool {
        let mut state = locked(&self.state);
        if state.stopped {
            state.waiting.push(cx.waker().clone());
        }
        state.ended.is_none() && !state.stopped
    }
}

/// A future that belongs to a process.
pub struct Owned<T> {
    process: Option<Arc<Process>>,
    future: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> Owned<T> {
    /// One of this process, or, outside of a simulation, of none.
    pub fn new(process: Option<Arc<Process>>, future: impl Future<Output = T> + Send + 'static) -> Owned<T> {
        Owned { process, future: Box::pin(future) }
    }
}

impl<T> Future for Owned<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Owned { process, future } = self.get_mut();
        if let Some(process) = process {
            if !process.may_go_on(cx) {
                return Poll::Pending;
            }
            let _noticed = Noticed(process);
            let _within = Within::new(Some(Arc::clone(process)));
            return future.as_mut().poll(cx);
        }
        future.as_mut().poll(cx)
    }
}

/// Tells the world of a panic.
struct Noticed<'p>(&'p Process);

impl Drop for Noticed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked();
        }
    }
}
