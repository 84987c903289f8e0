//! One training run of a parallel program: a [`Run`] with its session, its checkpoints and the loops of its report.

use std::ops::{Deref, DerefMut};

use serde::Serialize;
use stradsap::{
    Checkpoint, DMatrix, DVector, Digest, Element, LoopReport, Saved, ScheduledReport, Session, StopSignal, SyncReport,
};

use crate::AnyError;
use crate::cli::{CommonArgs, Output};
use crate::parallel::{Loops, configure};
use crate::run::{Measures, Ran, Run};
use crate::saving::Saving;

/// A run from the program's start to its report, on a session.
#[derive(Debug)]
pub struct Training<'a, M> {
    run: Run<'a, M>,
    session: &'a Session,
    common: &'a CommonArgs,
    saving: Saving,
    resumed: Option<Checkpoint>,
    loops: Loops,
}

impl<'a, M: Measures> Training<'a, M> {
    /// Sets up the session as the command line says, checks that what is asked for can be written at the end, and starts
    /// the clock.
    ///
    /// # Errors
    /// As [`configure`] and [`CommonArgs::check_outputs`].
    pub fn start(name: &'static str, session: &'a Session, common: &'a CommonArgs) -> Result<Self, AnyError> {
        Training::start_with(name, session, common, Output::Folder)
    }

    /// [`start`](Training::start) for a program that says what `--output` names.
    ///
    /// # Errors
    /// As [`start`](Training::start).
    pub fn start_with(
        name: &'static str,
        session: &'a Session,
        common: &'a CommonArgs,
        output: Output,
    ) -> Result<Self, AnyError> {
        configure(session, common)?;
        // From now on a signal ends the run after an epoch.
        session.stopping();
        let run = Run::start(name, common, output)?;
        Ok(Training { run, session, common, saving: Saving::default(), resumed: None, loops: Loops::default() })
    }

    /// Finds the checkpoint to go on from, if the command line asks for one; `settings` is what the model depends on.
    ///
    /// # Errors
    /// As [`Saving::start`].
    pub fn resume(&mut self, settings: String) -> stradsap::Result<()> {
        (self.saving, self.resumed) = Saving::start(self.common, settings, &mut self.run)?;
        Ok(())
    }

    /// The checkpoint that the run goes on from, before the first epoch.
    pub fn resumed(&self) -> Option<&Checkpoint> {
        self.resumed.as_ref()
    }

    /// A vector as training begins with it: that of the checkpoint which the run goes on from, or else `first`.
    ///
    /// # Errors
    /// Of either.
    pub fn vector<T: Element>(
        &self,
        name: &str,
        first: impl FnOnce() -> stradsap::Result<DVector<T>>,
    ) -> stradsap::Result<DVector<T>> {
        self.resumed.as_ref().map_or_else(first, |checkpoint| checkpoint.vector(self.session, name))
    }

    /// The same of a matrix.
    ///
    /// # Errors
    /// Of either.
    pub fn matrix<T: Element>(
        &self,
        name: &str,
        first: impl FnOnce() -> stradsap::Result<DMatrix<T>>,
    ) -> stradsap::Result<DMatrix<T>> {
        self.resumed.as_ref().map_or_else(first, |checkpoint| checkpoint.matrix(self.session, name))
    }

    /// Notes what an epoch's asynchronous loops did, for the report: the same loops in the same order each time. The
    /// conflict graph of the first is written where `--dot` says.
    ///
    /// # Errors
    /// [`stradsap::Error::File`].
    pub fn record(&mut self, calls: &[&LoopReport]) -> stradsap::Result<()> {
        self.record_all(&[], calls)
    }

    /// Notes what an epoch's synchronous loops did, and its asynchronous ones, as [`record`](Training::record) does.
    ///
    /// # Errors
    /// [`stradsap::Error::File`].
    pub fn record_all(&mut self, synchronous: &[&SyncReport], calls: &[&LoopReport]) -> stradsap::Result<()> {
        self.loops.record_all(self.common, synchronous, calls)
    }

    /// Notes what calls of scheduled programs did.
    pub fn record_scheduled<'r>(&mut self, calls: impl IntoIterator<Item = &'r ScheduledReport>) {
        self.loops.record_scheduled(calls);
    }

    /// Whether a checkpoint is due after the last epoch, or the run has to end.
    pub fn save_due(&self) -> bool {
        self.saving.due(&self.run) || self.stopping().is_some()
    }

    /// The signal that ends the run before its last epoch.
    fn stopping(&self) -> Option<StopSignal> {
        self.session.stopping().filter(|_| self.run.done() < self.common.epochs)
    }

    /// Saves a checkpoint of the model, if one is due after the last epoch.
    ///
    /// # Errors
    /// As [`Saving::epoch_done`] and [`Saving::stop`]; [`stradsap::Error::Stopped`] if a signal has asked the run to end.
    pub fn save(&mut self, vectors: &[(&str, &dyn Saved)]) -> stradsap::Result<()> {
        self.resumed = None;
        let Some(signal) = self.stopping() else { return self.saving.epoch_done(&mut self.run, vectors) };
        self.saving.stop(&mut self.run, vectors)?;
        // A warning may have become an order meanwhile.
        Err(stradsap::Error::Stopped { signal: self.session.stopping().unwrap_or(signal) })
    }

    /// Waits for the last checkpoint, draws the plot, writes the report, and says on standard output what was reached.
    ///
    /// # Errors
    /// As [`Saving::finish`] and [`Run::finish`].
    pub fn finish(mut self, data: impl Serialize, digest: &Digest) -> Result<(), AnyError> {
        self.saving.finish(&mut self.run)?;
        let (workers, threads) = (self.session.workers(), self.session.threads());
        let ran = Ran { workers, threads, loops: self.loops.finish(self.common)? };
        self.run.finish_on(ran, data, digest)?;
        Ok(())
    }
}

impl<'a, M> Deref for Training<'a, M> {
    type Target = Run<'a, M>;

    fn deref(&self) -> &Run<'a, M> {
        &self.run
    }
}

impl<M> DerefMut for Training<'_, M> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.run
    }
}
