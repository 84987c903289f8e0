//! Checkpoints of a training run, as the command line asks for them.

use std::path::{Path, PathBuf};

use stradsap::files::shown;
use stradsap::{Checkpoint, Checkpoints, Error, Saved};

use crate::cli::{CheckpointArgs, CommonArgs};
use crate::run::{History, Measures, Run};

/// Saves a run's vectors and its epochs so far; without an option that asks for it, nothing.
#[derive(Debug, Default)]
pub struct Saving {
    /// And where they are.
    checkpoints: Option<(Checkpoints, PathBuf)>,
    settings: String,
}

impl Saving {
    /// Finds the checkpoint to go on from, if the command line asks for one and there is one; the run then has the epochs
    /// that it holds. `settings` is what the model depends on.
    ///
    /// # Errors
    /// [`Error::Usage`] if the folder is another run's; [`Error::File`] if it can't be used, or if no checkpoint in it can.
    pub fn start<M: Measures>(
        common: &CommonArgs,
        settings: String,
        run: &mut Run<'_, M>,
    ) -> stradsap::Result<(Saving, Option<Checkpoint>)> {
        let CheckpointArgs { checkpoint: Some(folder), checkpoint_every, resume } = &common.saving else {
            return Ok((Saving { checkpoints: None, settings }, None));
        };
        let mut checkpoints = Checkpoints::new(folder, checkpoint_every.unwrap_or(1).into())?;
        let found = if *resume { checkpoints.resume()? } else { checkpoints.begin().map(|()| None)? };
        if let Some(checkpoint) = &found {
            let (saved, history): (String, History<M>) = checkpoint.state()?;
            let path = shown(checkpoint.path());
            if saved != settings {
                return Err(Error::usage(format!("{path} is of another run: {saved}; this one: {settings}")));
            }
            run.line(&format!("going on after epoch {} with {path}", checkpoint.step()));
            run.resume(history);
        } else if *resume {
            run.line(&format!("no checkpoint in {} yet: beginning with epoch 1", shown(folder)));
        }
        Ok((Saving { checkpoints: Some((checkpoints, folder.clone())), settings }, found))
    }

    /// Whether a checkpoint is due after the run's last epoch.
    pub fn due<M: Measures>(&self, run: &Run<'_, M>) -> bool {
        self.checkpoints.as_ref().is_some_and(|(checkpoints, _)| checkpoints.due(u64::from(run.done())))
    }

    /// Saves a checkpoint, if one is due after the run's last epoch. A disk that is full doesn't end the training: the line
    /// that says so, after a later epoch or at the end, is all.
    ///
    /// # Errors
    /// What reading a vector gives.
    pub fn epoch_done<M: Measures>(
        &mut self,
        run: &mut Run<'_, M>,
        vectors: &[(&str, &dyn Saved)],
    ) -> stradsap::Result<()> {
        let Some((checkpoints, folder)) = &mut self.checkpoints else { return Ok(()) };
        let step = u64::from(run.done());
        if !checkpoints.due(step) {
            return Ok(());
        }
        let saved = checkpoints.save(step, &(self.settings.clone(), run.history()), vectors);
        unless_of_a_file(run, folder, saved)
    }

    /// Waits until the last checkpoint is on the disk. As above, one that can't be written is only reported.
    ///
    /// # Errors
    /// As above.
    pub fn finish<M: Measures>(&mut self, run: &mut Run<'_, M>) -> stradsap::Result<()> {
        let Some((checkpoints, folder)) = &mut self.checkpoints else { return Ok(()) };
        unless_of_a_file(run, folder, checkpoints.finish())
    }

    /// Saves a checkpoint of a run that ends before its last epoch, waits until it is on the disk, and says how to go on.
    ///
    /// # Errors
    /// [`Error::File`] if it can't be written; what reading a vector gives.
    pub fn stop<M: Measures>(&mut self, run: &mut Run<'_, M>, vectors: &[(&str, &dyn Saved)]) -> stradsap::Result<()> {
        // What is wrong with those before is no matter any more.
        self.finish(run)?;
        let (done, Some((checkpoints, folder))) = (run.done(), &mut self.checkpoints) else {
            run.last_line(&format!("the {} epochs are lost: --checkpoint DIR would have kept them", run.done()));
            return Ok(());
        };
        checkpoints.save(done.into(), &(self.settings.clone(), run.history()), vectors)?;
        checkpoints.finish()?;
        let s = if done == 1 { "" } else { "s" };
        run.last_line(&format!("{done} epoch{s} kept in {}: the same command with --resume goes on", folder.display()));
        Ok(())
    }
}

fn unless_of_a_file<M: Measures>(
    run: &mut Run<'_, M>,
    folder: &Path,
    outcome: stradsap::Result<()>,
) -> stradsap::Result<()> {
    match outcome {
        Err(Error::File { path, source }) => {
            run.line(&format!("warning: no checkpoint in {}: {}: {source}", shown(folder), shown(&path)));
            Ok(())
        }
        other => other,
    }
}
