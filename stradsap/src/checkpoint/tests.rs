//! Checkpoints on disks that fail, and on files that are no longer what was written.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod crashes;
mod damage;
mod faulty;
#[cfg(feature = "remote")]
mod faulty_store;
mod full;
#[cfg(feature = "remote")]
mod objects;
mod sections;

use std::path::Path;

use super::folder::Folder;
use super::manifest::manifest_name;
use super::{Checkpoint, Checkpoints, Saved};
use crate::{DVector, Result, Session};

/// What a program has after each step: some of it changes each time, some now and then, some never.
struct Model {
    often: DVector<[f32; 2]>,
    seldom: DVector<String>,
    never: DVector<u16>,
}

type Values = (Vec<[f32; 2]>, Vec<String>, Vec<u16>);

/// What there must be after this many steps.
fn values(step: u64) -> Values {
    let often = (0..3).map(|i| [step as f32 + i as f32, f32::MIN_POSITIVE]).collect();
    let seldom = vec!["s".repeat(step as usize / 3), "t".to_owned()];
    (often, seldom, vec![7, 8, 9])
}

impl Model {
    fn new(session: &Session) -> Model {
        let (often, seldom, never) = values(0);
        Model {
            often: DVector::from_vec(session, often).unwrap(),
            seldom: DVector::from_vec(session, seldom).unwrap(),
            never: DVector::from_vec(session, never).unwrap(),
        }
    }

    fn load(session: &Session, checkpoint: &Checkpoint) -> Result<Model> {
        Ok(Model {
            often: checkpoint.vector(session, "often")?,
            seldom: checkpoint.vector(session, "seldom")?,
            never: checkpoint.vector(session, "never")?,
        })
    }

    fn step(&mut self, step: u64) {
        let (often, seldom, _) = values(step);
        for (i, value) in often.into_iter().enumerate() {
            self.often.set(i, value).unwrap();
        }
        if self.seldom.get(0).unwrap() != seldom[0] {
            self.seldom.set(0, seldom[0].clone()).unwrap();
        }
    }

    fn save(&self, checkpoints: &mut Checkpoints, step: u64) -> Result<()> {
        let vectors: [(&str, &dyn Saved); 3] =
            [("often", &self.often), ("seldom", &self.seldom), ("never", &self.never)];
        checkpoints.save(step, &step.to_string(), &vectors)
    }

    fn assert_is(&self, step: u64) {
        let found = (self.often.to_vec().unwrap(), self.seldom.to_vec().unwrap(), self.never.to_vec().unwrap());
        assert_eq!(found, values(step), "not the values of step {step}");
    }
}

/// The checkpoint from which a program goes on, and what it holds: exactly what was saved.
fn resume(session: &Session, checkpoints: &mut Checkpoints) -> Result<Option<(u64, Model)>> {
    let Some(checkpoint) = checkpoints.resume()? else { return Ok(None) };
    let step = checkpoint.step();
    assert_eq!(checkpoint.state::<String>()?, step.to_string());
    let model = Model::load(session, &checkpoint)?;
    model.assert_is(step);
    Ok(Some((step, model)))
}

/// Goes on with a run for some steps, each of which is saved and on the disk when it is given back.
fn train(checkpoints: &mut Checkpoints, model: &mut Model, steps: std::ops::RangeInclusive<u64>) -> Result<()> {
    for step in steps {
        model.step(step);
        model.save(checkpoints, step)?;
        checkpoints.finish()?;
    }
    Ok(())
}

/// A folder holds these checkpoints, whole, the files that they name, and nothing else.
fn assert_holds_only(folder: &Folder, steps: &[u64]) {
    let mut expected = std::collections::BTreeSet::new();
    for &step in steps {
        let manifest = folder.manifest(step).map_err(|trouble| trouble.error).unwrap();
        folder.check(&manifest).unwrap();
        expected.extend(manifest.files().map(|data| data.file.clone()));
        expected.insert(manifest_name(step));
    }
    let mut found: std::collections::BTreeSet<String> = folder.list().unwrap().into_keys().collect();
    found.remove(".stradsap.lock");
    assert_eq!(found, expected);
}

fn session() -> Session {
    Session::builder().threads(1).build().unwrap()
}

/// Checkpoints with data files of about this number of bytes.
fn in_pieces(folder: Folder, bytes: usize) -> Checkpoints {
    let mut checkpoints = Checkpoints::over(folder, 1).unwrap();
    checkpoints.piece = bytes;
    checkpoints
}

/// Where checkpoints lie that are in no real file system.
fn nowhere() -> &'static Path {
    Path::new("/nowhere")
}
