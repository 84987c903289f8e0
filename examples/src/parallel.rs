//! What parallel programs do with the common options, besides what all programs do.

use std::ops::RangeInclusive;

#[cfg(feature = "cluster")]
use stradsap::{ClusterOptions, Homes};
use stradsap::{Error, LoopReport, ScheduledReport, Session, SyncReport, Verified, WorkerTime};

use crate::cli::CommonArgs;
#[cfg(feature = "cluster")]
use crate::cli::HomeArg;
use crate::report::{Loop, WorkerSeconds};

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
    if let Some(limit) = common.memory {
        session.set_memory(limit, common.spill.clone().unwrap_or_else(std::env::temp_dir))?;
    }
    start_workers(session, common)
}

/// Starts the processes that the command line asks for, or waits for them.
fn start_workers(session: &Session, common: &CommonArgs) -> stradsap::Result<()> {
    let args = &common.processes;
    let Some(workers) = args.workers.clone().filter(|workers| *workers != Some(0..=0)) else {
        if session.workers() == 0
            && let Some(path) = &args.trace
        {
            session.trace(path)?;
        }
        return match args.used_with_workers() {
            // Processes that a launcher or the environment asks for are there by now.
            Some("--workers") if args.listen.is_some() => {
                Err(Error::usage("--workers 0: with --listen, it needs the number of workers that will join"))
            }
            Some(option) if session.workers() == 0 && args.workers.is_none() => {
                Err(Error::usage(format!("{option}: it needs --workers N, the number of worker processes")))
            }
            _ => Ok(()),
        };
    };
    start(session, common, workers)
}

#[cfg(not(feature = "cluster"))]
fn start(_: &Session, _: &CommonArgs, _: Option<RangeInclusive<u32>>) -> stradsap::Result<()> {
    Err(Error::usage("--workers: this program was built without the feature `cluster`"))
}

#[cfg(feature = "cluster")]
fn start(session: &Session, common: &CommonArgs, workers: Option<RangeInclusive<u32>>) -> stradsap::Result<()> {
    let args = &common.processes;
    let mut options = match workers {
        Some(workers) => ClusterOptions::new(*workers.end() as usize).at_least(*workers.start() as usize),
        None if args.listen.is_some() => {
            return Err(Error::usage("--workers: with --listen, it needs the number of workers that will join"));
        }
        None => ClusterOptions::one_per_core(),
    };
    if let Some(threads) = common.threads {
        options = options.threads(threads as usize);
    }
    if let Some(servers) = args.dds_servers {
        options = options.dds_servers(servers as usize);
    }
    if args.home == Some(HomeArg::Servers) {
        options = options.homes(Homes::Servers);
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

/// The loops of a program for its report, from their calls.
#[derive(Debug, Default)]
pub struct Loops {
    seen: Vec<Loop>,
    /// The fastest call of the first asynchronous loop.
    main: Option<LoopReport>,
}

impl Loops {
    /// Notes what calls of synchronous loops and of others did: the same loops in the same order each time. The conflict
    /// graph of the first of the others is written where `--dot` says.
    ///
    /// # Errors
    /// [`stradsap::Error::File`]; [`stradsap::Error::Usage`] where what the command line asks for needs an asynchronous loop.
    pub fn record_all(
        &mut self,
        common: &CommonArgs,
        synchronous: &[&SyncReport],
        calls: &[&LoopReport],
    ) -> stradsap::Result<()> {
        if self.seen.is_empty() {
            let asked = [("--dot", &common.dot), ("--plan", &common.plan)];
            if calls.is_empty()
                && let Some((option, _)) = asked.into_iter().find(|(_, path)| path.is_some())
            {
                return Err(Error::usage(format!(
                    "{option}: synchronous loops have no such plan; leave the option out"
                )));
            }
            if let (Some(path), Some(main)) = (&common.dot, calls.first()) {
                main.write_dot(path)?;
            }
            let entries = synchronous.iter().map(|call| sync_entry(call));
            self.seen = entries.chain(calls.iter().map(|call| entry(call))).collect();
        }
        if let Some(&call) = calls.first()
            && self.main.as_ref().is_none_or(|main| call.seconds_running() < main.seconds_running())
        {
            self.main = Some(call.clone());
        }
        self.add_times(synchronous.iter().map(|call| call.workers()).chain(calls.iter().map(|call| call.workers())));
        Ok(())
    }

    /// Notes what calls of scheduled programs did.
    pub fn record_scheduled<'r>(&mut self, calls: impl IntoIterator<Item = &'r ScheduledReport>) {
        for call in calls {
            let entry = scheduled_entry(call);
            let at = self.seen.iter().position(|seen| (&seen.site, &seen.strategy) == (&entry.site, &entry.strategy));
            let at = at.unwrap_or_else(|| {
                self.seen.push(entry);
                self.seen.len() - 1
            });
            call.workers().iter().for_each(|time| add(&mut self.seen[at].worker_seconds, time));
        }
    }

    fn add_times<'r>(&mut self, times: impl Iterator<Item = &'r [WorkerTime]>) {
        for (seen, times) in self.seen.iter_mut().zip(times) {
            times.iter().for_each(|time| add(&mut seen.worker_seconds, time));
        }
    }

    /// Writes the plan that the command line asks for. Gives one entry a loop.
    ///
    /// # Errors
    /// [`stradsap::Error::File`].
    pub fn finish(self, common: &CommonArgs) -> stradsap::Result<Vec<Loop>> {
        if let (Some(path), Some(main)) = (&common.plan, &self.main) {
            main.write_plan(path)?;
        }
        Ok(self.seen)
    }
}

fn entry(report: &LoopReport) -> Loop {
    Loop {
        site: report.site(),
        strategy: report.strategy().to_string(),
        blocks: report.blocks(),
        parallelism: report.parallelism(),
        seconds_recording: report.seconds_recording(),
        seconds_planning: report.seconds_planning(),
        verified: told(&report.verified()),
        worker_seconds: Vec::new(),
    }
}

/// Its blocks are minibatches, and its parallelism is the number of threads that run them.
fn sync_entry(report: &SyncReport) -> Loop {
    Loop {
        site: report.site(),
        strategy: report.policy().to_string(),
        blocks: report.minibatches(),
        parallelism: report.threads() as f64,
        seconds_recording: 0.0,
        seconds_planning: report.seconds_preparing(),
        verified: told(report.verified()),
        worker_seconds: Vec::new(),
    }
}

/// Its blocks are the parts of its data.
fn scheduled_entry(report: &ScheduledReport) -> Loop {
    Loop {
        site: report.site().to_owned(),
        strategy: format!("scheduled, pipeline {}", report.pipeline()),
        blocks: report.shards(),
        parallelism: report.shards() as f64,
        seconds_recording: 0.0,
        seconds_planning: report.seconds_preparing(),
        verified: told(report.verified()),
        worker_seconds: Vec::new(),
    }
}

/// What was compared, in a run that verifies.
fn told(verified: &Verified) -> Option<String> {
    (*verified != Verified::NotAsked).then(|| verified.to_string())
}

/// Adds a worker's time in one call. A replacement of a lost worker is one of its own.
fn add(sums: &mut Vec<WorkerSeconds>, time: &WorkerTime) {
    let WorkerTime { worker, computing, waiting, transferring } = time;
    match sums.iter_mut().find(|sum| sum.worker == *worker) {
        Some(sum) => {
            sum.computing += computing;
            sum.waiting += waiting;
            sum.transferring += transferring;
        }
        None => sums.push(WorkerSeconds {
            worker: worker.clone(),
            computing: *computing,
            waiting: *waiting,
            transferring: *transferring,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_by_worker() {
        let time = |worker: &str, computing, waiting, transferring| WorkerTime {
            worker: worker.to_owned(),
            computing,
            waiting,
            transferring,
        };
        let mut sums = Vec::new();
        for time in [time("a", 1.0, 0.5, 0.25), time("b", 2.0, 0.0, 0.0), time("a", 1.0, 1.5, 0.0)] {
            add(&mut sums, &time);
        }
        let sum = |worker: &str, computing, waiting, transferring| WorkerSeconds {
            worker: worker.to_owned(),
            computing,
            waiting,
            transferring,
        };
        assert_eq!(sums, [sum("a", 2.0, 2.0, 0.25), sum("b", 2.0, 0.0, 0.0)]);
    }
}
