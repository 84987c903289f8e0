//! The command `stradsap`: looks at what programs leave: which checkpoints there are and what they hold, how a loop would run on
//! other machines. It has its own completions and manual page.

mod simulate;
mod speedups;

use std::ffi::OsString;
use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use crate::Error;
use crate::checkpoint::report;

const HELP: &str = "\
Reads the checkpoints and plans that programs with stradsap write.

Usage: stradsap checkpoints list DIR      a table: step, when, size, vectors, build
       stradsap checkpoints verify DIR    compare every file with its checksum
       stradsap checkpoints verify FILE   the same for one checkpoint, or one data file
       stradsap checkpoints show FILE     what a checkpoint holds
       stradsap simulate PLAN [OPTIONS]   how long a loop would take on other machines
       stradsap completions SHELL         completions for bash, zsh or fish
       stradsap man                       the manual page: stradsap man | man -l -
       stradsap --help | --version

FILE is a step-*.checkpoint in a folder of checkpoints. Built with the feature `remote`,
both may be addresses: s3://bucket/prefix.

PLAN is what a program writes with --plan PLAN.json, or LoopReport::write_plan.
  --workers N,N,...   worker processes [default: 1,4,16,64,256]
  --threads T         threads in each [default: 1]
  --cores C           cores of a machine, on which C / T workers run [default: 16]
  --shared-cores C    the machines are namespaces or containers of one machine, and share its C cores
  --machines M        run on M machines, however many workers each then has
  --link RATE         of a machine, each way, as 10Gbit or 800Mbit [default: 10Gbit]
  --latency TIME      of the link, as 50us [default: 50us]
  --slow W=S          worker W (from 1) has S times the speed of the others
  --lose W@S          worker W is lost after S of the loop's time, from 0 to 1
  --access NS         nanoseconds for each access [default: as measured, in PLAN]
  --crowded FILE      the same loop's PLAN, written while all cores ran it: how they slow each other down
  --json FILE         write the table as JSON
  --svg FILE          draw the speed-ups

Exit code: 0 all is good, 1 a file is bad or can't be read, 2 wrong usage.
";

const WORDS: [&str; 4] = ["checkpoints", "simulate", "completions", "man"];
const ACTIONS: [&str; 3] = ["list", "verify", "show"];
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];
const COMPLETIONS: [&str; 3] = [
    include_str!("command/stradsap.bash"),
    include_str!("command/stradsap.zsh"),
    include_str!("command/stradsap.fish"),
];
const MANUAL: &str = include_str!("command/stradsap.1");

/// Why a command ended early.
pub(crate) enum Failure {
    /// Of a checkpoint or its folder.
    Bad(Error),
    /// Bad files, which were reported.
    Told,
    /// What was found can't be said.
    Unsaid(std::io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Bad(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Unsaid(error)
    }
}

/// Runs the command with its arguments.
pub fn command_line(words: &[OsString]) -> ExitCode {
    let mut out = stdout().lock();
    let outcome = run(words, &mut out).and_then(|()| out.flush().map_err(Failure::from));
    let error = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Told) => return ExitCode::from(1),
        Err(Failure::Bad(error)) => error,
        Err(Failure::Unsaid(source)) => Error::File { path: "standard output".into(), source },
    };
    let _ = writeln!(stderr(), "error: {error}"); // there is nowhere else to say it
    ExitCode::from(error.exit_code())
}

fn run(words: &[OsString], out: &mut dyn Write) -> Result<(), Failure> {
    let asks = |word: &OsString, short: &str, long: &str| word == short || word == long;
    if words.iter().any(|word| asks(word, "-h", "--help")) {
        return Ok(out.write_all(HELP.as_bytes())?);
    }
    if words.first().is_some_and(|word| asks(word, "-V", "--version")) {
        return Ok(writeln!(out, "stradsap {}", env!("CARGO_PKG_VERSION"))?);
    }
    match chosen(words.first(), &WORDS, "stradsap")? {
        "simulate" => simulate::run(&words[1..], out),
        "man" => {
            no_more(&words[1..], "stradsap man")?;
            Ok(out.write_all(MANUAL.as_bytes())?)
        }
        "completions" => {
            let shell = chosen(words.get(1), &SHELLS, "stradsap completions")?;
            no_more(&words[2..], &format!("stradsap completions {shell}"))?;
            let of = SHELLS.iter().zip(COMPLETIONS).filter(|(offered, _)| **offered == shell);
            Ok(of.map(|(_, text)| text).try_for_each(|text| out.write_all(text.as_bytes()))?)
        }
        _ => checkpoints(words, out),
    }
}

fn checkpoints(words: &[OsString], out: &mut dyn Write) -> Result<(), Failure> {
    let action = chosen(words.get(1), &ACTIONS, "stradsap checkpoints")?;
    let what = match action {
        "list" => "the folder of checkpoints",
        "verify" => "a folder of checkpoints, or one of its files",
        _ => "a checkpoint's file",
    };
    let path = match &words[2..] {
        [] => return Err(usage(&format!("stradsap checkpoints {action}: {what} was expected after it")).into()),
        [path, more @ ..] => {
            no_more(more, &format!("stradsap checkpoints {action}"))?;
            Path::new(path)
        }
    };
    match action {
        "list" => report::list(path, out),
        "verify" => report::verify(path, out),
        _ => report::show(path, out),
    }
}

fn usage(problem: &str) -> Error {
    Error::usage(format!("{problem}; see stradsap --help"))
}

fn no_more(words: &[OsString], after: &str) -> Result<(), Error> {
    let extra = words.first().map(|extra| usage(&format!("{after}: `{}` is a word too many", extra.display())));
    extra.map_or(Ok(()), Err)
}

/// The one of some words that stands here.
fn chosen(word: Option<&OsString>, offered: &[&'static str], after: &str) -> Result<&'static str, Error> {
    let all: Vec<_> = offered.iter().map(|offered| format!("`{offered}`")).collect();
    let Some(word) = word else {
        let (last, before) = all.split_last().map_or((String::new(), String::new()), |(last, before)| {
            (last.clone(), before.join(", ") + if before.is_empty() { "" } else { " or " })
        });
        return Err(usage(&format!("{after}: {before}{last} was expected after it")));
    };
    let text = word.to_string_lossy();
    if let Some(&word) = offered.iter().find(|&&offered| offered == text) {
        return Ok(word);
    }
    Err(unknown(&text, offered, after))
}

/// A word that is none of those offered; names the nearest of them.
fn unknown(text: &str, offered: &[&str], after: &str) -> Error {
    let closeness = |offered: &str| strsim::normalized_damerau_levenshtein(offered, text);
    let nearest = offered.iter().max_by(|a, b| closeness(a).total_cmp(&closeness(b)));
    let all: Vec<_> = offered.iter().map(|offered| format!("`{offered}`")).collect();
    usage(&match nearest.filter(|nearest| closeness(nearest) >= 0.4) {
        Some(nearest) => format!("{after}: there is no `{text}`; did you mean `{nearest}`?"),
        None => format!("{after}: there is no `{text}`; there is {}", all.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_and_manual_name_all_words() {
        for text in COMPLETIONS.into_iter().chain([MANUAL, HELP]) {
            let text = text.replace("\\-", "-"); // roff's hyphen-minus
            for word in WORDS.iter().chain(&ACTIONS).chain(&simulate::OPTIONS) {
                let word = word.trim_start_matches("--");
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }
}
