//! The executable's image in memory: code and constants that lie at the same place in it in every process that runs the same
//! executable. Only addresses within it get a name; code from shared libraries, which may differ, has none.
//!
//! # Why this is sound
//! Addresses are only compared here. What may be done with one is the argument of who asks.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::OnceLock;

/// Part of the executable in memory.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: usize,
    end: usize,
    /// Code; otherwise data.
    runs: bool,
    /// Nobody writes it once the program runs.
    fixed: bool,
}

#[derive(Debug, Default)]
struct Image {
    base: usize,
    segments: Vec<Segment>,
}

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let mut image = Image::default();
        // SAFETY: the callback takes the pointer for the `Image` that it is, and nobody else has it meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(first_image), (&raw mut image).cast::<c_void>()) };
        image
    })
}

/// The program itself comes first in the loader's list.
///
/// # Safety
/// `image` points at an `Image`; `info` is what the loader gives.
unsafe extern "C" fn first_image(info: *mut libc::dl_phdr_info, _size: usize, image: *mut c_void) -> libc::c_int {
    // SAFETY: the caller's promise; the loader's table has `dlpi_phnum` entries.
    unsafe {
        let (info, image) = (&*info, &mut *image.cast::<Image>());
        image.base = info.dlpi_addr as usize;
        for header in std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) {
            if header.p_type == libc::PT_LOAD || header.p_type == libc::PT_GNU_RELRO {
                let start = image.base.wrapping_add(header.p_vaddr as usize);
                let end = start.wrapping_add(header.p_memsz as usize);
                let runs = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0;
                // (Constants with addresses in them are written while the program is loaded, and not after that.)
                let fixed = header.p_type == libc::PT_GNU_RELRO || header.p_flags & libc::PF_W == 0;
                image.segments.push(Segment { start, end, runs, fixed });
            }
        }
    }
    1
}

/// The name of an address in the executable; none for one that lies elsewhere.
pub(crate) fn name_of(address: usize) -> Option<u64> {
    let image = image();
    let inside = image.segments.iter().any(|segment| (segment.start..segment.end).contains(&address));
    inside.then(|| address.wrapping_sub(image.base) as u64)
}

/// The address with this name, if this many bytes lie there that are code (`runs`) or constants, or none.
pub(crate) fn address_of(name: u64, size: usize, runs: bool) -> Option<usize> {
    let image = image();
    let address = image.base.wrapping_add(usize::try_from(name).ok()?);
    let fits = |segment: &Segment| {
        segment.fixed
            && segment.runs == runs
            && address >= segment.start
            && segment.end.checked_sub(address).is_some_and(|n| n >= size)
    };
    image.segments.iter().any(fits).then_some(address)
}
