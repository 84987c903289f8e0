//! What processes log, on standard error: switched on by `STRADSAP_LOG`, one line an event, the process named in each.
//!
//! A line that was written a moment ago is not written again: how often it came is said when the moment is over.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Stderr, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The variable that says what is logged.
pub const VARIABLE: &str = "STRADSAP_LOG";

/// Within so long an equal line is only counted.
const WINDOW: Duration = Duration::from_secs(5);
/// This many different lines are remembered.
const REMEMBERED: usize = 64;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Why a filter is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{VARIABLE}={given}: error, warn, info, debug or trace was expected, or directives such as \
     stradsap_runtime=debug with commas between ({why})"
)]
pub struct FilterError {
    given: String,
    why: String,
}

/// How this process is called in the lines that it logs: `driver` or `worker 2`.
static NAME: Mutex<String> = Mutex::new(String::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here is left half-done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the name of this process in later lines.
pub fn set_name(name: impl Into<String>) {
    *locked(&NAME) = name.into();
}

/// When it is dropped, at the end of the process, it writes the lines that are still held back.
#[derive(Debug, Default)]
#[must_use]
pub struct Logging {
    fold: Option<Arc<Mutex<Fold<Stderr>>>>,
}

impl Drop for Logging {
    fn drop(&mut self) {
        if let Some(fold) = &self.fold {
            locked(fold).flush();
        }
    }
}

/// Logs for the rest of this process as `STRADSAP_LOG` says; without the variable nothing is logged. If the program has set a
/// subscriber of its own, that one stays.
///
/// # Errors
/// [`FilterError`].
pub fn start(name: &str) -> Result<Logging, FilterError> {
    set_name(name);
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(Logging::default()) };
    let Some(filter) = filter(&text.to_string_lossy())? else { return Ok(Logging::default()) };
    let fold = Arc::new(Mutex::new(Fold::new(io::stderr())));
    let lines = Lines { fold: Arc::clone(&fold) };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
    let set = tracing::subscriber::set_global_default(subscriber);
    Ok(Logging { fold: set.is_ok().then_some(fold) })
}

/// What a text lets through; nothing where it is empty.
fn filter(text: &str) -> Result<Option<Targets>, FilterError> {
    let text = text.trim();
    let refused = |why: String| FilterError { given: text.to_owned(), why };
    if text.is_empty() {
        return Ok(None);
    }
    for word in text.split(',').map(str::trim) {
        // The library would take a mistyped level for a target that nobody logs to.
        if !word.contains('=') && !LEVELS.contains(&word.to_ascii_lowercase().as_str()) {
            return Err(refused(format!("`{word}` is no level")));
        }
    }
    // The library beneath tells of each message, which is rarely what is looked for.
    let quiet = if text.contains("tarpc") { "" } else { "tarpc=warn," };
    let directives: Result<Targets, _> = format!("{quiet}{text}").parse();
    directives.map(Some).map_err(|error| refused(error.to_string()))
}

/// Makes a line of each event.
struct Lines {
    fold: Arc<Mutex<Fold<Stderr>>>,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = String::new();
        let formatted = DefaultFields::new().format_fields(Writer::new(&mut fields), event);
        if formatted.is_err() {
            fields.push_str("(an event that can't be shown)");
        }
        let line = Line { level: *event.metadata().level(), target: event.metadata().target().to_owned(), fields };
        locked(&self.fold).take(line, Instant::now());
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Line {
    level: Level,
    target: String,
    fields: String,
}

/// A line that was written, and how often it came again.
#[derive(Debug)]
struct Written {
    line: Line,
    first: Instant,
    again: u64,
}

/// Writes lines, equal ones once in a while.
#[derive(Debug)]
struct Fold<W> {
    out: W,
    /// In the order in which they were written.
    recent: VecDeque<Written>,
}

impl<W: Write> Fold<W> {
    fn new(out: W) -> Self {
        Fold { out, recent: VecDeque::new() }
    }

    fn take(&mut self, line: Line, now: Instant) {
        let over = self.recent.iter().take_while(|written| now.duration_since(written.first) >= WINDOW).count();
        for oldest in self.recent.drain(..over).collect::<Vec<_>>() {
            self.say_again(&oldest);
        }
        if let Some(same) = self.recent.iter_mut().find(|written| written.line == line) {
            same.again += 1;
            return;
        }
        if self.recent.len() == REMEMBERED
            && let Some(oldest) = self.recent.pop_front()
        {
            self.say_again(&oldest);
        }
        self.write(&line, "");
        self.recent.push_back(Written { line, first: now, again: 0 });
    }

    /// Says how often lines came that were held back.
    fn flush(&mut self) {
        for written in std::mem::take(&mut self.recent) {
            self.say_again(&written);
        }
    }

    fn say_again(&mut self, written: &Written) {
        match written.again {
            0 => {}
            1 => self.write(&written.line, " ... repeated once"),
            again => self.write(&written.line, &format!(" ... repeated {again} times")),
        }
    }

    fn write(&mut self, Line { level, target, fields }: &Line, end: &str) {
        let mut text = String::new();
        // What a string can't take does not exist; without its time a line still says something.
        let _ = SystemTime.format_time(&mut Writer::new(&mut text));
        let _ = write!(text, " {level:>5} {} {target}: ", locked(&NAME));
        // What others say may hold anything, also what would look like another line.
        for c in fields.chars() {
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
        text.push_str(end);
        text.push('\n');
        // One call, so that lines of several processes don't mix; a closed stream wants none.
        let _ = self.out.write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fields: &str) -> Line {
        Line { level: Level::WARN, target: "here".into(), fields: fields.into() }
    }

    /// What was written, without the time and what all lines have.
    fn written(fold: &Fold<Vec<u8>>) -> Vec<String> {
        let text = String::from_utf8(fold.out.clone()).unwrap();
        text.lines().map(|line| line.split_once("here: ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn equal_lines_are_counted_within_the_window() {
        let mut fold = Fold::new(Vec::new());
        let begin = Instant::now();
        for n in 0..42 {
            fold.take(line("a"), begin + Duration::from_millis(n));
            if n < 2 {
                fold.take(line("b"), begin + Duration::from_millis(n));
            }
        }
        assert_eq!(written(&fold), ["a", "b"]);
        fold.take(line("a"), begin + WINDOW);
        assert_eq!(written(&fold), ["a", "b", "a ... repeated 41 times", "b ... repeated once", "a"]);
        fold.flush();
        assert_eq!(written(&fold).len(), 5);
        fold.take(line("a"), begin + WINDOW);
        fold.take(line("a"), begin + WINDOW);
        fold.flush();
        assert_eq!(written(&fold)[5..], ["a", "a ... repeated once"]);
    }

    #[test]
    fn memory_for_lines_is_bounded() {
        let mut fold = Fold::new(Vec::new());
        let now = Instant::now();
        fold.take(line("first"), now);
        fold.take(line("first"), now);
        (0..REMEMBERED * 3).for_each(|n| fold.take(line(&n.to_string()), now));
        assert_eq!(fold.recent.len(), REMEMBERED);
        assert!(written(&fold).contains(&"first ... repeated once".to_owned()));
    }

    #[test]
    fn a_line_names_time_level_process_and_target_and_stays_one_line() {
        let mut fold = Fold::new(Vec::new());
        set_name("worker 2");
        fold.take(line("said\n\u{1b}[2Jno"), Instant::now());
        let text = String::from_utf8(fold.out).unwrap();
        let (time, rest) = text.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{text}");
        assert_eq!(rest, " WARN worker 2 here: said\\n\\u{1b}[2Jno\n");
    }

    #[test]
    fn filters_are_levels_or_directives() {
        assert!(filter(" ").unwrap().is_none());
        for text in ["info", "WARN", "off", "stradsap_runtime=debug", "warn,stradsap_runtime::cluster=trace,tarpc=info"]
        {
            assert!(filter(text).unwrap().is_some(), "{text}");
        }
        for text in ["inof", "loud,info", "stradsap_runtime=loud", "info,", "=debug=x"] {
            let error = filter(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("STRADSAP_LOG={text}: error, warn, info")), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        assert!(filter("info").unwrap().unwrap().to_string().contains("tarpc=warn"));
    }
}
