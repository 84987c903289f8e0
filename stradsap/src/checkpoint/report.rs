//! What the command `stradsap checkpoints` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Write, stderr};
use std::path::Path;

use crate::checkpoint::folder::{Folder, at, bad, steps};
use crate::checkpoint::manifest::{DataFile, Manifest, data_digest, manifest_name, step_of};
use crate::command::Failure;
use crate::read::address;
use crate::{Error, Result};

/// A table of the checkpoints in a folder. Their manifests are read and nothing else.
pub(crate) fn list(path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let folder = folder_of_checkpoints(path)?;
    let listing = folder.list()?;
    let mut rows = vec![["step", "when", "size", "vectors", "build"].map(str::to_owned)];
    let mut damaged = Vec::new();
    for step in steps(&listing) {
        match folder.manifest(step) {
            Ok(manifest) => rows.push([
                step.to_string(),
                shown(&manifest.written),
                size(bytes(&manifest) + listing.get(&manifest_name(step)).copied().unwrap_or(0)),
                manifest.vectors.len().to_string(),
                build(&manifest),
            ]),
            Err(trouble) => damaged.push(trouble.error),
        }
    }
    table(&rows, &[0, 2, 3], out)?;
    out.flush()?;
    told(&damaged)
}

/// Compares files with their checksums.
pub(crate) fn verify(path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    // An address ends like a file's, or names a folder.
    let is_file = |name: &str| data_digest(name).is_some() || step_of(name).is_some();
    let is_folder = match address::scheme(path) {
        None => path.is_dir(),
        Some(_) => !path.file_name().and_then(|name| name.to_str()).is_some_and(is_file),
    };
    if is_folder {
        return verify_folder(path, out);
    }
    let (folder, name) = Folder::of_file(path)?;
    if let Some(hash) = data_digest(name) {
        let (_, length) = folder.place.read(name).map_err(at(path))?;
        folder.check_data(&DataFile::new(hash, length), "its name")?;
        return Ok(writeln!(out, "good  {name}  {}", size(length))?);
    }
    let mut checks = Checks::default();
    let problems = match folder.read_manifest(name) {
        Ok(manifest) => checks.of(&folder, name, &manifest, out)?,
        Err(trouble) => vec![trouble.error],
    };
    out.flush()?;
    told(&problems)
}

fn verify_folder(path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let folder = folder_of_checkpoints(path)?;
    let listing = folder.list()?;
    let (mut checks, mut problems) = (Checks::default(), Vec::new());
    for step in steps(&listing) {
        match folder.manifest(step) {
            Ok(manifest) => problems.extend(checks.of(&folder, &manifest_name(step), &manifest, out)?),
            Err(trouble) => problems.push(trouble.error),
        }
    }
    // What a manifest that can't be read names is not known.
    if problems.is_empty() {
        for (name, &length) in listing.iter().filter(|(name, _)| data_digest(name).is_some()) {
            if !checks.seen.keys().any(|data| data.file == *name) {
                writeln!(out, "spare {name}  {}: no checkpoint names it, the next save deletes it", size(length))?;
            }
        }
    }
    out.flush()?;
    told(&problems)
}

/// Files that were checked, and whether they are good: several checkpoints may name one.
#[derive(Default)]
struct Checks {
    seen: BTreeMap<DataFile, bool>,
}

impl Checks {
    /// Checks a checkpoint's files, and says so if they are good. What is wrong with those that are not is given.
    fn of(
        &mut self,
        folder: &Folder,
        name: &str,
        manifest: &Manifest,
        out: &mut dyn Write,
    ) -> Result<Vec<Error>, Failure> {
        let (mut problems, mut files) = (Vec::new(), BTreeMap::new());
        for entry in &manifest.vectors {
            for piece in entry.sections.iter().flat_map(|section| &section.pieces) {
                files.entry(piece).or_insert(&entry.name);
            }
        }
        let mut good = true;
        for (&data, held) in &files {
            if let Some(seen) = self.seen.get(data) {
                good &= seen;
                continue;
            }
            let checked = folder.check_data(data, &format!("`{held}` of {name}"));
            self.seen.insert(data.clone(), checked.is_ok());
            good &= checked.is_ok();
            problems.extend(checked.err());
        }
        if good {
            let count = files.len();
            let files = if count == 1 { "1 data file".to_owned() } else { format!("{count} data files") };
            writeln!(out, "good  {name}  {files}, {}", size(bytes(manifest)))?;
        } else {
            writeln!(out, "bad   {name}")?;
        }
        Ok(problems)
    }
}

/// What a manifest says.
pub(crate) fn show(path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let (folder, name) = Folder::of_file(path)?;
    let manifest = folder.read_manifest(name).map_err(|trouble| trouble.error)?;
    let build = &manifest.build;
    writeln!(out, "step        {}", manifest.step)?;
    writeln!(out, "written     {}", shown(&manifest.written))?;
    writeln!(out, "format      version {}", manifest.version)?;
    writeln!(out, "build       {}", shown(&build.package))?;
    writeln!(out, "executable  {}", shown(&build.executable))?;
    writeln!(out, "target      {} with {}", shown(&build.target), shown(&build.features.join(" ")))?;
    writeln!(out, "memory      {} end first, words of {} bits", manifest.byte_order, manifest.word_bits)?;
    writeln!(out, "state       {} bytes", manifest.state.len() / 2)?;
    writeln!(out, "vectors     {}, {}", manifest.vectors.len(), size(bytes(&manifest)))?;
    if manifest.vectors.is_empty() {
        return Ok(());
    }
    let mut rows = vec![["name", "section", "type", "elements", "size", "file"].map(str::to_owned)];
    for entry in &manifest.vectors {
        for section in &entry.sections {
            rows.push([
                shown(&entry.name),
                shown(&section.name),
                shown(&section.type_name),
                section.elements.to_string(),
                size(section.bytes()),
                match &section.pieces[..] {
                    [] => String::new(),
                    [only] => only.file.clone(),
                    [first, .., last] => {
                        format!("{} files: {} ... {}", section.pieces.len(), short(first), short(last))
                    }
                },
            ]);
        }
    }
    writeln!(out)?;
    Ok(table(&rows, &[3, 4], out)?)
}

/// Enough of a file's name to find it.
fn short(file: &DataFile) -> String {
    file.file.chars().take(12).collect()
}

/// A folder that has checkpoints: the wrong folder is not one where all is good.
fn folder_of_checkpoints(path: &Path) -> Result<Folder> {
    let folder = Folder::open(path)?;
    if !folder.list()?.keys().any(|name| step_of(name).is_some()) {
        return Err(bad(path, "there are no checkpoints (step-*.checkpoint) in this folder"));
    }
    Ok(folder)
}

/// Names bad files on standard error.
fn told(problems: &[Error]) -> Result<(), Failure> {
    for problem in problems {
        let _ = writeln!(stderr(), "error: {problem}"); // the exit code says it as well
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::Told) }
}

fn bytes(manifest: &Manifest) -> u64 {
    let files: BTreeSet<&DataFile> = manifest.files().collect();
    files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
}

fn build(manifest: &Manifest) -> String {
    let hash = manifest.build.executable.strip_prefix("blake3:").unwrap_or(&manifest.build.executable);
    let start: String = hash.chars().take(16).collect();
    shown(&format!("{} {start}", manifest.build.package))
}

/// What comes from a file goes to a terminal, where control characters would be obeyed.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Columns, those of numbers to the right.
fn table<const N: usize>(rows: &[[String; N]], right: &[usize], out: &mut dyn Write) -> std::io::Result<()> {
    let width = |c: usize| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let mut line = String::new();
        for (c, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let cell = if right.contains(&c) { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line.push_str(&cell);
            line.push_str("  ");
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let all = [0, 1023, 1024, 1536, 1 << 20, (1 << 20) - 1, 5 << 30, u64::MAX];
        let shown = all.map(size);
        let want = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "5.0 GiB", "16777216.0 TiB"];
        assert_eq!(shown, want);
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut out = Vec::new();
        let rows = [["a", "n"], ["ä longer one", "10"]].map(|row| row.map(str::to_owned));
        table(&rows, &[1], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a              n\nä longer one  10\n");
    }
}
