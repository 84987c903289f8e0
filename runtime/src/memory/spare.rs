//! Memory for copies of a DDS's elements that a loop makes and doesn't need when it has ended: kept for the next loop over that DDS,
//! whichever it is, so that many plans need no memory of their own.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::locked;
use crate::memory::spill::Carver;

/// Empty buffers, by how many elements they have room for.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Kept>, Carver);

#[derive(Default)]
struct Kept {
    by_capacity: BTreeMap<usize, Vec<RawBuf>>,
    /// For how many elements there is room in all.
    capacity: usize,
}

impl Spare {
    /// An empty buffer for `len` elements, with room for twice as many at most.
    pub(crate) fn take(&self, ops: &'static ElementOps, len: usize) -> RawBuf {
        let mut kept = locked(&self.0);
        let fitting = kept.by_capacity.range(len..=len.saturating_mul(2)).next().map(|(&capacity, _)| capacity);
        let found = fitting.and_then(|capacity| {
            let buffers = kept.by_capacity.get_mut(&capacity)?;
            let buffer = buffers.pop();
            if buffers.is_empty() {
                kept.by_capacity.remove(&capacity);
            }
            kept.capacity -= buffer.as_ref().map_or(0, |_| capacity);
            buffer
        });
        drop(kept);
        found.filter(|buffer| buffer.ops().is(ops)).unwrap_or_else(|| RawBuf::carved(ops, len, &self.1))
    }

    /// Frees all buffers.
    pub(crate) fn clear(&self) {
        let gone = std::mem::take(&mut *locked(&self.0));
        drop(gone);
    }

    /// Keeps a buffer of plain elements; those that are there go if there would be room for more than `most` elements.
    pub(crate) fn give(&self, mut buffer: RawBuf, most: usize) {
        if buffer.capacity() == 0 || buffer.ops().needs_drop {
            return;
        }
        buffer.clear();
        let mut kept = locked(&self.0);
        let gone = match kept.capacity.saturating_add(buffer.capacity()) > most {
            true => std::mem::take(&mut *kept),
            false => Kept::default(),
        };
        kept.capacity += buffer.capacity();
        kept.by_capacity.entry(buffer.capacity()).or_default().push(buffer);
        drop(kept);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::element_ops::ops_of;

    #[test]
    fn a_buffer_is_used_again_where_it_fits() {
        let (spare, ops) = (Spare::default(), ops_of::<f64>());
        let first = spare.take(ops, 100);
        let at = first.as_ptr();
        spare.give(first, 1000);
        assert!(spare.take(ops, 49).as_ptr() != at, "more than twice as large");
        assert!(spare.take(ops, 101).as_ptr() != at, "too small");
        let again = spare.take(ops, 50);
        assert_eq!((again.as_ptr(), again.len(), again.capacity()), (at, 0, 100));
    }

    #[test]
    fn there_is_never_room_for_more_than_was_said() {
        let (spare, ops) = (Spare::default(), ops_of::<u32>());
        for k in 1..50 {
            let buffers: Vec<RawBuf> = (0..4).map(|_| spare.take(ops, k)).collect();
            buffers.into_iter().for_each(|buffer| spare.give(buffer, 100));
            assert!(locked(&spare.0).capacity <= 100);
        }
        spare.give(RawBuf::new(ops_of::<String>(), 4), 100);
        assert!(!locked(&spare.0).by_capacity.values().flatten().any(|buffer| buffer.ops().needs_drop));
    }
}
