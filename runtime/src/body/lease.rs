//! The memory behind captures, lent for as long as somebody works on it.
//!
//! A capture names the memory that belongs to it and has no address of it. A call prepares its DDSs first and takes a lease
//! then; the lease alone gives addresses. It holds every buffer by reference count, so that no buffer goes while the lease
//! lives, even if another is put in its place.

use std::sync::{Arc, OnceLock};

use crate::body::capture::{Captured, Kind, Memory};
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::reservation::Reservation;
use crate::memory::spare::Spare;
use crate::memory::spill::FileMemory;

/// The memory of the captures of one call.
pub(crate) struct Lease<'c> {
    captured: &'c [Captured],
    lent: Vec<Option<Lent>>,
}

/// The elements of one capture. Their address is good as long as this lives.
#[derive(Clone)]
pub(crate) struct Lent {
    backing: Backing,
    ops: &'static ElementOps,
    len: usize,
    writable: bool,
    spare: Arc<Spare>,
    flat: Arc<OnceLock<Vec<u8>>>,
}

#[derive(Clone)]
enum Backing {
    Buffer(Arc<RawBuf>),
    Reservation(Arc<Reservation>),
}

impl<'c> Lease<'c> {
    /// The memory of these captures as it is now. A DVector whose elements are all elsewhere lends nothing.
    pub(crate) fn of(captured: &'c [Captured]) -> Lease<'c> {
        Lease { captured, lent: captured.iter().map(Lent::of).collect() }
    }

    /// No memory: others run the call.
    pub(crate) fn nothing(captured: &'c [Captured]) -> Lease<'c> {
        Lease { captured, lent: captured.iter().map(|_| None).collect() }
    }

    /// The same with other memory for some captures: copies of as many elements. Those that don't fit are passed over.
    pub(crate) fn with(&self, copies: Vec<Option<RawBuf>>) -> Lease<'c> {
        let mut lent = self.lent.clone();
        for ((lent, copy), capture) in lent.iter_mut().zip(copies).zip(self.captured) {
            if let (Some(copy), Kind::Vector { len, ops, writable, .. }) = (copy, &capture.kind)
                && copy.len() == *len
                && copy.ops().is(ops)
            {
                let (backing, spare) = (Backing::Buffer(Arc::new(copy)), Arc::default());
                *lent = Some(Lent { backing, ops, len: *len, writable: *writable, spare, flat: Arc::default() });
            }
        }
        Lease { captured: self.captured, lent }
    }

    pub(crate) fn captured(&self) -> &'c [Captured] {
        self.captured
    }

    /// The elements of a capture; none of one that is no DVector.
    pub(crate) fn vector(&self, capture: usize) -> Option<&Lent> {
        self.lent.get(capture)?.as_ref()
    }
}

impl Lent {
    /// The elements of one capture.
    pub(crate) fn of(capture: &Captured) -> Option<Lent> {
        let Kind::Vector { len, ops, writable, memory, .. } = &capture.kind else { return None };
        let (backing, there, spare) = match memory {
            Memory::Home(home) => {
                let buffer = home.lend();
                let there = if buffer.ops().is(ops) { buffer.len() } else { 0 };
                (Backing::Buffer(buffer), there, home.spare())
            }
            Memory::Reservation(reservation) => {
                let there = if reservation.ops().is(ops) { reservation.len() } else { 0 };
                (Backing::Reservation(Arc::clone(reservation)), there, reservation.spare())
            }
        };
        let spare = Arc::clone(spare);
        let flat = Arc::default();
        (there == *len).then_some(Lent { backing, ops, len: *len, writable: *writable, spare, flat })
    }

    /// Where the first element lies.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        match &self.backing {
            Backing::Buffer(buffer) => buffer.base(),
            Backing::Reservation(reservation) => reservation.base(),
        }
    }

    /// Where an element lies, or the end of the last one.
    #[inline]
    pub(crate) fn at(&self, i: usize) -> *mut u8 {
        assert!(i <= self.len, "element {i} of {}", self.len);
        self.base().wrapping_add(i * self.ops.size)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn ops(&self) -> &'static ElementOps {
        self.ops
    }

    /// The file that the elements lie in, if they do.
    pub(crate) fn file(&self) -> Option<&FileMemory> {
        match &self.backing {
            Backing::Buffer(buffer) => buffer.file(),
            Backing::Reservation(reservation) => reservation.file(),
        }
    }

    /// Memory for copies of elements, of whichever loop.
    pub(crate) fn spare(&self) -> &Arc<Spare> {
        &self.spare
    }

    /// The place for the elements' numbers without padding, which are made once and kept as long as this.
    pub(crate) fn flat(&self) -> &OnceLock<Vec<u8>> {
        &self.flat
    }

    /// Whether the call may write the elements.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dds::dvector::DVector;

    #[test]
    fn a_lease_outlives_what_replaces_its_buffer() {
        let session = crate::Session::builder().threads(1).build().unwrap();
        let words = DVector::from_fn(&session, 3, |i| format!("word {i}, long enough for the heap")).unwrap();
        let captured = [words.describe(false)];
        let Kind::Vector { memory: Memory::Home(home), .. } = &captured[0].kind else { unreachable!() };
        let before = home.lend().copy();
        let lease = Lease::of(&captured);
        home.replace(before);
        let lent = lease.vector(0).unwrap();
        assert_ne!(lent.base(), home.lend().base());
        let mut copy = RawBuf::new(lent.ops(), 3);
        // SAFETY: three strings are there, which nobody writes.
        #[allow(unsafe_code)]
        unsafe {
            copy.push_clones(lent.base(), 3);
        }
        assert_eq!(copy.as_slice::<String>(), words.to_vec().unwrap());
    }

    #[test]
    fn a_home_without_the_elements_lends_nothing() {
        let session = crate::Session::builder().threads(1).build().unwrap();
        let numbers = DVector::from_fn(&session, 3, |i| i as u32).unwrap();
        let captured = [numbers.describe(false)];
        let Kind::Vector { memory: Memory::Home(home), .. } = &captured[0].kind else { unreachable!() };
        home.replace(RawBuf::new(home.ops(), 0));
        assert!(Lease::of(&captured).vector(0).is_none());
    }
}
