//! What this process's threads run right now, and since when, so that a body that doesn't end can be named. Only workers keep
//! account of it: their drivers ask.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::session::{locked, timeline};

/// What a body is run on, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// Of a plan.
    Block(u64),
    Minibatch(u64),
    /// Of an operator's elements.
    Chunk(u64),
    /// A part of a recording: the first iteration of a slice.
    Slice(u64),
    /// Of a scheduled program.
    Round,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Block(block) => write!(f, "block {block}"),
            Unit::Minibatch(minibatch) => write!(f, "minibatch {minibatch}"),
            Unit::Chunk(chunk) => write!(f, "chunk {chunk}"),
            Unit::Slice(first) => write!(f, "the recording of iteration {first} and those behind it"),
            Unit::Round => f.write_str("a round"),
        }
    }
}

/// What a thread runs: when that began, in nanoseconds since the process's zero.
type Now = Mutex<Option<(Unit, u64)>>;

static ON: AtomicBool = AtomicBool::new(false);
static THREADS: Mutex<Vec<Weak<Now>>> = Mutex::new(Vec::new());

thread_local! {
    static NOW: Arc<Now> = {
        let now = Arc::default();
        let mut threads = locked(&THREADS);
        threads.retain(|thread| thread.strong_count() > 0);
        threads.push(Arc::downgrade(&now));
        now
    };
}

/// For a worker.
pub(crate) fn switch_on() {
    ON.store(true, Relaxed);
}

/// A body runs until this is dropped.
#[must_use]
pub(crate) struct RunningBody(Option<Before>);

/// What the thread ran before: a body may wait, and run others meanwhile.
type Before = Option<(Unit, u64)>;

/// This thread runs a body now.
#[inline]
pub(crate) fn running(unit: Unit) -> RunningBody {
    RunningBody(ON.load(Relaxed).then(|| NOW.with(|now| locked(now).replace((unit, timeline::now())))))
}

impl Drop for RunningBody {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            NOW.with(|now| *locked(now) = before);
        }
    }
}

/// The body that has run for longest, if that is as long as this.
pub(crate) fn slowest(limit: Duration) -> Option<(Unit, Duration)> {
    let threads: Vec<Arc<Now>> = locked(&THREADS).iter().filter_map(Weak::upgrade).collect();
    let (unit, begun) = threads.iter().filter_map(|now| *locked(now)).min_by_key(|&(_, begun)| begun)?;
    let for_now = Duration::from_nanos(timeline::now().saturating_sub(begun));
    (for_now >= limit).then_some((unit, for_now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_body_is_named_and_the_one_within_it_is_not() {
        assert_eq!(slowest(Duration::ZERO), None);
        switch_on();
        let outer = running(Unit::Block(7));
        std::thread::sleep(Duration::from_millis(3));
        let (unit, for_now) = slowest(Duration::from_millis(2)).expect("a body runs");
        assert_eq!(unit, Unit::Block(7));
        assert!(for_now >= Duration::from_millis(3) && slowest(for_now + Duration::from_secs(3600)).is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _other = running(Unit::Chunk(1));
                assert_eq!(slowest(Duration::ZERO).map(|(unit, _)| unit), Some(Unit::Block(7)));
            });
        });
        drop(running(Unit::Minibatch(2)));
        assert_eq!(slowest(Duration::ZERO).map(|(unit, _)| unit), Some(Unit::Block(7)));
        drop(outer);
        ON.store(false, Relaxed);
    }
}
