//! What the blocks of one run have added to relaxed state, and what each of them sees of it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::body::added::RelaxedOps;
use crate::body::capture::{Captured, Kind};
use crate::body::slot::Copies;
use crate::memory::buffer::RawBuf;
use crate::planner::plan::Strata;
use crate::session::locked;
use crate::session::report::RelaxedError;

/// The relaxed state of one run, of all its captures.
pub(crate) struct Board {
    /// By capture; none for others.
    sheets: Vec<Option<Sheet>>,
    strata: Arc<Strata>,
}

struct Sheet {
    ops: &'static RelaxedOps,
    len: usize,
    /// What each block of the plan has added, once it has ended.
    added: Vec<Mutex<Option<RawBuf>>>,
    /// What is known when this many strata have been merged.
    known: Mutex<Vec<Arc<RawBuf>>>,
}

/// What is to be merged is not there. It can't happen unless a process breaks the protocol.
#[derive(Debug)]
pub(crate) struct Missing;

impl Board {
    /// A board for a run that starts from these values, by capture.
    pub(crate) fn new(captured: &[Captured], before: Vec<Option<RawBuf>>, strata: &Arc<Strata>) -> Self {
        let mut before = before.into_iter();
        let sheets = captured
            .iter()
            .map(|capture| {
                let values = before.next().flatten();
                let Kind::Relaxed { ops, len, .. } = capture.kind else { return None };
                let values = values.filter(|values| values.len() == len).unwrap_or_else(|| (ops.zeros)(len));
                let added = (0..strata.blocks()).map(|_| Mutex::new(None)).collect();
                Some(Sheet { ops, len, added, known: Mutex::new(vec![Arc::new(values)]) })
            })
            .collect();
        Board { sheets, strata: Arc::clone(strata) }
    }

    /// The same, with nothing added yet.
    pub(crate) fn fresh(&self) -> Board {
        let fresh = |sheet: &Sheet| {
            let before = locked(&sheet.known).first().map(Arc::clone);
            Sheet {
                ops: sheet.ops,
                len: sheet.len,
                added: sheet.added.iter().map(|_| Mutex::new(None)).collect(),
                known: Mutex::new(before.into_iter().collect()),
            }
        };
        let sheets = self.sheets.iter().map(|sheet| sheet.as_ref().map(fresh)).collect();
        Board { sheets, strata: Arc::clone(&self.strata) }
    }

    /// Whether there is no relaxed state.
    pub(crate) fn is_empty(&self) -> bool {
        self.sheets.iter().all(Option::is_none)
    }

    /// What a block starts from.
    pub(crate) fn copies(&self, capture: usize, block: usize) -> Result<Option<Copies>, Missing> {
        let Some(sheet) = self.sheets.get(capture).and_then(Option::as_ref) else { return Ok(None) };
        let known = sheet.known(&self.strata, self.strata.seen_by(block))?;
        Ok(Some(Copies::new(sheet.ops, known)))
    }

    /// A block has ended well, having added so much.
    pub(crate) fn put(&self, capture: usize, block: usize, added: RawBuf) {
        if let Some(sheet) = self.sheets.get(capture).and_then(Option::as_ref)
            && let Some(place) = sheet.added.get(block)
        {
            *locked(place) = Some(added);
        }
    }

    /// What a block has added, of all captures, as bytes.
    pub(crate) fn encode(&self, block: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for sheet in self.sheets.iter().flatten() {
            if let Some(place) = sheet.added.get(block)
                && let Some(added) = &*locked(place)
            {
                added.encode_range(0, added.len(), &mut bytes);
            }
        }
        bytes
    }

    /// Reads back what [`encode`](Board::encode) gave, and takes its bytes off the front. False: that is no such thing.
    pub(crate) fn decode(&self, block: usize, bytes: &mut &[u8]) -> bool {
        for sheet in self.sheets.iter().flatten() {
            let Some(place) = sheet.added.get(block) else { return false };
            let mut added = RawBuf::new((sheet.ops.element)(), sheet.len);
            if added.push_decoded(sheet.len, bytes).is_err() {
                return false;
            }
            *locked(place) = Some(added);
        }
        true
    }

    /// What the state comes to when all blocks have ended, by capture.
    pub(crate) fn total(&self) -> Vec<Option<RawBuf>> {
        let all = self.strata.count();
        let total = |sheet: &Sheet| sheet.known(&self.strata, all).ok().map(|known| known.copy());
        self.sheets.iter().map(|sheet| sheet.as_ref().and_then(total)).collect()
    }

    /// How far off the blocks' copies were when they ended, by capture (see [`RelaxedError`]).
    pub(crate) fn errors(&self) -> Vec<Option<RelaxedError>> {
        self.sheets.iter().map(|sheet| sheet.as_ref().and_then(|sheet| sheet.error(&self.strata))).collect()
    }
}

impl Sheet {
    /// The values when this many strata have been merged into them, one after the other, the blocks of each in serial
    /// order.
    fn known(&self, strata: &Strata, merged: usize) -> Result<Arc<RawBuf>, Missing> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        while known.len() <= merged {
            let Some(last) = known.last() else { return Err(Missing) };
            let mut next = last.copy();
            for block in strata.blocks_of(known.len() - 1) {
                let added = locked(&self.added[block]);
                (self.ops.add)(&mut next, added.as_ref().ok_or(Missing)?);
            }
            known.push(Arc::new(next));
        }
        known.get(merged).cloned().ok_or(Missing)
    }

    fn error(&self, strata: &Strata) -> Option<RelaxedError> {
        let zeros = (self.ops.zeros)(self.len);
        let end = self.known(strata, strata.count()).ok()?;
        let size = (self.ops.apart)(&end, &zeros).max(f64::MIN_POSITIVE);
        let mut error = RelaxedError::default();
        // What all blocks before the one in question come to.
        let mut before = self.known(strata, 0).ok()?.copy();
        for block in 0..strata.blocks() {
            let seen = self.known(strata, strata.seen_by(block)).ok()?;
            let apart = (self.ops.apart)(&before, &seen) / size;
            error.mean += apart / strata.blocks() as f64;
            error.max = error.max.max(apart);
            (self.ops.add)(&mut before, locked(&self.added[block]).as_ref()?);
        }
        Some(error)
    }
}

/// The values of relaxed captures before a loop, by capture.
pub(crate) fn before(captured: &[Captured]) -> Vec<Option<RawBuf>> {
    captured.iter().map(Captured::relaxed).collect()
}

/// The same as bytes, empty where there are none.
pub(crate) fn to_bytes(values: &[Option<RawBuf>]) -> Vec<Vec<u8>> {
    let bytes = |values: &RawBuf| {
        let mut bytes = Vec::new();
        values.encode_range(0, values.len(), &mut bytes);
        bytes
    };
    values.iter().map(|values| values.as_ref().map_or_else(Vec::new, bytes)).collect()
}

/// Reads back what [`to_bytes`] gave. None where something is no such thing.
pub(crate) fn of_bytes(captured: &[Captured], bytes: &[Vec<u8>]) -> Option<Vec<Option<RawBuf>>> {
    let one = |(c, capture): (usize, &Captured)| {
        let Kind::Relaxed { ops, len, .. } = capture.kind else { return Some(None) };
        let mut values = RawBuf::new((ops.element)(), len);
        values.push_decoded(len, &mut bytes.get(c)?.as_slice()).ok()?;
        Some(Some(values))
    };
    captured.iter().enumerate().map(one).collect()
}
