//! What single elements held before a block changed them, where few of many are changed.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;

/// Elements without destructors are kept together, at most this many.
const TOGETHER: usize = 4096;

/// Copies of elements, each of the first moment at which it was to be changed.
#[derive(Default)]
pub(crate) struct Saved {
    /// Of each copy, in their order, which element it is of.
    indices: Vec<usize>,
    /// The same, once they don't ascend.
    known: HashSet<usize, BuildHasherDefault<Multiplying>>,
    copies: Vec<RawBuf>,
}

impl Saved {
    pub(crate) fn len(&self) -> usize {
        self.indices.len()
    }

    /// Calls `push` with room for one more copy, unless there is one of this element.
    pub(crate) fn save(&mut self, index: usize, ops: &'static ElementOps, push: impl FnOnce(&mut RawBuf)) {
        if self.has(index) {
            return;
        }
        let full = self.copies.last().is_none_or(|copies| copies.len() == copies.capacity());
        if full {
            // One destructor that panics must not keep others from running.
            let room = if ops.needs_drop { 1 } else { self.indices.len().clamp(4, TOGETHER) };
            self.copies.push(RawBuf::new(ops, room));
        }
        let Some(copies) = self.copies.last_mut() else { unreachable!("there is one that has room") };
        let before = copies.len();
        push(copies);
        assert!(copies.len() == before + 1, "one copy");
        if !self.known.is_empty() || self.indices.last().is_some_and(|&last| index < last) {
            if self.known.is_empty() {
                self.known.extend(&self.indices);
            }
            self.known.insert(index);
        }
        self.indices.push(index);
    }

    fn has(&self, index: usize) -> bool {
        match self.indices.last() {
            Some(&last) if last == index => true,
            Some(&last) if self.known.is_empty() => index < last && self.indices.binary_search(&index).is_ok(),
            Some(_) => self.known.contains(&index),
            None => false,
        }
    }

    /// Calls `f` for each copy: which element it is of, and its address.
    pub(crate) fn each(&mut self, mut f: impl FnMut(usize, *mut u8)) {
        let mut indices = self.indices.iter();
        for copies in &mut self.copies {
            let (first, size) = (copies.as_mut_ptr(), copies.ops().size);
            indices.by_ref().take(copies.len()).enumerate().for_each(|(k, &i)| f(i, first.wrapping_add(k * size)));
        }
    }

    /// The copies.
    pub(crate) fn into_copies(self) -> Vec<RawBuf> {
        self.copies
    }
}

/// Numbers of elements need no more than to be spread.
#[derive(Default)]
struct Multiplying(u64);

impl Hasher for Multiplying {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(usize::from(byte)));
    }

    fn write_usize(&mut self, index: usize) {
        let mixed = (self.0 ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::element_ops::ops_of;

    #[test]
    fn the_first_value_of_each_element_is_kept() {
        let mut saved = Saved::default();
        for k in 0..20_000usize {
            // Each of 7,000 elements, most of them three times, and twice in a row; the last 1,000 first.
            let index = (k + 6_000) % 7_000 * 3;
            saved.save(index, ops_of::<u64>(), |copies| copies.push(k as u64));
            saved.save(index, ops_of::<u64>(), |_| unreachable!("it is known"));
        }
        assert_eq!(saved.len(), 7_000);
        let mut at = 0;
        let mut buffer = saved.copies.iter().flat_map(|copies| copies.as_slice::<u64>().to_vec()).collect::<Vec<_>>();
        buffer.reverse();
        saved.each(|index, _| {
            assert_eq!((index, buffer.pop()), ((at + 6_000) % 7_000 * 3, Some(at as u64)));
            at += 1;
        });
        assert_eq!((at, buffer.len()), (7_000, 0));
    }

    #[test]
    fn elements_with_destructors_are_kept_one_by_one() {
        let mut saved = Saved::default();
        for k in 0..5 {
            saved.save(k % 3, ops_of::<String>(), |copies| copies.push(k.to_string()));
        }
        let copies: Vec<String> =
            saved.into_copies().iter().flat_map(|copies| copies.as_slice::<String>().to_vec()).collect();
        assert_eq!(copies, ["0", "1", "2"]);
    }
}
