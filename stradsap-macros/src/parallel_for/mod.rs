//! The loops, and the closures of operators: parse, understand, check, emit. What both have stands here, what each has alone in a module of its own.

mod apart;
pub(crate) mod async_for;
mod body;
mod captures;
mod emit;
mod floats;
mod head;
mod held;
mod indices;
mod ir;
pub(crate) mod operator;
mod options;
mod parse;
mod sums;
pub(crate) mod sync_for;
mod waits;
