//! Other plans for a loop: after iterations strayed from theirs, and where its blocks took longer than foreseen.

use std::sync::Arc;

use crate::body::capture::{Captured, Kind};
use crate::loops::call::Call;
use crate::loops::plan_cache::{CachedPlan, PlanKey, Plans};
use crate::loops::record::Depth;
use crate::planner::plan::{Facts, Plan};
use crate::session::error::Result;
use crate::session::logging::warning;
use crate::session::options::{Order, Strategy};
use crate::session::report::LoopReport;

/// After this many misspeculations in a row a loop runs serially, unless few iterations are to blame.
pub(super) const MISSPECULATIONS: usize = 3;
/// This many iterations at most run alone,
const MOST_ODD: usize = 64;
/// and after this many calls in a row with a new one the loop runs serially.
const ODD_CALLS: usize = 8;
/// After this many calls in a row that each needed a plan for its own captured values,
const FRESH: usize = 8;
/// or this many where there is no room for all of these plans, or where what the loop reads had changed,
const FRESH_WHERE_SOME_GO: usize = 4;
const STALE: usize = 4;
/// a loop runs in its own order that has this many iterations or more,
const LIGHT: usize = 1024;
/// and writes elements of this many bytes at most.
const SMALL: usize = 64;
/// A plan of which iterations run alone must promise this much over serial execution, on this many threads.
const WORTHWHILE: (f64, usize) = (1.2, 8);

impl Call<'_> {
    /// By which plan a loop runs again that iterations strayed from. `reused` and `trace`: whether it is of an earlier call, and
    /// whether the run must name the iteration.
    pub(super) fn after_straying(
        &mut self,
        mut cached: CachedPlan,
        (capture, iteration): (usize, Option<usize>),
        reused: &mut bool,
        trace: &mut bool,
    ) -> Result<CachedPlan> {
        if let Some(plan) = cached.plan.dealt_by_data() {
            self.deal(&mut cached, plan)?;
            cached.by_data = true;
            return Ok(cached);
        }
        let of_others = *reused && cached.odd.offsets.is_empty() && self.is_of_others(&cached);
        if !of_others && !*trace && iteration.is_none() && self.may_stand_alone(&cached, *reused) {
            // Which iteration was it?
            *trace = true;
            return Ok(cached);
        }
        let fresh = match of_others {
            true => self.plan_beside(cached)?,
            false => self.replan(&cached, (capture, iteration), *reused)?,
        };
        *trace &= !fresh.odd.offsets.is_empty();
        *reused = false;
        Ok(fresh)
    }

    /// Has windows saved as a whole in later calls, where saving single elements of them takes longer; or cuts a loop without conflicts into more blocks for later calls, where two calls took longer on threads of this process than its
    /// accesses and its recording said, and no bits depend on where blocks begin.
    pub(super) fn deal_anew(&self, cached: &mut CachedPlan, report: &LoopReport) {
        let PlanKey { range, options, .. } = &self.key;
        if let Some(plan) = cached.plan.saved_in_ranges().filter(|_| report.elsewhere.crowded) {
            let _ = self.deal(cached, plan);
            return;
        }
        let here = report.elsewhere.workers.is_empty() && self.pool.threads() > 1;
        if cached.by_data || !here || !cached.serves_parts || options.grain.is_some() || cached.key.range != *range {
            return;
        }
        let nanos = report.elsewhere.busy as f64;
        // One call may take long because something else ran: the plan would have many blocks for good.
        let before = cached.nanos.replace(nanos).unwrap_or(0.0);
        if let Some(plan) = cached.plan.dealt_by_time(nanos.min(before)) {
            // Without memory for another one the plan stays as it is.
            let _ = self.deal(cached, plan);
        }
    }

    /// Replaces a plan by the same one in other blocks.
    fn deal(&self, cached: &mut CachedPlan, plan: Plan) -> Result<()> {
        let plan = Arc::new(plan);
        cached.installed = self.backend.install(self, &plan)?;
        cached.plan = plan;
        Ok(())
    }

    /// The plan of an earlier call that serves this one.
    pub(super) fn kept(&self) -> Option<CachedPlan> {
        let plans = self.session.slot::<Plans>();
        let kept = plans.take(&self.key, self.digests)?;
        if kept.for_all_others && plans.comes_again(self.key.site, (self.digests)()) {
            self.store(kept);
            return None;
        }
        Some(kept)
    }

    /// The plan of an earlier call was the right one.
    pub(super) fn found(&self, cached: &mut CachedPlan) {
        cached.stale = 0;
        if !cached.for_all_others {
            self.session.slot::<Plans>().found_its_own(self.key.site);
        }
    }

    /// Whether a plan that serves one call alone takes longer than the loop in its own order: it has many iterations, which write small
    /// elements. (A clock would know more, but bits depend on the order.)
    fn is_light(&self) -> bool {
        let PlanKey { range, options, .. } = &self.key;
        let small = |capture: &Captured| match capture.kind {
            Kind::Vector { ops, writable, .. } => !writable || ops.size <= SMALL && !ops.needs_drop,
            Kind::Reduction { .. } | Kind::Relaxed { .. } => true,
        };
        options.strategy.is_none() && options.parts.is_none() && range.len() >= LIGHT && self.captured.iter().all(small)
    }

    /// Says that plans serve one call alone. The loop's own order, where that is better.
    fn after_many_plans(&self, calls: usize, why: &str) -> Result<Option<CachedPlan>> {
        let many =
            format!("in each of the last {calls} calls iterations touched other elements than in those before, {why}");
        if !self.is_light() {
            let long = self.key.range.len() >= LIGHT && self.key.options.strategy.is_none();
            if calls.is_power_of_two() && long {
                warning!("{}: {many}, so each was planned anew; `strategy = Serial` needs no plan", self.site);
            }
            return Ok(None);
        }
        warning!(
            "{}: runs serially from now on: {many}, and a plan for one call takes longer than the call; `strategy = Grid` plans \
             each all the same",
            self.site
        );
        let cached = self.own_order(Facts { reason: many, ..Facts::default() })?;
        self.explain(&cached)?;
        Ok(Some(cached))
    }

    /// Whether a plan was made for other captured values, or for more iterations.
    fn is_of_others(&self, kept: &CachedPlan) -> bool {
        kept.key.range != self.key.range || kept.values != (self.digests)()
    }

    /// A plan after a misspeculation by one of others, which stays for them.
    fn plan_beside(&mut self, mut old: CachedPlan) -> Result<CachedPlan> {
        self.misspeculations += 1;
        let of_part = old.key.range != self.key.range;
        old.serves_parts &= !of_part;
        self.store(old);
        let earlier = self.session.slot::<Plans>().needs_its_own(self.key.site, (self.digests)());
        let enough = earlier.in_row >= if earlier.gone { FRESH_WHERE_SOME_GO } else { FRESH };
        if enough
            && !of_part
            && !earlier.known
            && let Some(own) = self.after_many_plans(earlier.in_row, "as captured values say")?
        {
            return Ok(CachedPlan { for_all_others: true, ..own });
        }
        let mut fresh = self.make_plan(Depth::Sampled)?;
        fresh.serves_parts &= !of_part;
        Ok(fresh)
    }

    /// Whether an iteration that strays may be one of few that can't be foreseen: the loop was recorded as thoroughly as can be, or
    /// there were such iterations before.
    fn may_stand_alone(&self, old: &CachedPlan, reused: bool) -> bool {
        let known = old.depth == Depth::Concrete && (!reused || !old.odd.offsets.is_empty());
        let few = old.odd.offsets.len() < MOST_ODD && old.odd.calls < ODD_CALLS;
        known && few && !self.key.options.scratch && old.plan.strategy != Strategy::Serial
    }

    /// The same plan with one more iteration alone. None where that promises nothing.
    fn with_alone(&self, old: &CachedPlan, iteration: usize, reused: bool) -> Result<Option<CachedPlan>> {
        let base = old.odd.base.as_ref().unwrap_or(&old.plan);
        let offset = iteration.wrapping_sub(base.range.start);
        let mut odd = old.odd.clone();
        let Ok(listed) = u32::try_from(offset) else { return Ok(None) };
        let (Some(place), Err(at)) = (base.place(offset), odd.offsets.binary_search(&listed)) else {
            return Ok(None);
        };
        // If they come as close to each other behind this one, there are too many.
        let near = place.saturating_sub(odd.last).max(1);
        if !reused && !odd.offsets.is_empty() && (base.range.len() - place) / near > MOST_ODD {
            return Ok(None);
        }
        odd.offsets.insert(at, listed);
        let Some(mut plan) = base.with_alone(&odd.offsets, self.key.options.order == Order::Preserve) else {
            return Ok(None);
        };
        let (gain, threads) = WORTHWHILE;
        if plan.graph.makespan(threads) as f64 * gain > plan.graph.work() as f64 {
            return Ok(None);
        }
        let s = if odd.offsets.len() == 1 { "" } else { "s" };
        plan.facts.reason = format!(
            "{}; {} iteration{s} can't be foreseen, and run{} alone",
            base.facts.reason,
            odd.offsets.len(),
            if s.is_empty() { "s" } else { "" }
        );
        (odd.base, odd.last) = (Some(Arc::clone(base)), place);
        let mut cached = self.cached(plan, Depth::Concrete)?;
        cached.bytes = cached.bytes.saturating_add(base.bytes());
        cached.odd = odd;
        (cached.seconds_recording, cached.seconds_planning) = (old.seconds_recording, old.seconds_planning);
        self.explain(&cached)?;
        Ok(Some(cached))
    }

    /// A plan after a misspeculation: the loop is recorded more thoroughly. When even the most thorough recording misspeculates,
    /// or any for the third time in a row, what the iterations touch depends on what others wrote: then the one that strayed runs
    /// alone, or all of them in the loop's own order.
    fn replan(
        &mut self,
        old: &CachedPlan,
        (capture, iteration): (usize, Option<usize>),
        reused: bool,
    ) -> Result<CachedPlan> {
        self.misspeculations += 1;
        let in_row = old.misspeculations_in_row + 1;
        let stale = old.stale + usize::from(reused);
        let hopeless = old.depth == Depth::Concrete && !reused;
        if self.may_stand_alone(old, reused)
            && let Some(iteration) = iteration
            && let Some(mut alone) = self.with_alone(old, iteration, reused)?
        {
            alone.misspeculations_in_row = in_row;
            return Ok(alone);
        }
        if reused
            && stale >= STALE
            && let Some(own) = self.after_many_plans(stale, "as what they read says")?
        {
            return Ok(own);
        }
        let mut fresh = if in_row >= MISSPECULATIONS || hopeless {
            let name = self.site.name(capture);
            warning!(
                "{}: runs serially from now on, since iterations touched other elements of `{name}` than \
                 recorded {in_row} times in a row: what they touch seems to depend on what other iterations write",
                self.site
            );
            let reason = format!("what iterations touch of `{name}` changes while the loop runs");
            let cached = self.own_order(Facts {
                reason,
                changing: Some(capture),
                cut_short: old.plan.facts.cut_short,
                ..Facts::default()
            })?;
            self.explain(&cached)?;
            cached
        } else {
            // A plan from an earlier call may just be out of date. A fresh one was misled: by its sample, or by
            // values.
            let depth = match old.depth {
                Depth::Sampled => Depth::Symbolic,
                Depth::Symbolic if reused => Depth::Symbolic,
                Depth::Symbolic | Depth::Concrete => Depth::Concrete,
            };
            self.make_plan(depth)?
        };
        fresh.misspeculations_in_row = in_row;
        fresh.odd.calls = old.odd.calls;
        fresh.stale = stale;
        Ok(fresh)
    }
}
