//! What can't be cut by bytes: packed files, objects in stores, row groups of Parquet files. Of these each worker reads whole ones.
//!
//! They have no checksums to compare after a loss, so other processes store their elements at once. What a worker can't read is for the
//! program's own process, which finds out what is wrong, or reads it all.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stradsap_runtime::private::{Source, born, born_rows, is_apart};

use super::apart::{Born, Travelling};
use super::blocks::{BlockTrouble, Blocks, Reading};
use super::source::{Input, resolve_one};
use crate::{BatchProblem, DMatrix, DVector, Error, Result, Session, files};

/// How a message begins of a worker that doesn't see what the program's process sees.
const UNREAD: &str = "a worker can't read it";

/// Where a file is, and its size if that is known.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Place {
    path: PathBuf,
    size: Option<u64>,
}

impl Place {
    pub(super) fn of(input: &Input) -> Option<Place> {
        if !input.is_local() {
            return Some(Place { path: input.path.clone(), size: None });
        }
        let path = std::path::absolute(&input.path).ok().filter(|path| path.to_str().is_some())?;
        let size = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?.len();
        Some(Place { path, size: Some(size) })
    }

    /// The file as this process sees it.
    pub(super) fn input(&self) -> std::result::Result<Input, String> {
        let unread = |why: &dyn std::fmt::Display| format!("{}: {UNREAD}: {why}", files::shown(&self.path));
        let input = resolve_one(&self.path).map_err(|error| unread(&error))?;
        if let Some(expected) = self.size {
            let found = std::fs::metadata(&self.path).map_err(|error| unread(&error))?.len();
            if found != expected {
                return Err(unread(&format_args!("it has {found} bytes for it, and {expected} for the program")));
            }
        }
        Ok(input)
    }
}

/// Has workers make the elements of all pieces. None if there are no workers, or if a piece can't be read.
pub(super) fn read_by_workers<S: Source>(
    session: &Session,
    site: &str,
    pieces: usize,
    source: &S,
) -> Result<Option<DVector<S::Item>>> {
    if !is_apart(session) || pieces == 0 {
        return Ok(None);
    }
    unless_unread(born(session, site, pieces, source))
}

/// None where a piece couldn't be read.
fn unless_unread<D>(made: Result<D>) -> Result<Option<D>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(Error::Operator { element: Some(_), problem: BatchProblem::Body(why), .. }) => {
            let why = why.to_string();
            if why.contains(UNREAD) {
                tracing::warn!("{why}; the program's own process reads it");
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Has workers read files of which some are packed or objects. None where the program's process is to read them.
pub(super) fn read<F: Travelling>(reading: &Reading<'_>, format: &F) -> Result<Option<Born<F>>> {
    let Some((site, files)) = Files::of(reading, format) else { return Ok(None) };
    let made = read_by_workers(reading.session, &site, files.places.len(), &files)?;
    Ok(made.map(|elements| (elements, files.first)))
}

/// The same of numbers that become rows, as wide as the first file's head says.
pub(super) fn read_rows<F: Travelling>(
    reading: &Reading<'_>,
    format: &F,
    width: impl Fn(&F::Head) -> usize,
) -> Result<Option<DMatrix<F::Item>>> {
    let Some((site, files)) = Files::of(reading, format) else { return Ok(None) };
    unless_unread(born_rows(reading.session, &site, (files.places.len(), width(&files.first)), &files))
}

/// Reads whole files.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct Files<F: Travelling> {
    format: F,
    places: Vec<Place>,
    block: usize,
    /// What the first one says at its beginning.
    first: F::Head,
}

impl<F: Travelling> Files<F> {
    /// What reads these files, and what it is called. None if nothing is packed or an object, or where the program's process is to read.
    fn of(reading: &Reading<'_>, format: &F) -> Option<(String, Self)> {
        let whole = reading.inputs.iter().any(|input| input.is_packed() || !input.is_local());
        if !whole || reading.limit.is_some() || !is_apart(reading.session) {
            return None;
        }
        let places = reading.inputs.iter().map(Place::of).collect::<Option<Vec<_>>>()?;
        let block = Blocks::new(&reading.inputs[..1], reading.block, format).next(&mut Vec::new());
        let first = block.and_then(|block| block.head.ok()).and_then(Arc::into_inner)?;
        let site = format!("reading {}", files::shown(&reading.inputs[0].path));
        Some((site, Files { format: format.clone(), places, block: reading.block, first }))
    }
}

impl<F: Travelling> Source for Files<F> {
    type Item = F::Item;
    const LASTS: bool = false;

    fn make(&self, piece: usize, items: &mut Vec<F::Item>) -> std::result::Result<(), String> {
        let input = [self.places[piece].input()?];
        let shown = || files::shown(&input[0].path);
        let mut blocks = Blocks::new(&input, self.block, &self.format);
        let (mut bytes, mut scratch, before) = (Vec::new(), self.format.scratch(), items.len());
        while let Some(block) = blocks.next(&mut bytes) {
            let head = block.head.map_err(|trouble| match trouble {
                BlockTrouble::File(error) => format!("{}: {UNREAD}: {error}", shown()),
                BlockTrouble::Head(misplaced, ..) | BlockTrouble::Record(misplaced) => {
                    format!("{}: {}", shown(), misplaced.problem)
                }
            })?;
            let parsed = self.format.parse(&head, &bytes, &mut scratch, items);
            parsed.map_err(|misplaced| format!("{}: {}", shown(), misplaced.problem))?;
        }
        match blocks.head() {
            Some(head) if !self.format.holds(&self.first, head, items.len() - before) => {
                Err(format!("{}: its head promises something else", shown()))
            }
            _ => Ok(()),
        }
    }
}
