//! The manifest of a checkpoint: what it holds, when it was written and by what. `docs/checkpoints.md` is its description.
//!
//! It is JSON whose last line but one is the checksum of all bytes before that line, so every byte is covered.

use serde::{Deserialize, Serialize};

use super::origin::Build;

pub(super) const FORMAT: &str = "stradsap checkpoint";
pub(super) const VERSION: u32 = 3;
/// In it each section was one file.
const ONE_FILE: u32 = 2;
/// About as many bytes are in each data file: how elements are cut depends on them alone.
pub(super) const PIECE: usize = 32 << 20;
/// How the files of version 1 began.
const FIRST_VERSION: &[u8; 16] = b"stradsap saved\r\n";
const BEFORE_CHECKSUM: &str = ",\n  \"checksum\": \"blake3:";
const AFTER_CHECKSUM: &str = "\"\n}\n";
const DIGITS: usize = 2 * blake3::OUT_LEN;
const TAIL: usize = BEFORE_CHECKSUM.len() + DIGITS + AFTER_CHECKSUM.len();
/// The most bytes that a program's own state may take: more belongs into a DDS.
pub(super) const LARGEST_STATE: usize = 64 << 20;
/// What is larger is no manifest.
pub(super) const LARGEST: u64 = 4 * LARGEST_STATE as u64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) step: u64,
    /// RFC 3339, in UTC.
    pub(super) written: String,
    pub(super) build: Build,
    /// How numbers lie in the data files: "little" or "big".
    pub(super) byte_order: String,
    /// Of a `usize` in them.
    pub(super) word_bits: u32,
    /// The program's own state, in hexadecimal digits.
    pub(super) state: String,
    pub(super) vectors: Vec<Entry>,
}

/// Something that was saved under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) name: String,
    /// What it is: "vector".
    pub(super) kind: String,
    pub(super) sections: Vec<Section>,
}

/// A part of it, with files of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) name: String,
    /// What the program calls the elements' type, for people to read.
    #[serde(rename = "type")]
    pub(super) type_name: String,
    /// The size of an element where all have the same, and are their memory.
    pub(super) element_bytes: Option<u64>,
    pub(super) elements: u64,
    /// The files of its elements, in order. Each has whole elements.
    #[serde(default)]
    pub(super) pieces: Vec<DataFile>,
    /// All of them, in the version before.
    #[serde(flatten, skip_serializing)]
    one: Option<DataFile>,
}

impl Section {
    /// One of as many elements, whose files are still to be named.
    pub(super) fn new(name: &str, type_name: &str, element_bytes: Option<usize>, elements: usize) -> Section {
        Section {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            element_bytes: element_bytes.map(|size| size as u64),
            elements: elements as u64,
            pieces: Vec::new(),
            one: None,
        }
    }

    /// How many bytes its files have.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.bytes))
    }
}

/// A file of elements. Its name is its digest, so equal contents share one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct DataFile {
    pub(super) bytes: u64,
    pub(super) file: String,
    pub(super) digest: String,
}

pub(super) const DATA: &str = ".data";

impl DataFile {
    pub(super) fn of(bytes: &[u8]) -> DataFile {
        DataFile::new(blake3::hash(bytes), bytes.len() as u64)
    }

    pub(super) fn new(hash: blake3::Hash, bytes: u64) -> DataFile {
        let hex = hash.to_hex();
        DataFile { bytes, file: format!("{hex}{DATA}"), digest: format!("blake3:{hex}") }
    }
}

/// Whether a file is named like one of elements; its digest then.
pub(super) fn data_digest(name: &str) -> Option<blake3::Hash> {
    let hex = name.strip_suffix(DATA)?;
    // A file system may tell upper and lower case apart, and so does this.
    let hash = blake3::Hash::from_hex(hex).ok()?;
    (*hash.to_hex() == *hex).then_some(hash)
}

/// Why a manifest can't be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is whole, but for other programs or machines.
    Foreign(String),
    Damaged(String),
}

impl Manifest {
    /// All files that it names.
    pub(super) fn files(&self) -> impl Iterator<Item = &DataFile> {
        self.vectors.iter().flat_map(|entry| &entry.sections).flat_map(|section| &section.pieces)
    }

    pub(super) fn render(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.truncate(text.trim_end_matches(['\n', '}']).len());
        let hash = blake3::hash(text.as_bytes()).to_hex();
        Ok(format!("{text}{BEFORE_CHECKSUM}{hash}{AFTER_CHECKSUM}").into_bytes())
    }

    /// A manifest, if each of its bytes is as it was written.
    pub(super) fn parse(bytes: &[u8]) -> Result<Manifest, Refusal> {
        let damaged = |what: &str| Refusal::Damaged(format!("damaged or cut short: {what}"));
        if bytes.starts_with(FIRST_VERSION) {
            return Err(other_version(1));
        }
        let Some((head, tail)) = bytes.len().checked_sub(TAIL).map(|at| bytes.split_at(at)) else {
            return Err(damaged("it is too short for a manifest"));
        };
        let digits = tail
            .strip_prefix(BEFORE_CHECKSUM.as_bytes())
            .and_then(|rest| rest.strip_suffix(AFTER_CHECKSUM.as_bytes()))
            .ok_or_else(|| damaged("it doesn't end with a checksum"))?;
        if blake3::hash(head).to_hex().as_bytes() != digits {
            return Err(damaged("it doesn't match its checksum"));
        }
        let whole = [head, b"\n}"].concat();
        let unlike = |error: &serde_json::Error| Refusal::Damaged(format!("not a manifest of a checkpoint: {error}"));
        let marks: Marks = serde_json::from_slice(&whole).map_err(|error| unlike(&error))?;
        if marks.format != FORMAT {
            let problem = format!("not a manifest of a checkpoint: its format is `{}`", marks.format);
            return Err(Refusal::Damaged(problem));
        }
        if marks.version != VERSION && marks.version != ONE_FILE {
            return Err(other_version(marks.version));
        }
        let mut manifest: Manifest = serde_json::from_slice(&whole).map_err(|error| unlike(&error))?;
        for section in manifest.vectors.iter_mut().flat_map(|entry| &mut entry.sections) {
            let one = section.one.take();
            if marks.version == ONE_FILE {
                section.pieces = vec![one.ok_or_else(|| {
                    Refusal::Damaged(format!("not a manifest of a checkpoint: `{}` has no file", section.name))
                })?];
            }
        }
        manifest.check().map(|()| manifest)
    }

    fn check(&self) -> Result<(), Refusal> {
        for file in self.files() {
            // A manifest names files of its own folder and no others.
            let named = data_digest(&file.file).is_some_and(|hash| DataFile::new(hash, file.bytes) == *file);
            if !named {
                let problem = format!("not a manifest of a checkpoint: `{}` is no name of a data file", file.file);
                return Err(Refusal::Damaged(problem));
            }
        }
        let here = (byte_order(), usize::BITS);
        if (&*self.byte_order, self.word_bits) != here {
            return Err(Refusal::Foreign(format!(
                "written on a machine of {} bits with the {} end first; this one has {} bits and the {} end first",
                self.word_bits, self.byte_order, here.1, here.0
            )));
        }
        Ok(())
    }

    /// The program's own state; none if these are no hexadecimal digits.
    pub(super) fn state(&self) -> Option<Vec<u8>> {
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = self.state.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
        if rest.is_empty() { bytes } else { None }
    }
}

/// What all versions have.
#[derive(Deserialize)]
struct Marks {
    format: String,
    version: u32,
}

fn other_version(found: u32) -> Refusal {
    let (age, advice) = if found < ONE_FILE {
        ("an older", "go on with the program that wrote it, or begin anew in another folder")
    } else {
        ("a newer", "go on with the program that wrote it, or with a newer stradsap")
    };
    Refusal::Foreign(format!(
        "a checkpoint of {age} stradsap: version {found} of the format, and version {ONE_FILE} or {VERSION} was expected: {advice}"
    ))
}

pub(super) fn byte_order() -> &'static str {
    if cfg!(target_endian = "little") { "little" } else { "big" }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |number: u8| char::from(DIGITS[usize::from(number & 15)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte)]).collect()
}

/// The name of a step's manifest.
pub(super) fn manifest_name(step: u64) -> String {
    format!("step-{step:012}.checkpoint")
}

/// The step whose manifest has this name.
pub(super) fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("step-")?.strip_suffix(".checkpoint")?.parse().ok()?;
    (manifest_name(step) == name).then_some(step)
}
