//! The command line that every example has, and how its mistakes are told: one line, exit status 2.

use std::path::PathBuf;
use std::process::{ExitCode, exit};

use clap::Parser;
use clap::error::ErrorKind;

use crate::{Error, Result, data, files};

/// The options that every example takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of every example")]
pub struct CommonArgs {
    /// The input; absent: the small real data set of the repository
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,

    /// Threads [default: STRADSAP_THREADS, or as many as there are cores]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,

    /// Passes over the data
    #[arg(long, value_name = "E", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub epochs: u32,

    /// What initial values and random choices come from: the same seed, the same model
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Store the model in this folder, which is created where needed
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

    /// Replay each loop in the order that it is equal to, and compare bit for bit (slow)
    #[arg(long)]
    pub verify: bool,

    #[command(flatten)]
    processes: ProcessArgs,
}

/// The options that need more than one process.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Not in this version, which runs in one process")]
struct ProcessArgs {
    /// Worker processes
    #[arg(long, value_name = "N")]
    workers: Option<u32>,

    /// DDS server processes
    #[arg(long, value_name = "M")]
    dds_servers: Option<u32>,

    /// Go on from the last checkpoint
    #[arg(long)]
    resume: bool,

    /// Where checkpoints are kept
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,

    /// Epochs from one checkpoint to the next
    #[arg(long, value_name = "K")]
    checkpoint_every: Option<u32>,
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
            _ => Ok(()),
        }
    }

    /// Checks that every file that is asked for can be written. Nothing is written yet.
    ///
    /// # Errors
    /// [`Error::File`] with the first that can't.
    pub fn check_outputs(&self) -> Result<()> {
        let named = [&self.report, &self.plot, &self.dot].into_iter().flatten();
        named.map(PathBuf::as_path).try_for_each(files::check_file)?;
        self.output.as_deref().map_or(Ok(()), files::check_folder)
    }

    fn check_offered(&self) -> Result<()> {
        let ProcessArgs { workers, dds_servers, resume, checkpoint, checkpoint_every } = &self.processes;
        let asked = [
            ("--workers", workers.is_some()),
            ("--dds-servers", dds_servers.is_some()),
            ("--resume", *resume),
            ("--checkpoint", checkpoint.is_some()),
            ("--checkpoint-every", checkpoint_every.is_some()),
        ];
        match asked.into_iter().find(|&(_, asked)| asked) {
            Some((option, _)) => {
                let problem = "not in this version, which runs in one process; use --threads".to_owned();
                Err(Error::Usage { option, problem })
            }
            None => Ok(()),
        }
    }
}

/// The arguments of an example: [`CommonArgs`] and its own.
pub trait ExampleArgs: Parser {
    /// The options that every example has.
    fn common(&self) -> &CommonArgs;
}

/// Reads the command line; ends the program where it can't be followed, with one line on standard error and status 2.
pub fn parse<A: ExampleArgs>() -> A {
    let args = match A::try_parse() {
        Ok(args) => args,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => e.exit(),
        Err(e) => {
            eprintln!("{}", one_line(&e.to_string()));
            exit(2)
        }
    };
    if let Err(e) = args.common().check_offered() {
        fail(&e);
        exit(i32::from(e.exit_code()))
    }
    args
}

/// Prints an error as examples do, and gives the exit status that goes with it.
pub fn fail(error: &Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(error.exit_code())
}

/// Clap's message without its usage section, its lines joined.
fn one_line(message: &str) -> String {
    let said = message.split("\n\nUsage:").next().unwrap_or(message).split("\n\nFor more").next().unwrap_or(message);
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
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
            one_line(&Args::try_parse_from(words).unwrap_err().to_string())
        };
        assert_eq!(
            message(&["--epochs", "0"]),
            "error: invalid value '0' for '--epochs <E>': 0 is not in 1..=4294967295"
        );
        let typo = message(&["--epoch", "3"]);
        assert!(typo.contains("'--epoch'") && typo.contains("'--epochs'") && !typo.contains('\n'), "{typo}");
    }

    #[test]
    fn options_for_more_processes_are_refused() {
        for (words, option) in [
            (&["x", "--workers", "2"][..], "--workers"),
            (&["x", "--dds-servers", "1"], "--dds-servers"),
            (&["x", "--resume"], "--resume"),
            (&["x", "--checkpoint", "d"], "--checkpoint"),
            (&["x", "--checkpoint-every", "5"], "--checkpoint-every"),
        ] {
            let error = Args::try_parse_from(words).unwrap().common.check_offered().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let text = error.to_string();
            assert!(text.starts_with(option) && text.contains("one process"), "{text}");
        }
        Args::try_parse_from(["x"]).unwrap().common.check_offered().unwrap();
    }
}
