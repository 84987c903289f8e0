//! The command line that every example has, and how its mistakes are reported: one line, exit status 2.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{ExitCode, exit};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Parser};

use crate::{Error, Result, data, files};

/// The options that every example takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of every example")]
pub struct CommonArgs {
    /// The input [default: the small real data set of the repository]
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,

    /// Threads [default: STRADSAP_THREADS, or as many as there are cores]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,

    /// Passes over the data
    #[arg(long, value_name = "E", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub epochs: u32,

    /// The seed of initial values and random choices: the same seed gives the same model
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Where the model is stored: a folder, which is created if it doesn't exist
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Write what was done as one JSON object
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Draw the objective over epochs and over seconds
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Print each loop's plan: what runs in parallel, what conflicts, and why
    #[arg(long)]
    pub explain: bool,

    /// Write the training loop's conflict graph for Graphviz
    #[arg(long, value_name = "FILE.dot")]
    pub dot: Option<PathBuf>,

    /// Write the training loop's plan for `stradsap simulate`: its blocks, and how long its fastest call took
    #[arg(long, value_name = "FILE.json")]
    pub plan: Option<PathBuf>,

    /// Replay each loop in its serial order, and compare bit for bit (slow)
    #[arg(long)]
    pub verify: bool,

    /// Keep each process near this many bytes of memory (2GiB, 500MB); the rest of large DDSs lies in files
    #[arg(long, value_name = "BYTES", value_parser = stradsap::parse_bytes)]
    pub memory: Option<u64>,

    /// The folder for these files, on workers as well [default: the folder of temporary files]
    #[arg(long, value_name = "DIR", requires = "memory")]
    pub spill: Option<PathBuf>,

    /// Checkpoints.
    #[command(flatten)]
    pub saving: CheckpointArgs,

    /// More processes than one.
    #[command(flatten)]
    pub processes: ProcessArgs,
}

/// The options of programs that can go on where an earlier run ended.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Checkpoints")]
pub struct CheckpointArgs {
    /// Keep the last two checkpoints in this folder. Built with the feature `remote`, also at s3://bucket/prefix
    #[arg(long, value_name = "DIR")]
    pub checkpoint: Option<PathBuf>,

    /// Epochs from one checkpoint to the next [default: 1]
    #[arg(long, value_name = "K", requires = "checkpoint", value_parser = clap::value_parser!(u32).range(1..))]
    pub checkpoint_every: Option<u32>,

    /// Go on from the last checkpoint, if there is one; the model ends with the same bits as in one run
    #[arg(long, requires = "checkpoint")]
    pub resume: bool,
}

impl CheckpointArgs {
    /// The first of the options that is used.
    fn used(&self) -> Option<&'static str> {
        let CheckpointArgs { checkpoint, checkpoint_every, resume } = self;
        first_used([
            ("--checkpoint", checkpoint.is_some()),
            ("--checkpoint-every", checkpoint_every.is_some()),
            ("--resume", *resume),
        ])
    }
}

/// The options of programs whose loops run on many processes. Without them the environment decides (docs/cluster.md).
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many processes")]
pub struct ProcessArgs {
    /// Worker processes to start on this machine; without a number, one for each core. With --listen, how many will join.
    /// With MIN..MAX the job begins with MIN of them, and workers may come and go while it runs
    #[arg(long, value_name = "N", value_parser = workers)]
    pub workers: Option<Option<RangeInclusive<u32>>>,

    /// DDS server processes [default: none; one is embedded in each worker]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(..=1024))]
    pub dds_servers: Option<u32>,

    /// Where elements are between loops: with the workers that wrote them, or with the DDS servers [default: workers]
    #[arg(long, value_name = "PLACE", requires = "dds_servers")]
    pub home: Option<HomeArg>,

    /// Wait at this host:port for the workers to join, instead of starting them
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,

    /// Be a worker of the program that listens at this host:port; of the other options only --threads is used
    #[arg(long, value_name = "ADDR")]
    pub join: Option<String>,

    /// Loops between two snapshots, from which lost parts are restored
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub snapshot_every: Option<u32>,

    /// Write a timeline of all processes and threads, for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,
}

impl ProcessArgs {
    /// The first that is used of the options that mean nothing in one process.
    pub fn used_with_workers(&self) -> Option<&'static str> {
        ProcessArgs { trace: None, ..self.clone() }.used()
    }

    /// The first of the options that is used.
    pub fn used(&self) -> Option<&'static str> {
        let ProcessArgs { workers, dds_servers, home, listen, join, snapshot_every, trace } = self;
        first_used([
            ("--workers", workers.is_some()),
            ("--dds-servers", dds_servers.is_some()),
            ("--home", home.is_some()),
            ("--listen", listen.is_some()),
            ("--join", join.is_some()),
            ("--snapshot-every", snapshot_every.is_some()),
            ("--trace", trace.is_some()),
        ])
    }
}

/// What `--home` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum HomeArg {
    /// The workers that wrote the elements; servers have snapshots.
    Workers,
    /// The DDS servers.
    Servers,
}

/// `4`, or `2..8` where a job may begin with fewer than may take part.
fn workers(text: &str) -> std::result::Result<RangeInclusive<u32>, String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let numbers = least.parse().ok().zip(most.parse().ok()).map(|(least, most): (u32, u32)| least..=most);
    let offered = |numbers: &RangeInclusive<u32>| {
        let (&least, &most) = (numbers.start(), numbers.end());
        most <= 1024 && least <= most && (least > 0 || !text.contains(".."))
    };
    numbers
        .filter(offered)
        .ok_or_else(|| "expected a whole number of at most 1024, or a range such as 2..8".to_string())
}

fn first_used<const N: usize>(options: [(&'static str, bool); N]) -> Option<&'static str> {
    options.into_iter().find(|&(_, used)| used).map(|(option, _)| option)
}

impl CommonArgs {
    /// The input: `--data`, or the data set of the repository.
    ///
    /// # Errors
    /// As [`data::default_ratings`].
    pub fn data_or_default(&self) -> Result<PathBuf> {
        self.data.clone().map_or_else(data::default_ratings, Ok)
    }

    /// Refuses the options that mean nothing to a program without parallel loops.
    ///
    /// # Errors
    /// [`Error::Usage`] with the option.
    pub fn require_sequential(&self) -> Result<()> {
        let problem = |option| {
            let problem = "this program is sequential and has no parallel loops; leave the option out".to_owned();
            Err(Error::Usage { option, problem })
        };
        match self {
            CommonArgs { threads: Some(2..), .. } => problem("--threads"),
            CommonArgs { explain: true, .. } => problem("--explain"),
            CommonArgs { verify: true, .. } => problem("--verify"),
            CommonArgs { dot: Some(_), .. } => problem("--dot"),
            CommonArgs { plan: Some(_), .. } => problem("--plan"),
            CommonArgs { memory: Some(_), .. } => problem("--memory"),
            _ => self.saving.used().or_else(|| self.processes.used()).map_or(Ok(()), problem),
        }
    }

    /// Checks that every file that is asked for can be written. Nothing is written yet.
    ///
    /// # Errors
    /// [`Error::File`] with the first that can't.
    pub fn check_outputs(&self, output: Output) -> Result<()> {
        let named = [&self.report, &self.plot, &self.dot, &self.plan, &self.processes.trace].into_iter().flatten();
        named.map(PathBuf::as_path).try_for_each(files::check_file)?;
        if let Some(path) = &self.output {
            match output {
                Output::Folder => files::check_folder(path)?,
                Output::File => files::check_file(path)?,
            }
        }
        self.saving.checkpoint.as_deref().map_or(Ok(()), files::check_checkpoints)
    }
}

/// What `--output` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A folder for several files.
    Folder,
    /// One file.
    File,
}

/// Reads the command line; ends the program where it can't be followed, with one line on standard error and status 2.
pub fn parse<A: Parser>() -> A {
    match parse_from(std::env::args_os()) {
        Ok(args) => args,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => e.exit(),
        Err(e) => {
            eprintln!("{}", message(&e));
            exit(2)
        }
    }
}

/// Every option that takes a value takes negative numbers, so that what is said of one is what was expected instead.
fn parse_from<A: Parser>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> std::result::Result<A, clap::Error> {
    let values = |arg: Arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg };
    let mut command = A::command().mut_args(values);
    let matches = command.try_get_matches_from_mut(words)?;
    A::from_arg_matches(&matches).map_err(|e| e.format(&mut command))
}

/// The main function of a program without the library: reads the command line, runs, and gives the exit status. An error
/// is one line on standard error.
pub fn main<A: Parser>(run: impl FnOnce(&A) -> Result<()>) -> ExitCode {
    match run(&parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// What clap says, in one line, and the value that was probably meant. (Clap itself finds none of three letters in another order.)
fn message(error: &clap::Error) -> String {
    let mut text = one_line(&error.to_string());
    if let (Some(ContextValue::String(given)), Some(ContextValue::Strings(possible)), None) = (
        error.get(ContextKind::InvalidValue),
        error.get(ContextKind::ValidValue),
        error.get(ContextKind::SuggestedValue),
    ) {
        let near = possible.iter().map(|value| (strsim::damerau_levenshtein(given, value), value)).min();
        if let Some((1..=2, value)) = near {
            text += &format!("; tip: a similar value exists: '{value}'");
        }
    }
    text
}

/// A message of clap without its usage section, its lines joined.
fn one_line(message: &str) -> String {
    let said = message.split("\n\nUsage:").next().unwrap_or(message).split("\n\nFor more").next().unwrap_or(message);
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(flatten)]
        common: CommonArgs,
    }

    #[test]
    fn the_command_line_is_consistent() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn messages_are_one_line() {
        let message = |words: &[&str]| {
            let words = std::iter::once(&"example").chain(words);
            super::message(&parse_from::<Args>(words).unwrap_err())
        };
        assert_eq!(
            message(&["--epochs", "0"]),
            "error: invalid value '0' for '--epochs <E>': 0 is not in 1..=4294967295"
        );
        assert_eq!(
            message(&["--resume"]),
            "error: the following required arguments were not provided: --checkpoint <DIR>"
        );
        let negative = message(&["--epochs", "-1"]);
        assert!(negative.starts_with("error: invalid value '-1' for '--epochs <E>'"), "{negative}");
        let typo = message(&["--epoch", "3"]);
        assert!(typo.contains("'--epoch'") && typo.contains("'--epochs'") && !typo.contains('\n'), "{typo}");
    }

    #[test]
    fn options_of_many_processes_are_read() {
        let line = "x --workers 4 --dds-servers 2 --home servers --listen h:9 --snapshot-every 5 --trace t.json";
        let args = Args::try_parse_from(line.split(' ')).unwrap().common;
        let expected = ProcessArgs {
            workers: Some(Some(4..=4)),
            dds_servers: Some(2),
            home: Some(HomeArg::Servers),
            listen: Some("h:9".into()),
            join: None,
            snapshot_every: Some(5),
            trace: Some("t.json".into()),
        };
        assert_eq!(args.processes, expected);
        assert_eq!(args.processes.used(), Some("--workers"));
        let args = Args::try_parse_from(["x", "--join", "h:9"]).unwrap().common;
        assert_eq!(args.processes.used(), Some("--join"));
        assert_eq!(ProcessArgs::default().used(), None);
    }

    #[test]
    fn workers_need_no_number() {
        let workers = |line: &str| Args::try_parse_from(line.split(' ')).unwrap().common.processes.workers;
        assert_eq!(workers("x"), None);
        for line in ["x --workers", "x --workers --threads 2", "x --epochs 3 --workers --verify"] {
            assert_eq!(workers(line), Some(None), "{line}");
        }
        for line in ["x --workers 2", "x --workers=2", "x --workers 2 --threads 1"] {
            assert_eq!(workers(line), Some(Some(2..=2)), "{line}");
        }
        assert_eq!(workers("x --workers 2..8 --threads 1"), Some(Some(2..=8)));
        for wrong in ["many", "2..", "..8", "8..2", "0..2", "2..1025", "1025", "-1", "1..2..3"] {
            let error = Args::try_parse_from(["x", &format!("--workers={wrong}")]).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("2..8"), "{error}");
        }
    }

    #[test]
    fn a_sequential_program_refuses_what_needs_loops() {
        for (line, option) in [
            ("x --workers 2", "--workers"),
            ("x --workers", "--workers"),
            ("x --trace t", "--trace"),
            ("x --checkpoint d --resume", "--checkpoint"),
        ] {
            let error = Args::try_parse_from(line.split(' ')).unwrap().common.require_sequential().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().starts_with(&format!("{option}: this program is sequential")), "{error}");
        }
        Args::try_parse_from(["x"]).unwrap().common.require_sequential().unwrap();
    }
}
