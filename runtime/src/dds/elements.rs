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

/// This many bytes' worth of elements are looked at together, and of those that aren't plain at most this many: so much of what
/// workers have is fetched at once.
const TOGETHER: usize = 512 << 10;
const MOST: usize = 1 << 16;

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
        Captured {
            id: self.id,
            session: Arc::clone(&self.session),
            name: None,
            copy_of: self.copy_of,
            dealt: false,
            kind,
        }
    }

    /// Calls a function with the elements of a range, a few megabytes at a time and in order.
    pub(crate) fn each<E: From<Error>>(
        &self,
        range: Range<usize>,
        mut f: impl FnMut(&Elements) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let most = TOGETHER / self.ops.size.max(1);
        let most = if self.ops.plain { most.max(1) } else { most.clamp(1, MOST) };
        for start in range.clone().step_by(most) {
            f(&self.elements(start..range.end.min(start + most))?)?;
        }
        Ok(())
    }

    /// A hash of the elements in index order.
    pub(crate) fn digest(&self) -> Result<String> {
        let (mut hasher, mut bytes) = (blake3::Hasher::new(), Vec::new());
        let run = if self.ops.plain { (HASHED / self.ops.size.max(1)).max(1) } else { RUN };
        self.each(0..self.len, |elements| {
            let (buffer, range) = elements.place();
            for lo in range.clone().step_by(run) {
                bytes.clear();
                buffer.encode_range(lo, range.end.min(lo + run), &mut bytes);
                hasher.update(&bytes);
            }
            Ok::<_, Error>(())
        })?;
        Ok(format!("blake3:{}", hasher.finalize().to_hex()))
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

    /// What holds them, and where.
    fn place(&self) -> (&RawBuf, Range<usize>) {
        match self {
            Elements::Here(buffer, range) => (buffer, range.clone()),
            Elements::Fetched(buffer) => (buffer, 0..buffer.len()),
        }
    }
}
