//! What asynchronous loops ask of a backend.

use once_cell::unsync::OnceCell;
use std::any::Any;
use std::sync::Arc;

use crate::body::lease::Lease;
use crate::loops::call::{Call, LoopStopped};
use crate::loops::record::Depth;
use crate::planner::plan::Plan;
use crate::planner::recording::Recording;
use crate::planner::survey::{Answer, Question, Sorting, Survey};
use crate::session::SessionInner;
use crate::session::error::Result;
use crate::session::pool::Pool;
use crate::session::report::{Elsewhere, WorkerShares};

/// What a backend keeps of a plan from call to call. Another backend's is no use to it.
pub(crate) type Installed = Box<dyn Any + Send + Sync>;

pub(crate) trait LoopBackend: Send + Sync {
    /// Whether all blocks run in this process.
    fn is_one_process(&self) -> bool;
    /// The threads of this process that recording and planning may use.
    fn planners(&self, session: &SessionInner) -> Result<Arc<Pool>>;
    /// Runs a loop virtually, and says how thoroughly that was done. Elements that rules are read from are lent, or fetched
    /// where this process doesn't have them; unless they may stay away, and the recording says whom to ask.
    fn record<'c, 'f>(
        &self,
        call: &Call<'c>,
        depth: Depth,
        elements: (&'f OnceCell<Lease<'c>>, bool),
    ) -> Result<(Recording<'f>, Depth)>;
    /// In how many stretches the iterations of loops whose elements are away are asked about.
    fn stretches(&self) -> usize {
        1
    }
    /// Asks about each stretch of such a loop.
    fn survey(
        &self,
        _call: &Call<'_>,
        _survey: &Survey,
        _stretches: usize,
        _question: &dyn Fn(usize) -> Question,
    ) -> Result<Vec<Answer>> {
        unreachable!("all elements are in this process")
    }
    /// The order of such a loop, by the elements of these DDSs.
    fn order(&self, _sorting: &Sorting, _ids: &[Option<u64>]) -> Result<Vec<u32>> {
        unreachable!("all elements are in this process")
    }
    /// Gets ready to run a loop by a new plan, so that later calls find that done.
    fn install(&self, call: &Call<'_>, plan: &Arc<Plan>) -> Result<Installed>;
    /// Runs a loop by its plan, or by that of a wider range which serves it, and commits what it came to. After a failure
    /// everything is as it was.
    fn run(
        &self,
        call: &Call<'_>,
        plan: &Arc<Plan>,
        installed: &mut Installed,
        trace: bool,
    ) -> std::result::Result<Elsewhere, LoopStopped>;
    /// Which process runs how much of a plan, where there are several.
    fn shares(&self, installed: &Installed) -> Option<Arc<WorkerShares>>;
}
