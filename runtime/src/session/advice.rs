//! What a person could change about a loop with little parallelism.

use crate::planner::plan::HotDds;
use crate::session::options::Strategy;
use crate::session::report::LoopReport;

/// Seconds: blocks of iterations that take longer are worth a thread's while.
const WORTH_A_BLOCK: f64 = 200e-6;

/// From this many elements an iteration on, its width is what stands in the way.
const MANY: f64 = 8.0;

/// An element that an iteration reaches this often is worth borrowing once.
const OFTEN: f64 = 16.0;

/// Loops of less work than this, in accesses, are over before another thread has begun.
const SHORT: u64 = 4096;

/// What helps where a map is written.
const BY_KEY: &str = "to count, add up or collect by key, use an operator of the DVector that the loop goes through: `count_by_key`, \
                      `reduce_by_key`, `group_by_key`; a map that is only read makes nothing wait";

impl LoopReport {
    /// What a person could change to get more parallelism, if there is little.
    pub fn advice(&self) -> Option<String> {
        let of_parallelism = match self.iterations() >= 2 && self.parallelism() < 2.0 {
            true => self.of_parallelism(),
            false => self.of_sums(),
        };
        let both = |one: String| match self.of_repeats() {
            Some(other) => format!("{one}; besides, {other}"),
            None => one,
        };
        of_parallelism.map(both).or_else(|| self.of_repeats())
    }

    fn of_parallelism(&self) -> Option<String> {
        let of_accesses = || self.of_changes().or_else(|| self.of_ordered_sums()).or_else(|| self.of_hot_elements());
        if self.asked.of_operator {
            return of_accesses();
        }
        self.of_time().or_else(of_accesses).or_else(|| self.of_sums()).or_else(|| self.of_shape())
    }

    /// Elements that an iteration reaches again and again.
    fn of_repeats(&self) -> Option<String> {
        let (capture, often) = self.plan.facts.repeated.filter(|&(_, often)| often >= OFTEN)?;
        let of = self.site.name(capture);
        let once = match self.asked.sums.contains(&capture) || self.asked.maps.contains(&capture) {
            true => "what is added up in a variable first".to_string(),
            false => format!(
                "what is borrowed once (`let row = &mut {of}[i];`, two with `{of}.pair_mut(i, j)`), or added up in a variable first,"
            ),
        };
        Some(format!(
            "an iteration reaches each element of `{of}` that it touches {often:.0} times: {once} is reached faster, and \
             recorded sooner"
        ))
    }

    /// DDSs that the body only adds to.
    fn of_sums(&self) -> Option<String> {
        // Where no element is shared nothing waits as it is.
        let addable = self.plan.facts.addable.first().filter(|_| self.strategy() != Strategy::Aligned)?;
        let name = self.site.name(*addable);
        Some(format!(
            "the loop does nothing with `{name}` but add to it: captured as `sum {name}`, it makes no iterations wait for \
             each other, and its bits are still the same on any number of threads"
        ))
    }

    /// Floats that are only added to, in the loop's own order.
    fn of_ordered_sums(&self) -> Option<String> {
        let most = self.plan.facts.hot.iter().max_by_key(|dds| dds.accesses)?;
        if !self.asked.preserve || !self.asked.sums.contains(&most.capture) {
            return None;
        }
        let name = self.site.name(most.capture);
        Some(format!(
            "`order = Preserve` has the floats of `{name}` added in the loop's own order, one iteration after the other: without it \
             `sum {name}` need not make iterations wait, and its bits are still the same on any number of threads"
        ))
    }

    /// Iterations that compute much.
    fn of_time(&self) -> Option<String> {
        let n = self.iterations() as f64;
        // A clock may have counted what something else took, once.
        let took = if self.seconds_running > 0.0 && self.seconds_recording > 0.0 {
            self.seconds_running.min(self.seconds_recording)
        } else {
            self.seconds_running.max(self.seconds_recording)
        };
        let each = took / n;
        let long = self.plan.facts.short && each * n > 4.0 * WORTH_A_BLOCK && each > WORTH_A_BLOCK / 64.0;
        long.then(|| {
            let grain = (WORTH_A_BLOCK / each).ceil();
            format!(
                "an iteration takes {:.0} us, more than its accesses let expect: `grain = {grain}` makes blocks of that many",
                each * 1e6
            )
        })
    }

    /// Indices that iterations read and write.
    fn of_changes(&self) -> Option<String> {
        let of = self.site.name(self.plan.facts.changing?);
        if self.plan.facts.cut_short > 0 {
            return Some(format!(
                "what iterations touch of `{of}` was not to be found out, since {} of them panicked on values from before \
                 the loop: touch all elements first, and `unwrap` or `expect` what others write after that",
                self.plan.facts.cut_short
            ));
        }
        Some(format!(
            "which elements of `{of}` iterations touch, or write, depends on what other iterations write: write an element \
             whether it changes or not, `x[i] = if changes {{ new }} else {{ x[i] }}`; read indices from one DVector and write \
             new ones to a second"
        ))
    }

    /// Elements that nearly every iteration writes.
    fn of_hot_elements(&self) -> Option<String> {
        let n = self.iterations();
        let hot = |dds: &HotDds| {
            // It isn't one element that stands in the way of iterations that touch many.
            if dds.accesses as f64 > MANY * n as f64 {
                return None;
            }
            let pairs = dds.elements.iter().zip(&dds.written);
            let mut all = pairs.filter(|&((_, count), written)| *count as usize * 10 >= n * 9 && *written > 0);
            all.next().map(|(&(index, count), &written)| (dds.capture, index, count, written))
        };
        let (capture, index, count, written) = self.plan.facts.hot.iter().find_map(hot)?;
        let of = self.site.name(capture);
        let who = if count as usize == n { "every iteration".into() } else { format!("{count} of {n} iterations") };
        if self.asked.maps.contains(&capture) {
            return Some(format!("{who} touches one place of `{of}`, and it is written: {BY_KEY}"));
        }
        Some(if u64::from(written) * 2 < u64::from(count) {
            format!(
                "{who} touches `{of}[{index}]`, and {written} write it: if the others may read it as it was before the \
                 loop, write `{of}.old[..]` where they read it"
            )
        } else {
            format!(
                "{who} touches `{of}[{index}]`, and it is written: if it is a total, use a reduction (`session.sum`, \
                 `min`, `max`, `count`); if iterations read it and it may be a little late, `session.relaxed_vector`"
            )
        })
    }

    /// How iterations hang together.
    fn of_shape(&self) -> Option<String> {
        if self.work() < SHORT {
            return Some(format!(
                "the loop is short, {} accesses in all: more iterations in one call leave more to do at the same time, \
                 and for iterations that compute much `grain` says how many are worth a thread's while",
                self.work()
            ));
        }
        let n = self.iterations();
        let Some(most) = self.plan.facts.hot.iter().max_by_key(|dds| dds.accesses) else {
            let aligned = self.strategy() == Strategy::Aligned;
            return aligned.then(|| {
                "nothing conflicts, but the iterations are one block: `parts` says how many blocks they are, or `grain` how \
                 many iterations are worth a thread's while"
                    .to_string()
            });
        };
        let each = most.accesses as f64 / n as f64;
        let of = self.site.name(most.capture);
        if self.asked.maps.contains(&most.capture) {
            return Some(format!("iterations touch the same places of `{of}`, and they are written: {BY_KEY}"));
        }
        if self.asked.sums.contains(&most.capture) {
            return Some(format!(
                "too few additions meet in an element of `{of}` for copies of it that are added up: a loop over the elements of `{of}` \
                 that gathers what is added to each makes nothing wait; if iterations compute much, `grain` says how many are worth \
                 a block, and a copy of `{of}`"
            ));
        }
        Some(if each > MANY {
            format!(
                "an iteration touches {each:.0} elements of `{of}` on average, and they are written: shorter iterations, or \
                 an index order that keeps together what is used together, leave more to do at the same time; where copies \
                 that meet now and then will do, so does `sync_parallel_for!`"
            )
        } else if self.asked.preserve {
            format!(
                "iterations hang together in chains through elements of `{of}` that they write, each in the loop's order: \
                 leave out `order = Preserve` if any order will do; if they may read what was there before the loop, write \
                 `{of}.old[..]` where they read it"
            )
        } else {
            format!(
                "iterations hang together in chains through elements of `{of}` that they write: if they may read what was \
                 there before the loop, write `{of}.old[..]` where they read it; where copies that meet now and then will \
                 do, use `sync_parallel_for!`; or loop over more elements that have nothing to do with each other"
            )
        })
    }
}
