//! What a synchronous loop means, as plainly as it can be said: rounds of copies that are cloned, changed one after the
//! other and united row by row.

use std::cell::Cell;
use std::ops::{Index, Range};

use stradsap::Merge;
use stradsap::prelude::*;

use super::kinds::Chain;
use super::program::{Failing, OnPurpose, Op, element};

/// A row with the methods that shared ones have.
#[derive(Clone)]
#[repr(transparent)]
pub(crate) struct Plain<T: Copy>(Cell<T>);

impl<T: Copy> Plain<T> {
    pub(crate) fn get(&self) -> T {
        self.0.get()
    }
    pub(crate) fn set(&self, value: T) {
        self.0.set(value);
    }
}

impl Plain<f64> {
    fn add(&self, x: f64) {
        self.set(self.get() + x);
    }
}

impl Plain<i64> {
    fn add(&self, x: i64) {
        self.set(self.get().wrapping_add(x));
    }
}

impl Plain<[f32; 6]> {
    fn with(&self, change: impl FnOnce(&mut [f32; 6])) {
        let mut row = self.get();
        change(&mut row);
        self.set(row);
    }
    fn dot(&self, x: &[f32; 6]) -> f32 {
        kernels::dot(&self.get(), x)
    }
    fn axpy(&self, a: f32, x: &[f32; 6]) {
        self.with(|row| kernels::axpy(a, x, row));
    }
    fn add(&self, x: &[f32; 6]) {
        self.with(|row| (0..6).for_each(|k| row[k] += x[k]));
    }
    fn scale(&self, a: f32) {
        self.with(|row| (0..6).for_each(|k| row[k] *= a));
    }
    fn add_to(&self, a: f32, y: &mut [f32; 6]) {
        kernels::axpy(a, &self.get(), y);
    }
    fn step(&self, g: f32, x: &[f32; 6], change: &mut [f32; 6]) {
        self.add_to(g, change);
        self.axpy(g, x);
    }
    fn store(&self, row: &[f32; 6]) {
        self.set(*row);
    }
}

#[derive(Clone)]
pub(crate) struct Rows<T: Copy>(pub(crate) Vec<Plain<T>>);

impl<T: Copy> Rows<T> {
    pub(crate) fn new(values: impl IntoIterator<Item = T>) -> Self {
        Rows(values.into_iter().map(|value| Plain(Cell::new(value))).collect())
    }
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
    pub(crate) fn values(&self) -> Vec<T> {
        self.0.iter().map(Plain::get).collect()
    }
}

impl<T: Copy> Index<usize> for Rows<T> {
    type Output = Plain<T>;
    fn index(&self, i: usize) -> &Plain<T> {
        &self.0[i]
    }
}

/// How the rows of a type are united.
trait Unite: Copy {
    fn bytes(self) -> Vec<u8>;
    fn change(base: Self, local: Self) -> Self;
    fn share(self, copies: usize) -> Self;
    fn shares(changes: Vec<Self>, copies: usize) -> Vec<Self> {
        changes.into_iter().map(|change| change.share(copies)).collect()
    }
    fn apply(self, change: Self) -> Self;
    /// Two changes as one, of a type that has such a thing.
    fn combine(_: Self, _: Self) -> Option<Self> {
        None
    }
}

/// `a (1 - a.b / 2|a|^2) + b (1 - a.b / 2|b|^2)`, in `f64`: products of number `k` are added to lane `k % 8`, and the lanes
/// pairwise from the halves. Added up where a length is no normal number.
pub(crate) fn combined(a: &[f64], b: &[f64]) -> Vec<f64> {
    let product = |x: &[f64], y: &[f64]| {
        let mut lanes = vec![0.0; 8];
        for k in 0..x.len() {
            lanes[k % 8] += x[k] * y[k];
        }
        while lanes.len() > 1 {
            let half = lanes.len() / 2;
            lanes = (0..half).map(|l| lanes[l] + lanes[l + half]).collect();
        }
        lanes[0]
    };
    let (aa, ab, bb) = (product(a, a), product(a, b), product(b, b));
    let (mut of_a, mut of_b) = (1.0, 1.0);
    if aa.is_normal() && bb.is_normal() {
        (of_a, of_b) = (1.0 - ab / (2.0 * aa), 1.0 - ab / (2.0 * bb));
    }
    a.iter().zip(b).map(|(a, b)| of_a * a + of_b * b).collect()
}

impl Unite for f64 {
    fn combine(a: f64, b: f64) -> Option<f64> {
        Some(combined(&[a], &[b])[0])
    }
    fn bytes(self) -> Vec<u8> {
        self.to_le_bytes().into()
    }
    fn change(base: f64, local: f64) -> f64 {
        local - base
    }
    fn share(self, copies: usize) -> f64 {
        self / copies as f64
    }
    fn apply(self, change: f64) -> f64 {
        self + change
    }
}

impl Unite for [f32; 6] {
    fn combine(a: Self, b: Self) -> Option<Self> {
        let sum = combined(&a.map(f64::from), &b.map(f64::from));
        Some(std::array::from_fn(|k| sum[k] as f32))
    }
    fn bytes(self) -> Vec<u8> {
        self.into_iter().flat_map(f32::to_le_bytes).collect()
    }
    fn change(base: Self, local: Self) -> Self {
        std::array::from_fn(|k| local[k] - base[k])
    }
    fn share(self, copies: usize) -> Self {
        self.map(|x| x / copies as f32)
    }
    fn apply(self, change: Self) -> Self {
        std::array::from_fn(|k| self[k] + change[k])
    }
}

impl Unite for i64 {
    fn bytes(self) -> Vec<u8> {
        self.to_le_bytes().into()
    }
    fn change(base: i64, local: i64) -> i64 {
        local.wrapping_sub(base)
    }
    fn share(self, copies: usize) -> i64 {
        self / copies as i64
    }
    fn shares(changes: Vec<i64>, copies: usize) -> Vec<i64> {
        vec![(changes.into_iter().map(i128::from).sum::<i128>() / copies as i128) as i64]
    }
    fn apply(self, change: i64) -> i64 {
        self.wrapping_add(change)
    }
}

impl Unite for Chain {
    fn bytes(self) -> Vec<u8> {
        self.0.to_le_bytes().into()
    }
    fn change(base: Chain, local: Chain) -> Chain {
        Merge::change(&base, &local)
    }
    fn share(mut self, copies: usize) -> Chain {
        Merge::share(&mut self, copies);
        self
    }
    fn apply(mut self, change: Chain) -> Chain {
        Merge::apply(&mut self, &change);
        self
    }
}

/// One DDS: what its copies made of it.
fn unite<'c, T: Unite + 'c>(
    into: &Rows<T>,
    copies: &(impl Iterator<Item = &'c Rows<T>> + Clone),
    average: Option<usize>,
    rule: MergeRule,
) {
    for (i, row) in into.0.iter().enumerate() {
        let base = row.get();
        let other = |local: &T| local.bytes() != base.bytes();
        let changed: Vec<T> = copies.clone().map(|copy| copy[i].get()).filter(other).collect();
        let combined = || pairwise(changed.iter().map(|&local| T::change(base, local)).collect());
        match (&changed[..], average, rule) {
            (&[], ..) => {}
            (&[alone], None, _) => row.set(alone),
            (_, None, MergeRule::Combine) if T::combine(base, base).is_some() => row.set(base.apply(combined())),
            _ => {
                let mut changes: Vec<T> = changed.into_iter().map(|local| T::change(base, local)).collect();
                if let Some(copies) = average {
                    changes = T::shares(changes, copies);
                }
                changes.into_iter().for_each(|change| row.set(row.get().apply(change)));
            }
        }
    }
}

/// The first and the second as one, the third and the fourth, and so on; the same of what they come to, until one is left.
fn pairwise<T: Unite>(mut changes: Vec<T>) -> T {
    while changes.len() > 1 {
        let one = |pair: &[T]| if let &[a, b] = pair { T::combine(a, b).unwrap() } else { pair[0] };
        changes = changes.chunks(2).map(one).collect();
    }
    changes[0]
}

/// All that a program writes.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) a: Rows<f64>,
    pub(crate) b: Rows<[f32; 6]>,
    pub(crate) c: Rows<i64>,
    pub(crate) d: Rows<Chain>,
}

impl State {
    pub(crate) fn new(lens: &[usize; 4]) -> State {
        State {
            a: Rows::new((0..lens[0]).map(|i| i as f64 / 3.0)),
            b: Rows::new((0..lens[1]).map(|i| [i as f32 / 7.0; 6])),
            c: Rows::new((0..lens[2]).map(|i| i as i64)),
            d: Rows::new((0..lens[3]).map(|i| Chain(i as u64))),
        }
    }
}

/// The reductions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub(crate) sum: f64,
    pub(crate) low: i64,
    pub(crate) high: f32,
    pub(crate) count: u64,
}

struct Add<'t, T>(&'t Cell<T>);

impl<T: Copy + std::ops::Add<Output = T>> Add<'_, T> {
    fn add(&self, x: T) {
        self.0.set(self.0.get() + x);
    }
}

impl<T: Copy + PartialOrd> Add<'_, T> {
    fn min(&self, x: T) {
        self.0.set(if x < self.0.get() { x } else { self.0.get() });
    }
    fn max(&self, x: T) {
        self.0.set(if x > self.0.get() { x } else { self.0.get() });
    }
}

/// One minibatch on one copy.
fn run(
    input: &[Vec<Op>],
    range: Range<usize>,
    failing: Failing,
    table: &[f32; 8],
    on: &State,
    totals: &mut Totals,
) -> Result<(), OnPurpose> {
    let (sum, low) = (Cell::new(totals.sum), Cell::new(totals.low));
    let (high, count) = (Cell::new(totals.high), Cell::new(totals.count));
    for i in range {
        let State { a, b, c, d } = on;
        let reductions = (Add(&sum), Add(&low), Add(&high), Add(&count));
        element!(i, &input[i], failing, table, [a, b, c, d], &reductions);
    }
    *totals = Totals { sum: sum.get(), low: low.get(), high: high.get(), count: count.get() };
    Ok(())
}

/// One call, or the minibatches of which one must be said to have failed.
pub(crate) fn call(
    input: &[Vec<Op>],
    size: usize,
    (policy, rule, interval, copies): (SyncPolicy, MergeRule, usize, usize),
    failing: Failing,
    table: &[f32; 8],
    state: &mut State,
    totals: &mut Totals,
) -> Result<(), Vec<usize>> {
    // Nothing is to panic here.
    let failing = if failing == Failing::Panic { Failing::Err } else { failing };
    let all = input.len().div_ceil(size);
    let elements = |b: usize| b * size..input.len().min((b + 1) * size);
    let (own_state, own_totals) = (state.clone(), *totals);
    let mut give_up = |failed: Vec<usize>, state: &mut State| {
        (*state, *totals) = (own_state.clone(), own_totals);
        Err(failed)
    };
    if copies == 1 {
        let mut after = own_totals;
        for b in 0..all {
            if run(input, elements(b), failing, table, state, &mut after).is_err() {
                return give_up(vec![b], state);
            }
        }
        *totals = after;
        return Ok(());
    }
    let every = if let SyncPolicy::ModelAverage { every } = policy { every } else { interval };
    let mut after = own_totals;
    let mut next = 0;
    while next < all {
        // In the last round copies share what is left.
        let left = all - next;
        let share = |copy: usize| {
            if left / copies >= every { every } else { left / copies + usize::from(copy < left % copies) }
        };
        let mut locals = Vec::new();
        let mut failed = Vec::new();
        let mut by_minibatch = Vec::new();
        for copy in 0..copies {
            let mine = next..next + share(copy);
            if mine.is_empty() {
                break;
            }
            next = mine.end;
            let local = state.clone();
            for b in mine {
                let mut own = Totals { sum: 0.0, low: own_totals.low, high: own_totals.high, count: 0 };
                if run(input, elements(b), failing, table, &local, &mut own).is_err() {
                    failed.push(b);
                    break;
                }
                by_minibatch.push(own);
            }
            locals.push(local);
        }
        if !failed.is_empty() {
            return give_up(failed, state);
        }
        for own in by_minibatch {
            after.sum += own.sum;
            after.low = after.low.min(own.low);
            after.high = after.high.max(own.high);
            after.count += own.count;
        }
        let average = matches!(policy, SyncPolicy::ModelAverage { .. }).then_some(locals.len());
        unite(&state.a, &locals.iter().map(|local| &local.a), average, rule);
        unite(&state.b, &locals.iter().map(|local| &local.b), average, rule);
        unite(&state.c, &locals.iter().map(|local| &local.c), average, rule);
        unite(&state.d, &locals.iter().map(|local| &local.d), average, rule);
    }
    *totals = after;
    Ok(())
}
