//! One training run: its clock, what it shows while it goes on, and the report and plot that it leaves.

use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stradsap::{Digest, Progress};

use crate::cli::{CommonArgs, Output};
use crate::plot::{self, Series};
use crate::report::{Epoch, Loop, Report, peak_rss_bytes};
use crate::{Error, Result, print_line};

/// What an example measures after each epoch.
pub trait Measures: Serialize + DeserializeOwned + Clone {
    /// What the values are, and their unit: the name of the plot's vertical axis.
    const AXIS: &'static str;
    /// What to do when the objective is no longer finite.
    const ADVICE: &'static str;

    /// What the algorithm minimises or maximises.
    fn objective(&self) -> f64;

    /// The values with their names; the same names after each epoch.
    fn series(&self) -> Vec<(&'static str, f64)>;

    /// What else is worth a person's look, behind the values; not drawn.
    fn note(&self) -> String {
        String::new()
    }
}

/// Epochs that are done: the seconds, the bytes sent and the measures of each.
pub type History<M> = Vec<(f64, u64, M)>;

/// What a run ran on: nothing but the program's own thread, in a program without the library.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Worker processes; 0: all in the program's own process.
    pub(crate) workers: usize,
    /// Threads that trained (in each worker).
    pub(crate) threads: usize,
    /// The parallel loops.
    pub(crate) loops: Vec<Loop>,
}

/// A run from the program's start to its report. A program without the library has one; one with it has a
/// [`Training`](crate::Training), which is a run and more.
#[derive(Debug)]
pub struct Run<'a, M> {
    example: &'static str,
    args: &'a CommonArgs,
    started: Instant,
    progress: Progress,
    epochs: Vec<Epoch<M>>,
}

impl<'a, M: Measures> Run<'a, M> {
    /// A run of a program without the library: refuses options of parallel loops, checks that what is asked for can be
    /// written at the end, and starts the clock.
    ///
    /// # Errors
    /// As [`CommonArgs::require_sequential`] and [`CommonArgs::check_outputs`].
    pub fn sequential(example: &'static str, args: &'a CommonArgs) -> Result<Run<'a, M>> {
        Run::sequential_with(example, args, Output::Folder)
    }

    /// [`sequential`](Run::sequential) for a program that says what `--output` names.
    ///
    /// # Errors
    /// As [`sequential`](Run::sequential).
    pub fn sequential_with(example: &'static str, args: &'a CommonArgs, output: Output) -> Result<Run<'a, M>> {
        args.require_sequential()?;
        Run::start(example, args, output)
    }

    pub(crate) fn start(example: &'static str, args: &'a CommonArgs, output: Output) -> Result<Run<'a, M>> {
        args.check_outputs(output)?;
        // A loop that explains itself prints lines, which a bar would run into.
        let progress = Progress::new("epoch", args.epochs.into());
        let progress = if args.explain { progress.plain() } else { progress };
        Ok(Run { example, args, started: Instant::now(), progress, epochs: Vec::new() })
    }

    /// An epoch goes over this many items, called so: shows how many a second.
    pub fn items(&mut self, items: usize, called: &str) {
        self.progress.items(items, called);
    }

    /// Shows a line.
    pub fn line(&mut self, text: &str) {
        self.progress.line(text);
    }

    /// Shows a line where the run ends early.
    pub(crate) fn last_line(&mut self, text: &str) {
        self.progress.finish();
        self.progress.line(text);
    }

    /// How many epochs are done.
    pub fn done(&self) -> u32 {
        self.epochs.len() as u32
    }

    /// The epochs that are done, for a checkpoint.
    pub fn history(&self) -> History<M> {
        self.epochs.iter().map(|e| (e.seconds, e.bytes_sent, e.measures.clone())).collect()
    }

    /// Begins where another run ended, with its epochs.
    pub fn resume(&mut self, history: History<M>) {
        self.epochs.clear();
        for (seconds, bytes_sent, measures) in history {
            let (epoch, objective) = (self.done() + 1, measures.objective());
            self.epochs.push(Epoch { epoch, seconds, objective, bytes_sent, measures });
        }
        self.progress.resume(self.done().into());
    }

    /// Notes the end of an epoch that trained for `seconds`, while processes sent each other `bytes_sent` bytes.
    ///
    /// # Errors
    /// [`Error::Diverged`] when the objective isn't finite.
    pub fn epoch(&mut self, seconds: f64, bytes_sent: u64, measures: M) -> Result<()> {
        let epoch = self.done() + 1;
        let objective = measures.objective();
        if !objective.is_finite() {
            self.progress.finish();
            return Err(Error::Diverged { epoch, objective, advice: M::ADVICE });
        }
        self.progress.step_of(seconds, shown(&measures));
        self.epochs.push(Epoch { epoch, seconds, objective, bytes_sent, measures });
        Ok(())
    }

    /// Draws the plot, writes the report of a program without the library, and says on standard output what was reached.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Plot`], [`Error::Output`].
    pub fn finish(self, data: impl Serialize, digest: &Digest) -> Result<()> {
        self.finish_on(Ran { workers: 0, threads: 1, loops: Vec::new() }, data, digest)
    }

    pub(crate) fn finish_on(mut self, ran: Ran, data: impl Serialize, digest: &Digest) -> Result<()> {
        self.progress.finish();
        if let Some(path) = &self.args.plot {
            let seconds: Vec<f64> = self.epochs.iter().map(|e| e.seconds).collect();
            plot::draw(path, self.example, M::AXIS, &seconds, &series_of(&self.epochs))?;
        }
        let reached = self.epochs.last().map_or_else(String::new, |e| shown(&e.measures));
        let report = Report {
            example: self.example,
            workers: ran.workers,
            threads: ran.threads,
            seed: self.args.seed,
            data,
            loops: ran.loops,
            epochs: self.epochs,
            seconds_total: self.started.elapsed().as_secs_f64(),
            peak_rss_bytes: peak_rss_bytes(),
            model_digest: digest.to_string(),
        };
        if let Some(path) = &self.args.report {
            report.write(path)?;
        }
        let trained: f64 = report.epochs.iter().map(|e| e.seconds).sum();
        let mut verified = report.loops.iter().filter_map(|each| Some((&each.site, each.verified.as_ref()?)));
        verified.try_for_each(|(site, verified)| print_line(&format!("{site}: {verified}")))?;
        print_line(&format!(
            "{reached} after {} epochs: {trained:.2} s of training, {:.2} s in all\nmodel {}",
            report.epochs.len(),
            report.seconds_total,
            report.model_digest
        ))
    }
}

fn shown<M: Measures>(measures: &M) -> String {
    let shown = |(name, value): &(&str, f64)| {
        if *value != 0.0 && !(1e-3..1e12).contains(&value.abs()) {
            format!("{name} {value:.3e}")
        } else {
            format!("{name} {value:.4}")
        }
    };
    measures.series().iter().map(shown).collect::<Vec<_>>().join("  ") + &measures.note()
}

fn series_of<M: Measures>(epochs: &[Epoch<M>]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for epoch in epochs {
        for (i, (label, value)) in epoch.measures.series().into_iter().enumerate() {
            match all.get_mut(i) {
                Some(series) => series.values.push(value),
                None => all.push(Series { label, values: vec![value] }),
            }
        }
    }
    all
}
