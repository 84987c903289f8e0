//! Random loops, as data and running: the same ones in this process and on workers.

pub(crate) mod items;
pub(crate) mod program;
pub(crate) mod running;
pub(crate) mod sequences;
pub(crate) mod world;
