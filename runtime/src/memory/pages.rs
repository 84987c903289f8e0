//! Tallies of which only those pages take memory that were added to.

use crate::memory::additive::TallyOps;
use crate::memory::buffer::RawBuf;
use crate::memory::decode::DecodeError;

/// Bytes of a page, if an element has no more.
const PAGE: usize = 128;
/// Pages that are made together.
const CHUNK: usize = 64;

/// A block's tally.
pub(crate) enum Tally {
    Whole(RawBuf),
    Pages(Box<Pages>),
}

/// A tally of few elements of many. Addresses stay good until [`clear`](Pages::clear).
pub(crate) struct Pages {
    ops: &'static TallyOps,
    len: usize,
    /// A page has `1 << bits` elements.
    bits: u32,
    /// By page: 0, or one more than its place among those that were touched.
    table: Vec<u32>,
    /// Those that were touched.
    touched: Vec<u32>,
    chunks: Vec<RawBuf>,
    /// How many accesses there were.
    reached: usize,
    /// All elements, once several of them were asked for as one slice.
    whole: Option<RawBuf>,
}

/// How many elements of this size a page has, as a power of two.
fn bits_of(size: usize) -> u32 {
    (PAGE / size.max(1)).max(1).ilog2()
}

/// Bytes of a tally of `len` elements of this size that are touched `accesses` times, and of its table.
pub(crate) fn bytes_of(size: usize, len: usize, accesses: f64) -> f64 {
    accesses * size.max(PAGE) as f64 + 4.0 * (len >> bits_of(size)) as f64
}

impl Pages {
    pub(crate) fn new(ops: &'static TallyOps, len: usize) -> Pages {
        let bits = bits_of((ops.element)().size);
        let table = vec![0; len.div_ceil(1 << bits)];
        Pages { ops, len, bits, table, touched: Vec::new(), chunks: Vec::new(), reached: 0, whole: None }
    }

    pub(crate) fn ops(&self) -> &'static TallyOps {
        self.ops
    }

    /// How many elements the tally stands for.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many pages there would be if all were touched.
    pub(crate) fn pages(&self) -> usize {
        self.table.len()
    }

    /// Whether so much was added that a tally of all elements would have cost less.
    pub(crate) fn is_full(&self) -> bool {
        self.whole.is_some() || self.reached > self.len / 8
    }

    pub(crate) fn touched(&self) -> &[u32] {
        &self.touched
    }

    /// The index of a page's first element, and how many it has.
    pub(crate) fn of_page(&self, page: usize) -> (usize, usize) {
        let first = page << self.bits;
        (first, (self.len - first).min(1 << self.bits))
    }

    /// Where an element lies, which is zero if it is reached for the first time.
    #[inline]
    pub(crate) fn reach(&mut self, i: usize) -> *mut u8 {
        assert!(i < self.len);
        let size = (self.ops.element)().size;
        if let Some(whole) = &self.whole {
            return whole.base().wrapping_add(i * size);
        }
        self.reached += 1;
        let page = i >> self.bits;
        if self.table[page] == 0 {
            self.touch(page);
        }
        self.at_page(page).wrapping_add((i & ((1 << self.bits) - 1)) * size)
    }

    fn touch(&mut self, page: usize) {
        if self.touched.len() == self.chunks.len() * CHUNK {
            self.chunks.push((self.ops.zeros)((self.ops.element)(), CHUNK << self.bits));
        }
        self.touched.push(page as u32);
        self.table[page] = self.touched.len() as u32;
    }

    /// Where a page lies that was touched.
    pub(crate) fn at_page(&self, page: usize) -> *mut u8 {
        let (chunk, within) = self.place_of(page);
        self.chunks[chunk].base().wrapping_add(within * (self.ops.element)().size)
    }

    /// In which chunk, and after how many of its elements.
    fn place_of(&self, page: usize) -> (usize, usize) {
        let place = self.table[page] as usize - 1;
        (place / CHUNK, (place % CHUNK) << self.bits)
    }

    /// Puts the touched ones in order.
    pub(crate) fn sort(&mut self) {
        // (Where each lies is in the table.)
        self.touched.sort_unstable();
    }

    pub(crate) fn encode_page(&self, page: usize, out: &mut Vec<u8>) {
        let (_, n) = self.of_page(page);
        let (chunk, within) = self.place_of(page);
        self.chunks[chunk].encode_range(within, within + n, out);
    }

    /// Adds the elements of a page that another process has sent.
    pub(crate) fn decode_page(&mut self, page: usize, bytes: &mut &[u8]) -> Result<(), DecodeError> {
        let (_, n) = self.of_page(page);
        let mut elements = RawBuf::new((self.ops.element)(), n);
        elements.push_decoded(n, bytes)?;
        self.ops.add_to_page(self, page, &mut elements);
        Ok(())
    }

    /// All elements, beside each other. What was added before lies elsewhere from then on.
    pub(crate) fn all(&mut self) -> &RawBuf {
        if self.whole.is_none() {
            self.whole = Some(self.ops.whole_of(self));
        }
        self.whole.get_or_insert_with(|| unreachable!("made just now"))
    }

    pub(crate) fn into_whole(mut self) -> RawBuf {
        self.all();
        self.whole.unwrap_or_else(|| unreachable!("made just now"))
    }

    /// The pages hold zeros again.
    pub(crate) fn clear(&mut self) {
        for page in self.touched.drain(..) {
            self.table[page as usize] = 0;
        }
        self.reached = 0;
    }
}

impl Tally {
    pub(crate) fn into_whole(self) -> RawBuf {
        match self {
            Tally::Whole(whole) => whole,
            Tally::Pages(pages) => pages.into_whole(),
        }
    }
}
