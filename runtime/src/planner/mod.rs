//! From a recording to a plan, and from a plan to what each worker does of it.

pub(crate) mod inference;
pub(crate) mod layout;
pub(crate) mod plan;
pub(crate) mod recording;
