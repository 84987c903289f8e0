//! Tasks and threads of a process. In a simulation (the feature of that name) many processes share one thread and its clock; a task
//! belongs to the process that began it, is not run while that is stopped, and ends with it.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

#[cfg(feature = "simulation")]
use crate::simulation;

/// Begins a task on a runtime.
pub fn spawn_on<F>(runtime: &Handle, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[cfg(feature = "simulation")]
    if let Some(process) = simulation::current() {
        return process.spawn(runtime, future);
    }
    runtime.spawn(future)
}

/// Begins a task on the runtime that this is called on.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_on(&Handle::current(), future)
}

/// A future that goes to a set of tasks rather than to [`spawn`].
pub fn owned<F: Future + Send + 'static>(future: F) -> impl Future<Output = F::Output> + Send + 'static {
    #[cfg(feature = "simulation")]
    return simulation::Owned::new(simulation::current(), future);
    #[cfg(not(feature = "simulation"))]
    future
}

/// Waits for a future on a thread of its own, whose runtime has another one. None: the process has ended, in a simulation.
pub fn block_on<F: Future>(runtime: &Handle, future: F) -> Option<F::Output> {
    #[cfg(feature = "simulation")]
    if simulation::thread::is_one() {
        return simulation::thread::block_on(future);
    }
    Some(runtime.block_on(future))
}

/// Begins a thread with a stack of this many bytes. It ends by itself.
pub fn thread(stack: usize, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    #[cfg(feature = "simulation")]
    if let Some(process) = simulation::current() {
        process.thread(work);
        return Ok(());
    }
    std::thread::Builder::new().stack_size(stack).spawn(work).map(drop)
}

/// Lets time pass, on a thread that may wait.
pub fn pause(time: Duration) {
    #[cfg(feature = "simulation")]
    if simulation::current().is_some() {
        return simulation::block_on(tokio::time::sleep(time));
    }
    std::thread::sleep(time);
}

/// The number of this process.
pub fn process_number() -> u32 {
    #[cfg(feature = "simulation")]
    if let Some(process) = simulation::current() {
        return process.number();
    }
    std::process::id()
}

/// Whether this is a process of a simulation.
pub fn is_simulated() -> bool {
    #[cfg(feature = "simulation")]
    return simulation::current().is_some();
    #[cfg(not(feature = "simulation"))]
    false
}
