//! The iterations of a plan in its serial order: in this process, or where the elements are that say it.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::survey::Sorting;

/// Lists with at most one gap in this many iterations are taken apart into runs.
const WORTH_JOINING: usize = 16;

/// Of how many offsets of a list the next one is looked at.
const LOOKED_AT: usize = 256;

/// Whether most of some offsets are followed by the next number, as far as a few of them show: they run as runs of neighbours.
pub fn are_neighbours(offsets: &[u32]) -> bool {
    let pairs = offsets.windows(2).step_by(offsets.len() / LOOKED_AT + 1);
    let (seen, apart) =
        pairs.fold((0, 0), |(seen, apart), pair| (seen + 1, apart + usize::from(pair[1] != pair[0].wrapping_add(1))));
    apart * WORTH_JOINING <= seen
}

/// Gives the offsets that a [`Sorting`] leads to.
pub type Bring = Box<dyn Fn(&Sorting) -> Vec<u32> + Send + Sync>;

/// Offsets of iterations from the first, in serial order. Where they are elsewhere, the first look at one brings them all.
#[derive(Clone, Default)]
pub struct Offsets(Option<Arc<Held>>);

struct Held {
    len: usize,
    here: OnceLock<Vec<u32>>,
    elsewhere: Option<Sorting>,
    bring: OnceLock<Bring>,
}

impl Offsets {
    /// The offsets that this sorting leads to, which nobody has looked at.
    pub(crate) fn elsewhere(len: usize, sorting: Sorting) -> Offsets {
        let held = Held { len, here: OnceLock::new(), elsewhere: Some(sorting), bring: OnceLock::new() };
        Offsets(Some(Arc::new(held)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |held| held.len)
    }

    /// Whether there are none, because the serial order is the loop's own.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the iterations are sorted, if the offsets are not here.
    pub fn sorting(&self) -> Option<&Sorting> {
        let held = self.0.as_ref()?;
        held.elsewhere.as_ref().filter(|_| held.here.get().is_none())
    }

    /// Keeps offsets that were elsewhere.
    pub fn keep(&self, offsets: Vec<u32>) {
        if let Some(held) = self.0.as_ref().filter(|held| held.len == offsets.len()) {
            held.here.get_or_init(|| offsets);
        }
    }

    /// Says who brings them when somebody looks.
    pub fn brought_by(&self, bring: Bring) {
        if let Some(held) = &self.0 {
            held.bring.get_or_init(|| bring);
        }
    }
}

impl Deref for Offsets {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        let Some(held) = &self.0 else { return &[] };
        if let Some(here) = held.here.get() {
            return here;
        }
        let (Some(sorting), Some(bring)) = (&held.elsewhere, held.bring.get()) else {
            unreachable!("a plan whose order is elsewhere says who brings it")
        };
        // Who brings them may look at them, too: no lock is held meanwhile.
        let brought = bring(sorting);
        held.here.get_or_init(|| brought)
    }
}

impl From<Vec<u32>> for Offsets {
    fn from(offsets: Vec<u32>) -> Offsets {
        if offsets.is_empty() {
            return Offsets(None);
        }
        let held = Held { len: offsets.len(), here: offsets.into(), elsewhere: None, bring: OnceLock::new() };
        Offsets(Some(Arc::new(held)))
    }
}

impl PartialEq for Offsets {
    fn eq(&self, other: &Offsets) -> bool {
        **self == **other
    }
}

impl Eq for Offsets {}

impl fmt::Debug for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sorting() {
            Some(sorting) => sorting.fmt(f),
            None => (**self).fmt(f),
        }
    }
}
