//! Plans of loops that ran, to be used again (STRADS-AP section 3: "runs VI and scheduling once and reuses
//! execution plans over subsequent iterations").

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::loops::backend::Installed;
use crate::loops::record::Depth;
use crate::planner::plan::Plan;
use crate::session::locked;
use crate::session::options::LoopOptions;
use crate::session::slots::Slot;

/// What a plan belongs to: a body at a place in the source, over these indices of these DDSs, told this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanKey {
    pub(crate) site: usize,
    pub(crate) body: TypeId,
    /// The iterations' numbers, and how they become indices.
    pub(crate) range: Range<usize>,
    pub(crate) rule: Vec<u8>,
    pub(crate) options: LoopOptions,
    /// Identity and length of every DDS; zeros for a reduction.
    pub(crate) captures: Vec<(u64, usize)>,
}

/// A plan with what it keeps from call to call.
pub(crate) struct CachedPlan {
    pub(crate) key: PlanKey,
    pub(crate) plan: Arc<Plan>,
    pub(crate) installed: Installed,
    /// How thoroughly the loop was recorded.
    pub(crate) depth: Depth,
    pub(crate) misspeculations_in_row: usize,
    pub(crate) seconds_recording: f64,
    pub(crate) seconds_planning: f64,
}

/// How many plans a place in the source keeps.
const PER_SITE: usize = 4;

/// The plans of a session, by place in the source, the newest of each last.
#[derive(Default)]
pub(crate) struct Plans(Mutex<BTreeMap<usize, Vec<CachedPlan>>>);

impl Plans {
    /// Takes a plan out, if there is one.
    pub(crate) fn take(&self, key: &PlanKey) -> Option<CachedPlan> {
        let mut sites = locked(&self.0);
        let plans = sites.get_mut(&key.site)?;
        let at = plans.iter().position(|cached| cached.key == *key)?;
        Some(plans.remove(at))
    }

    /// Puts a plan in, and drops the oldest if there is no room.
    pub(crate) fn put(&self, cached: CachedPlan) {
        let oldest = {
            let mut sites = locked(&self.0);
            let plans = sites.entry(cached.key.site).or_default();
            let oldest = (plans.len() >= PER_SITE).then(|| plans.remove(0));
            plans.push(cached);
            oldest
        };
        // Plans hold copies of elements, whose drop must not run under the lock: it may drop DDSs.
        drop(oldest);
    }
}

impl Slot for Plans {
    fn forget(&self, dds: u64) {
        let mut removed = Vec::new();
        for plans in locked(&self.0).values_mut() {
            let uses = |cached: &CachedPlan| cached.key.captures.iter().any(|&(id, _)| id == dds);
            removed.extend(plans.extract_if(.., |cached| uses(cached)));
        }
        drop(removed);
    }
}
