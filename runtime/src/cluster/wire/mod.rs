//! What processes say to each other: messages, connections, and names for code.

pub(crate) mod join;
pub(crate) mod keepers;
pub(crate) mod latest;
pub(crate) mod links;
pub(crate) mod minibatch;
pub(crate) mod naming;
pub(crate) mod protocol;
pub(crate) mod scheduled;
pub(crate) mod serve;
