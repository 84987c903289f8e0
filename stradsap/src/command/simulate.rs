//! `stradsap simulate`: a plan's block table, played on machines that one doesn't have.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use stradsap_planner::simulate::{Access, Outcome, PlanTable, Setup, TableError, simulate};
use stradsap_runtime::files;

use super::{Failure, speedups, usage};
use crate::Error;

/// Tables are read up to this many bytes: some ten million blocks.
const LARGEST: u64 = 1 << 30;
/// More workers than this can't be asked for.
const MOST_WORKERS: usize = 16384;

/// What the command line says.
struct Asked {
    plan: PathBuf,
    workers: Vec<usize>,
    threads: usize,
    cores: usize,
    shared: bool,
    machines: Option<usize>,
    bytes_a_nano: f64,
    latency: f64,
    slow: Vec<(usize, f64)>,
    lost: Option<(usize, f64)>,
    access: Option<f64>,
    crowded: Option<PathBuf>,
    json: Option<PathBuf>,
    svg: Option<PathBuf>,
}

/// A row of the table, as JSON has it.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) workers: usize,
    pub(super) threads: usize,
    pub(super) machines: usize,
    pub(super) seconds: f64,
    pub(super) speedup: f64,
    bytes_between_machines: u64,
    bytes_within_machines: u64,
    computing: f64,
    waiting_for_parts: f64,
    waiting_for_order: f64,
    waiting_for_processors: f64,
    nothing_left: f64,
    path_in_blocks: f64,
    path_in_transfers: f64,
}

#[derive(Serialize)]
struct Table<'t> {
    site: &'t str,
    strategy: &'t str,
    blocks: usize,
    nanoseconds_an_access: f64,
    seconds_on_one_thread: f64,
    rows: &'t [Row],
}

/// Runs the command with the words behind `simulate`.
pub(super) fn run(words: &[OsString], out: &mut dyn Write) -> Result<(), Failure> {
    let asked = Asked::parse(words)?;
    for path in [&asked.json, &asked.svg].into_iter().flatten() {
        files::check(path).map_err(|source| Error::File { path: path.clone(), source })?;
    }
    let table = read(&asked.plan)?;
    let wrong = |path: &Path, error: TableError| Error::File {
        path: path.to_path_buf(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()),
    };
    let plan = table.plan().map_err(|error| wrong(&asked.plan, error))?;
    let nanos = match asked.access {
        Some(nanos) => nanos,
        None => table.nanos_an_access(&plan).map_err(|error| wrong(&asked.plan, error))?,
    };
    let crowded = match &asked.crowded {
        Some(path) => Some(table.crowded(&plan, &read(path)?).map_err(|error| wrong(path, error))?),
        None => None,
    };
    let access = Access { alone: nanos, crowded };
    let rows: Vec<Row> = asked
        .workers
        .iter()
        .map(|&workers| {
            let setup = asked.setup(workers, access);
            row(&setup, &simulate(&table, &plan, &setup))
        })
        .collect();
    let alone = plan.graph.work() as f64 * nanos / 1e9;
    let most = plan.graph.work() as f64 / plan.graph.critical_path().max(1) as f64;
    let (site, strategy, blocks) = (&table.site, table.strategy, table.costs.len());
    writeln!(out, "{site}: {strategy}, {blocks} blocks; {} on one thread, at {nanos:.2} ns an access", time(alone))?;
    if let Some((threads, nanos)) = crowded {
        writeln!(out, "while {threads} threads are at work an access takes {nanos:.2} ns")?;
    }
    writeln!(out, "blocks that wait for each other allow at most {most:.1} times that speed\n")?;
    print(&rows, out)?;
    if let Some((worker, share)) = asked.lost {
        let percent = 100.0 * share;
        writeln!(
            out,
            "\nworker {worker} is lost after {percent:.0} % of the time, replaced, and the loop begins again"
        )?;
    }
    if let Some(path) = &asked.json {
        let strategy = strategy.as_str();
        let whole =
            Table { site, strategy, blocks, nanoseconds_an_access: nanos, seconds_on_one_thread: alone, rows: &rows };
        files::write(path, |out| serde_json::to_writer_pretty(out, &whole).map_err(Into::into))
            .map_err(|source| Error::File { path: path.clone(), source })?;
    }
    if let Some(path) = &asked.svg {
        files::write(path, |out| out.write_all(speedups::picture(&rows).as_bytes()))
            .map_err(|source| Error::File { path: path.clone(), source })?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<PlanTable, Error> {
    let failed = |source| Error::File { path: path.to_path_buf(), source };
    let mut text = Vec::new();
    files::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut text)).map_err(failed)?;
    let invalid = |text: String| failed(std::io::Error::new(std::io::ErrorKind::InvalidData, text));
    if text.len() as u64 > LARGEST {
        return Err(invalid(format!("the table of a plan has at most {LARGEST} bytes")));
    }
    serde_json::from_slice(&text).map_err(|error| invalid(format!("not the table of a plan: {error}")))
}

impl Asked {
    fn parse(words: &[OsString]) -> Result<Asked, Error> {
        let mut asked = Asked {
            plan: PathBuf::new(),
            workers: vec![1, 4, 16, 64, 256],
            threads: 1,
            cores: 16,
            shared: false,
            machines: None,
            bytes_a_nano: 1.25,
            latency: 50_000.0,
            slow: Vec::new(),
            lost: None,
            access: None,
            crowded: None,
            json: None,
            svg: None,
        };
        let mut plan = None;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.to_string_lossy();
            if !name.starts_with("--") {
                if plan.replace(PathBuf::from(word)).is_some() {
                    return Err(usage(&format!("stradsap simulate: `{name}` is a word too many")));
                }
                continue;
            }
            if !OPTIONS.contains(&&*name) {
                return Err(super::unknown(&name, &OPTIONS, "stradsap simulate"));
            }
            let Some(value) = words.next() else {
                return Err(usage(&format!("stradsap simulate {name}: a value was expected after it")));
            };
            asked.set(&name, value)?;
        }
        let Some(plan) = plan else {
            return Err(usage("stradsap simulate: the file of a plan was expected after it"));
        };
        Ok(Asked { plan, ..asked })
    }

    fn set(&mut self, name: &str, value: &OsString) -> Result<(), Error> {
        let text = value.to_string_lossy();
        let expected = |what: &str| usage(&format!("stradsap simulate {name}: {what} was expected, not `{text}`"));
        let number = |text: &str, most: usize| {
            let number = text.trim().parse().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| expected(&format!("a number from 1 to {most}")))
        };
        match name {
            "--workers" => {
                self.workers = text.split(',').map(|text| number(text, MOST_WORKERS)).collect::<Result<_, _>>()?;
            }
            "--threads" => self.threads = number(&text, 1024)?,
            "--cores" | "--shared-cores" => {
                (self.cores, self.shared) = (number(&text, 1024)?, name == "--shared-cores");
            }
            "--machines" => self.machines = Some(number(&text, MOST_WORKERS)?),
            "--link" => self.bytes_a_nano = rate(&text).ok_or_else(|| expected("a rate as 10Gbit or 800Mbit"))?,
            "--latency" => {
                let time = humantime::parse_duration(&text).map_err(|_| expected("a time as 50us or 1ms"))?;
                self.latency = time.as_secs_f64() * 1e9;
            }
            "--slow" => {
                let pair = pair(&text, '=').filter(|&(worker, speed)| worker > 0 && speed > 0.0);
                self.slow.push(pair.ok_or_else(|| expected("a worker and its speed as 3=0.5"))?);
            }
            "--lose" => {
                let pair = pair(&text, '@').filter(|&(worker, share)| worker > 0 && (0.0..=1.0).contains(&share));
                self.lost = Some(pair.ok_or_else(|| expected("a worker and a share of the time as 7@0.4"))?);
            }
            "--access" => {
                let nanos = text.parse().ok().filter(|nanos: &f64| nanos.is_finite() && *nanos > 0.0);
                self.access = Some(nanos.ok_or_else(|| expected("nanoseconds"))?);
            }
            "--crowded" => self.crowded = Some(PathBuf::from(value)),
            "--json" => self.json = Some(PathBuf::from(value)),
            _ => self.svg = Some(PathBuf::from(value)),
        }
        Ok(())
    }

    fn setup(&self, workers: usize, access: Access) -> Setup {
        Setup {
            workers,
            threads: self.threads,
            cores: self.cores,
            shared: self.shared,
            machines: self.machines,
            access,
            bytes_a_nano: self.bytes_a_nano,
            latency: self.latency,
            slow: self.slow.iter().map(|&(worker, speed)| (worker - 1, speed)).collect(),
            lost: self.lost.filter(|&(worker, _)| worker <= workers).map(|(_, share)| share),
        }
    }
}

pub(super) const OPTIONS: [&str; 13] = [
    "--workers",
    "--threads",
    "--cores",
    "--shared-cores",
    "--machines",
    "--link",
    "--latency",
    "--slow",
    "--lose",
    "--access",
    "--crowded",
    "--json",
    "--svg",
];

/// Bytes in a nanosecond.
fn rate(text: &str) -> Option<f64> {
    let units = [("Gbit", 1e9), ("Mbit", 1e6), ("Kbit", 1e3)];
    let (number, unit) = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)))?;
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number > 0.0).then(|| number * unit / 8e9)
}

fn pair(text: &str, between: char) -> Option<(usize, f64)> {
    let (worker, number) = text.split_once(between)?;
    let number: f64 = number.trim().parse().ok()?;
    Some((worker.trim().parse().ok()?, number)).filter(|_| number.is_finite())
}

fn row(setup: &Setup, outcome: &Outcome) -> Row {
    Row {
        workers: setup.workers,
        threads: setup.threads,
        machines: outcome.machines,
        seconds: outcome.seconds,
        speedup: outcome.speedup,
        bytes_between_machines: outcome.bytes_between,
        bytes_within_machines: outcome.bytes_within,
        computing: outcome.computing,
        waiting_for_parts: outcome.parts,
        waiting_for_order: outcome.order,
        waiting_for_processors: outcome.processors,
        nothing_left: outcome.done,
        path_in_blocks: outcome.path_blocks,
        path_in_transfers: outcome.path_transfers,
    }
}

fn print(rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "                                         | share of the threads' time               | longest chain"
    )?;
    writeln!(
        out,
        "workers machines     time speed-up  sent | computing  parts  order  cores  nothing | blocks transfers"
    )?;
    for row in rows {
        let share = |share: f64| format!("{:.0} %", 100.0 * share);
        writeln!(
            out,
            "{:>7} {:>8} {:>8} {:>8.2} {:>5} | {:>9} {:>6} {:>6} {:>6} {:>8} | {:>6} {:>9}",
            row.workers,
            row.machines,
            time(row.seconds),
            row.speedup,
            size(row.bytes_between_machines + row.bytes_within_machines),
            share(row.computing),
            share(row.waiting_for_parts),
            share(row.waiting_for_order),
            share(row.waiting_for_processors),
            share(row.nothing_left),
            share(row.path_in_blocks),
            share(row.path_in_transfers),
        )?;
    }
    Ok(())
}

/// Seconds in three digits.
fn time(seconds: f64) -> String {
    let (number, unit) = match seconds {
        _ if seconds < 1e-3 => (seconds * 1e6, "us"),
        _ if seconds < 1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let digits = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    format!("{number:.digits$} {unit}")
}

/// Bytes in few characters.
fn size(bytes: u64) -> String {
    let units = ["", "K", "M", "G", "T", "P"];
    let (mut number, mut unit) = (bytes as f64, 0);
    while number >= 999.5 && unit + 1 < units.len() {
        (number, unit) = (number / 1000.0, unit + 1);
    }
    let digits = usize::from(unit > 0 && number < 9.95);
    format!("{number:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(["0", "999", "1.0K", "12K", "3.4M"].map(String::from), [0, 999, 1_000, 12_300, 3_400_000].map(size));
        assert_eq!((time(0.000_012_34), time(0.5), time(12.0)), ("12.3 us".into(), "500 ms".into(), "12.0 s".into()));
        assert_eq!((rate("10Gbit"), rate("8Mbit"), rate("-1Gbit"), rate("7")), (Some(1.25), Some(0.001), None, None));
    }
}
