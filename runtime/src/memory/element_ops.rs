//! What the engine may do to elements whose type it does not know: size, copies, bytes.
//!
//! # Why this is sound
//! 1. The typed constructors are the only way to make an [`ElementOps`], so `size`, `clone_run`, `drop_run`, `encode`
//!    and `decode` always belong to the same `T: Element`. An element is one `T`, or a row of `width` of them that are
//!    plain: then it has the size of as many, and what is done with `n` elements is done with `n * width` numbers.
//! 2. Elements are made by the functions below, which count them only once they are whole, so a panic in a user's `clone`
//!    or `decode` leaves no half element.
//! 3. Bytes from elsewhere become elements by `T::decode`, or as memory where `T::PLAIN` says that any bytes are values.
#![allow(unsafe_code)]

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

use crate::memory::buffer::RawBuf;
use crate::memory::decode::{DecodeError, take_plain};
use crate::memory::element::{Element, encode_slice};
use crate::memory::locked;
use crate::memory::named::{Nameable, Named};

/// What the engine may do to elements of one type, by address.
#[derive(Debug)]
pub(crate) struct ElementOps {
    /// A function, since a type's id is no constant yet.
    pub(super) type_id: fn() -> TypeId,
    /// How many of the type make an element: 1, but for rows of a width that was chosen at run time.
    pub(super) width: usize,
    /// Of an element.
    pub(crate) size: usize,
    pub(super) align: usize,
    pub(crate) plain: bool,
    /// See [`Element::BITS`].
    pub(crate) bits: bool,
    /// See [`Element::FLAT`].
    pub(crate) flat: usize,
    /// Loops over such elements are recorded with real values only.
    pub(crate) by_key: bool,
    pub(crate) needs_drop: bool,
    /// Of rows: the operations of one number.
    of: Option<&'static ElementOps>,
    /// See [`Element::KEEPS_ROOM`].
    pub(crate) keeps_room: bool,
    pub(super) clone_into_run: unsafe fn(*const u8, *mut u8, usize),
    clone_run: unsafe fn(*const u8, *mut u8, usize, &mut usize),
    drop_run: unsafe fn(*mut u8, usize),
    encode_run: unsafe fn(*const u8, usize, &mut Vec<u8>),
    decode_run: unsafe fn(&mut &[u8], *mut u8, usize, &mut usize) -> Result<(), DecodeError>,
}

impl ElementOps {
    /// The bytes of an element, if each takes as many.
    pub(crate) fn plain_size(&self) -> Option<usize> {
        self.plain.then_some(self.size)
    }
}

impl Nameable for ElementOps {
    const KIND: u64 = 1;
}

struct OpsOf<T>(std::marker::PhantomData<T>);

impl<T: Element> OpsOf<T> {
    const OPS: &'static Named<ElementOps> = &Named::new(ElementOps {
        type_id: TypeId::of::<T>,
        width: 1,
        size: size_of::<T>(),
        align: align_of::<T>(),
        plain: T::PLAIN,
        bits: T::BITS,
        flat: T::FLAT,
        by_key: T::BY_KEY,
        needs_drop: std::mem::needs_drop::<T>(),
        of: None,
        keeps_room: T::KEEPS_ROOM && std::mem::needs_drop::<T>(),
        clone_into_run: clone_into_run::<T>,
        clone_run: clone_run::<T>,
        drop_run: drop_run::<T>,
        encode_run: encode_run::<T>,
        decode_run: decode_run::<T>,
    });
}

pub(crate) fn ops_of<T: Element>() -> &'static ElementOps {
    &OpsOf::<T>::OPS.value
}

/// Rows that there are operations of, by those of their numbers, and by how many a row has.
static ROWS: Mutex<BTreeMap<(TypeId, usize), &'static ElementOps>> = Mutex::new(BTreeMap::new());

/// For rows of `width` such elements. None where they aren't plain, or no row can be as long. What is made once for a width
/// stays as long as the process lives.
pub(crate) fn row_ops(of: &'static ElementOps, width: usize) -> Option<&'static ElementOps> {
    let size = of.size.checked_mul(width).filter(|&size| isize::try_from(size).is_ok())?;
    if width == 1 {
        return Some(of);
    }
    if !of.plain || of.width != 1 || width == 0 {
        return None;
    }
    let make = || Box::leak(Box::new(ElementOps { width, size, of: Some(of), ..*of })) as &_;
    Some(locked(&ROWS).entry(((of.type_id)(), width)).or_insert_with(make))
}

/// # Safety
/// `src` holds `n` elements, `dst` has room for them, they don't overlap. `done` counts those that are whole.
unsafe fn clone_run<T: Element>(src: *const u8, dst: *mut u8, n: usize, done: &mut usize) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    for k in 0..n {
        // SAFETY: k < n, so both addresses are in the ranges that the caller vouched for.
        unsafe { dst.add(k).write((*src.add(k)).clone()) };
        *done += 1;
    }
}

/// # Safety
/// `src` and `dst` hold `n` elements each, they don't overlap, and nobody else uses `dst`.
unsafe fn clone_into_run<T: Element>(src: *const u8, dst: *mut u8, n: usize) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    for k in 0..n {
        // SAFETY: k < n, so both addresses hold an element.
        unsafe { (*src.add(k)).clone_over(&mut *dst.add(k)) };
    }
}

/// All are dropped, whatever their destructors do: it unwinds with the first panic of several, where nothing unwinds yet.
///
/// # Safety
/// `ptr` holds `n` elements that nobody uses afterwards.
unsafe fn drop_run<T>(ptr: *mut u8, n: usize) {
    let (mut begun, mut first) = (0, None);
    while begun < n {
        let dropping = catch_unwind(AssertUnwindSafe(|| {
            while begun < n {
                begun += 1;
                // SAFETY: the caller's promise; each element once, since it is counted before.
                unsafe { ptr.cast::<T>().add(begun - 1).drop_in_place() };
            }
        }));
        if let Err(payload) = dropping {
            match first {
                None => first = Some(payload),
                Some(_) => discard(payload),
            }
        }
    }
    match first {
        Some(payload) if std::thread::panicking() => discard(payload),
        Some(payload) => resume_unwind(payload),
        None => {}
    }
}

/// A payload that isn't one of `panic!` may have a destructor that panics, too: it is leaked.
fn discard(payload: Box<dyn Any + Send>) {
    if !payload.is::<String>() && !payload.is::<&str>() {
        std::mem::forget(payload);
    }
}

/// # Safety
/// `ptr` holds `n` elements that nobody writes meanwhile.
unsafe fn encode_run<T: Element>(ptr: *const u8, n: usize, out: &mut Vec<u8>) {
    // SAFETY: the caller's promise.
    encode_slice(unsafe { std::slice::from_raw_parts(ptr.cast::<T>(), n) }, out);
}

/// # Safety
/// `dst` has room for `n` elements. `done` counts those that are whole.
unsafe fn decode_run<T: Element>(
    bytes: &mut &[u8],
    dst: *mut u8,
    n: usize,
    done: &mut usize,
) -> Result<(), DecodeError> {
    if T::PLAIN {
        let taken = take_plain::<T>(bytes, n)?;
        // SAFETY: the bytes of n elements were taken, and any bytes are values; the caller vouches for the room.
        unsafe { std::ptr::copy_nonoverlapping(taken.as_ptr(), dst, taken.len()) };
        *done += n;
        return Ok(());
    }
    for k in 0..n {
        let element = T::decode(bytes)?;
        // SAFETY: k < n, so the address is in the range that the caller vouched for.
        unsafe { dst.cast::<T>().add(k).write(element) };
        *done += 1;
    }
    Ok(())
}

impl ElementOps {
    /// Replaces the element at `dst` by a clone of the one at `src`.
    ///
    /// # Safety
    /// Both addresses hold elements of this type, not the same one, and nobody else uses `dst`.
    pub(crate) unsafe fn assign(&'static self, src: *const u8, dst: *mut u8) {
        if self.plain {
            // SAFETY: a plain element is its bytes.
            unsafe { std::ptr::copy_nonoverlapping(src, dst, self.size) };
            return;
        }
        if !self.needs_drop {
            // SAFETY: the caller vouches for both; the old element may just be written over.
            unsafe { self.clone_run(src, dst, 1, &mut 0) };
            return;
        }
        let mut fresh = RawBuf::new(self, 1);
        // SAFETY: the caller vouches for `src`; then the whole clone and the old element change places.
        unsafe {
            fresh.push_clones(src, 1);
            std::ptr::swap_nonoverlapping(fresh.as_mut_ptr(), dst, self.size);
        }
    }

    /// Clones a run of elements. `done` counts those that are whole.
    ///
    /// # Safety
    /// `src` holds `n` elements of this type that nobody writes meanwhile, `dst` has room for them, they don't overlap.
    pub(super) unsafe fn clone_run(&self, src: *const u8, dst: *mut u8, n: usize, done: &mut usize) {
        // SAFETY: a plain element is its bytes; the caller vouches for both ranges.
        unsafe {
            if self.plain {
                std::ptr::copy_nonoverlapping(src, dst, n * self.size);
                *done += n;
            } else {
                (self.clone_run)(src, dst, n, done);
            }
        }
    }

    /// Reads a run of elements back from the front of the bytes. `done` counts those that are whole.
    ///
    /// # Safety
    /// `dst` has room for `n` elements of this type.
    pub(super) unsafe fn decode_run(
        &self,
        bytes: &mut &[u8],
        dst: *mut u8,
        n: usize,
        done: &mut usize,
    ) -> Result<(), DecodeError> {
        if self.width == 1 {
            // SAFETY: the caller's promise.
            return unsafe { (self.decode_run)(bytes, dst, n, done) };
        }
        // SAFETY: the caller's promise: a row is as many numbers (rule 1), which come all or not at all.
        unsafe { (self.decode_run)(bytes, dst, n.saturating_mul(self.width), &mut 0)? };
        *done += n;
        Ok(())
    }

    /// Whether both are of the same type, and rows equally wide.
    pub(crate) fn is(&self, other: &ElementOps) -> bool {
        (self.type_id)() == (other.type_id)() && self.width == other.width
    }

    /// How many numbers a row has; of other elements 1.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The operations of a row's numbers; of other elements their own.
    pub(crate) fn of_one(&'static self) -> &'static ElementOps {
        self.of.unwrap_or(self)
    }

    pub(crate) fn align(&self) -> usize {
        self.align
    }

    /// Drops a run of elements.
    ///
    /// # Safety
    /// `ptr` holds `n` elements of this type that nobody uses afterwards.
    pub(crate) unsafe fn drop_elements(&self, ptr: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { (self.drop_run)(ptr, n * self.width) };
    }

    /// # Safety
    /// `ptr` holds an element of this type.
    pub(crate) unsafe fn encode(&self, ptr: *const u8, out: &mut Vec<u8>) {
        // SAFETY: the caller's promise.
        unsafe { (self.encode_run)(ptr, self.width, out) };
    }

    /// Appends the bytes of a run of elements, for plain ones in one copy.
    ///
    /// # Safety
    /// `ptr` holds `n` elements of this type that nobody writes meanwhile.
    pub(crate) unsafe fn encode_run(&self, ptr: *const u8, n: usize, out: &mut Vec<u8>) {
        // SAFETY: the caller's promise.
        unsafe { (self.encode_run)(ptr, n * self.width, out) };
    }
}
