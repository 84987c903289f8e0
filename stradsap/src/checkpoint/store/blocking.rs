//! Waiting for what is asynchronous.
//!
//! One thread has the runtime on which all requests run, so that connections are used again. Who waits may be on a thread
//! of another runtime, which doesn't bear a second one: they wait on a plain channel.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use crate::checkpoint::background::locked;

/// The thread that makes requests.
#[derive(Clone, Debug)]
pub(in crate::checkpoint) struct Requests(Handle);

impl Requests {
    /// This process's. It is there from the first call on.
    pub(in crate::checkpoint) fn new() -> io::Result<Requests> {
        static RUNNING: Mutex<Option<Requests>> = Mutex::new(None);
        let mut running = locked(&RUNNING);
        if let Some(requests) = &*running {
            return Ok(requests.clone());
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let requests = Requests(runtime.handle().clone());
        let forever = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("stradsap-store".to_owned()).spawn(forever)?;
        Ok(running.insert(requests).clone())
    }

    /// Begins something.
    pub(super) fn start<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Pending<T> {
        let (sender, receiver) = sync_channel(1);
        self.0.spawn(async move {
            let _ = sender.send(task.await); // nobody may wait any more
        });
        Pending(receiver)
    }

    /// Begins something that nobody waits for.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(task));
    }

    pub(super) fn wait<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        self.start(task).wait()
    }
}

/// What was begun there.
pub(super) struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// # Panics
    /// If the task did.
    pub(super) fn wait(self) -> T {
        self.0.recv().unwrap_or_else(|_| panicked())
    }

    /// None if that takes longer.
    pub(super) fn wait_for(self, limit: Duration) -> Option<T> {
        match self.0.recv_timeout(limit) {
            Ok(done) => Some(done),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panicked(),
        }
    }
}

fn panicked() -> ! {
    panic!("a request to an object store panicked")
}
