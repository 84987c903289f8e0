//! Running loops on many processes.

#[allow(dead_code)]
pub(crate) mod layout;
