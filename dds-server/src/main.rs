//! The `dds-server` binary.

fn main() {}
