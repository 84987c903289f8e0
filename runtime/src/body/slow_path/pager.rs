//! What brings elements that are with other processes.

use std::ops::Range;

/// Brings elements that are elsewhere to their places, while nobody writes them.
pub(crate) trait Pager: Sync {
    /// Elements around this one that are here now. None: it can't be had, and what is being done is void.
    fn bring(&self, capture: usize, index: usize) -> Option<Range<usize>>;
    /// Whether all elements of a capture are here; they are if it brings none of them.
    fn has_all(&self, capture: usize) -> bool;
    /// How many captures have elements that are brought by lists, and not around those that are looked at.
    fn by_list(&self) -> usize;
    /// Whether an element is brought by a list and isn't here yet.
    fn is_awaited(&self, capture: usize, index: usize) -> bool;
    /// Brings these. What can't be had is found out when it is looked at.
    fn bring_list(&self, capture: usize, elements: Vec<usize>);
}
