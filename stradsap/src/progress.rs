//! How far a program is.

use std::fmt::{self, Display};
use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// Shows on standard error how far a program is: as a bar on a terminal, and elsewhere (or if `TERM` is `dumb`) as a line for each
/// step.
///
/// Each step shows a text of the program, how long the step took, how many items a second that is, and about how long the remaining
/// steps will take. Errors of writing are ignored: a closed standard error doesn't stop a training.
///
/// # Examples
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let mut x = DVector::from_fn(&session, 1000, |i| i as f64)?;
/// let mut progress = Progress::new("epoch", 3);
/// progress.items(x.len(), "numbers");
/// for _epoch in 0..3 {
///     let largest = session.max(0.0);
///     async_parallel_for!(0..x.len(), [&mut x, &largest], |i| {
///         x[i] *= 0.5;
///         largest.max(x[i]);
///     })?;
///     progress.step(format_args!("at most {:.1}", largest.get()));
/// }
/// progress.finish();
/// # Ok(())
/// # }
/// ```
///
/// writes
///
/// ```text
/// epoch   1/3  at most 499.5  0.002 s  500.0 k numbers/s
/// epoch   2/3  at most 249.8  0.000 s  3.1 M numbers/s
/// epoch   3/3  at most 124.9  0.000 s  3.2 M numbers/s
/// ```
///
/// and on a terminal the last of them, with the bar before it and what is left behind it.
pub struct Progress {
    name: String,
    steps: u64,
    done: u64,
    /// How many of the steps were done when it began.
    before: u64,
    items: Option<(usize, String)>,
    began: Instant,
    last: Instant,
    /// What the bar shows, on a terminal.
    bar: Option<String>,
    out: Box<dyn Write + Send>,
}

const WIDTH: u64 = 20;
/// To the begin of the line, which isn't to go on below where it is too long.
const BEGIN: &str = "\r\x1b[?7l";
/// The rest of the line is blank, and lines may go on again.
const END: &str = "\x1b[K\x1b[?7h";

impl Progress {
    /// Progress of a run of `steps` steps. `name` is what a step is called: "epoch", "pass", "file".
    pub fn new(name: impl Into<String>, steps: u64) -> Progress {
        let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        Progress::on(Box::new(stderr()), stderr().is_terminal() && !dumb, name.into(), steps)
    }

    fn on(out: Box<dyn Write + Send>, terminal: bool, name: String, steps: u64) -> Progress {
        let (now, bar) = (Instant::now(), terminal.then(String::new));
        Progress { name, steps, done: 0, before: 0, items: None, began: now, last: now, bar, out }
    }

    /// Says how many items each step processes, and what they are called. Steps then show how many items a second that is.
    pub fn items(&mut self, items: usize, called: impl Into<String>) {
        self.items = Some((items, called.into()));
    }

    /// Prints lines on a terminal, too. Use it if something else prints there.
    #[must_use]
    pub fn plain(mut self) -> Progress {
        self.bar = None;
        self
    }

    /// Says that an earlier run has done this many steps.
    pub fn resume(&mut self, done: u64) {
        (self.done, self.before) = (done, done);
    }

    /// Says that another step is done, and what it reached. The step took the time since the one before.
    pub fn step(&mut self, reached: impl Display) {
        self.step_of(self.last.elapsed().as_secs_f64(), reached);
    }

    /// Like [`step`](Progress::step), with the seconds that the step took. Use it if the program does other work between two steps.
    pub fn step_of(&mut self, seconds: f64, reached: impl Display) {
        self.done += 1;
        self.last = Instant::now();
        let Progress { name, steps, done, .. } = self;
        let mut text = format!("{name} {done:>3}/{steps}  {reached}  {seconds:.3} s");
        if let Some((items, called)) = &self.items {
            text += &format!("  {}{called}/s", Rounded(*items as f64 / seconds.max(1e-9)));
        }
        match &mut self.bar {
            Some(bar) => {
                *bar = text;
                self.draw();
            }
            None => self.write(&format!("{text}\n")),
        }
    }

    /// Prints a line beside the progress.
    pub fn line(&mut self, text: &str) {
        if self.bar.is_none() {
            return self.write(&format!("{text}\n"));
        }
        self.write(&format!("{BEGIN}{END}{text}\n"));
        self.draw();
    }

    /// Removes the bar. Dropping the value does so, too.
    pub fn finish(&mut self) {
        if self.bar.as_mut().is_some_and(|bar| !std::mem::take(bar).is_empty()) {
            self.write(&format!("{BEGIN}{END}"));
        }
    }

    fn draw(&mut self) {
        let Some(bar) = self.bar.as_ref().filter(|bar| !bar.is_empty()) else { return };
        let full = (self.done * WIDTH / self.steps.max(1)).min(WIDTH) as usize;
        let (left, here) = (self.steps.saturating_sub(self.done), self.done - self.before);
        let to_go = self.began.elapsed().as_secs_f64() / here.max(1) as f64 * left as f64;
        let (full, empty) = ("#".repeat(full), "-".repeat(WIDTH as usize - full));
        self.write(&format!("{BEGIN}[{full}{empty}]  {bar}  {} to go{END}", Clock(to_go)));
    }

    fn write(&mut self, text: &str) {
        // Nobody has to see it.
        let _ended = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Progress({} {}/{})", self.name, self.done, self.steps)
    }
}

/// A number with the letter of its thousands.
struct Rounded(f64);

impl Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1e9 => write!(f, "{:.1} G ", n / 1e9),
            n if n >= 1e6 => write!(f, "{:.1} M ", n / 1e6),
            n if n >= 1e3 => write!(f, "{:.1} k ", n / 1e3),
            n => write!(f, "{n:.1} "),
        }
    }
}

/// Seconds as a clock shows them.
struct Clock(f64);

impl Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.round() as u64;
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, minutes, seconds) => write!(f, "{minutes}:{seconds:02}"),
            (hours, minutes, seconds) => write!(f, "{hours}:{minutes:02}:{seconds:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What a run of `steps` writes that takes two of them.
    fn written(terminal: bool, steps: u64, run: impl FnOnce(&mut Progress)) -> String {
        let out = Written::default();
        let mut progress = Progress::on(Box::new(out.clone()), terminal, "epoch".to_string(), steps);
        progress.items(4000, "rows");
        run(&mut progress);
        drop(progress);
        String::from_utf8(out.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn without_a_terminal_there_are_lines() {
        let text = written(false, 20, |progress| {
            progress.line("begins");
            progress.step_of(0.5, "RMSE 1.2");
            progress.step_of(0.001, format_args!("RMSE {:.1}", 1.1));
            progress.finish();
        });
        let lines = [
            "begins",
            "epoch   1/20  RMSE 1.2  0.500 s  8.0 k rows/s",
            "epoch   2/20  RMSE 1.1  0.001 s  4.0 M rows/s",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn on_a_terminal_there_is_a_bar() {
        let text = written(true, 4, |progress| {
            progress.line("begins");
            progress.resume(1);
            progress.step_of(8.0, "RMSE 1.2");
            progress.line("a line between");
        });
        let shown: Vec<String> = text.split(BEGIN).map(|part| part.replace(END, "")).collect();
        let bar = "[##########----------]  epoch   2/4  RMSE 1.2  8.000 s  500.0 rows/s  0:00 to go";
        // Nothing, the first line, the bar, a line in its place, the bar again, nothing.
        assert_eq!(shown, ["", "begins\n", bar, "a line between\n", bar, ""]);
        assert!(written(true, 4, Progress::finish).is_empty());
    }

    #[test]
    fn plain_is_plain() {
        let out = Written::default();
        let mut progress = Progress::on(Box::new(out.clone()), true, "pass".to_string(), 1).plain();
        progress.step_of(1.0, "done");
        assert_eq!(out.0.lock().unwrap().as_slice(), b"pass   1/1  done  1.000 s\n");
    }

    #[test]
    fn numbers_are_short() {
        let rounded = |n| Rounded(n).to_string();
        assert_eq!([950.0, 1234.0, 37_810_000.0, 2.5e9].map(rounded), ["950.0 ", "1.2 k ", "37.8 M ", "2.5 G "]);
        let clock = |seconds| Clock(seconds).to_string();
        assert_eq!([0.4, 61.0, 3600.0 * 30.0 + 5.0].map(clock), ["0:00", "1:01", "30:00:05"]);
    }
}
