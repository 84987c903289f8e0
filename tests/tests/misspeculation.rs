//! Loops whose pattern of accesses is not what was recorded: they are begun again, and end as some serial order would.

use crate::common::{below, mix, session};
use stradsap::prelude::*;
use stradsap::{Error, Result};

const N: usize = 2000;
const CELLS: usize = 300;

/// Where each iteration goes, through a DVector that the driver changes between calls.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Visit {
    from: u32,
    to: u32,
    by: u64,
}

fn visits(round: u64) -> Vec<Visit> {
    (0..N as u64)
        .map(|i| Visit {
            from: below(5 * i + round, CELLS) as u32,
            to: below(5 * i + 1 + round, CELLS) as u32,
            by: mix(5 * i + 2),
        })
        .collect()
}

fn plain_visit(visit: &Visit, x: &mut [u64], y: &mut [u64]) {
    let seen = x[visit.from as usize];
    x[visit.to as usize] = mix(seen ^ visit.by);
    y[visit.from as usize] = y[visit.from as usize].rotate_left(7) ^ seen;
}

fn visit_all(
    visits: &DVector<Visit>,
    x: &mut DVector<u64>,
    y: &mut DVector<u64>,
    strategy: Strategy,
    order: Order,
) -> Result<LoopReport> {
    async_parallel_for!(
        0..visits.len(),
        [&visits, &mut x, &mut y],
        |i| {
            let visit = visits[i];
            let seen = x[visit.from];
            x[visit.to] = mix(seen ^ visit.by);
            y[visit.from] = y[visit.from].rotate_left(7) ^ seen;
        },
        strategy = strategy,
        order = order,
        parts = 5
    )
}

#[test]
fn patterns_that_change_between_calls() {
    let ways = [(Strategy::Grid, Order::Any), (Strategy::Coloured, Order::Any), (Strategy::Coloured, Order::Preserve)];
    for (strategy, order) in ways {
        for threads in [1, 2, 3] {
            let case = format!("{strategy}, {order:?}, {threads} threads");
            let session = session(threads);
            let mut data = DVector::from_vec(&session, visits(0)).unwrap();
            let mut x = DVector::from_fn(&session, CELLS, |i| mix(i as u64)).unwrap();
            let mut y = DVector::from_fn(&session, CELLS, |i| i as u64).unwrap();
            let (mut px, mut py) = (x.to_vec().unwrap(), y.to_vec().unwrap());
            // The second and the fifth call find things as they were; each other one finds another pattern.
            for (call, (round, misspeculations)) in
                [(0, 0), (0, 0), (1, 1), (2, 1), (2, 0), (3, 1), (4, 1)].iter().enumerate()
            {
                for (i, visit) in visits(*round).into_iter().enumerate() {
                    data.set(i, visit).unwrap();
                }
                let report = visit_all(&data, &mut x, &mut y, strategy, order).unwrap();
                assert_eq!(report.strategy(), strategy, "{case}, call {call}");
                assert_eq!(report.misspeculations(), *misspeculations, "{case}, call {call}");
                assert_eq!(report.reused(), call > 0 && *misspeculations == 0, "{case}, call {call}");
                let serial_order: Vec<usize> = match order {
                    Order::Any => report.serial_order().collect(),
                    Order::Preserve => (0..N).collect(),
                };
                let visits = data.to_vec().unwrap();
                serial_order.iter().for_each(|&i| plain_visit(&visits[i], &mut px, &mut py));
                assert_eq!((x.to_vec().unwrap(), y.to_vec().unwrap()), (px.clone(), py.clone()), "{case}, call {call}");
            }
        }
    }
}

#[test]
fn one_changed_index_is_enough_to_begin_again() {
    let session = session(2);
    let mut data = DVector::from_vec(&session, visits(0)).unwrap();
    let mut x = DVector::from_fn(&session, CELLS, |i| mix(i as u64)).unwrap();
    let mut y = DVector::from_fn(&session, CELLS, |i| i as u64).unwrap();
    let run = |data: &DVector<Visit>, x: &mut DVector<u64>, y: &mut DVector<u64>| {
        visit_all(data, x, y, Strategy::Coloured, Order::Preserve).unwrap()
    };
    run(&data, &mut x, &mut y);
    for at in [0, N / 2, N - 1] {
        let old = data.get(at).unwrap();
        data.set(at, Visit { to: (old.to + 1) % CELLS as u32, ..old }).unwrap();
        let (mut px, mut py) = (x.to_vec().unwrap(), y.to_vec().unwrap());
        let report = run(&data, &mut x, &mut y);
        assert_eq!((report.misspeculations(), report.reused()), (1, false), "changed at {at}");
        data.iter().unwrap().for_each(|visit| plain_visit(&visit, &mut px, &mut py));
        assert_eq!((x.to_vec().unwrap(), y.to_vec().unwrap()), (px, py), "changed at {at}");
    }
    let report = run(&data, &mut x, &mut y);
    assert_eq!((report.misspeculations(), report.reused()), (0, true));
}

/// Values that no access depends on may change as they like.
#[test]
fn changed_values_alone_leave_the_plan() {
    let session = session(3);
    let mut data = DVector::from_vec(&session, visits(0)).unwrap();
    let mut x = DVector::from_fn(&session, CELLS, |i| mix(i as u64)).unwrap();
    let mut y = DVector::from_fn(&session, CELLS, |i| i as u64).unwrap();
    let (mut px, mut py) = (x.to_vec().unwrap(), y.to_vec().unwrap());
    for round in 0..4 {
        for i in (0..N).step_by(3) {
            let old = data.get(i).unwrap();
            data.set(i, Visit { by: old.by ^ round, ..old }).unwrap();
        }
        for i in (0..CELLS).step_by(5) {
            x.set(i, round).unwrap();
            px[i] = round;
        }
        let report = visit_all(&data, &mut x, &mut y, Strategy::Grid, Order::Any).unwrap();
        assert_eq!((report.misspeculations(), report.reused()), (0, round > 0));
        let visits = data.to_vec().unwrap();
        report.serial_order().for_each(|i| plain_visit(&visits[i], &mut px, &mut py));
        assert_eq!((x.to_vec().unwrap(), y.to_vec().unwrap()), (px.clone(), py.clone()), "round {round}");
    }
}

/// The second half of the iterations goes where the first half pointed while the loop ran.
fn chase(order: Order, threads: usize, strategy: Option<Strategy>) {
    let session = session(threads);
    let half = N / 2;
    let mut next = DVector::from_fn(&session, half, |i| (i % CELLS) as u32).unwrap();
    let mut x = DVector::from_fn(&session, CELLS, |i| i as u64).unwrap();
    let run = |next: &mut DVector<u32>, x: &mut DVector<u64>| match strategy {
        None => async_parallel_for!(
            0..N,
            [half, &mut next, &mut x],
            |i| {
                if i < half {
                    next[i] = (mix(u64::from(next[i]) + i as u64) % CELLS as u64) as u32;
                } else {
                    let at = next[i - half];
                    x[at] = mix(x[at] ^ i as u64);
                }
            },
            order = order
        ),
        Some(strategy) => async_parallel_for!(
            0..N,
            [half, &mut next, &mut x],
            |i| {
                if i < half {
                    next[i] = (mix(u64::from(next[i]) + i as u64) % CELLS as u64) as u32;
                } else {
                    let at = next[i - half];
                    x[at] = mix(x[at] ^ i as u64);
                }
            },
            order = order,
            strategy = strategy,
            parts = 7
        ),
    };
    let (mut pnext, mut px) = (next.to_vec().unwrap(), x.to_vec().unwrap());
    for call in 0..3 {
        let report = run(&mut next, &mut x).unwrap();
        let case = format!("{order:?}, {strategy:?}, {threads} threads, call {call}, {}", report.strategy());
        let serial_order: Vec<usize> = report.serial_order().collect();
        if order == Order::Preserve || report.strategy() == Strategy::Serial {
            // Nothing but the loop's own order is claimed then, up to what can't be told apart.
            (0..N).for_each(|i| plain_chase(i, &mut pnext, &mut px));
        } else {
            serial_order.iter().for_each(|&i| plain_chase(i, &mut pnext, &mut px));
        }
        assert_eq!((next.to_vec().unwrap(), x.to_vec().unwrap()), (pnext.clone(), px.clone()), "{case}");
        if strategy.is_some() && order == Order::Preserve {
            // Placeholders misled the first plan, those from before the loop the second. The third lets the iteration that strayed
            // run alone, but it isn't the only one.
            assert_eq!(report.strategy(), Strategy::Serial, "{case}");
            assert_eq!(
                (report.misspeculations(), report.reused()),
                if call == 0 { (3, false) } else { (0, true) },
                "{case}"
            );
            assert!(report.reason().contains("what iterations touch of `x` changes"), "{case}: {}", report.reason());
            assert!(serial_order.into_iter().eq(0..N), "{case}");
        }
    }
}

fn plain_chase(i: usize, next: &mut [u32], x: &mut [u64]) {
    let half = N / 2;
    if i < half {
        next[i] = (mix(u64::from(next[i]) + i as u64) % CELLS as u64) as u32;
    } else {
        let at = next[i - half] as usize;
        x[at] = mix(x[at] ^ i as u64);
    }
}

#[test]
fn pointers_that_the_loop_itself_sets_end_serially() {
    for threads in [1, 2, 3] {
        for order in [Order::Preserve, Order::Any] {
            for strategy in [Some(Strategy::Coloured), Some(Strategy::Grid), None] {
                chase(order, threads, strategy);
            }
        }
    }
}

/// A list that is linked up while the loop runs, each iteration stepping to what the one before wrote.
#[test]
fn a_list_that_is_built_while_it_is_walked() {
    for threads in [1, 3] {
        let session = session(threads);
        let mut next = DVector::from_fn(&session, N, |_| 0u32).unwrap();
        let mut seen = DVector::from_fn(&session, N, |_| 0u32).unwrap();
        let mut walk = || {
            async_parallel_for!(
                0..N - 1,
                [&mut next, &mut seen],
                |i| {
                    let here = next[i] as usize;
                    next[i + 1] = ((here * 7 + i * 3 + 1) % 2000) as u32;
                    seen[here] += 1;
                },
                order = Preserve,
                strategy = Coloured
            )
            .unwrap()
        };
        let report = walk();
        assert_eq!((report.strategy(), report.reused()), (Strategy::Serial, false));
        // Each iteration waits for the one before: that is seen at once.
        assert_eq!(report.misspeculations(), 0);
        let (mut pnext, mut pseen) = (vec![0usize; N], vec![0; N]);
        for i in 0..N - 1 {
            pnext[i + 1] = (pnext[i] * 7 + i * 3 + 1) % N;
            pseen[pnext[i]] += 1;
        }
        assert!(next.iter().unwrap().eq(pnext.iter().map(|&i| i as u32)));
        assert_eq!(seen.to_vec().unwrap(), pseen);
    }
}

/// What a virtual iteration writes it does not see again: this would go on for ever.
#[test]
fn loops_that_would_not_end_on_placeholders() {
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        for threads in [1, 2] {
            let session = session(threads);
            let mut p = DVector::from_fn(&session, 40, |i| i as u32).unwrap();
            let mut steps = DVector::from_fn(&session, 200, |_| 0u32).unwrap();
            let report = async_parallel_for!(
                0..200,
                [&mut p, &mut steps],
                |i| {
                    let at = i * 7 % 40;
                    while p[at] < 50 + i as u32 {
                        p[at] += 1;
                        steps[i] += 1;
                    }
                },
                strategy = strategy,
                order = Preserve,
                parts = 4
            )
            .unwrap();
            assert_eq!((report.strategy(), report.misspeculations()), (strategy, 0));
            let (mut pp, mut psteps): (Vec<u32>, Vec<u32>) = ((0..40).collect(), vec![0; 200]);
            for (i, steps) in psteps.iter_mut().enumerate() {
                let at = i * 7 % 40;
                while pp[at] < 50 + i as u32 {
                    pp[at] += 1;
                    *steps += 1;
                }
            }
            assert_eq!((p.to_vec().unwrap(), steps.to_vec().unwrap()), (pp, psteps), "{strategy}, {threads} threads");
        }
    }
}

#[derive(Clone, Debug, PartialEq, Element)]
struct Slot {
    name: Option<String>,
    uses: u32,
}

/// Division by what was just written, and an Option that was just filled: both panic on placeholders.
#[test]
fn loops_that_would_panic_on_placeholders() {
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        for threads in [1, 2, 3] {
            let session = session(threads);
            let mut slots = DVector::from_fn(&session, 30, |_| Slot { name: None, uses: 0 }).unwrap();
            let mut divisors = DVector::from_fn(&session, 50, |_| 0u32).unwrap();
            let mut lengths = DVector::from_fn(&session, 500, |_| 0u32).unwrap();
            let report = async_parallel_for!(
                0..500,
                [&mut slots, &mut divisors, &mut lengths],
                |i| {
                    let (s, d) = (i % 30, i * i % 50);
                    if slots[s].name.is_none() {
                        slots[s].name = Some(format!("slot {s}"));
                    }
                    slots[s].uses += 1;
                    divisors[d] += 3;
                    // Where these lead the virtual iteration must know.
                    let next = 100 / divisors[d];
                    let length = slots[s].name.as_ref().unwrap().len() as u32;
                    lengths[i] = length + next;
                },
                strategy = strategy,
                parts = 4
            )
            .unwrap();
            assert_eq!((report.strategy(), report.misspeculations()), (strategy, 0), "{threads} threads");
            let (mut pdivisors, mut plengths) = (vec![0u32; 50], vec![0; 500]);
            for i in report.serial_order() {
                pdivisors[i * i % 50] += 3;
                plengths[i] = format!("slot {}", i % 30).len() as u32 + 100 / pdivisors[i * i % 50];
            }
            assert_eq!(
                (divisors.to_vec().unwrap(), lengths.to_vec().unwrap()),
                (pdivisors, plengths),
                "{strategy}, {threads} threads"
            );
            for (s, slot) in slots.iter().unwrap().enumerate() {
                let uses = (0..500).filter(|i| i % 30 == s).count() as u32;
                assert_eq!(slot, Slot { name: Some(format!("slot {s}")), uses });
            }
        }
    }
}

/// A loop that fails on placeholders only must not fail; one that is misspeculated and then fails must.
#[test]
fn errors_come_from_real_values_only() {
    let session = session(2);
    let mut data = DVector::from_vec(&session, visits(0)).unwrap();
    let mut x = DVector::from_fn(&session, CELLS, |_| 1i64).unwrap();
    let run = |data: &DVector<Visit>, x: &mut DVector<i64>| {
        async_parallel_for!(
            0..N,
            [&data, &mut x],
            |i| {
                let visit = data[i];
                x[visit.to] += 1;
                if x[visit.to] < 2 {
                    return Err(format!("{} at {}", x[visit.to], visit.to));
                }
                Ok(())
            },
            strategy = Coloured,
            order = Preserve
        )
    };
    let report = run(&data, &mut x).unwrap();
    assert_eq!(report.misspeculations(), 0);
    assert_eq!(x.iter().unwrap().sum::<i64>(), (CELLS + N) as i64);
    // Another pattern, in which iteration 1234 fails.
    for (i, visit) in visits(9).into_iter().enumerate() {
        data.set(i, visit).unwrap();
    }
    let last = data.get(1234).unwrap().to;
    let untouched = (0..1234).all(|i| data.get(i).unwrap().to != last);
    let first = if untouched { 1234 } else { (0..1234).find(|&i| data.get(i).unwrap().to == last).unwrap() };
    x.set(last as usize, -1_000_000).unwrap();
    let before = x.to_vec().unwrap();
    match run(&data, &mut x).unwrap_err() {
        Error::Body { iteration, source, .. } => {
            assert_eq!(iteration, first);
            assert_eq!(source.to_string(), format!("-999999 at {last}"));
        }
        other => panic!("{other}"),
    }
    assert_eq!(x.to_vec().unwrap(), before);
}
