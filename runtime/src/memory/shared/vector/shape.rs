//! How the bytes of an element fall into vectors, known when the program is compiled.

use std::marker::PhantomData;

use super::registers::{PANEL, WIDTH};

/// An element is whole panels (of [`PANEL`] vectors each), then single vectors, then a tail: quads of 16 bytes, then up to
/// three words of 4 bytes. The rest is up to 3 bytes, which only elements aligned to less than 4 have.
pub(super) struct Shape<T>(PhantomData<T>);

impl<T> Shape<T> {
    const BYTES: usize = size_of::<T>();
    pub(super) const PANELS: usize = Self::BYTES / (PANEL * WIDTH);
    pub(super) const SINGLES: usize = Self::BYTES / WIDTH % PANEL;
    pub(super) const TAIL: usize = Self::BYTES % WIDTH / 4 * 4;
    pub(super) const QUADS: usize = Self::TAIL / 16;
    pub(super) const WORDS: usize = Self::TAIL % 16 / 4;
    /// Where the tail is, in bytes from the end of the last whole panel.
    pub(super) const TAIL_AT: usize = Self::SINGLES * WIDTH;
    pub(super) const WORDS_AT: usize = Self::TAIL_AT + Self::QUADS * 16;
    /// Where the rest is, in bytes from the start of the element.
    pub(super) const REST_AT: usize = Self::BYTES / 4 * 4;
}

/// Vectors, or quads, that lie one after the other.
///
/// What depends on their number is decided by constants alone, so that no code is made for other numbers of them: there
/// are many kernels and many lengths of rows.
pub(super) trait Run {
    const LEN: usize;
    /// In bytes from the end of the last whole panel.
    const AT: usize;
}

/// A whole panel. Its address is that of the panel.
pub(super) struct Panel;
/// The vectors after the last whole panel.
pub(super) struct Singles<T>(PhantomData<T>);
/// The quads of the tail.
pub(super) struct Quads<T>(PhantomData<T>);

impl Run for Panel {
    const LEN: usize = PANEL;
    const AT: usize = 0;
}

impl<T> Run for Singles<T> {
    const LEN: usize = Shape::<T>::SINGLES;
    const AT: usize = 0;
}

impl<T> Run for Quads<T> {
    const LEN: usize = Shape::<T>::QUADS;
    const AT: usize = Shape::<T>::TAIL_AT;
}
