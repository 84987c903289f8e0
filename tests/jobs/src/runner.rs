//! Runs tests by name, as `cargo test` expects it, each with a limit on its time: those of a group one after the other, and
//! some groups at once. The standard harness can't be used: a worker is this executable too, and goes no further than `#[stradsap::main]`.

#![allow(clippy::print_stdout)]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A test, which fails by panicking.
pub struct Test {
    name: String,
    limit: Duration,
    body: Box<dyn FnOnce()>,
}

impl Test {
    pub fn new(name: impl Into<String>, seconds: u64, body: impl FnOnce() + 'static) -> Test {
        Test { name: name.into(), limit: Duration::from_secs(seconds), body: Box::new(body) }
    }
}

/// What the command line asks for. Options of the standard harness that mean nothing here are passed over.
#[derive(Default)]
struct Asked {
    filters: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    list: bool,
    ignored: bool,
}

impl Asked {
    fn of(args: impl Iterator<Item = String>) -> Asked {
        let mut asked = Asked::default();
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--exact" => asked.exact = true,
                "--list" => asked.list = true,
                "--ignored" => asked.ignored = true,
                "--skip" => asked.skip.extend(args.next()),
                "--test-threads" | "--format" | "--color" | "-Z" | "--logfile" => drop(args.next()),
                _ if arg.starts_with('-') => {}
                _ => asked.filters.push(arg),
            }
        }
        asked
    }

    fn wants(&self, name: &str) -> bool {
        let is = |text: &String| if self.exact { name == text } else { name.contains(text.as_str()) };
        // None is marked as ignored.
        !self.ignored && (self.filters.is_empty() || self.filters.iter().any(is)) && !self.skip.iter().any(is)
    }
}

/// Whether the command line asks for any of these names: what many tests share need not be made for none.
pub fn wanted(group: &str, name: &str) -> bool {
    let asked = Asked::of(std::env::args().skip(1));
    !asked.list && asked.wants(&within(group, name))
}

fn within(group: &str, name: &str) -> String {
    format!("{group}::{name}")
}

/// Names the group of tests that a process runs; processes that it starts have it too.
pub const GROUP: &str = "TESTS_OF_GROUP";

/// How many groups run at once. Much of their time is waiting: for timeouts, and for each other's processes.
const AT_ONCE: usize = 4;

/// How many lines are repeated at the end for each group that fails.
const LINES: usize = 60;

/// Runs the tests that the command line asks for, each group in a process of its own, and says how many failed.
pub fn run(mut groups: Vec<(&'static str, Vec<Test>)>) -> Result<(), Box<dyn std::error::Error>> {
    let asked = Asked::of(std::env::args().skip(1));
    for (group, tests) in &mut groups {
        tests.iter_mut().for_each(|test| test.name = within(group, &test.name));
        tests.retain(|test| asked.wants(&test.name));
    }
    if asked.list {
        groups.iter().flat_map(|(_, tests)| tests).for_each(|test| println!("{}: test", test.name));
        return Ok(());
    }
    let own = std::env::var(GROUP).ok();
    groups.retain(|(group, tests)| !tests.is_empty() && own.as_ref().is_none_or(|own| own == group));
    if own.is_some() || groups.len() < 2 {
        return one_after_the_other(groups.into_iter().flat_map(|(_, tests)| tests).collect());
    }
    let since = Instant::now();
    let left = Mutex::new(groups.iter().map(|(group, _)| *group).collect::<VecDeque<_>>());
    let next = || left.lock().unwrap().pop_front();
    let failed = std::thread::scope(|scope| {
        let in_turn = || std::iter::from_fn(next).filter_map(failures).collect::<Vec<_>>();
        let slots: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(in_turn)).collect();
        slots.into_iter().flat_map(|slot| slot.join().unwrap()).collect::<Vec<_>>()
    });
    println!("{} groups of tests in {:.1} s\n", groups.len(), since.elapsed().as_secs_f64());
    if failed.is_empty() { Ok(()) } else { Err(format!("tests failed:\n{}", failed.concat()).into()) }
}

/// Runs a group in a process of its own, and then prints what it wrote. Of a group that fails: which tests did, and the
/// panics, which would be far above the end of what is printed.
fn failures(group: &str) -> Option<String> {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = command.args(std::env::args().skip(1)).env(GROUP, group).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    print!("{out}");
    eprint!("{err}");
    if ended.status.success() {
        return None;
    }
    let tests = out.lines().filter(|line| line.contains(" ... FAILED"));
    let panics = err.lines().filter(|line| !line.starts_with("warning: "));
    let said: String = tests.chain(panics).take(LINES).map(|line| format!("  {line}\n")).collect();
    Some(format!("{group}: {}\n{said}", ended.status))
}

fn one_after_the_other(tests: Vec<Test>) -> Result<(), Box<dyn std::error::Error>> {
    let (chosen, since) = (tests.len(), Instant::now());
    println!("\nrunning {chosen} tests");
    let mut failed = Vec::new();
    for Test { name, limit, body } in tests {
        let begun = Instant::now();
        let _watch = Watch::new(&name, limit);
        let passed = catch_unwind(AssertUnwindSafe(body)).is_ok();
        println!("test {name} ... {} ({:.1} s)", if passed { "ok" } else { "FAILED" }, begun.elapsed().as_secs_f64());
        if !passed {
            failed.push(name);
        }
    }
    let (seconds, verdict) = (since.elapsed().as_secs_f64(), if failed.is_empty() { "ok" } else { "FAILED" });
    failed.iter().for_each(|name| println!("    {name}"));
    println!(
        "\ntest result: {verdict}. {} passed; {} failed; finished in {seconds:.2} s{}\n",
        chosen - failed.len(),
        failed.len(),
        processor_time().map(|seconds| format!(", {seconds:.1} s of processor time")).unwrap_or_default(),
    );
    if failed.is_empty() { Ok(()) } else { Err(format!("{} tests failed", failed.len()).into()) }
}

/// What this process and its children that have ended took, in seconds, where the system says it (proc(5), `stat`).
fn processor_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(4).map_while(|ticks| ticks.parse().ok()).collect();
    (ticks.len() == 4).then(|| ticks.iter().sum::<u64>() as f64 / 100.0)
}

/// Ends this process, with all that it started, where something takes longer than it may: nothing hangs unseen.
pub struct Watch {
    /// Dropped with this: then the thread ends.
    _over: std::sync::mpsc::Sender<()>,
}

impl Watch {
    pub fn new(what: &str, limit: Duration) -> Watch {
        let (over, told) = channel::<()>();
        let what = what.to_string();
        std::thread::spawn(move || {
            if told.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                println!("test {what} ... FAILED: it took longer than {} s", limit.as_secs());
                eprintln!("{what}: took longer than {} s; to run it alone: {}", limit.as_secs(), repeat(&what));
                std::process::exit(101);
            }
        });
        Watch { _over: over }
    }
}

/// The command that runs one test of this executable again.
pub fn repeat(name: &str) -> String {
    let own = std::env::args().next().unwrap_or_default();
    let file = std::path::Path::new(&own).file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_string();
    let target = file.rsplit_once('-').map_or(file.as_str(), |(target, _)| target);
    format!("cargo test -p stradsap-tests --test {target} -- --exact '{name}'")
}

/// Whether the long mode is asked for: `STRADSAP_LONG=1`.
pub fn long() -> bool {
    std::env::var_os("STRADSAP_LONG").is_some_and(|value| value == "1")
}

/// The seeds of a test that is repeated: `STRADSAP_SEED=n` runs that one alone.
pub fn seeds(short: u64, long_mode: u64) -> std::ops::Range<u64> {
    match std::env::var("STRADSAP_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..if long() { long_mode } else { short },
    }
}
