//! The distributed data structures that loops capture: vectors, maps, reductions and relaxed state.

pub(crate) mod chunks;
pub(crate) mod dmap;
pub(crate) mod dmatrix;
pub(crate) mod dvector;
pub(crate) mod elements;
pub(crate) mod reduction;
pub(crate) mod relaxed;
