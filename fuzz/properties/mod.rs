//! What must hold of any bytes: the fuzz targets check it, and so does a plain test of the workspace, `tests/tests/fuzzed.rs`.

mod checkpoints;
mod handshake;
mod place;
mod tables;
mod texts;
mod wire;
mod written;

pub use checkpoints::checkpoint;
pub use handshake::handshake;
pub use tables::{csv, npy};
pub use texts::{bag, edges, libsvm, lines, packed};
pub use wire::{codec, frame};
pub use written::written;

/// A property, by its target's name.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, each with a folder of its name in `seeds/`.
pub const TARGETS: [Target; 12] = [
    ("bag", bag),
    ("checkpoint", checkpoint),
    ("codec", codec),
    ("csv", csv),
    ("edges", edges),
    ("frame", frame),
    ("handshake", handshake),
    ("libsvm", libsvm),
    ("lines", lines),
    ("npy", npy),
    ("packed", packed),
    ("written", written),
];
