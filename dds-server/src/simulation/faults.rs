//! What goes wrong: ways on which nothing passes for a while. What happens to processes is in [`Process`](super::Process).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{World, locked};

impl World {
    /// Lets nothing pass from one process to another for a while. What is sent meanwhile arrives later, unless its sender gives up.
    pub fn block(self: &Arc<Self>, from: u32, to: u32, duration: Duration) {
        let now = Instant::now();
        self.note("block", format_args!("{from} to {to} for {} ms", duration.as_millis()));
        {
            let mut state = locked(&self.state);
            let known = state.blocked.get(&(from, to)).copied().filter(|&(_, until)| until > now);
            let (since, until) = known.unwrap_or((now, now));
            state.blocked.insert((from, to), (since, until.max(now + duration)));
        }
        for connection in self.connections() {
            connection.parted(from, to);
        }
    }
}
