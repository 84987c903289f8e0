//! What this process does when: spans on tracks, kept in memory until somebody asks for them (`timeline::file`).
//!
//! One recorder a process, switched on by a session that writes a timeline or, on a worker, by its driver. Switched off,
//! it costs the loading of a flag.

pub(crate) mod file;
pub(crate) mod json;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::session::locked;

/// Spans that are kept; later ones are only counted.
const MOST: usize = 1_000_000;

/// What a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Category {
    /// The virtual iteration; the iterations, on a worker its slices of them.
    Record,
    /// From the accesses to the plan; its number of blocks.
    Plan,
    /// Shares of a new plan are sent or taken in; the plan's number.
    Install,
    /// Elements are brought to where a loop expects them; the number of ranges.
    Prepare,
    /// The iterations of one block, or what a worker does for a round; its place in the plan, or how many bytes its message had.
    Block,
    /// Nothing can start, or others do the work.
    Wait,
    /// A part goes out; its bytes.
    Send,
    /// A part comes in; its bytes.
    Receive,
    /// The number of the snapshot.
    Snapshot,
    /// After a loss; the new epoch.
    Recover,
}

/// A span, in nanoseconds since the process's own zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    category: Category,
    start: u64,
    duration: u64,
    track: u32,
    arg: u64,
}

/// What a process has recorded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RecordedEvents {
    tracks: Vec<String>,
    events: Vec<Event>,
    left_out: u64,
}

#[derive(Default)]
struct Recorder {
    recorded: RecordedEvents,
    /// Tracks of tasks that share a thread, where spans would overlap: category, track, whether it is taken.
    shared: Vec<(Category, u32, bool)>,
}

/// How many want events.
static WANTED: AtomicUsize = AtomicUsize::new(0);
static RECORDER: Mutex<Recorder> = Mutex::new(Recorder {
    recorded: RecordedEvents { tracks: Vec::new(), events: Vec::new(), left_out: 0 },
    shared: Vec::new(),
});

thread_local! {
    static TRACK: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Whether spans are recorded.
#[inline]
pub(crate) fn is_on() -> bool {
    WANTED.load(Relaxed) > 0
}

/// For a worker, whose driver says whether it wants events.
pub(crate) fn switch(on: bool) {
    // The zero comes before everything.
    now();
    WANTED.store(usize::from(on), Relaxed);
}

/// Nanoseconds since this process's zero.
pub(crate) fn now() -> u64 {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    ZERO.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// All that was recorded since the last time.
pub(crate) fn take() -> RecordedEvents {
    let mut recorder = locked(&RECORDER);
    let recorded = &mut recorder.recorded;
    RecordedEvents {
        // Threads keep their tracks.
        tracks: recorded.tracks.clone(),
        events: std::mem::take(&mut recorded.events),
        left_out: std::mem::take(&mut recorded.left_out),
    }
}

/// Something that goes on; it is recorded when this is dropped.
#[must_use]
pub(crate) struct Span(Option<Begun>);

struct Begun {
    category: Category,
    start: u64,
    track: u32,
    shared: bool,
    arg: u64,
}

/// Something that this thread does, within whatever else it is doing.
#[inline]
pub(crate) fn span(category: Category, arg: u64) -> Span {
    if is_on() { begin(category, arg) } else { Span(None) }
}

#[cold]
fn begin(category: Category, arg: u64) -> Span {
    let track = TRACK.get().unwrap_or_else(|| {
        let mut recorder = locked(&RECORDER);
        let tracks = &mut recorder.recorded.tracks;
        let track = tracks.len() as u32;
        tracks.push(std::thread::current().name().map_or_else(|| format!("thread {track}"), str::to_owned));
        TRACK.set(Some(track));
        track
    });
    Span(Some(Begun { category, start: now(), track, shared: false, arg }))
}

/// Something that a task does while others share its thread: it gets a track for itself.
pub(crate) fn task_span(category: Category, arg: u64) -> Span {
    if !is_on() {
        return Span(None);
    }
    let mut recorder = locked(&RECORDER);
    let Recorder { recorded, shared } = &mut *recorder;
    let track = match shared.iter_mut().find(|(of, _, taken)| *of == category && !taken) {
        Some((_, track, taken)) => {
            *taken = true;
            *track
        }
        None => {
            let track = recorded.tracks.len() as u32;
            let number = shared.iter().filter(|(of, ..)| *of == category).count() + 1;
            recorded.tracks.push(format!("{} {number}", category.name()));
            shared.push((category, track, true));
            track
        }
    };
    drop(recorder);
    Span(Some(Begun { category, start: now(), track, shared: true, arg }))
}

impl Span {
    /// Sets what is known only at the end.
    pub(crate) fn set(&mut self, arg: u64) {
        if let Some(begun) = &mut self.0 {
            begun.arg = arg;
        }
    }

    /// It was not worth mentioning.
    pub(crate) fn forget_if_shorter(mut self, nanoseconds: u64) {
        self.0.take_if(|begun| !begun.shared && now() - begun.start < nanoseconds);
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(Begun { category, start, track, shared, arg }) = self.0.take() else { return };
        let duration = now().saturating_sub(start);
        let mut recorder = locked(&RECORDER);
        if shared && let Some((.., taken)) = recorder.shared.iter_mut().find(|(_, its, _)| *its == track) {
            *taken = false;
        }
        recorder.recorded.store(Event { category, start, duration, track, arg }, MOST);
    }
}

impl RecordedEvents {
    /// Itself, if it is what a recorder could have recorded.
    pub(crate) fn checked(self) -> Option<RecordedEvents> {
        let tracks = self.tracks.len();
        self.events.iter().all(|event| (event.track as usize) < tracks).then_some(self)
    }

    fn store(&mut self, event: Event, most: usize) {
        if self.events.len() < most {
            self.events.push(event);
        } else {
            self.left_out += 1;
        }
    }
}

impl Category {
    fn name(self) -> &'static str {
        match self {
            Category::Record => "record",
            Category::Plan => "plan",
            Category::Install => "install",
            Category::Prepare => "prepare",
            Category::Block => "block",
            Category::Wait => "wait",
            Category::Send => "send",
            Category::Receive => "receive",
            Category::Snapshot => "snapshot",
            Category::Recover => "recover",
        }
    }

    /// What the number with a span means.
    fn arg(self) -> Option<&'static str> {
        match self {
            Category::Record => Some("of"),
            Category::Plan => Some("blocks"),
            Category::Install => Some("plan"),
            Category::Prepare => Some("ranges"),
            Category::Block => Some("block"),
            Category::Wait => None,
            Category::Send | Category::Receive => Some("bytes"),
            Category::Snapshot => Some("snapshot"),
            Category::Recover => Some("epoch"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(arg: u64) -> Event {
        Event { category: Category::Block, start: 0, duration: 1, track: 0, arg }
    }

    #[test]
    fn what_is_over_the_bound_is_counted() {
        let mut recorded = RecordedEvents::default();
        (0..5).for_each(|arg| recorded.store(event(arg), 3));
        assert_eq!((recorded.events.len(), recorded.left_out), (3, 2));
    }

    #[test]
    fn spans_lie_within_each_other_and_tasks_have_tracks_of_their_own() {
        let (marks, before) = ([77_001, 77_002, 77_003, 77_004], WANTED.fetch_add(1, Relaxed));
        {
            let _outer = span(Category::Plan, marks[0]);
            span(Category::Block, marks[1]).forget_if_shorter(u64::MAX);
            let _inner = span(Category::Block, marks[1]);
            let (_one, mut other) = (task_span(Category::Send, marks[2]), task_span(Category::Send, 0));
            other.set(marks[3]);
        }
        // Other tests' spans may be among them.
        let recorded = take();
        WANTED.fetch_sub(1, Relaxed);
        let of = |mark: u64| {
            let found: Vec<&Event> = recorded.events.iter().filter(|event| event.arg == mark).collect();
            assert_eq!(found.len(), 1, "{mark} {before}");
            found[0]
        };
        let [outer, inner, one, other] = marks.map(of);
        assert!(outer.start <= inner.start && inner.start + inner.duration <= outer.start + outer.duration);
        assert_eq!(outer.track, inner.track);
        assert_ne!(one.track, other.track);
        assert!(recorded.tracks[one.track as usize].starts_with("send "), "{:?}", recorded.tracks);
    }
}
