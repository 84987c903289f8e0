//! The file of a checkpoint. Its layout depends on no build and no type name:
//!
//! ```text
//! mark     16 bytes, version (u32), byte order and word size of the elements' memory (u32 each), 4 bytes of 0
//! sections one after the other
//! table    step (u64), then for each section: length of the name (u16) and name, whether its elements are plain (u8),
//!          the size of one (u64), how many (u64), how many bytes (u64), BLAKE3 of these
//! length   of the table (u64)
//! BLAKE3   of mark, table and length: with the sections' own, of every byte
//! ```
//!
//! Numbers are little-endian. The table comes last, so that a file is written in one pass.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::at;
use crate::{Error, Result};

const TITLE: &[u8; 16] = b"stradsap saved\r\n";
const VERSION: u32 = 1;
const MARK: usize = 32;
const HASH: usize = blake3::OUT_LEN;
const TAIL: usize = 8 + HASH;
const LONGEST_TABLE: u64 = 1 << 20;
/// What is read at once to be checked.
const CHUNK: usize = 1 << 20;

/// How elements lie in memory here.
fn mark() -> [u8; MARK] {
    let mut mark = [0; MARK];
    mark[..16].copy_from_slice(TITLE);
    mark[16..20].copy_from_slice(&VERSION.to_le_bytes());
    mark[20..24].copy_from_slice(&0x0102_0304u32.to_ne_bytes());
    mark[24..28].copy_from_slice(&usize::BITS.to_le_bytes());
    mark
}

pub(super) fn bad(path: &Path, problem: impl Into<String>) -> Error {
    at(path)(io::Error::new(io::ErrorKind::InvalidData, problem.into()))
}

/// What the table says of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// The size of an element, if they are plain.
    pub(super) size: Option<usize>,
    pub(super) len: usize,
    pub(super) bytes: u64,
    start: u64,
    hash: [u8; HASH],
}

/// Writes a file, to be renamed once it is finished.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    section: blake3::Hasher,
    bytes: u64,
    start: u64,
    entries: Vec<Entry>,
}

impl Writer {
    pub(super) fn create(path: &Path) -> Result<Writer> {
        let mut file = BufWriter::with_capacity(CHUNK, File::create(path).map_err(at(path))?);
        file.write_all(&mark()).map_err(at(path))?;
        let (section, start) = (blake3::Hasher::new(), MARK as u64);
        Ok(Writer { path: path.to_path_buf(), file, section, bytes: 0, start, entries: Vec::new() })
    }

    /// Adds bytes to the section that is being written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.section.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(at(&self.path))
    }

    /// What was written since the last section is one of `len` elements.
    pub(super) fn end_section(&mut self, name: &str, size: Option<usize>, len: usize) -> Result<()> {
        if u16::try_from(name.len()).is_err() {
            return Err(Error::usage(format!("the name of a vector has {} bytes: at most 65535", name.len())));
        }
        let hash = *std::mem::take(&mut self.section).finalize().as_bytes();
        let bytes = std::mem::take(&mut self.bytes);
        self.entries.push(Entry { name: name.to_owned(), size, len, bytes, start: self.start, hash });
        self.start += bytes;
        Ok(())
    }

    /// Completes the file, and has it reach the disk.
    pub(super) fn finish(mut self, step: u64) -> Result<()> {
        let mut table = step.to_le_bytes().to_vec();
        for Entry { name, size, len, bytes, hash, .. } in &self.entries {
            table.extend((name.len() as u16).to_le_bytes());
            table.extend(name.as_bytes());
            table.push(u8::from(size.is_some()));
            for number in [size.unwrap_or(0) as u64, *len as u64, *bytes] {
                table.extend(number.to_le_bytes());
            }
            table.extend(hash);
        }
        if table.len() as u64 > LONGEST_TABLE {
            return Err(Error::usage(format!("{} vectors are too many for a checkpoint", self.entries.len())));
        }
        let length = (table.len() as u64).to_le_bytes();
        let parts = [&table[..], &length, &whole(&table, length)];
        parts.into_iter().try_for_each(|part| self.file.write_all(part)).map_err(at(&self.path))?;
        let file = self.file.into_inner().map_err(|error| at(&self.path)(error.into_error()))?;
        file.sync_all().map_err(at(&self.path))
    }
}

fn whole(table: &[u8], length: [u8; 8]) -> [u8; HASH] {
    *blake3::Hasher::new().update(&mark()).update(table).update(&length).finalize().as_bytes()
}

/// Reads a file whose mark and table are right.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    step: u64,
    entries: Vec<Entry>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader> {
        let mut file = File::open(path).map_err(at(path))?;
        let size = file.metadata().map_err(at(path))?.len();
        let mut found = Vec::with_capacity(MARK);
        (&mut file).take(MARK as u64).read_to_end(&mut found).map_err(at(path))?;
        check_mark(&found).map_err(|problem| bad(path, problem))?;
        let cut = |what: &str| bad(path, format!("damaged or cut short: {what}"));

        let room = size.checked_sub((MARK + TAIL) as u64).ok_or_else(|| cut("it has no table"))?;
        let mut tail = [0; TAIL];
        read_at(&mut file, size - TAIL as u64, &mut tail).map_err(at(path))?;
        let (length, hash) = tail.split_at(8);
        let length: [u8; 8] = length.try_into().unwrap_or_default(); // split at 8
        let table_length = u64::from_le_bytes(length);
        if table_length > room.min(LONGEST_TABLE) {
            return Err(cut("the length of its table is none"));
        }
        let sections = room - table_length;
        let mut table = vec![0; table_length as usize];
        read_at(&mut file, MARK as u64 + sections, &mut table).map_err(at(path))?;
        if whole(&table, length) != hash {
            return Err(cut("its table does not match its checksum"));
        }
        let (step, entries) = parse(&table, sections).ok_or_else(|| cut("its table is none"))?;
        Ok(Reader { path: path.to_path_buf(), step, entries })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// The names of the vectors.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &*entry.name).filter(|name| !name.is_empty())
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Compares every section with its checksum.
    pub(super) fn check_sections(&self) -> Result<()> {
        let mut file = File::open(&self.path).map_err(at(&self.path))?;
        let mut chunk = vec![0; CHUNK];
        for entry in &self.entries {
            let mut hasher = blake3::Hasher::new();
            let mut left = entry.bytes;
            while left > 0 {
                let now = &mut chunk[..left.min(CHUNK as u64) as usize];
                read_at(&mut file, entry.start + entry.bytes - left, now).map_err(at(&self.path))?;
                hasher.update(now);
                left -= now.len() as u64;
            }
            self.compare(entry, &hasher)?;
        }
        Ok(())
    }

    /// The bytes of a section, compared with its checksum once more.
    pub(super) fn section(&self, name: &str) -> Result<Vec<u8>> {
        let entry = self.find(name).ok_or_else(|| bad(&self.path, format!("it holds no `{name}`")))?;
        // The table is not longer than the file, so this is not more than lies on the disk.
        let mut bytes = vec![0; usize::try_from(entry.bytes).map_err(|_| bad(&self.path, "too large for memory"))?];
        let mut file = File::open(&self.path).map_err(at(&self.path))?;
        read_at(&mut file, entry.start, &mut bytes).map_err(at(&self.path))?;
        self.compare(entry, blake3::Hasher::new().update(&bytes))?;
        Ok(bytes)
    }

    fn compare(&self, entry: &Entry, hasher: &blake3::Hasher) -> Result<()> {
        if hasher.finalize() == entry.hash {
            return Ok(());
        }
        let what = if entry.name.is_empty() { "the state".to_owned() } else { format!("the vector `{}`", entry.name) };
        Err(bad(&self.path, format!("damaged: {what} does not match its checksum")))
    }
}

fn check_mark(found: &[u8]) -> std::result::Result<(), String> {
    let expected = mark();
    let version = |mark: &[u8]| mark.get(16..20).map(<[u8]>::to_vec);
    if found.get(..16) != Some(TITLE) {
        Err("not a checkpoint of stradsap: its first bytes are others".to_owned())
    } else if version(found) != version(&expected) {
        Err(format!("a checkpoint of another version of stradsap: version {VERSION} of the format was expected"))
    } else if found != expected {
        Err("written on a machine with another byte order or word size, or damaged".to_owned())
    } else {
        Ok(())
    }
}

fn read_at(file: &mut File, start: u64, bytes: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(bytes)
}

/// The table, if its sections fill `room` bytes.
fn parse(table: &[u8], room: u64) -> Option<(u64, Vec<Entry>)> {
    let mut rest = table;
    let step = number(&mut rest)?;
    let (mut entries, mut start) = (Vec::new(), MARK as u64);
    while !rest.is_empty() {
        let length = u16::from_le_bytes(*rest.split_off(..2)?.first_chunk()?);
        let name = String::from_utf8(rest.split_off(..usize::from(length))?.to_vec()).ok()?;
        let plain = *rest.split_off_first()? == 1;
        let (size, len) = (usize::try_from(number(&mut rest)?).ok()?, usize::try_from(number(&mut rest)?).ok()?);
        let bytes = number(&mut rest)?;
        let hash = *rest.split_off(..HASH)?.first_chunk()?;
        entries.push(Entry { name, size: plain.then_some(size), len, bytes, start, hash });
        start = start.checked_add(bytes)?;
    }
    (start - MARK as u64 == room).then_some((step, entries))
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?))
}
