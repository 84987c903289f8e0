//! Files cut into blocks of whole records, which threads parse side by side.
//!
//! A thread reads the next block under a lock, cuts it at the border of a record, and parses it after it has let the lock
//! go. So reading and unpacking happen in one place at a time, parsing everywhere. Chunks are put into the order of the
//! blocks afterwards: nothing depends on who parsed what.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::apart::{self, Travelling};
use super::source::{Input, Stream};
use super::text::one_line;
use crate::{DVector, Element, Error, Result, Session};

/// How many bytes a block has: enough that the lock is rarely asked for, few enough to stay in a core's cache. Inputs of fuzz
/// targets are short, and have several.
pub(crate) const BLOCK: usize = if cfg!(fuzzing) { 64 } else { 1 << 20 };

/// What is wrong, and at which byte of those that were looked at.
#[derive(Debug, PartialEq)]
pub(crate) struct Misplaced {
    pub(crate) offset: usize,
    pub(crate) problem: String,
}

/// A result of looking at bytes.
pub(crate) type Parsed<T> = std::result::Result<T, Misplaced>;

pub(crate) fn misplaced<T>(offset: usize, problem: impl Into<String>) -> Parsed<T> {
    Err(Misplaced { offset, problem: problem.into() })
}

/// A file format.
pub(crate) trait Format: Sync {
    /// What a file says at its beginning.
    type Head: Send + Sync;
    /// What a thread keeps from one block to the next.
    type Scratch;
    /// A record.
    type Item: Element;

    /// Whether positions in the file are lines and columns.
    const TEXT: bool = true;

    /// Reads what stands at the beginning of a file, and says how many bytes it has. `None` if more bytes are needed;
    /// `last` if there are no more.
    fn head(&self, bytes: &[u8], last: bool) -> Parsed<Option<(Self::Head, usize)>>;

    fn scratch(&self) -> Self::Scratch;

    /// Where the last whole record ends; 0 if there is none. The bytes begin with a record.
    fn border(&self, head: &Self::Head, bytes: &[u8]) -> usize;

    /// Appends the records. The bytes end at a border, or at the end of the file.
    fn parse(
        &self,
        head: &Self::Head,
        bytes: &[u8],
        scratch: &mut Self::Scratch,
        items: &mut Vec<Self::Item>,
    ) -> Parsed<()>;
}

/// A file that was read.
pub(crate) struct Whole<H> {
    pub(crate) head: Arc<H>,
    /// How many lines there are, empty ones and those of the head with them.
    pub(crate) lines: u64,
    /// How many records.
    pub(crate) records: usize,
}

/// All records of the files in their order, and what each file said.
pub(crate) struct Records<F: Format> {
    pub(crate) chunks: Vec<Vec<F::Item>>,
    pub(crate) files: Vec<Whole<F::Head>>,
}

/// How files are read.
pub(crate) struct Reading<'a> {
    pub(crate) session: &'a Session,
    pub(crate) inputs: &'a [Input],
    pub(crate) block: usize,
    /// After how many records to stop.
    pub(crate) limit: Option<usize>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(session: &'a Session, inputs: &'a [Input]) -> Self {
        Reading { session, inputs, block: BLOCK, limit: None }
    }

    /// The records as a DVector.
    pub(super) fn vector<F: Travelling>(&self, format: &F) -> Result<DVector<F::Item>> {
        if let Some((elements, _)) = apart::read(self, format)? {
            return Ok(elements);
        }
        DVector::from_chunks(self.session, self.records(format)?.chunks)
    }

    pub(crate) fn records<F: Format>(&self, format: &F) -> Result<Records<F>> {
        let blocks = Mutex::new(Blocks::new(self.inputs, self.block, format));
        let done = Mutex::new(Vec::new());
        let count = AtomicUsize::new(0);
        self.session.everywhere(self.threads(), || {
            let (mut bytes, mut items, mut scratch) = (Vec::new(), Vec::new(), format.scratch());
            while self.limit.is_none_or(|limit| count.load(Relaxed) < limit) {
                let Some(block) = lock(&blocks).next(&mut bytes) else { break };
                let parsed = block.head.and_then(|head| {
                    format.parse(&head, &bytes, &mut scratch, &mut items).map_err(BlockTrouble::Record)
                });
                if parsed.is_err() {
                    lock(&blocks).stopped = true;
                }
                count.fetch_add(items.len(), Relaxed);
                // Without room to spare: many chunks wait for the last.
                let mut chunk = Vec::with_capacity(items.len());
                chunk.append(&mut items);
                let newlines = if F::TEXT { memchr::memchr_iter(b'\n', &bytes).count() as u64 } else { 0 };
                let problem = parsed.err().map(|trouble| trouble.located::<F>(&bytes));
                lock(&done).push(Done { number: block.number, file: block.file, chunk, newlines, problem });
            }
        })?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|done| done.number);
        self.concatenate(done, blocks.into_inner().unwrap_or_else(PoisonError::into_inner).opened)
    }

    fn concatenate<F: Format>(&self, done: Vec<Done<F::Item>>, opened: Vec<Opened<F::Head>>) -> Result<Records<F>> {
        let mut files: Vec<Whole<F::Head>> = opened
            .into_iter()
            .filter_map(|opened| Some(Whole { head: opened.head?, lines: opened.lines, records: 0 }))
            .collect();
        let mut chunks = Vec::with_capacity(done.len());
        let mut room = self.limit.unwrap_or(usize::MAX);
        for mut done in done {
            done.chunk.truncate(room);
            room -= done.chunk.len();
            let lines = files.get(done.file).map_or(0, |file| file.lines);
            if let Some(problem) = done.problem
                && room > 0
            {
                return Err(problem.error(&self.inputs[done.file], lines));
            }
            if let Some(file) = files.get_mut(done.file) {
                file.lines += done.newlines;
                file.records += done.chunk.len();
            }
            if !done.chunk.is_empty() {
                chunks.push(done.chunk);
            }
        }
        Ok(Records { chunks, files })
    }

    /// No more threads than there are blocks.
    fn threads(&self) -> usize {
        let bytes = self.inputs.iter().try_fold(0u64, |sum, input| Some(sum.saturating_add(input.size()?)));
        let blocks = bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(self.block as u64));
        self.session.threads().min(usize::try_from(blocks).unwrap_or(usize::MAX)).max(1)
    }
}

/// A block that was parsed, up to what is wrong in it.
struct Done<T> {
    number: usize,
    file: usize,
    chunk: Vec<T>,
    newlines: u64,
    problem: Option<Problem>,
}

/// What ended the reading of a file.
pub(super) enum BlockTrouble {
    File(std::io::Error),
    /// In the head, among these bytes.
    Head(Misplaced, u64, u64),
    Record(Misplaced),
}

pub(super) enum Problem {
    File(std::io::Error),
    /// The line is counted from the block's first.
    Input {
        line: u64,
        column: Option<u64>,
        problem: String,
    },
}

impl BlockTrouble {
    pub(super) fn located<F: Format>(self, bytes: &[u8]) -> Problem {
        match self {
            BlockTrouble::File(source) => Problem::File(source),
            BlockTrouble::Head(misplaced, line, column) => {
                Problem::Input { line, column: F::TEXT.then_some(column), problem: misplaced.problem }
            }
            BlockTrouble::Record(misplaced) => {
                let (line, column) = position(bytes, misplaced.offset);
                let (line, column) = if F::TEXT { (line, Some(column)) } else { (0, None) };
                Problem::Input { line, column, problem: misplaced.problem }
            }
        }
    }
}

impl Problem {
    pub(super) fn error(self, input: &Input, lines: u64) -> Error {
        match self {
            Problem::File(source) => input.error(source),
            Problem::Input { line, column, problem } => {
                let problem = one_line(&problem);
                Error::Input { path: input.path.clone(), line: lines + line + 1, column, problem }
            }
        }
    }
}

/// The line from 0 and the column from 1 of a byte.
fn position(bytes: &[u8], offset: usize) -> (u64, u64) {
    let before = &bytes[..offset.min(bytes.len())];
    let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    (memchr::memchr_iter(b'\n', before).count() as u64, (before.len() - start) as u64 + 1)
}

pub(super) struct Block<H> {
    number: usize,
    file: usize,
    /// The head of its file, or why there is no block.
    pub(super) head: std::result::Result<Arc<H>, BlockTrouble>,
}

/// What is known of a file that was begun.
struct Opened<H> {
    head: Option<Arc<H>>,
    /// The lines of the head.
    lines: u64,
}

/// The files, block by block.
pub(super) struct Blocks<'a, F: Format> {
    format: &'a F,
    inputs: &'a [Input],
    size: usize,
    opened: Vec<Opened<F::Head>>,
    stream: Option<Stream>,
    /// The beginning of a record whose end is still to come.
    rest: Vec<u8>,
    number: usize,
    stopped: bool,
}

impl<'a, F: Format> Blocks<'a, F> {
    pub(super) fn new(inputs: &'a [Input], block: usize, format: &'a F) -> Self {
        Blocks {
            format,
            inputs,
            size: block.max(1),
            opened: Vec::new(),
            stream: None,
            rest: Vec::new(),
            number: 0,
            stopped: false,
        }
    }

    /// What the file that was opened last says at its beginning.
    pub(super) fn head(&self) -> Option<&F::Head> {
        self.opened.last()?.head.as_deref()
    }

    /// The next block's bytes, until there are no more or something is wrong.
    pub(super) fn next(&mut self, bytes: &mut Vec<u8>) -> Option<Block<F::Head>> {
        bytes.clear();
        while !self.stopped {
            let head = match self.fill(bytes) {
                Ok(Some(head)) => Ok(head),
                Ok(None) if self.stream.is_none() && self.opened.len() == self.inputs.len() => return None,
                Ok(None) => continue,
                Err(trouble) => {
                    self.stopped = true;
                    bytes.clear();
                    Err(trouble)
                }
            };
            let block = Block { number: self.number, file: self.opened.len().saturating_sub(1), head };
            self.number += 1;
            return Some(block);
        }
        None
    }

    /// Reads whole records of one file. `None` at its end.
    fn fill(&mut self, bytes: &mut Vec<u8>) -> std::result::Result<Option<Arc<F::Head>>, BlockTrouble> {
        let Some(stream) = &mut self.stream else {
            if let Some(input) = self.inputs.get(self.opened.len()) {
                self.opened.push(Opened { head: None, lines: 0 });
                let stream = input.open().map_err(|error| match error {
                    Error::File { source, .. } => BlockTrouble::File(source),
                    other => BlockTrouble::File(std::io::Error::other(other)),
                })?;
                self.stream = Some(stream);
            }
            return Ok(None);
        };
        let Some(opened) = self.opened.last_mut() else { return Ok(None) };
        bytes.append(&mut self.rest);
        let mut wanted = self.size;
        loop {
            let missing = wanted.saturating_sub(bytes.len());
            bytes.reserve(missing);
            let last = stream.take(missing as u64).read_to_end(bytes).map_err(BlockTrouble::File)? < missing;
            wanted = bytes.len().saturating_mul(2).max(self.size);
            if opened.head.is_none() {
                if F::TEXT && bytes.len() < MARK.len() && !last {
                    continue;
                }
                let mark = if F::TEXT && bytes.starts_with(MARK) { MARK.len() } else { 0 };
                let found = self.format.head(&bytes[mark..], last).map_err(|misplaced| {
                    let (line, column) = position(&bytes[mark..], misplaced.offset);
                    BlockTrouble::Head(misplaced, line, column)
                })?;
                let Some((head, length)) = found else { continue };
                if F::TEXT {
                    opened.lines = memchr::memchr_iter(b'\n', &bytes[..mark + length]).count() as u64;
                }
                opened.head = Some(Arc::new(head));
                bytes.drain(..mark + length);
            }
            let Some(head) = &opened.head else { continue };
            if last {
                self.stream = None;
                return Ok((!bytes.is_empty()).then(|| Arc::clone(head)));
            }
            let border = self.format.border(head, bytes);
            if border > 0 {
                self.rest.extend_from_slice(&bytes[border..]);
                bytes.truncate(border);
                return Ok(Some(Arc::clone(head)));
            }
        }
    }
}

/// A byte order mark.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// What a panic left is thrown away with everything else.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
