//! Elements with something on the heap, of which it is known how many there are.

use std::sync::atomic::{AtomicIsize, AtomicU32, Ordering::Relaxed};

use serde::{Deserialize, Deserializer, Serialize};
use stradsap::prelude::*;

const SLOTS: usize = 1024;
static ALIVE: [AtomicIsize; SLOTS] = [const { AtomicIsize::new(0) }; SLOTS];

/// Where one test's elements are counted: tests of a process may run at once.
pub(crate) fn a_slot() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Relaxed) % SLOTS as u32
}

/// How many of these elements this process has.
pub(crate) fn alive(slot: u32) -> isize {
    ALIVE[slot as usize].load(Relaxed)
}

/// Counts the elements that hold one.
#[derive(Debug, PartialEq, Element, Serialize)]
#[element(serde)]
struct Counted(u32);

impl Counted {
    fn new(slot: u32) -> Counted {
        ALIVE[slot as usize].fetch_add(1, Relaxed);
        Counted(slot)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Counted {
        Counted::new(self.0)
    }
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Counted, D::Error> {
        let slot = u32::deserialize(from)?;
        if slot as usize >= SLOTS {
            return Err(serde::de::Error::custom("not a slot"));
        }
        Ok(Counted::new(slot))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE[self.0 as usize].fetch_sub(1, Relaxed);
    }
}

#[derive(Clone, Debug, PartialEq, Element)]
pub(crate) struct Item {
    counted: Counted,
    pub(crate) name: String,
    pub(crate) numbers: Vec<u64>,
}

impl Item {
    pub(crate) fn new(slot: u32, number: u64) -> Item {
        Item { counted: Counted::new(slot), name: format!("item {number}"), numbers: vec![number] }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.numbers.iter().fold(self.name.len() as u64, |sum, number| sum.rotate_left(7) ^ number)
    }

    /// Grows up to a size, and then begins anew as another item.
    pub(crate) fn change(&mut self, by: u64) {
        self.numbers.push(by);
        if self.numbers.len() > 4 {
            *self = Item::new(self.counted.0, by);
        }
    }
}
