//! What a loop body is given: its captures, the views of them, and the slow path of a view.

pub(crate) mod added;
pub(crate) mod apart;
pub(crate) mod astray;
pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod index;
pub(crate) mod inference;
pub(crate) mod lease;
pub(crate) mod new_entries;
pub(crate) mod outcome;
pub(crate) mod panics;
pub(crate) mod runs;
pub(crate) mod saved;
pub(crate) mod shared_view;
pub(crate) mod sharing;
pub(crate) mod slot;
pub(crate) mod slow_path;
pub(crate) mod stored;
pub(crate) mod summed;
pub(crate) mod task;
pub(crate) mod tiling;
pub(crate) mod value;
pub(crate) mod view;
pub(crate) mod waiting;
