//! What the macros accept: a program a file, each of which must build and run. What they refuse is in `ui`.

#![allow(dead_code, reason = "some of it is only to be built")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod bodies;
mod elements;
mod fields;
mod generic;
mod results;
mod scratch;
mod sgdmf;
mod side_by_side;
mod sync;
mod sync_forms;
mod values;
mod wrapped;
