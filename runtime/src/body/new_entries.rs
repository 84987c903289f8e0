//! New entries: what one part of a synchronous loop adds to a map. They stay with the part until the loop ends, and are united
//! then with those of the others; the engine handles them without their types.

use std::any::Any;

#[cfg(feature = "cluster")]
use crate::memory::decode::DecodeError;
use crate::memory::merge::Union;

/// The new entries of one map, as its [`NewEntryOps`] made them.
pub(crate) type NewEntries = Box<dyn Any + Send>;

/// What the engine may do to new entries of one kind of map. Others than its own it takes for none.
#[derive(Debug)]
pub(crate) struct NewEntryOps {
    /// In the map's order.
    pub(crate) encode: fn(&NewEntries, &mut Vec<u8>),
    #[cfg(feature = "cluster")]
    pub(crate) decode: fn(&mut &[u8]) -> Result<NewEntries, DecodeError>,
    /// Makes one of those of several parts, which come in their order.
    pub(crate) unite: fn(Vec<NewEntries>, Union) -> NewEntries,
}
