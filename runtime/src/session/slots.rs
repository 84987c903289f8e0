//! What runners keep in a session from one call to the next, found by its type: the session knows none of them.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::session::{SessionInner, locked};

/// What a runner keeps.
pub(crate) trait Slot: Any + Send + Sync {
    /// Drops what belongs to a DDS, which is gone. Must hold no lock meanwhile: elements' drops may drop DDSs.
    fn forget(&self, dds: u64);
}

#[derive(Default)]
pub(crate) struct Slots(Mutex<BTreeMap<TypeId, Arc<dyn Slot>>>);

impl SessionInner {
    /// The session's `T`, made when it is first asked for.
    pub(crate) fn slot<T: Slot + Default>(&self) -> Arc<T> {
        let slot = Arc::clone(locked(&self.slots.0).entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())));
        let slot: Arc<dyn Any + Send + Sync> = slot;
        match slot.downcast() {
            Ok(slot) => slot,
            Err(_) => unreachable!("a slot's key is its type"),
        }
    }

    /// Has all runners forget a DDS.
    pub(crate) fn forget(&self, dds: u64) {
        let slots: Vec<Arc<dyn Slot>> = locked(&self.slots.0).values().map(Arc::clone).collect();
        slots.iter().for_each(|slot| slot.forget(dds));
    }
}
