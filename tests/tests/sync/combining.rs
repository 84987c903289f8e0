//! `merge = Combine` beside a plain program that is written from the documentation: one to eight copies, on threads and on workers.

use stradsap::prelude::*;
use stradsap::{Element, Merge};

use super::interpreter::combined;
use crate::common::{below, mix};
use crate::jobs::runner::Test;
use crate::places::{Place, place};

type Result = stradsap::Result<()>;

/// By the number of copies.
const PLACES: [(usize, &[Place]); 4] = [
    (1, &[place(0, 1, 0), place(1, 1, 0)]),
    (2, &[place(0, 2, 0), place(1, 2, 0), place(2, 1, 0)]),
    (4, &[place(0, 4, 0), place(1, 4, 0), place(2, 2, 0), place(4, 1, 0)]),
    (8, &[place(0, 8, 0), place(1, 8, 0), place(2, 4, 0), place(4, 2, 0)]),
];

const ROWS: usize = 40;
const WIDTH: usize = 21;

/// Which row of each kind an element of the input changes, and by what.
fn input() -> Vec<[u32; 3]> {
    (0..300u64).map(|i| [below(i, 5) as u32, below(i * 3 + 1, ROWS) as u32, mix(i) as u32 % 1000]).collect()
}

fn direction(by: u32, k: usize) -> f32 {
    (mix(u64::from(by) * 64 + k as u64) % 1000) as f32 / 300.0 - 1.2
}

/// A row of floats, which is combined, with a count.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Mixed {
    to: [f32; 3],
    seen: u32,
}

impl Merge for Mixed {
    fn change(base: &Self, local: &Self) -> Self {
        Mixed { to: Merge::change(&base.to, &local.to), seen: local.seen - base.seen }
    }
    fn apply(&mut self, change: &Self) {
        self.to.apply(&change.to);
        self.seen += change.seen;
    }
    fn share(&mut self, copies: usize) {
        self.to.share(copies);
    }
    const COMBINES: bool = true;
    fn combine(change: &mut [Self], other: &[Self]) {
        for (change, other) in change.iter_mut().zip(other) {
            f32::combine(&mut change.to, &other.to);
            change.seen += other.seen;
        }
    }
}

/// What the loop writes.
#[derive(Clone, Debug, PartialEq)]
struct Written {
    rows: Vec<Vec<f32>>,
    arrays: Vec<[[f64; 2]; 3]>,
    numbers: Vec<f32>,
    mixed: Vec<Mixed>,
    counts: Vec<u32>,
}

impl Written {
    fn start() -> Written {
        Written {
            rows: (0..ROWS).map(|i| (0..WIDTH).map(|k| (i + k) as f32 / 8.0).collect()).collect(),
            arrays: (0..ROWS).map(|i| [[i as f64, 0.5], [1.0, -1.0], [0.0, 1e-3]]).collect(),
            numbers: (0..ROWS).map(|i| i as f32 / 3.0).collect(),
            mixed: (0..ROWS).map(|i| Mixed { to: [i as f32, 1.0, -1.0], seen: 0 }).collect(),
            counts: vec![0; ROWS],
        }
    }

    /// What one element of the input does.
    fn change(&mut self, &[hot, cold, by]: &[u32; 3]) {
        for row in [hot as usize, cold as usize] {
            let step = 0.1 * (1.0 - self.numbers[row] * 0.01);
            self.rows[row].iter_mut().enumerate().for_each(|(k, x)| *x += step * direction(by, k));
            let array = &mut self.arrays[row];
            array.as_flattened_mut().iter_mut().enumerate().for_each(|(k, x)| *x += f64::from(direction(by, k)) * 0.2);
            self.numbers[row] += direction(by, 3);
            let mixed = &mut self.mixed[row];
            mixed.to = std::array::from_fn(|k| mixed.to[k] * 0.99 + direction(by, k));
            mixed.seen += 1;
            self.counts[row] += 1;
        }
    }
}

/// What rows of copies become: in the order of the copies, of those that changed the row.
fn unite<R: Clone + PartialEq>(base: &[R], copies: &[Vec<R>], together: impl Fn(&R, &[R]) -> R) -> Vec<R> {
    let row = |i: usize| {
        let changed: Vec<R> = copies.iter().map(|copy| copy[i].clone()).filter(|local| *local != base[i]).collect();
        match &changed[..] {
            [] => base[i].clone(),
            [alone] => alone.clone(),
            several => together(&base[i], several),
        }
    };
    (0..base.len()).map(row).collect()
}

/// A row of floats: changes are combined in pairs, and what is left is added to the row.
macro_rules! floats {
    ($float:ty) => {
        |base: &[$float], locals: &[&[$float]]| -> Vec<$float> {
            let change = |local: &&[$float]| local.iter().zip(base).map(|(local, base)| local - base).collect();
            let mut changes: Vec<Vec<$float>> = locals.iter().map(change).collect();
            while changes.len() > 1 {
                let wide = |row: &Vec<$float>| row.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
                let one = |pair: &[Vec<$float>]| match pair {
                    [a, b] => combined(&wide(a), &wide(b)).into_iter().map(|x| x as $float).collect(),
                    rest => rest[0].clone(),
                };
                changes = changes.chunks(2).map(one).collect();
            }
            base.iter().zip(&changes[0]).map(|(base, change)| base + change).collect()
        }
    };
}

/// What each copy runs of a round: an interval, or an equal share of what is left in the last one.
fn dealt<T>(round: &[T], copies: usize, interval: usize) -> Vec<&[T]> {
    let (each, more) =
        if round.len() == copies * interval { (interval, 0) } else { (round.len() / copies, round.len() % copies) };
    let (longer, others) = round.split_at(more * (each + 1));
    longer.chunks(each + 1).chain(others.chunks(each.max(1))).collect()
}

fn twin(copies: usize, minibatch: usize, interval: usize) -> Written {
    let mut state = Written::start();
    let input = input();
    let batches: Vec<&[[u32; 3]]> = input.chunks(minibatch).collect();
    if copies == 1 {
        input.iter().for_each(|element| state.change(element));
        return state;
    }
    for round in batches.chunks(interval * copies) {
        let local = |batches: &[&[[u32; 3]]]| {
            let mut local = state.clone();
            batches.iter().copied().flatten().for_each(|element| local.change(element));
            local
        };
        let locals: Vec<Written> = dealt(round, copies, interval).into_iter().map(local).collect();
        macro_rules! of {
            ($field:ident, $together:expr) => {
                unite(&state.$field, &locals.iter().map(|local| local.$field.clone()).collect::<Vec<_>>(), $together)
            };
        }
        let (narrow, wide) = (floats!(f32), floats!(f64));
        state = Written {
            rows: of!(rows, |base, locals| narrow(base, &locals.iter().map(|row| &row[..]).collect::<Vec<_>>())),
            arrays: of!(arrays, |base, locals| {
                let united =
                    wide(base.as_flattened(), &locals.iter().map(|row| row.as_flattened()).collect::<Vec<_>>());
                std::array::from_fn(|j| std::array::from_fn(|k| united[2 * j + k]))
            }),
            numbers: of!(numbers, |base, locals| {
                narrow(&[*base], &locals.iter().map(std::slice::from_ref).collect::<Vec<_>>())[0]
            }),
            mixed: of!(mixed, |base, locals| {
                let to = narrow(&base.to, &locals.iter().map(|row| &row.to[..]).collect::<Vec<_>>());
                let seen = base.seen + locals.iter().map(|local| local.seen - base.seen).sum::<u32>();
                Mixed { to: std::array::from_fn(|k| to[k]), seen }
            }),
            counts: of!(counts, |base, locals| base + locals.iter().map(|local| local - base).sum::<u32>()),
        };
    }
    state
}

fn run(session: &Session, policy: SyncPolicy, minibatch: usize, interval: usize) -> stradsap::Result<Written> {
    let start = Written::start();
    let input = DVector::from_vec(session, input())?;
    let mut rows = DMatrix::from_rows(session, start.rows)?;
    let mut arrays = DVector::from_vec(session, start.arrays)?;
    let mut numbers = DVector::from_vec(session, start.numbers)?;
    let mut mixed = DVector::from_vec(session, start.mixed)?;
    let mut counts = DVector::from_vec(session, start.counts)?;
    let report = sync_parallel_for!(
        input,
        minibatch,
        [&mut rows, &mut arrays, &mut numbers, &mut mixed, &mut counts],
        |batch| {
            for &[hot, cold, by] in batch {
                for row in [hot as usize, cold as usize] {
                    let step = 0.1 * (1.0 - numbers[row].get() * 0.01);
                    let towards: Vec<f32> = (0..rows[row].len()).map(|k| step * direction(by, k)).collect();
                    rows[row].add(&towards);
                    let mut array = arrays[row].get();
                    let numbers_of = array.as_flattened_mut().iter_mut().enumerate();
                    numbers_of.for_each(|(k, x)| *x += f64::from(direction(by, k)) * 0.2);
                    arrays[row].set(array);
                    numbers[row].add(direction(by, 3));
                    let mut value = mixed[row].get();
                    value.to = std::array::from_fn(|k| value.to[k] * 0.99 + direction(by, k));
                    value.seen += 1;
                    mixed[row].set(value);
                    counts[row].add(1);
                }
            }
        },
        policy,
        merge = Combine,
        interval = interval
    )?;
    assert_eq!(report.merge(), MergeRule::Combine);
    Ok(Written {
        rows: rows.iter()?.map(|row| row.to_vec()).collect(),
        arrays: arrays.to_vec()?,
        numbers: numbers.to_vec()?,
        mixed: mixed.to_vec()?,
        counts: counts.to_vec()?,
    })
}

/// The same bits as the plain program's, however many processes the copies are in.
fn beside_the_twin(copies: usize, place: Place) -> Result {
    let session = place.verified();
    for (minibatch, interval) in [(1, 1), (7, 1), (5, 3), (1000, 1)] {
        let expected = twin(copies, minibatch, interval);
        for again in 0..2 {
            let found = run(&session, SyncPolicy::Bsp, minibatch, interval)?;
            assert!(found == expected, "{place}, minibatches of {minibatch}, every {interval}, {again}");
        }
        // One thread a process: processes combine as copies do.
        if place.threads == 1 && place.workers > 0 {
            assert!(run(&session, SyncPolicy::Hybrid, minibatch, interval)? == expected, "hybrid: {place}");
        }
    }
    Ok(())
}

/// What the threads of a process share is combined between processes. No change is lost where no other thread writes the
/// row. Where others write it at the same time, an update may be lost, as `Shared` says, but none is counted twice.
fn hybrid_inside_combined_between() -> Result {
    let session = place(2, 2, 0).session();
    let input = DVector::from_fn(&session, 400, |i| i as u32)?;
    let (mut own, mut counts) = (DVector::from_fn(&session, 400, |_| 0u64)?, DVector::from_fn(&session, 7, |_| 0u64)?);
    let mut same = DVector::from_fn(&session, 1, |_| [0.0f32; 4])?;
    for interval in [1usize, 5] {
        let report = sync_parallel_for!(
            input,
            4,
            [&mut own, &mut counts, &mut same],
            |batch| batch.into_iter().for_each(|&i| {
                own[i].add(1);
                counts[i % 7].add(1);
                // Each thread leaves the same row.
                same[0].set([1.0, 2.0, 3.0, 4.0]);
            }),
            SyncPolicy::Hybrid,
            merge = Combine,
            interval = interval
        )?;
        // 100 minibatches of two processes with two threads each.
        assert_eq!((report.copies(), report.rounds()), (2, 100usize.div_ceil(4 * interval)));
    }
    assert_eq!(own.to_vec()?, [2; 400]);
    let counted = counts.to_vec()?;
    for (row, &count) in counted.iter().enumerate() {
        let most = 2 * (row..400).step_by(7).count() as u64;
        assert!(0 < count && count <= most, "{count} of {most} additions to row {row}");
    }
    assert_eq!(same.get(0)?, [1.0, 2.0, 3.0, 4.0]);
    Ok(())
}

fn what_can_not_be_combined_is_refused() -> Result {
    let session = place(0, 2, 0).session();
    let input = DVector::from_fn(&session, 10, |i| i as u32)?;
    let mut x = DVector::from_fn(&session, 3, |_| 0.0f32)?;
    let mut n = DVector::from_fn(&session, 3, |_| 0u32)?;
    for (policy, rule, interval, says) in [
        (
            SyncPolicy::Ssp { staleness: 1 },
            MergeRule::Combine,
            1,
            "changes are merged by `combine` under `Bsp` and `Hybrid`",
        ),
        (SyncPolicy::ModelAverage { every: 2 }, MergeRule::Combine, 1, "model-average has a rule of its own"),
        (SyncPolicy::Ssp { staleness: 1 }, MergeRule::Sum, 2, "`interval` is for `Bsp` and `Hybrid`"),
        (SyncPolicy::Bsp, MergeRule::Sum, 0, "give a number from 1 on"),
    ] {
        let refused = sync_parallel_for!(
            input,
            2,
            [&mut x],
            |batch| x[0].add(batch.len() as f32),
            policy,
            merge = rule,
            interval = interval
        );
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }
    let refused = sync_parallel_for!(input, 2, [&mut n], |batch| n[0].add(batch[0]), SyncPolicy::Bsp, merge = Combine);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("n holds neither"), "{message}");
    let mut lists = DMultiMap::<u32, u32>::new(&session)?;
    let refused = sync_parallel_for!(
        input,
        2,
        [&mut lists],
        |batch| batch.iter().for_each(|&i| lists.insert(1, i)),
        SyncPolicy::Bsp,
        merge = Combine
    );
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("this loop changes no elements"), "{message}");
    assert_eq!((x.get(0)?, n.get(0)?), (0.0, 0));
    Ok(())
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = vec![
        Test::new("hybrid inside, combined between", 60, || hybrid_inside_combined_between().unwrap()),
        Test::new("what can't be combined is refused", 60, || what_can_not_be_combined_is_refused().unwrap()),
    ];
    for (copies, places) in PLACES {
        for &place in places {
            let name = format!("combined beside a plain program: {place}");
            tests.push(Test::new(name, 60, move || beside_the_twin(copies, place).unwrap()));
        }
    }
    tests
}
