//! What DVectors and DMatrices are without the type of their elements.

use std::ops::Range;
use std::sync::Arc;

use crate::body::capture::{Captured, Kind, Memory, usable};
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::home::Home;
use crate::session::error::{Error, Result};
use crate::session::{SessionInner, next_id};

/// This many bytes' worth of plain elements are hashed at once, and of others this many elements.
const HASHED: usize = 1 << 16;
const RUN: usize = 4096;

/// This many bytes' worth of elements that are with workers are fetched at once to be encoded or hashed.
const FETCHED: usize = 64 << 20;

/// Elements of one type; a row of a DMatrix is one.
pub(crate) struct RawVector {
    id: u64,
    session: Arc<SessionInner>,
    len: usize,
    ops: &'static ElementOps,
    /// Whether it is a DMatrix's: what messages call elements.
    rows: bool,
    /// See [`Captured::copy_of`].
    copy_of: Option<u64>,
    /// The elements, unless they are with workers.
    home: Home,
}

impl RawVector {
    pub(crate) fn new(session: Arc<SessionInner>, buffer: RawBuf) -> RawVector {
        let (len, ops) = (buffer.len(), buffer.ops());
        RawVector { id: next_id(), session, len, ops, rows: false, copy_of: None, home: Home::new(buffer, next_id()) }
    }

    /// The rows of a DMatrix.
    pub(crate) fn of_rows(session: Arc<SessionInner>, buffer: RawBuf) -> RawVector {
        let mut rows = RawVector::new(session, buffer);
        rows.rows = true;
        rows
    }

    /// `len` elements that are with workers.
    pub(crate) fn elsewhere(session: Arc<SessionInner>, id: u64, len: usize, home: Home) -> RawVector {
        RawVector { id, session, len, ops: home.ops(), rows: false, copy_of: None, home }
    }

    /// The same of a DMatrix.
    pub(crate) fn rows_elsewhere(session: Arc<SessionInner>, id: u64, len: usize, home: Home) -> RawVector {
        let mut rows = RawVector::elsewhere(session, id, len, home);
        rows.rows = true;
        rows
    }

    /// Says that it holds what another one held before a loop.
    pub(crate) fn set_copy_of(&mut self, other: u64) {
        self.copy_of = Some(other);
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn session(&self) -> &Arc<SessionInner> {
        &self.session
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn ops(&self) -> &'static ElementOps {
        self.ops
    }

    /// Another one whenever the contents are.
    pub(crate) fn version(&self) -> u64 {
        self.home.version()
    }

    /// Changes elements in this process's memory, where they are all brought first. A reader of the elements goes on with those
    /// from before.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut RawBuf) -> R) -> Result<R> {
        usable(&self.home)?;
        let backend = self.session.elements();
        let changing = backend.change(self.id)?;
        let changed = self.home.change(f);
        drop(changing);
        self.home.set_version(next_id());
        Ok(changed)
    }

    pub(crate) fn out_of_bounds(&self, range: &Range<usize>) -> Error {
        Error::OutOfBounds { start: range.start, end: range.end, len: self.len, rows: self.rows }
    }

    /// A range of elements, from wherever they are.
    pub(crate) fn elements(&self, range: Range<usize>) -> Result<Elements> {
        if range.start > range.end || range.end > self.len {
            return Err(self.out_of_bounds(&range));
        }
        usable(&self.home)?;
        loop {
            if let Some(fetched) = self.session.elements().read(self.id, range.clone())? {
                return Ok(Elements::Fetched(fetched));
            }
            let buffer = self.home.lend();
            if buffer.len() == self.len {
                return Ok(Elements::Here(buffer, range));
            }
            // Another thread has run a loop meanwhile, after which the elements are with workers.
        }
    }

    pub(crate) fn describe(&self, writable: bool) -> Captured {
        let memory = Memory::Home(self.home.clone());
        let (len, ops, rows) = (self.len, self.ops, self.rows);
        let kind = Kind::Vector { len, ops, writable, rows, memory, adding: None };
        Captured { id: self.id, session: Arc::clone(&self.session), copy_of: self.copy_of, dealt: false, kind }
    }

    /// A hash of the elements in index order.
    pub(crate) fn digest(&self) -> Result<String> {
        let mut hasher = blake3::Hasher::new();
        let mut bytes = Vec::new();
        let run = if self.ops.plain { (HASHED / self.ops.size.max(1)).max(1) } else { RUN };
        let at_once = if self.ops.plain { (FETCHED / self.ops.size.max(1)).max(run) } else { self.len.max(1) };
        for start in (0..self.len).step_by(at_once) {
            let range = start..self.len.min(start + at_once);
            let elements = self.elements(range.clone())?;
            // A buffer of this process holds all elements, one that was fetched these alone.
            let first = if let Elements::Here(..) = elements { start } else { 0 };
            for lo in (0..range.len()).step_by(run) {
                bytes.clear();
                let hi = range.len().min(lo + run);
                elements.buffer().encode_range(first + lo, first + hi, &mut bytes);
                hasher.update(&bytes);
            }
        }
        Ok(format!("blake3:{}", hasher.finalize().to_hex()))
    }

    /// All elements as they are encoded, in place of what `bytes` held; plain ones are copied once.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.clear();
        let size = self.len.saturating_mul(self.ops.size);
        if self.ops.plain && bytes.capacity() < size {
            *bytes = Vec::new(); // freed before there is another
            bytes.reserve_exact(size);
        }
        let run = (FETCHED / self.ops.size.max(1)).max(1);
        for start in (0..self.len).step_by(run) {
            let range = start..self.len.min(start + run);
            match self.elements(range.clone())? {
                Elements::Here(buffer, range) => buffer.encode_range(range.start, range.end, bytes),
                Elements::Fetched(buffer) => buffer.encode_range(0, range.len(), bytes),
            }
        }
        Ok(())
    }
}

impl Drop for RawVector {
    fn drop(&mut self) {
        self.session.forget(self.id);
        self.session.elements().dropped(self.id);
    }
}

/// Elements to be read.
pub(crate) enum Elements {
    Here(Arc<RawBuf>, Range<usize>),
    Fetched(RawBuf),
}

impl Elements {
    /// The elements; of rows the numbers, one row after the other.
    pub(crate) fn as_slice<T: 'static>(&self) -> &[T] {
        match self {
            Elements::Here(buffer, range) => {
                let width = buffer.ops().width();
                &buffer.as_slice::<T>()[range.start * width..range.end * width]
            }
            Elements::Fetched(buffer) => buffer.as_slice(),
        }
    }

    /// What holds them, all of them.
    fn buffer(&self) -> &RawBuf {
        match self {
            Elements::Here(buffer, _) => buffer,
            Elements::Fetched(buffer) => buffer,
        }
    }
}
