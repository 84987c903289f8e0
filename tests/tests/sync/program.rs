//! Random synchronous programs as data: what each element of the input does to which row.

use stradsap::Element;
use stradsap::prelude::*;

use crate::common::mix;

/// A reproducible stream of numbers.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(mix(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

pub(crate) const READ: u32 = 0;
pub(crate) const ADD: u32 = 1;
pub(crate) const SET: u32 = 2;
/// Changes a row and takes the change back: no message may follow from it.
pub(crate) const NOTHING: u32 = 3;
/// Changes a row that what was read before points to: nobody can foresee it.
pub(crate) const INDIRECT: u32 = 4;

#[derive(Clone, Copy, Debug, Default, Element)]
pub(crate) struct Op {
    pub(crate) dds: u32,
    pub(crate) kind: u32,
    pub(crate) index: u32,
}

pub(crate) const MOST_OPS: usize = 5;

/// How one call is made.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) policy: SyncPolicy,
    pub(crate) rule: MergeRule,
    /// Minibatches of each copy between two meetings.
    pub(crate) interval: usize,
    pub(crate) minibatch: usize,
    pub(crate) prefetch: bool,
    pub(crate) failing: Failing,
    /// Elements of the input that do something else from here on.
    pub(crate) disturbed: Vec<(usize, Vec<Op>)>,
    /// A row of each DDS that the program sets before.
    pub(crate) set: Option<[usize; 4]>,
}

/// When bodies fail.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Failing {
    Never,
    Err,
    Panic,
}

/// One in this many elements fails, if any.
pub(crate) const FAILING: u64 = 97;

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) lens: [usize; 4],
    pub(crate) input: Vec<Vec<Op>>,
    pub(crate) calls: Vec<Call>,
}

/// Where most accesses go.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Anywhere,
    /// Few rows often.
    Skewed,
    /// Rows that belong to the element's number: copies seldom meet.
    Apart,
}

impl Program {
    /// A program for this many copies; `one_each`: each of a process that has no other.
    pub(crate) fn random(rng: &mut Rng, copies: usize, one_each: bool, most: usize) -> Program {
        let n = rng.below(most);
        let lens = std::array::from_fn(|_| 1 + rng.below(2 * most));
        let shape = [Shape::Anywhere, Shape::Skewed, Shape::Apart][rng.below(3)];
        let (ddss, reads, indirect) = (1 + rng.below(4), rng.below(5), rng.one_in(3));
        let item = |rng: &mut Rng, i: usize| -> Vec<Op> {
            let op = |rng: &mut Rng, k: usize| {
                let dds = rng.below(ddss);
                let len = lens[dds];
                let index = match shape {
                    Shape::Anywhere => rng.below(len),
                    Shape::Skewed => {
                        let most = 1 + rng.below(len);
                        let most = 1 + rng.below(most);
                        rng.below(most)
                    }
                    Shape::Apart => (i * 3 + k) % len,
                };
                let kind = match rng.below(8) {
                    k if k < reads => READ,
                    4 if indirect => INDIRECT,
                    5 => NOTHING,
                    6 => SET,
                    _ => ADD,
                };
                Op { dds: dds as u32, kind, index: index as u32 }
            };
            (0..rng.below(MOST_OPS + 1)).map(|k| op(rng, k)).collect()
        };
        let input: Vec<Vec<Op>> = (0..n).map(|i| item(rng, i)).collect();
        let mut policies = vec![SyncPolicy::Bsp, SyncPolicy::ModelAverage { every: 1 + rng.below(5) }];
        if one_each || copies == 1 {
            policies.push(SyncPolicy::Hybrid);
        }
        if copies == 1 {
            policies.push(SyncPolicy::Ssp { staleness: rng.below(3) });
        }
        let (mut policy, mut minibatch) = (policies[rng.below(policies.len())], 1 + rng.below(n / 2 + 3));
        let restless = rng.one_in(3);
        let calls = (0..3 + rng.below(3)).map(|call| {
            if restless {
                (policy, minibatch) = (policies[rng.below(policies.len())], 1 + rng.below(n / 2 + 3));
            }
            let disturbed = if call > 0 && n > 0 && rng.one_in(3) { 1 + rng.below(1 + n / 4) } else { 0 };
            let united = matches!(policy, SyncPolicy::Bsp | SyncPolicy::Hybrid);
            Call {
                policy,
                rule: if united && !rng.one_in(3) { MergeRule::Combine } else { MergeRule::Sum },
                interval: if united && rng.one_in(3) { 1 + rng.below(4) } else { 1 },
                minibatch,
                prefetch: !rng.one_in(4),
                failing: [Failing::Never, Failing::Never, Failing::Never, Failing::Err, Failing::Panic][rng.below(5)],
                disturbed: (0..disturbed)
                    .map(|_| {
                        let i = rng.below(n);
                        (i, item(rng, i))
                    })
                    .collect(),
                set: rng.one_in(4).then(|| lens.map(|len| rng.below(len))),
            }
        });
        let calls = calls.collect();
        Program { lens, input, calls }
    }
}

/// What one element of the input does; in a loop body on shared rows, in the interpreter on plain ones.
macro_rules! element {
    ($i:expr, $ops:expr, $failing:expr, $table:expr, [$a:expr, $b:expr, $c:expr, $d:expr], $reductions:expr) => {{
        use $crate::sync::program::{ADD, FAILING, Failing, INDIRECT, NOTHING, OnPurpose, READ};
        let mut seen = $crate::common::mix($i as u64);
        for op in $ops {
            let number = (seen % 1000) as f32 / 7.0 - 50.0;
            let row: [f32; 6] = std::array::from_fn(|k| number * 0.01 + k as f32);
            let at = |len: usize| if op.kind == INDIRECT { seen as usize % len } else { op.index as usize };
            match op.dds {
                0 => {
                    let x = &$a[at($a.len())];
                    let before = x.get();
                    match op.kind {
                        READ => seen = $crate::common::mix(seen ^ before.to_bits()),
                        ADD | INDIRECT => x.add(f64::from(number * $table[op.index as usize % 8])),
                        NOTHING => {
                            x.add(1.5);
                            x.set(before);
                        }
                        _ => x.set(before * 0.75 + f64::from(number)),
                    }
                }
                1 => {
                    let x = &$b[at($b.len())];
                    let before = x.get();
                    match op.kind {
                        READ => {
                            let mut sum = row;
                            x.add_to(0.5, &mut sum);
                            seen = $crate::common::mix(seen ^ u64::from((x.dot(&row) + sum[5]).to_bits()));
                        }
                        ADD | INDIRECT => x.axpy(0.01 * x.dot(&row) / 100.0, &row),
                        NOTHING => {
                            x.add(&row);
                            x.store(&before);
                        }
                        _ => {
                            let mut change = row;
                            x.scale(0.9);
                            x.step(0.02, &row, &mut change);
                            x.add(&change.map(|y| y * 0.1));
                        }
                    }
                }
                2 => {
                    let x = &$c[at($c.len())];
                    let before = x.get();
                    match op.kind {
                        READ => seen = $crate::common::mix(seen ^ before as u64),
                        ADD | INDIRECT => x.add(seen as i64),
                        NOTHING => {
                            x.add(1);
                            x.add(-1);
                        }
                        _ => x.set(before.rotate_left(3) ^ seen as i64),
                    }
                }
                _ => {
                    let x = &$d[at($d.len())];
                    let before = x.get();
                    match op.kind {
                        READ => seen = $crate::common::mix(seen ^ before.0),
                        NOTHING => {
                            x.set($crate::sync::kinds::Chain(0));
                            x.set(before);
                        }
                        _ => x.set($crate::sync::kinds::Chain($crate::common::mix(before.0 ^ seen))),
                    }
                }
            }
        }
        if $failing != Failing::Never && seen % FAILING == 0 {
            if $failing == Failing::Panic {
                panic!("this element panics on purpose");
            }
            return Err(OnPurpose);
        }
        let (sum, low, high, count) = $reductions;
        sum.add((seen % 1000) as f64 * 1e10_f64.powi((seen % 3) as i32) / 3.0);
        low.min(seen as i64);
        high.max((seen % 77) as f32);
        count.add(1);
    }};
}
pub(crate) use element;

/// What a body returns when it fails.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("this element fails on purpose")]
pub(crate) struct OnPurpose;
