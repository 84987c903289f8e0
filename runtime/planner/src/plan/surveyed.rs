//! Planning a loop without its elements: others, who have them, are asked for sums.

use super::cut::{self, Weights};
use super::group::{Groups, Parts, dense};
use super::make::{BLOCK_COST, Grid, Planner, WORKERS, WORTHWHILE};
use super::{Offsets, Plan, beforehand};
use crate::options::{Order, PlanOptions, Strategy};
use crate::recording::{CaptureShape, Recording};
use crate::survey::{Answer, LOOK, Neighbour, Neighbours, Question, Sorting, Survey, summed};
use crate::threads::Threads;

/// Those who have the elements, in stretches of slices.
pub trait Away {
    /// The answers of all stretches, in their order, or of some together (see [`Answer::take_in`]); `question` gives what each is asked.
    /// None if they can't be had.
    fn ask(&self, question: &dyn Fn(usize) -> Question) -> Option<Vec<Answer>>;
}

/// The plan that [`plan`](super::plan) makes of such a recording. None where that takes the elements themselves.
pub fn surveyed(
    recording: &Recording<'_>,
    shapes: &[CaptureShape],
    options: &PlanOptions,
    pool: &dyn Threads,
    away: &dyn Away,
) -> Option<Plan> {
    let survey = recording.survey()?;
    let may = options.strategy.is_none_or(|wanted| wanted == Strategy::Grid) && options.order != Order::Preserve;
    if !may || recording.in_all_blocks.is_some() || beforehand::serial(recording, shapes, options).is_some() {
        return None;
    }
    let shared = recording.shared();
    let weights = weigh(recording, &shared, away)?;
    let writers = |capture: usize, weights: &Weights| {
        // All accesses write, or none.
        let writes = recording.single_mode(capture).unwrap_or(false);
        let of_all = |&(_, count): &(usize, u32)| if writes { count } else { 0 };
        weights.hottest().iter().map(of_all).collect()
    };
    let planner = Planner::weighed(recording, shapes, (options, pool), shared, weights, &writers);
    planner.surveyed(survey, away)
}

/// What [`cut::weigh`] finds, of each shared capture.
fn weigh(recording: &Recording<'_>, shared: &[usize], away: &dyn Away) -> Option<Vec<Weights>> {
    let every: Vec<usize> = shared.iter().map(|&c| cut::sampled_every(recording, c)).collect();
    let sum = |mut sum: Answer, other: Answer| sum.take_in(&other).then_some(sum);
    let mut answers = away.ask(&|_| Question::Weigh(every.clone()))?.into_iter();
    let first = answers.next()?;
    let Answer::Weighed(Some(sums)) = answers.try_fold(first, sum)? else { return None };
    let lens = recording.survey()?.shared.iter().map(|shared| shared.1);
    let weights = |(sums, len)| Weights::new(len, sums, recording.iterations());
    let mut weights: Vec<Weights> = sums.into_iter().zip(lens).map(weights).collect();
    let heaviest: Vec<Vec<usize>> = weights.iter().map(Weights::heaviest).collect();
    if heaviest.iter().any(|heaviest| !heaviest.is_empty()) {
        let mut closer: Vec<Vec<Vec<u32>>> = heaviest.iter().map(|_| Vec::new()).collect();
        for answer in away.ask(&|_| Question::WeighCloser(every.clone(), heaviest.clone()))? {
            let Answer::WeighedCloser(counts) = answer else { return None };
            closer.iter_mut().zip(counts).for_each(|(closer, counts)| closer.push(counts));
        }
        for ((weights, heaviest), closer) in weights.iter_mut().zip(&heaviest).zip(closer) {
            weights.look_closer(heaviest, &summed(closer));
        }
    }
    Some(weights)
}

impl Planner<'_> {
    fn surveyed(mut self, survey: &Survey, away: &dyn Away) -> Option<Plan> {
        let forced = self.options.parts;
        let finest = forced.unwrap_or_else(|| self.finest());
        let cuts = self.weights.iter().map(|weights| weights.cut(finest)).collect();
        let parts = Parts::new(self.shared.clone(), cuts);
        let digits = dense::digits(self.recording, &parts)?;
        let bounds: Vec<Vec<usize>> = parts.cuts.iter().map(|cut| cut.bounds.clone()).collect();
        let mut counts = Vec::new();
        for answer in away.ask(&|_| Question::Count(bounds.clone()))? {
            let Answer::Counted(counted) = answer else { return None };
            counts.push(counted);
        }
        let totals: Vec<usize> = summed(counts.clone()).into_iter().map(|count| count as usize).collect();
        if totals.len() != dense::keys(&digits) || totals.iter().sum::<usize>() != self.recording.iterations() {
            return None;
        }
        let groups = dense::of_counts(&parts, &digits, &totals);
        let grid = self.best_of(groups, parts, forced.is_some())?;
        self.is_best(&grid)?;
        let sorted = |planner: &Planner<'_>,
                      groups: &Groups,
                      renumbered: Option<&[u16]>,
                      (place, starts): (&[u32], &[usize])| {
            let block = |(number, &total): (usize, &usize)| {
                let group = groups.numbers[number] as usize;
                let group = renumbered.map_or(group, |to| to[group] as usize);
                if total > 0 { place[group] } else { u32::MAX }
            };
            let mut sorting = Sorting {
                survey: survey.clone(),
                cuts: bounds.clone(),
                block_of: totals.iter().enumerate().map(block).collect(),
                sizes: starts.windows(2).map(|ends| (ends[1] - ends[0]) as u32).collect(),
                interleaved: false,
            };
            sorting.interleaved = planner.may_interleave() && collide(&sorting, &counts, away)?;
            Some(Offsets::elsewhere(planner.recording.iterations(), sorting))
        };
        self.finish_sorted(grid, &sorted)
    }

    /// Whether a grid is what [`plan`](super::plan) would take whatever a colouring is like.
    fn is_best(&mut self, grid: &Grid) -> Option<()> {
        let (wanted, serial) = (self.options.strategy, self.serial_cost());
        let forced = wanted.is_some() || self.options.parts.is_some();
        let enough = |makespan: u64| makespan as f64 * WORTHWHILE <= serial as f64;
        let together = grid.makespan() as f64 * WORTHWHILE <= (serial + grid.blocks() * BLOCK_COST) as f64;
        self.facts.short = !forced && self.options.grain.is_none() && together;
        let good = grid.makespan() as f64 * WORKERS as f64 <= self.listed_cost() * serial as f64;
        (forced || good && enough(grid.makespan())).then_some(())
    }
}

/// Whether neighbours in a block often write the same element, as in `sort::neighbours_collide`. `counts`: what each stretch has of
/// each number.
fn collide(sorting: &Sorting, counts: &[Vec<u32>], away: &dyn Away) -> Option<bool> {
    let mut before = vec![0u32; sorting.sizes.len()];
    let mut befores = Vec::with_capacity(counts.len());
    for counts in counts {
        befores.push(before.clone());
        for (&block, count) in sorting.block_of.iter().zip(counts) {
            if let Some(before) = before.get_mut(block as usize) {
                *before += count;
            }
        }
    }
    let mut all = Neighbours::default();
    for answer in away.ask(&|stretch| Question::Neighbours(sorting.clone(), befores[stretch].clone()))? {
        let Answer::Neighbours(found) = answer else { return None };
        all.pairs += found.pairs;
        all.collisions += found.collisions;
        all.first.extend(found.first);
        all.last.extend(found.last);
    }
    let place = |(block, place, _): &Neighbour| (*block, *place);
    let (mut first, last) = (std::mem::take(&mut all.first), std::mem::take(&mut all.last));
    first.sort_unstable_by_key(place);
    for (block, at, one) in &last {
        let next = first.binary_search_by_key(&(*block, at + 1), place).ok()?;
        all.count(sorting.weight(*block as usize, *at), one, &first[next].2);
    }
    let pairs =
        |&size: &u32| (0..size).take(LOOK).chain((size / 2..size).take(LOOK)).filter(|at| at + 1 < size).count();
    let expected: usize = sorting.sizes.iter().map(pairs).sum();
    (all.pairs == expected).then_some(all.collisions * 20 > all.pairs)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::inference;
    use crate::plan::plan;
    use crate::recording::{CaptureLog, Fields};
    use crate::survey::gather;
    use crate::{Inline, plan as planning};

    const SIZE: usize = 12;

    /// Elements of three numbers, of which the first two are indices.
    struct Data {
        bytes: Vec<u8>,
        lens: [usize; 2],
        writes: [bool; 2],
    }

    impl Data {
        fn new(n: u64, lens: [usize; 2], writes: [bool; 2], skewed: bool) -> Data {
            let mut bytes = Vec::new();
            for k in 0..n {
                let r = k.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ k >> 7;
                let r = (r ^ r >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let user = if skewed { k * lens[0] as u64 / n } else { (r >> 20) % lens[0] as u64 };
                let item = (r >> 40) % (1 + (r >> 8) % lens[1] as u64);
                for number in [user as u32, item as u32, k as u32] {
                    bytes.extend(number.to_ne_bytes());
                }
            }
            Data { bytes, lens, writes }
        }

        fn len(&self) -> usize {
            self.bytes.len() / SIZE
        }

        fn index(&self, i: usize, which: usize) -> usize {
            let at = i * SIZE + 4 * which;
            u32::from_ne_bytes(*self.bytes[at..].first_chunk().unwrap()) as usize
        }

        fn shapes(&self) -> Vec<CaptureShape> {
            let shape = |len| CaptureShape { len, reduction: false, by_block: false, owning: false, dealt: false };
            [self.len(), self.lens[0], self.lens[1]].map(shape).to_vec()
        }

        /// What a sample of the loop logs.
        fn sampled(&self, samples: &[Range<usize>]) -> Recording<'static> {
            let slices = samples.iter().map(|sample| {
                let log = |write| CaptureLog::new(sample.start, sample.len(), write);
                let mut logs = vec![log(false), log(self.writes[0]), log(self.writes[1])];
                for i in sample.clone() {
                    logs[0].access(i, false);
                    logs[1].access(self.index(i, 0), self.writes[0]);
                    logs[2].access(self.index(i, 1), self.writes[1]);
                    logs.iter_mut().for_each(CaptureLog::end_iteration);
                }
                logs
            });
            Recording::new(0..self.len(), slices.collect(), &self.shapes())
        }

        fn fields(&self, iterations: Range<usize>) -> Vec<Option<Fields<'_>>> {
            let bytes = &self.bytes[iterations.start * SIZE..iterations.end * SIZE];
            vec![Some(Fields::new(iterations.start, SIZE, bytes)), None, None]
        }
    }

    struct Stretches<'d>(&'d Data, Survey, Vec<Range<usize>>);

    impl Away for Stretches<'_> {
        fn ask(&self, question: &dyn Fn(usize) -> Question) -> Option<Vec<Answer>> {
            let Stretches(data, survey, stretches) = self;
            let answer = |(k, slices): (usize, &Range<usize>)| {
                let fields = data.fields(survey.iterations(slices));
                survey.answer(&question(k), slices.clone(), &fields, &Inline)
            };
            stretches.iter().enumerate().map(answer).collect()
        }
    }

    /// Both plans of a loop, if it can be planned without its elements.
    fn both(data: &Data, options: &PlanOptions, stretches: usize) -> (Plan, Option<Plan>) {
        let samples = inference::samples(&(0..data.len())).unwrap();
        let (sampled, shapes) = (data.sampled(&samples), data.shapes());
        let fields = data.fields(0..data.len());
        let inferred = inference::infer(&sampled, &samples, &shapes, (&fields, None), &Inline).unwrap();
        let whole = plan(&inferred, &shapes, options, &Inline);
        let held: Vec<(usize, Vec<u8>)> = samples
            .iter()
            .map(|sample| (sample.start, data.bytes[sample.start * SIZE..sample.end * SIZE].to_vec()))
            .collect();
        let few = [Some(Fields::of_samples(SIZE, &held)), None, None];
        let recording = inference::surveyed(&sampled, &samples, &shapes, (&few, None)).unwrap();
        let survey = recording.survey().unwrap().clone();
        let n = survey.slices();
        let cut = |k: usize| n * k / stretches..n * (k + 1) / stretches;
        let away = Stretches(data, survey, (0..stretches).map(cut).collect());
        let other = surveyed(&recording, &shapes, options, &Inline, &away);
        (whole, other)
    }

    fn assert_same(data: &Data, options: &PlanOptions, stretches: usize) {
        let (whole, other) = both(data, options, stretches);
        let Some(other) = other else { panic!("{:?}", whole.facts) };
        let sorting = other.offsets.sorting().unwrap().clone();
        let fields = data.fields(0..data.len());
        assert_eq!(sorting.offsets(&fields, &Inline).unwrap(), *whole.offsets);
        // The same where several deal to several.
        let (workers, blocks) = (3, whole.blocks.len());
        let worker_of: Vec<u32> = (0..blocks as u32).map(|b| b % 7 % 3).collect();
        let n = sorting.survey.slices();
        let dealt: Vec<Vec<Vec<u8>>> = (0..stretches)
            .map(|k| {
                let slices = n * k / stretches..n * (k + 1) / stretches;
                let own = sorting.survey.iterations(&slices);
                let elements = &data.bytes[own.start * SIZE..own.end * SIZE];
                let fields = data.fields(own);
                sorting.deal(slices, (&fields, &[Some((elements, SIZE))]), (&worker_of, workers), &Inline).unwrap()
            })
            .collect();
        for w in 0..workers as u32 {
            let own: Vec<u32> = (0..blocks as u32).filter(|&b| worker_of[b as usize] == w).collect();
            let mine: Vec<Vec<u8>> = dealt.iter().map(|dealt| dealt[w as usize].clone()).collect();
            let sizes: Vec<usize> = own.iter().map(|&b| sorting.sizes[b as usize] as usize).collect();
            let mut gathered = Vec::new();
            assert!(gather(&sizes, &mine, (SIZE, sorting.interleaved), |block| {
                gathered.extend_from_slice(block);
                true
            }));
            let iterations = own.iter().flat_map(|&b| {
                let block = whole.blocks[b as usize];
                &whole.offsets[block.start..block.end]
            });
            let expected: Vec<u8> =
                iterations.flat_map(|&o| &data.bytes[o as usize * SIZE..][..SIZE]).copied().collect();
            assert_eq!(gathered, expected, "worker {w}");
        }
        other.offsets.keep(whole.offsets.to_vec());
        assert!(other.offsets.sorting().is_none());
        assert_eq!(format!("{other:?}"), format!("{whole:?}"));
    }

    #[test]
    fn a_plan_without_elements_is_the_one_with_them() {
        let options = PlanOptions::default();
        for (n, lens, writes, skewed) in [
            (140_000, [3000, 500], [true, true], false),
            (200_000, [3000, 500], [true, true], true),
            (300_001, [20_000, 900], [true, true], false),
            (150_000, [400, 300], [true, false], false),
            (190_000, [5000, 5000], [true, true], true),
            // Longer than are counted one by one.
            (400_000, [9_000_001, 300], [true, true], false),
        ] {
            let data = Data::new(n, lens, writes, skewed);
            for stretches in [1, 2, 5] {
                assert_same(&data, &options, stretches);
            }
        }
    }

    #[test]
    fn options_are_obeyed_without_elements() {
        let data = Data::new(120_000, [2000, 900], [true, true], true);
        for options in [
            PlanOptions { parts: Some(6), ..PlanOptions::default() },
            PlanOptions { scratch: true, ..PlanOptions::default() },
            PlanOptions { strategy: Some(Strategy::Grid), ..PlanOptions::default() },
        ] {
            assert_same(&data, &options, 3);
        }
        for options in [
            PlanOptions { order: Order::Preserve, ..PlanOptions::default() },
            PlanOptions { strategy: Some(Strategy::Coloured), ..PlanOptions::default() },
        ] {
            assert!(both(&data, &options, 2).1.is_none());
        }
    }

    #[test]
    fn an_index_that_is_no_element_s_is_noticed() {
        let mut data = Data::new(100_000, [2000, 900], [true, true], false);
        let at = 70_001 * SIZE + 4;
        data.bytes[at..at + 4].copy_from_slice(&5000u32.to_ne_bytes());
        let samples = inference::samples(&(0..data.len())).unwrap();
        let sampled = data.sampled(&samples);
        let held: Vec<(usize, Vec<u8>)> = samples
            .iter()
            .map(|sample| (sample.start, data.bytes[sample.start * SIZE..sample.end * SIZE].to_vec()))
            .collect();
        let few = [Some(Fields::of_samples(SIZE, &held)), None, None];
        let recording = inference::surveyed(&sampled, &samples, &data.shapes(), (&few, None)).unwrap();
        let survey = recording.survey().unwrap().clone();
        let whole = 0..survey.slices();
        let away = Stretches(&data, survey, vec![whole]);
        assert!(planning::surveyed(&recording, &data.shapes(), &PlanOptions::default(), &Inline, &away).is_none());
    }
}
