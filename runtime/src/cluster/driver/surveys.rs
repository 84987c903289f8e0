//! Loops whose elements stay with the workers while they are planned and laid out: workers answer questions about the iterations whose elements
//! they hold, and deal iterations and elements out to those that run them. The driver holds which block each kind of iteration belongs
//! to, and no iteration.
//!
//! The order of a plan follows from elements as they were when it was made. Before something changes them, the driver takes the order over.

use std::ops::Range;
use std::sync::{Arc, Weak};

use stradsap_dds_server::codec;

use crate::body::capture::Captured;
use crate::cluster::driver::call::{remote_captures, vector_of};
use crate::cluster::driver::remote::broken;
use crate::cluster::driver::remote_plan::{RemotePlan, Vector};
use crate::cluster::driver::{Cluster, Fault, State, join_all};
use crate::cluster::wire::protocol::{Asked, DealtOut, Install, Node, Prepare, RemoteCapture, SurveyJob};
use crate::loops::call::Call;
use crate::loops::record::shapes;
use crate::planner::inference;
use crate::planner::layout::Layout;
use crate::planner::recording::{Fields, Recording, Usage};
use crate::planner::survey::{Answer, Question, Sorting, Survey};
use crate::session::error::Result;
use crate::session::locked;
use crate::session::timeline::{Category, span};

/// Who is asked about which slices: a stretch for each worker, or for some several.
struct Asking<'s> {
    captures: &'s [RemoteCapture],
    vectors: &'s [Option<Vector>],
    survey: &'s Survey,
    stretches: usize,
}

/// The elements of samples of a loop's iterations, each sample's with its first iteration.
struct Few {
    size: usize,
    elements: Vec<(usize, Vec<u8>)>,
}

impl Cluster {
    /// Finds rules in the samples of a loop, if it is to be planned without its elements: because others have them, and they and the order
    /// would be more than the driver is to hold.
    pub(crate) fn surveyed(
        &self,
        state: &mut State,
        call: &Call<'_>,
        sampled: &Recording<'_>,
        samples: &[Range<usize>],
    ) -> Result<Option<Recording<'static>>> {
        let n = sampled.range.len();
        let in_step = |(c, capture): (usize, &Captured)| {
            let vector = vector_of(capture).filter(|vector| vector.ops.plain && vector.ops.size > 0)?;
            let Usage::InStep { offset, written: false } = sampled.usage[c] else { return None };
            let first = sampled.range.start.wrapping_add(offset);
            (first <= vector.len && n <= vector.len - first).then_some((c, vector, offset))
        };
        let in_step: Vec<(usize, Vector, usize)> = call.captured.iter().enumerate().filter_map(in_step).collect();
        let away = in_step.iter().map(|(_, vector, _)| vector).filter(|vector| is_away(state, vector));
        let sizes: Vec<usize> = away.map(|vector| vector.ops.size).collect();
        let bytes = sizes.iter().copied().fold(4, usize::saturating_add).saturating_mul(n);
        if sizes.is_empty() || bytes <= self.options.bytes_at_home() {
            return Ok(None);
        }
        let mut held: Vec<Option<Few>> = call.captured.iter().map(|_| None).collect();
        for (c, vector, offset) in in_step {
            let mut few = Few { size: vector.ops.size, elements: Vec::with_capacity(samples.len()) };
            for sample in samples {
                let range = sample.start.wrapping_add(offset)..sample.end.wrapping_add(offset);
                let id = vector.id;
                let got = self.retry(state, async |cluster, state| cluster.fetch(state, id, range.clone()).await)?;
                let mut bytes = Vec::new();
                got.encode_range(0, got.len(), &mut bytes);
                few.elements.push((sample.start, bytes));
            }
            held[c] = Some(few);
        }
        let fields = held.iter().map(|few| few.as_ref().map(|few| Fields::of_samples(few.size, &few.elements)));
        let fields: Vec<Option<Fields<'_>>> = fields.collect();
        let recording =
            inference::surveyed(sampled, samples, &shapes(call.captured), (&fields, call.key.options.columns));
        // Those that are here are as good.
        let by_others = |recording: &Recording<'_>| {
            let fields = recording.survey().map(Survey::fields).unwrap_or_default();
            let mut vectors = fields.iter().filter_map(|&(c, _)| vector_of(&call.captured[c]));
            vectors.any(|vector| is_away(state, &vector))
        };
        Ok(recording.filter(by_others))
    }

    /// Asks about all stretches of a loop.
    pub(crate) fn answers(
        &self,
        call: &Call<'_>,
        survey: &Survey,
        stretches: usize,
        question: &dyn Fn(usize) -> Question,
    ) -> Result<Vec<Answer>> {
        let mut state = locked(&self.state);
        self.register_all(&mut state, call.captured);
        let captures = remote_captures(call.captured)?;
        let vectors: Vec<Option<Vector>> = call.captured.iter().map(vector_of).collect();
        let asking = Asking { captures: &captures, vectors: &vectors, survey, stretches };
        self.retry(&mut state, async |cluster, state| {
            cluster.settle(state, call.captured.iter().map(|capture| capture.id)).await?;
            let ask = |k: usize| (Asked::Question(survey.clone(), question(k)), Vec::new());
            let mut answers: Vec<Answer> = Vec::with_capacity(stretches);
            for (node, blobs) in cluster.ask_stretches(state, &asking, &ask).await? {
                let [blob] = blobs[..] else { return Err(broken("an answer that is none")) };
                let bytes = cluster.blob(node, blob).await?;
                let answer = codec::decode(&bytes, codec::MAX_BYTES).map_err(broken)?;
                if !answers.last_mut().is_some_and(|last| last.take_in(&answer)) {
                    answers.push(answer);
                }
            }
            Ok(answers)
        })
    }

    /// Has each stretch's worker fetch what it lacks of the elements of its iterations (and of `more` captures), and asks it.
    async fn ask_stretches(
        &self,
        state: &mut State,
        asking: &Asking<'_>,
        ask: &dyn Fn(usize) -> (Asked, Vec<usize>),
    ) -> std::result::Result<Vec<(Node, Vec<u64>)>, Fault> {
        let Asking { captures, vectors, survey, stretches } = *asking;
        let (workers, slices, generation) = (state.workers.len(), survey.slices(), state.generation);
        let mut jobs = Vec::with_capacity(stretches);
        for k in 0..stretches {
            let (w, slices) = (k % workers, slices * k / stretches..slices * (k + 1) / stretches);
            let iterations = survey.iterations(&slices);
            let (asked, more) = ask(k);
            let mut needed: Vec<usize> = survey.fields().into_iter().map(|(c, _)| c).chain(more).collect();
            needed.sort_unstable();
            needed.dedup();
            let mut pulls = Vec::new();
            for c in needed {
                let (Some(vector), Some(offset)) = (vectors[c], survey.offset_of(c)) else { continue };
                let Some(entry) = state.entries.get(&vector.id) else { continue };
                let range = iterations.start.wrapping_add(offset)..iterations.end.wrapping_add(offset);
                pulls.extend(entry.placement.missing(vector.id, &range, state.workers[w], w));
            }
            jobs.push((state.workers[w], SurveyJob { captures: captures.to_vec(), asked, slices, pulls }));
        }
        let asked = jobs.iter().map(|(node, job)| {
            let job = job.clone();
            self.ask(*node, move |client, context| async move { client.survey(context, generation, job).await })
        });
        let mut answers = Vec::with_capacity(stretches);
        for (answer, (node, job)) in join_all(asked).await.into_iter().zip(&jobs) {
            answers.push((*node, answer?));
            Self::note_pulled(state, *node, &job.pulls);
        }
        Ok(answers)
    }

    /// Has workers deal out the iterations of a plan (none), and the elements of captures that these read in step, to those that run them. Gives
    /// for each of these what each worker fetches from whom.
    async fn deal_there(
        &self,
        state: &mut State,
        plan: &RemotePlan,
        layout: &Layout,
        what: &[Option<usize>],
    ) -> std::result::Result<Vec<Vec<DealtOut>>, Fault> {
        let Some(sorting) = plan.plan.offsets.sorting() else { return Ok(Vec::new()) };
        let workers = state.workers.len();
        let _span = span(Category::Prepare, workers as u64);
        let asking =
            Asking { captures: &plan.captures, vectors: &plan.vectors, survey: &sorting.survey, stretches: workers };
        let ask = |_: usize| {
            let asked = Asked::Deal(sorting.clone(), layout.worker_of.clone(), workers, what.to_vec());
            (asked, what.iter().flatten().copied().collect())
        };
        tracing::debug!(plan = plan.id, ?what, "iterations are sorted by the workers");
        let none = DealtOut { from: Vec::with_capacity(workers), turns: sorting.interleaved() };
        let mut dealt = vec![vec![none; workers]; what.len()];
        for (node, blobs) in self.ask_stretches(state, &asking, &ask).await? {
            if blobs.len() != workers * what.len() {
                return Err(broken("a worker deals out to another number of workers"));
            }
            for (k, blob) in blobs.into_iter().enumerate() {
                dealt[k % what.len()][k / what.len()].from.push((node, blob));
            }
        }
        Ok(dealt)
    }

    /// Has workers send each other the elements of captures in the order in which they run their iterations, unless that is for the driver to do,
    /// which knows the order. With a share for each worker, which it installs before, the iterations are sent as well.
    pub(crate) async fn lay_out_there(
        &self,
        state: &mut State,
        plan: &RemotePlan,
        layout: &Layout,
        (captures, shares): (&[usize], Option<&[u64]>),
    ) -> std::result::Result<bool, Fault> {
        let away = plan.plan.offsets.sorting().is_some();
        if !away && shares.is_none() || captures.is_empty() && shares.is_none() {
            return Ok(away);
        }
        let what: Vec<Option<usize>> =
            shares.map(|_| None).into_iter().chain(captures.iter().map(|&capture| Some(capture))).collect();
        let mut dealt = self.deal_there(state, plan, layout, &what).await?.into_iter();
        let generation = state.generation;
        if let Some(shares) = shares {
            let offsets = dealt.next();
            self.ask_all(&state.workers, |w, client, context| {
                let offsets = offsets.as_ref().map(|offsets| offsets[w].clone());
                let (captures, share) = (plan.captures.clone(), Some(shares[w]));
                let job = Install { plan: plan.id, captures, share, offsets };
                async move { client.install(context, generation, job).await }
            })
            .await?;
        }
        let version = |capture: usize| {
            let id = plan.vectors[capture].map(|vector| vector.id);
            id.and_then(|id| state.entries.get(&id)).map_or(0, |entry| entry.version)
        };
        let laid_out: Vec<(usize, Vec<DealtOut>, u64)> =
            captures.iter().zip(dealt).map(|(&capture, dealt)| (capture, dealt, version(capture))).collect();
        if !laid_out.is_empty() {
            self.ask_all(&state.workers, |w, client, context| {
                let dealt = laid_out.iter().map(|(capture, dealt, version)| (*capture, dealt[w].clone(), *version));
                let job = Prepare { plan: plan.id, dealt: dealt.collect(), ..Prepare::default() };
                async move { client.prepare(context, generation, job).await }
            })
            .await?;
        }
        let mut installed = locked(&plan.state);
        installed.laid_out.resize(plan.captures.len(), 0);
        laid_out.iter().for_each(|(capture, _, version)| installed.laid_out[*capture] = *version);
        Ok(away)
    }

    /// Brings a plan's order here, where it is still elsewhere.
    pub(crate) async fn bring_order(&self, state: &State, plan: &RemotePlan) -> std::result::Result<(), Fault> {
        let Some(sorting) = plan.plan.offsets.sorting() else { return Ok(()) };
        let ids = plan.vectors.iter().map(|vector| vector.map(|vector| vector.id)).collect::<Vec<_>>();
        let offsets = self.sorted_here(state, sorting, &ids).await?;
        plan.plan.offsets.keep(offsets);
        Ok(())
    }

    async fn sorted_here(
        &self,
        state: &State,
        sorting: &Sorting,
        ids: &[Option<u64>],
    ) -> std::result::Result<Vec<u32>, Fault> {
        let (survey, n) = (&sorting.survey, sorting.survey.range.len());
        let mut held = Vec::new();
        for (c, offset) in survey.fields() {
            let id = ids.get(c).copied().flatten().ok_or_else(|| broken("an order by a DDS that isn't there"))?;
            let first = survey.range.start.wrapping_add(offset);
            let elements = self.fetch_placed(state, id, first..first + n).await?;
            let mut bytes = Vec::new();
            elements.encode_range(0, n, &mut bytes);
            held.push((c, elements.ops().size, bytes));
        }
        let mut fields: Vec<Option<Fields<'_>>> = vec![None; ids.len()];
        for (c, size, bytes) in &held {
            fields[*c] = Some(Fields::new(survey.range.start, *size, bytes));
        }
        sorting.offsets(&fields, &*self.pool).ok_or_else(|| broken("a plan's order by elements that have changed"))
    }

    /// The order of a plan for somebody who looks at it.
    pub(crate) fn order_by(&self, sorting: &Sorting, ids: &[Option<u64>]) -> Result<Vec<u32>> {
        let mut state = locked(&self.state);
        let fields = sorting.survey.fields().into_iter().filter_map(|(c, _)| ids.get(c).copied().flatten());
        let fields: Vec<u64> = fields.collect();
        self.retry(&mut state, async |cluster, state| {
            cluster.settle(state, fields.iter().copied()).await?;
            cluster.sorted_here(state, sorting, ids).await
        })
    }

    /// Takes over the order of plans that follows from DDSs which are about to change.
    pub(crate) fn keep_orders(&self, state: &mut State, changes: &[u64]) -> Result<()> {
        state.sorted.retain(|plan| plan.upgrade().is_some_and(|plan| plan.plan.offsets.sorting().is_some()));
        let by_changed = |plan: &Arc<RemotePlan>| {
            let fields = plan.plan.offsets.sorting().map(|sorting| sorting.survey.fields()).unwrap_or_default();
            let changed = |&(c, _): &(usize, usize)| plan.vectors[c].is_some_and(|vector| changes.contains(&vector.id));
            fields.iter().any(changed)
        };
        let plans: Vec<Arc<RemotePlan>> = state.sorted.iter().filter_map(Weak::upgrade).filter(by_changed).collect();
        plans
            .into_iter()
            .try_for_each(|plan| self.retry(state, async |cluster, state| cluster.bring_order(state, &plan).await))
    }
}

/// Whether others have elements that the driver doesn't.
fn is_away(state: &State, vector: &Vector) -> bool {
    state.entries.get(&vector.id).is_some_and(|entry| !entry.placement.is_home())
}
