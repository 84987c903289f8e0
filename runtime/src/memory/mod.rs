//! Memory of elements: buffers, a worker's reservations, elements and their bytes, rows that threads share.

pub(crate) mod buffer;
pub(crate) mod codec;
pub(crate) mod decode;
pub(crate) mod element;
pub(crate) mod home;
pub(crate) mod merge;
pub(crate) mod ranges;
pub(crate) mod shard;
pub(crate) mod shared;
