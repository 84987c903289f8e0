//! A worker's answers about iterations whose elements it holds.
//!
//! # Why this is sound
//! The driver asks while no loop runs that writes these elements, after it has had all of them brought here.
#![allow(unsafe_code)]

use stradsap_dds_server::codec;

use crate::cluster::wire::protocol::{Asked, Problem, SurveyJob};
use crate::cluster::worker::bench::Workbench;
use crate::planner::recording::Fields;
use crate::planner::survey::{Elements, Survey};

fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::Broken(what.to_string())
}

/// The answer as one blob, or what is dealt out as one for each worker.
pub(crate) fn answer(bench: &Workbench, job: &SurveyJob) -> Result<Vec<Vec<u8>>, Problem> {
    let survey = match &job.asked {
        Asked::Question(survey, _) => survey,
        Asked::Deal(sorting, ..) => &sorting.survey,
    };
    if job.slices.start > job.slices.end || job.slices.end > survey.slices() {
        return Err(broken("slices beyond the end of a loop"));
    }
    let first = survey.iterations(&job.slices).start;
    let mut fields: Vec<Option<Fields<'_>>> = vec![None; job.captures.len()];
    let reservations = bench.reservations_of(&job.captures);
    let elements = |capture: usize, survey: &Survey| {
        let there = reservations.get(capture).and_then(Option::as_ref).filter(|there| there.is_plain());
        let offset = survey.offset_of(capture);
        let (Some(there), Some(offset)) = (there, offset) else { return Err(broken("elements that aren't in step")) };
        let iterations = survey.iterations(&job.slices);
        let range = iterations.start.wrapping_add(offset)..iterations.end.wrapping_add(offset);
        if range.start > range.end || range.end > there.len() {
            return Err(broken("iterations without elements"));
        }
        // SAFETY: see the module's argument.
        Ok((unsafe { there.bytes(range) }, there.ops().size))
    };
    for (capture, _) in survey.fields() {
        let (bytes, size) = elements(capture, survey)?;
        *fields.get_mut(capture).ok_or_else(|| broken("no such capture"))? = Some(Fields::new(first, size, bytes));
    }
    let pool = bench.pool().map_err(broken)?;
    let unfit = || broken("a question that does not fit the elements");
    match &job.asked {
        Asked::Question(survey, question) => {
            let answer = survey.answer(question, job.slices.clone(), &fields, &*pool).ok_or_else(unfit)?;
            Ok(vec![codec::encode(&answer).map_err(broken)?])
        }
        Asked::Deal(sorting, worker_of, workers, what) => {
            let bytes = |capture: &Option<usize>| capture.map(|capture| elements(capture, &sorting.survey)).transpose();
            let what: Vec<Option<Elements<'_>>> = what.iter().map(bytes).collect::<Result<_, Problem>>()?;
            sorting.deal(job.slices.clone(), (&fields, &what), (worker_of, *workers), &*pool).ok_or_else(unfit)
        }
    }
}
