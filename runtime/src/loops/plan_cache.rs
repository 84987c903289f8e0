//! Plans of loops that ran, to be used again (STRADS-AP section 3: "runs VI and scheduling once and reuses
//! execution plans over subsequent iterations").

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::cluster::driver::remote_plan::RemotePlan;
use crate::loops::pack::Gathered;
use crate::loops::record::Depth;
use crate::loops::undo::Undo;
use crate::planner::plan::Plan;
use crate::session::options::LoopOptions;

/// What a plan belongs to: a body at a place in the source, over these indices of these DDSs, told this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanKey {
    pub(crate) site: usize,
    pub(crate) body: TypeId,
    pub(crate) range: Range<usize>,
    pub(crate) options: LoopOptions,
    /// Identity and length of every DDS; zeros for a reduction.
    pub(crate) captures: Vec<(u64, usize)>,
}

/// A plan with what it keeps from call to call.
pub(crate) struct CachedPlan {
    pub(crate) key: PlanKey,
    pub(crate) plan: Arc<Plan>,
    pub(crate) undo: Undo,
    /// The plan as workers know it.
    pub(crate) remote: Option<Arc<RemotePlan>>,
    pub(crate) gathered: Vec<Option<Gathered>>,
    /// How thoroughly the loop was recorded.
    pub(crate) depth: Depth,
    pub(crate) strays_in_row: usize,
    pub(crate) seconds_recording: f64,
    pub(crate) seconds_planning: f64,
}

/// How many plans a place in the source keeps.
const PER_SITE: usize = 4;

/// The plans of a session, the newest of each place in the source last.
#[derive(Default)]
pub(crate) struct PlanCache {
    sites: BTreeMap<usize, Vec<CachedPlan>>,
}

impl PlanCache {
    /// Takes a plan out, if there is one.
    pub(crate) fn take(&mut self, key: &PlanKey) -> Option<CachedPlan> {
        let plans = self.sites.get_mut(&key.site)?;
        let at = plans.iter().position(|cached| cached.key == *key)?;
        Some(plans.remove(at))
    }

    /// Puts a plan in, and gives back one that had to make room.
    pub(crate) fn put(&mut self, cached: CachedPlan) -> Option<CachedPlan> {
        let plans = self.sites.entry(cached.key.site).or_default();
        let oldest = (plans.len() >= PER_SITE).then(|| plans.remove(0));
        plans.push(cached);
        oldest
    }

    /// Takes out all plans that use a DDS.
    pub(crate) fn remove_users_of(&mut self, dds: u64) -> Vec<CachedPlan> {
        let mut removed = Vec::new();
        for plans in self.sites.values_mut() {
            let uses = |cached: &CachedPlan| cached.key.captures.iter().any(|&(id, _)| id == dds);
            removed.extend(plans.extract_if(.., |cached| uses(cached)));
        }
        removed
    }
}
