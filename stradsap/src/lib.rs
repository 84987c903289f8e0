//! Write the sequential training loop; run it in parallel.
// What the macros expand to names this crate, in its own tests as well.
#[cfg(test)]
extern crate self as stradsap;

mod files;

pub use files::ReadFiles;
pub use stradsap_macros::{Element, async_parallel_for, main};
pub use stradsap_runtime::*;

#[doc(hidden)]
pub mod __private {
    pub use stradsap_runtime::private::*;
}

/// What programs import.
pub mod prelude {
    pub use crate::kernels;
    pub use crate::{DVector, Element, LoopReport, Order, ReadFiles, Session, Strategy, async_parallel_for};
}
