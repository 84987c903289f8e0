//! What children say on standard error: it goes on to this process's own, and its end is looked at when one has ended.

use std::io::{ErrorKind, PipeReader, Read, Write};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::session::locked;

/// So much of the end is kept: a line, and the backtrace that may follow it.
const TAIL: usize = 64 << 10;
/// How long the rest may take to come after a child has ended. It is there already, unless processes of the child's hold the pipe open.
const REST: Duration = Duration::from_millis(200);
/// What Rust's standard library says before it ends a process that gets no memory.
const NO_MEMORY: [&str; 2] = ["memory allocation of ", " bytes failed"];
/// What it says before it ends one whose thread has gone too deep.
const NO_STACK: &str = "has overflowed its stack";

/// What one child says.
#[derive(Debug)]
pub(super) struct Stderr {
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    tail: Mutex<Tail>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    ended: bool,
}

impl Stderr {
    /// Listens to the child that this command will start.
    pub(super) fn of(command: &mut Command) -> std::io::Result<Stderr> {
        let (reader, writer) = std::io::pipe()?;
        let heard: Arc<Heard> = Arc::default();
        let hearing = Arc::clone(&heard);
        std::thread::Builder::new().name("stradsap-stderr".into()).spawn(move || hearing.pass_on(reader))?;
        command.stderr(writer);
        Ok(Stderr { heard })
    }

    /// Waits until all that a child has said was passed on.
    pub(super) fn wait(&self) {
        let tail = locked(&self.heard.tail);
        // A lock that is poisoned, and time that is up, are no reason to do anything else.
        drop(self.heard.ended.wait_timeout_while(tail, REST, |tail| !tail.ended));
    }

    /// Whether a child that has ended did so because a thread went too deep.
    pub(super) fn overflowed(&self) -> bool {
        self.wait();
        String::from_utf8_lossy(&locked(&self.heard.tail).bytes).contains(NO_STACK)
    }

    /// How many bytes a child that has ended asked for in vain, if it ended for that.
    pub(super) fn failed_allocation(&self) -> Option<u64> {
        self.wait();
        let tail = locked(&self.heard.tail);
        let text = String::from_utf8_lossy(&tail.bytes);
        let (_, after) = text.rsplit_once(NO_MEMORY[0])?;
        after.split_once(NO_MEMORY[1])?.0.parse().ok()
    }
}

impl Heard {
    fn pass_on(&self, mut reader: PipeReader) {
        let mut chunk = [0; 4096];
        loop {
            let said = match reader.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => &chunk[..count],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            // Nobody reads this process's errors: then those of its children aren't missed either.
            let _ = std::io::stderr().write_all(said);
            let bytes = &mut locked(&self.tail).bytes;
            bytes.extend_from_slice(said);
            let excess = bytes.len().saturating_sub(TAIL);
            bytes.drain(..excess);
        }
        locked(&self.tail).ended = true;
        self.ended.notify_all();
    }
}
