//! Planning loops whose elements other processes have.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use crate::body::capture::Kind;
use crate::loops::backend::LoopBackend;
use crate::loops::call::Call;
use crate::planner::plan::{self, Away, Plan};
use crate::planner::recording::{CaptureShape, Recording};
use crate::planner::survey::{Answer, Question, Sorting, Survey};
use crate::session::error::{Error, Result};

/// Asks those who have the elements of a loop.
struct Others<'o> {
    call: &'o Call<'o>,
    survey: &'o Survey,
    stretches: usize,
    failed: RefCell<Option<Error>>,
}

impl Away for Others<'_> {
    fn ask(&self, question: &dyn Fn(usize) -> Question) -> Option<Vec<Answer>> {
        match self.call.backend.survey(self.call, self.survey, self.stretches, question) {
            Ok(answers) => Some(answers),
            Err(error) => {
                *self.failed.borrow_mut() = Some(error);
                None
            }
        }
    }
}

impl Call<'_> {
    /// The plan of a loop whose elements stay where they are, or none if it can't be made without them.
    pub(super) fn planned_away(
        &self,
        recording: &Recording<'_>,
        shapes: &[CaptureShape],
        survey: &Survey,
    ) -> Result<Option<Plan>> {
        let options = self.key.options.planning(self.backend.is_one_process());
        let others = Others { call: self, survey, stretches: self.backend.stretches(), failed: RefCell::default() };
        let planned = plan::surveyed(recording, shapes, &options, &*self.pool, &others);
        if let Some(error) = others.failed.into_inner() {
            return Err(error);
        }
        if let Some(plan) = &planned {
            let id = |capture: &crate::body::capture::Captured| match capture.kind {
                Kind::Vector { .. } => Some(capture.id),
                Kind::Reduction { .. } | Kind::Relaxed { .. } => None,
            };
            let ids: Vec<Option<u64>> = self.captured.iter().map(id).collect();
            let backend = Arc::downgrade(&self.backend);
            plan.offsets.brought_by(Box::new(move |sorting| brought(&backend, sorting, &ids)));
        }
        Ok(planned)
    }
}

/// The order of a plan for somebody who looks at it.
fn brought(backend: &Weak<dyn LoopBackend>, sorting: &Sorting, ids: &[Option<u64>]) -> Vec<u32> {
    let order = backend.upgrade().map(|backend| backend.order(sorting, ids));
    match order {
        Some(Ok(order)) => order,
        Some(Err(error)) => panic!("the order of a loop's iterations is with the workers: {error}"),
        None => panic!("the order of a loop's iterations was with workers that have ended"),
    }
}
