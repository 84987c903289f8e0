//! What parallel programs do with the common options, besides what all programs do.

use stradsap::{Error, LoopReport, Session};

use crate::cli::{CommonArgs, ProcessArgs};
use crate::report::Loop;

/// Sets up a session as the command line says.
///
/// # Errors
/// [`stradsap::Error::Usage`] for a number of threads or processes that is not offered.
pub fn configure(session: &Session, common: &CommonArgs) -> stradsap::Result<()> {
    if let Some(threads) = common.threads {
        session.set_threads(threads as usize)?;
    }
    if common.explain {
        session.set_explain(true);
    }
    if common.verify {
        session.verify(true);
    }
    start_workers(session, &common.processes)
}

/// Starts the processes that the command line asks for, or waits for them.
fn start_workers(_session: &Session, args: &ProcessArgs) -> stradsap::Result<()> {
    // HERE: session.start_workers(&ClusterOptions { .. }) with the fields of `args`.
    match args.used() {
        Some(option) => {
            Err(Error::usage(format!("{option}: not in this version, which runs in one process; use --threads")))
        }
        None => Ok(()),
    }
}

/// The loops of a program for its report. The conflict graph of the first is written where `--dot` says.
///
/// # Errors
/// [`stradsap::Error::File`].
pub fn describe(common: &CommonArgs, loops: &[&LoopReport]) -> stradsap::Result<Vec<Loop>> {
    if let (Some(path), Some(main)) = (&common.dot, loops.first()) {
        main.write_dot(path)?;
    }
    Ok(loops.iter().map(|report| entry(report)).collect())
}

fn entry(report: &LoopReport) -> Loop {
    Loop {
        site: report.site(),
        strategy: report.strategy().to_string(),
        blocks: report.blocks(),
        parallelism: report.parallelism(),
        seconds_recording: report.seconds_recording(),
        seconds_planning: report.seconds_planning(),
    }
}
