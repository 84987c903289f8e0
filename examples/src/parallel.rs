//! What parallel programs do with the common options, besides what all programs do.

use stradsap::{ClusterOptions, Error, LoopReport, Session};

use crate::cli::CommonArgs;
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
    start_workers(session, common)
}

/// Starts the processes that the command line asks for, or waits for them.
fn start_workers(session: &Session, common: &CommonArgs) -> stradsap::Result<()> {
    let args = &common.processes;
    let Some(workers) = args.workers.filter(|&workers| workers > 0) else {
        return match args.used() {
            // Processes that a launcher or the environment asks for are there by now.
            Some(option) if session.workers() == 0 && args.workers.is_none() => {
                Err(Error::usage(format!("{option}: it needs --workers N, the number of worker processes")))
            }
            _ => Ok(()),
        };
    };
    let mut options = ClusterOptions::new(workers as usize);
    if let Some(threads) = common.threads {
        options = options.threads(threads as usize);
    }
    if let Some(servers) = args.dds_servers {
        options = options.dds_servers(servers as usize);
    }
    if let Some(address) = &args.listen {
        options = options.listen(address);
    }
    if let Some(loops) = args.snapshot_every {
        options = options.snapshot_every(loops as usize);
    }
    if let Some(path) = &args.trace {
        options = options.trace(path);
    }
    session.start_workers(&options)
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
