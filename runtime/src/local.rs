//! One process as a backend: the session's own threads, and no elements elsewhere.

use once_cell::unsync::OnceCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::roles;
use crate::body::lease::Lease;
use crate::body::outcome::Failure;
use crate::body::panics;
use crate::dds::relaxed::board::{self, Board};
use crate::loops::backend::{Installed, LoopBackend};
use crate::loops::call::{Call, LoopStopped};
use crate::loops::execute::{FirstFailure, Ran, Run, words};
use crate::loops::pace::Pace;
use crate::loops::pack::{self, Packed};
use crate::loops::plan_cache::part_of;
use crate::loops::record::Depth;
use crate::loops::sure::cannot_fail;
use crate::loops::tallies::Tallies;
use crate::loops::undo::{OtherWorkers, Undo};
use crate::loops::verify::Verifier;
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::minibatch::{MinibatchBackend, SyncCall, SyncReport};
use crate::operate::run::{Made, Operation, OperatorBackend};
use crate::operate::stage::Items;
use crate::planner::plan::Plan;
use crate::planner::recording::Recording;
use crate::scheduled::backend::{self, ProgramCall, ScheduledBackend, Unfinished};
use crate::session::backend::{Changing, ElementBackend, Whereabouts};
use crate::session::error::Result;
use crate::session::pool::Pool;
use crate::session::report::{Elsewhere, WorkerShares};
use crate::session::{Session, SessionBuilder, SessionInner};

struct Local;

impl SessionBuilder {
    /// The session.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) for a number of threads that is not offered, or a variable that is not
    /// understood.
    pub fn build(self) -> Result<Session> {
        self.build_on(roles(Arc::new(Local)))
    }
}

/// Nothing has to be done when a change ends.
struct Changed;

impl Changing for Changed {}

impl ElementBackend for Local {
    fn read(&self, _: u64, _: Range<usize>) -> Result<Option<RawBuf>> {
        Ok(None)
    }

    fn whereabouts(&self, _: u64) -> Result<Whereabouts> {
        Ok(Whereabouts::Here)
    }

    fn change(&self, _: u64) -> Result<Box<dyn Changing + '_>> {
        Ok(Box::new(Changed))
    }

    fn dropped(&self, _: u64) {}

    fn owe(&self, _: u64, _: Option<String>) {}

    fn limit_memory(&self) -> Result<()> {
        Ok(())
    }

    fn workers(&self) -> usize {
        0
    }

    fn control_messages(&self) -> u64 {
        0
    }
}

/// What is kept of a plan.
struct Ready {
    undo: Undo,
    packed: Vec<Option<Packed>>,
    /// By capture, the version that the last call found of what it may lay out later.
    seen: Vec<Option<u64>>,
    tallies: Tallies,
    /// Whether it can't fail.
    sure: bool,
    pace: Pace,
}

impl Ready {
    fn new(call: &Call<'_>, plan: &Plan) -> Ready {
        let sure = cannot_fail(plan, call.captured, &call.key.options);
        let unsaved = sure || call.key.options.unsaved || call.keeps_nothing(plan);
        Ready {
            undo: if unsaved { Undo::nothing(plan) } else { Undo::new(plan, call.captured, &OtherWorkers::default()) },
            packed: Vec::new(),
            seen: Vec::new(),
            tallies: Tallies::new(plan, call.captured),
            sure,
            pace: Pace::new(plan),
        }
    }
}

impl LoopBackend for Local {
    fn is_one_process(&self) -> bool {
        true
    }

    fn planners(&self, session: &SessionInner) -> Result<Arc<Pool>> {
        session.pool()
    }

    fn record<'c, 'f>(
        &self,
        call: &Call<'c>,
        depth: Depth,
        (lent, _): (&'f OnceCell<Lease<'c>>, bool),
    ) -> Result<(Recording<'f>, Depth)> {
        Ok(call.record_here(lent.get_or_init(|| Lease::of(call.captured)), depth))
    }

    fn install(&self, call: &Call<'_>, plan: &Arc<Plan>) -> Result<Installed> {
        let mut ready = Ready::new(call, plan);
        // This call is yet to come: what it finds is not what another has left.
        pack::refresh((&mut ready.packed, &mut Vec::new()), plan, &Lease::of(call.captured), &call.pool);
        Ok(Box::new(ready))
    }

    fn run(
        &self,
        call: &Call<'_>,
        plan: &Arc<Plan>,
        installed: &mut Installed,
        trace: bool,
    ) -> std::result::Result<Elsewhere, LoopStopped> {
        if !installed.is::<Ready>() {
            *installed = Box::new(Ready::new(call, plan));
        }
        let Some(ready) = installed.downcast_mut::<Ready>() else { unreachable!("made just now") };
        let lease = Lease::of(call.captured);
        pack::refresh((&mut ready.packed, &mut ready.seen), plan, &lease, &call.pool);
        // What is kept is that of the whole plan, whose blocks have the same numbers.
        let part = part_of(plan, &call.key.range);
        let run = Run {
            plan: &part,
            task: call.task,
            lease: &lease,
            packed: &ready.packed,
            order: call.key.options.order,
            trace,
            before: words(call.captured),
            board: Arc::new(Board::new(call.captured, board::before(call.captured), &part.strata)),
            tallies: &ready.tallies,
            apart: None,
        };
        let first = call.key.range.start;
        let verifier = match call.session.verifies() {
            true => Some(
                panics::caught(|| Verifier::before(&lease))
                    .map_err(|note| FirstFailure::new(0, Some(first), Failure::Panic(note)))?,
            ),
            false => None,
        };
        let iterations = part.range.len();
        let threads = ready.pace.threads(iterations, call.pool.fits_caller()).min(call.pool.threads());
        let begun = Instant::now();
        let ran = run.run(&ready.undo, (&call.pool, threads));
        assert!(!ready.sure || ran.is_ok(), "a loop over floats failed, which none can");
        let Ran { after, saved, busy } = ran?;
        ready.pace.ended(iterations, threads, (begun.elapsed(), Duration::from_nanos(busy)));
        let checked = verifier.map(|verifier| verifier.check(&run, &after)).transpose();
        call.commit(&after, &run.board);
        let compared = checked.map_err(|(capture, index)| FirstFailure::difference(capture, index))?;
        let staleness = run.board.errors();
        Ok(Elsewhere { staleness, compared, crowded: part.is_crowded(saved), busy, ..Elsewhere::default() })
    }

    fn shares(&self, _: &Installed) -> Option<Arc<WorkerShares>> {
        None
    }
}

impl MinibatchBackend for Local {
    fn run_minibatches(&self, call: &SyncCall<'_>) -> Result<SyncReport> {
        call.run_here()
    }
}

impl OperatorBackend for Local {
    fn give(&self, operation: &Operation<'_>) -> Result<Vec<Box<dyn Items>>> {
        operation.run_here()
    }

    fn store(&self, operation: &Operation<'_>, _: &'static ElementOps) -> Result<Made> {
        operation.run_here().map(Made::Here)
    }
}

impl ScheduledBackend for Local {
    fn run_scheduled(&self, call: &mut dyn ProgramCall) -> std::result::Result<backend::ProgramOutcome, Unfinished> {
        call.run_here()
    }
}
