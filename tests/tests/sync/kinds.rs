//! Elements and inputs of all kinds.

use stradsap::prelude::*;
use stradsap::{Element, Merge, Shared};

use super::places::{note, policies};
use crate::common::{below, mix};
use crate::seen::Seen;

type Result = stradsap::Result<()>;

/// What can be made, and changed so that who changed it in which order shows.
pub(crate) trait Row: Element + Merge {
    fn make(i: usize) -> Self;
    fn alter(row: &Shared<Self>, by: u64);
    fn look(&self) -> u64;
}

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Row for $t {
            fn make(i: usize) -> Self {
                (below(i as u64, 1000) as $t - 500.0) / 7.0
            }
            fn alter(row: &Shared<Self>, by: u64) {
                row.set(row.get() * 0.75);
                row.add((by % 1000) as $t / 3.0);
            }
            fn look(&self) -> u64 {
                self.to_bits() as u64
            }
        }
        impl<const K: usize> Row for [$t; K] {
            fn make(i: usize) -> Self {
                std::array::from_fn(|k| <$t>::make(i * K + k))
            }
            fn alter(row: &Shared<Self>, by: u64) {
                let x = Self::make(by as usize % 1000);
                let e = row.dot(&x) / (1.0 + K as $t * 1e4);
                row.axpy(-0.1 * e, &x);
                if by % 3 == 0 {
                    let mut y = [0.5; K];
                    row.add_to(0.25, &mut y);
                    row.step(0.01, &x, &mut y);
                    row.add(&y.map(|y| y * 0.1));
                    row.scale(0.5);
                }
            }
            fn look(&self) -> u64 {
                self.iter().fold(K as u64, |hash, x| mix(hash ^ x.look()))
            }
        }
    )*};
}
floats! { f32 f64 }

macro_rules! whole {
    ($($t:ty)*) => {$(
        impl Row for $t {
            fn make(i: usize) -> Self {
                mix(i as u64) as $t
            }
            fn alter(row: &Shared<Self>, by: u64) {
                row.add(by as $t);
                if by % 4 == 0 {
                    row.set(row.get().wrapping_mul(3));
                }
            }
            fn look(&self) -> u64 {
                *self as u64
            }
        }
    )*};
}
whole! { u8 i16 u32 i64 u64 usize i128 }

impl Row for [[i32; 2]; 3] {
    fn make(i: usize) -> Self {
        [[i as i32, 1], [2, -(i as i32)], [i32::MAX, 7]]
    }
    fn alter(row: &Shared<Self>, by: u64) {
        let mut value = row.get();
        let number = &mut value[(by % 3) as usize][(by / 3 % 2) as usize];
        *number = number.wrapping_mul(5).wrapping_add(by as i32);
        row.set(value);
    }
    fn look(&self) -> u64 {
        self.iter().flatten().fold(7, |hash, &x| mix(hash ^ x as u64))
    }
}

/// Whose changes depend on their order.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
pub(crate) struct Chain(pub(crate) u64);

impl Merge for Chain {
    fn change(base: &Self, local: &Self) -> Self {
        Chain(mix(base.0.rotate_left(5) ^ local.0))
    }
    fn apply(&mut self, change: &Self) {
        self.0 = mix(self.0 ^ change.0);
    }
    fn share(&mut self, copies: usize) {
        self.0 = self.0.wrapping_add(copies as u64);
    }
}

impl Row for Chain {
    fn make(i: usize) -> Self {
        Chain(i as u64)
    }
    fn alter(row: &Shared<Self>, by: u64) {
        row.set(Chain(mix(row.get().0 ^ by)));
    }
    fn look(&self) -> u64 {
        self.0
    }
}

/// How often, the largest, and the last that someone wrote: each united in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Summary {
    count: u64,
    largest: f64,
    last: [u16; 4],
}

impl Merge for Summary {
    fn change(base: &Self, local: &Self) -> Self {
        Summary { count: local.count - base.count, ..*local }
    }
    fn apply(&mut self, change: &Self) {
        self.count += change.count;
        self.largest = self.largest.max(change.largest);
        self.last = change.last;
    }
    fn share(&mut self, _copies: usize) {}
}

impl Row for Summary {
    fn make(i: usize) -> Self {
        Summary { count: 0, largest: i as f64 / 9.0, last: [i as u16; 4] }
    }
    fn alter(row: &Shared<Self>, by: u64) {
        let mut value = row.get();
        value.count += 1;
        value.largest = value.largest.max((by % 100) as f64);
        value.last[(by % 4) as usize] = by as u16;
        row.set(value);
    }
    fn look(&self) -> u64 {
        mix(self.count ^ self.largest.to_bits() ^ u64::from(self.last[0]))
    }
}

/// Some rows that everybody changes, some that few do, and some that are only read.
fn on_rows<T: Row>(session: &Session, seen: &mut Seen) -> Result {
    let n = 120;
    for (name, policy) in policies(session) {
        let input = DVector::from_fn(session, n, |i| [below(i as u64, 9), 9 + below(7 * i as u64, 60), 60 + i % 30])?;
        let mut rows = DVector::from_fn(session, 95, T::make)?;
        let looked = session.sum(0u64);
        for epoch in 0..3u64 {
            let report = sync_parallel_for!(
                input,
                7,
                [epoch, &mut rows, &looked],
                |batch| {
                    for (k, &[hot, cold, read]) in batch.into_iter().enumerate() {
                        let by = mix(epoch ^ (batch.start() + k) as u64 ^ rows[read].get().look());
                        T::alter(&rows[hot], by);
                        if k % 2 == 0 {
                            T::alter(&rows[cold], by ^ 1);
                        }
                        looked.add(rows[cold].get().look() % 1000);
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            seen.record("looked", looked.get());
            seen.digest(std::any::type_name::<T>(), &rows)?;
        }
    }
    Ok(())
}

pub(crate) fn numbers(session: &Session, seen: &mut Seen) -> Result {
    on_rows::<f32>(session, seen)?;
    on_rows::<f64>(session, seen)?;
    on_rows::<i64>(session, seen)?;
    on_rows::<u8>(session, seen)?;
    on_rows::<i16>(session, seen)?;
    on_rows::<i128>(session, seen)
}

pub(crate) fn rows(session: &Session, seen: &mut Seen) -> Result {
    on_rows::<[f32; 6]>(session, seen)?;
    on_rows::<[f32; 1]>(session, seen)?;
    on_rows::<[f64; 100]>(session, seen)?;
    on_rows::<[[i32; 2]; 3]>(session, seen)
}

/// A DMatrix beside a DVector of arrays as long: the same changes, the same bits.
fn matrix_beside_arrays<const K: usize>(session: &Session, seen: &mut Seen) -> Result {
    for (name, policy) in policies(session) {
        let input = DVector::from_fn(session, 120, |i| [below(i as u64, 9), 9 + below(7 * i as u64, 60)])?;
        let start = |i: usize| <[f32; K] as Row>::make(i);
        let mut rows = DMatrix::from_rows(session, (0..69).map(start))?;
        let mut arrays = DVector::from_fn(session, 69, start)?;
        let mut counts = DMatrix::from_fn(session, 69, 5, |_, _| 0u16)?;
        let (wide, sum) = (DMatrix::from_fn(session, 69, K, |i, k| (i * k) as f32 / 999.0)?, session.sum(0.0f64));
        for epoch in 0..3usize {
            let report = sync_parallel_for!(
                input,
                7,
                [epoch, &wide, &mut rows, &mut counts, &sum],
                |batch| {
                    for (n, &[hot, cold]) in batch.into_iter().enumerate() {
                        for i in [hot, cold] {
                            let (row, x) = (&rows[i], &wide[(i + n) % 69]);
                            let e = row.dot(x) / (1.0 + K as f32 * 10.0);
                            row.axpy(-0.1 * e, x);
                            let mut y = vec![0.5; row.len()];
                            row.add_to(0.25, &mut y);
                            row.step(0.01, x, &mut y);
                            row.add(&y);
                            row.scale(0.5);
                            if (n + epoch) % 3 == 0 {
                                row.load(&mut y);
                                y.reverse();
                                row.store(&y);
                                row.number(K / 2).add(0.25);
                            }
                            counts[i].add(&[1, 2, 3, 4, n as u16]);
                            sum.add(f64::from(row.to_vec()[K - 1]));
                        }
                    }
                },
                policy
            )?;
            sync_parallel_for!(
                input,
                7,
                [epoch, &wide, &mut arrays],
                |batch| {
                    for (n, &[hot, cold]) in batch.into_iter().enumerate() {
                        for i in [hot, cold] {
                            let (row, x) = (&arrays[i], <&[f32; K]>::try_from(&wide[(i + n) % 69]).unwrap());
                            let e = row.dot(x) / (1.0 + K as f32 * 10.0);
                            row.axpy(-0.1 * e, x);
                            let mut y = [0.5; K];
                            row.add_to(0.25, &mut y);
                            row.step(0.01, x, &mut y);
                            row.add(&y);
                            row.scale(0.5);
                            if (n + epoch) % 3 == 0 {
                                let mut y = row.get();
                                y.reverse();
                                y[K / 2] += 0.25;
                                row.set(y);
                            }
                        }
                    }
                },
                policy
            )?;
            assert_eq!(rows.digest()?, arrays.digest()?, "{name}, {K}");
            note(seen, name, &report);
            seen.record("rows", (rows.digest()?, sum.get().to_bits()));
        }
        // With averages a change is divided by the number of copies.
        if name != "averages" {
            let all = counts.iter()?.fold([0u64; 4], |mut all, row| {
                all.iter_mut().zip(row).for_each(|(all, count)| *all += u64::from(count));
                all
            });
            assert_eq!(all, [720, 1440, 2160, 2880], "{name}");
        }
        seen.record("counts", counts.digest()?);
    }
    Ok(())
}

pub(crate) fn matrices(session: &Session, seen: &mut Seen) -> Result {
    matrix_beside_arrays::<1>(session, seen)?;
    matrix_beside_arrays::<7>(session, seen)?;
    matrix_beside_arrays::<30>(session, seen)?;
    matrix_beside_arrays::<100>(session, seen)
}

pub(crate) fn own_merges(session: &Session, seen: &mut Seen) -> Result {
    on_rows::<Chain>(session, seen)?;
    on_rows::<Summary>(session, seen)
}

#[derive(Clone, Debug, Element)]
struct Sentence {
    words: Vec<u32>,
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, Element)]
struct Point {
    at: [f32; 3],
    row: u32,
}

/// A number of an element of any input.
trait Feature: Element {
    fn of(i: usize) -> Self;
    fn feature(&self) -> usize;
}

impl Feature for u32 {
    fn of(i: usize) -> Self {
        i as u32
    }
    fn feature(&self) -> usize {
        *self as usize
    }
}

impl Feature for String {
    fn of(i: usize) -> Self {
        "aé".repeat(i % 7) + &i.to_string()
    }
    fn feature(&self) -> usize {
        self.bytes().map(usize::from).sum()
    }
}

impl Feature for Vec<u32> {
    fn of(i: usize) -> Self {
        (0..i as u32 % 6).collect()
    }
    fn feature(&self) -> usize {
        self.iter().map(|&x| x as usize * 7).sum()
    }
}

impl Feature for Sentence {
    fn of(i: usize) -> Self {
        Sentence { words: vec![i as u32; i % 4], name: (i % 3 == 1).then(|| i.to_string()) }
    }
    fn feature(&self) -> usize {
        self.words.iter().map(|&x| x as usize).sum::<usize>() + self.name.as_ref().map_or(5, String::len)
    }
}

impl Feature for Point {
    fn of(i: usize) -> Self {
        Point { at: [i as f32, 0.5, -1.0], row: i as u32 * 3 }
    }
    fn feature(&self) -> usize {
        self.row as usize + self.at[0] as usize
    }
}

fn on_input<E: Feature>(session: &Session, seen: &mut Seen) -> Result {
    for (name, policy) in policies(session) {
        let mut input = DVector::from_fn(session, 157, E::of)?;
        let mut counts = DVector::from_fn(session, 31, |_| 0u32)?;
        let mut mean = DVector::from_fn(session, 31, |_| 0.0f64)?;
        for (epoch, minibatch) in [5usize, 5, 2, 40, 157, 1000].into_iter().enumerate() {
            let report = sync_parallel_for!(
                &input,
                minibatch,
                [&mut counts, &mut mean],
                |batch| {
                    assert!(batch.len() <= 157 && batch.start() + batch.len() <= 157);
                    for (k, element) in batch.into_iter().enumerate() {
                        let at = (element.feature() + batch.start() + k) % 31;
                        counts[at].add(1);
                        mean[at].set(mean[at].get() * 0.5 + batch.number() as f64 / 3.0);
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            // What a loop has been given before may have changed: one element, or some on the workers, where they stay.
            if epoch % 2 == 0 {
                input.set(epoch * 20, E::of(epoch + 1000))?;
            } else {
                async_parallel_for!(0..input.len(), [epoch, &mut input], |i| {
                    if i % 3 == 0 {
                        input[i] = E::of(i * epoch + 7);
                    }
                })?;
            }
        }
        seen.digest("counts", &counts)?;
        seen.digest("mean", &mean)?;
    }
    Ok(())
}

pub(crate) fn inputs(session: &Session, seen: &mut Seen) -> Result {
    on_input::<u32>(session, seen)?;
    on_input::<String>(session, seen)?;
    on_input::<Vec<u32>>(session, seen)?;
    on_input::<Sentence>(session, seen)?;
    on_input::<Point>(session, seen)
}

/// Rows of a DMatrix beside as many arrays: the same minibatches, the same bits.
fn on_rows_of_input<const K: usize>(session: &Session, seen: &mut Seen) -> Result {
    let start = |i: usize| <[f32; K] as Row>::make(i);
    let rows = DMatrix::from_rows(session, (0..103).map(start))?;
    let arrays = DVector::from_fn(session, 103, start)?;
    let none = DMatrix::<f32>::from_vec(session, K, vec![])?;
    for (name, policy) in policies(session) {
        let mut by_rows = DMatrix::from_fn(session, 11, K, |_, _| 0.5f32)?;
        let mut by_arrays = DVector::from_fn(session, 11, |_| [0.5f32; K])?;
        for epoch in 0..2usize {
            let (count, sum) = (session.count(), session.sum(0.0f64));
            let report = sync_parallel_for!(
                rows,
                8,
                [epoch, &rows, &mut by_rows, &count, &sum],
                |batch| {
                    assert_eq!((batch.start(), batch.width()), (8 * batch.number(), K));
                    assert_eq!(batch.as_slice().len(), batch.len() * K);
                    assert!(!batch.is_empty() && batch.iter().len() == batch.len());
                    for (n, row) in batch.into_iter().enumerate() {
                        assert_eq!((row, &batch[n]), (&rows[batch.start() + n], row));
                        by_rows[(7 * n + epoch) % 11].axpy(0.25, row);
                        sum.add(f64::from(row[K - 1]));
                    }
                    count.add(batch.len() as u64);
                },
                policy
            )?;
            sync_parallel_for!(
                &arrays,
                8,
                [epoch, &mut by_arrays],
                |batch| {
                    for (n, row) in batch.into_iter().enumerate() {
                        by_arrays[(7 * n + epoch) % 11].axpy(0.25, row);
                    }
                },
                policy
            )?;
            assert_eq!((report.minibatches(), count.get()), (13, 103), "{name}");
            assert_eq!(by_rows.digest()?, by_arrays.digest()?, "{name}, {K}");
            note(seen, name, &report);
            seen.record("rows", (by_rows.digest()?, sum.get().to_bits()));
        }
        sync_parallel_for!(none, 8, [&mut by_rows], |batch| by_rows[0].axpy(1.0, &batch[0]), policy)?;
        let failed = sync_parallel_for!(&rows, 8, [&mut by_rows], |batch| by_rows[0].axpy(1.0, &batch[7]), policy);
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("minibatch 12 ") && error.contains("row 7 of a minibatch of 7 rows"), "{error}");
        assert_eq!(by_rows.digest()?, by_arrays.digest()?, "{name}: what failed is undone");
    }
    Ok(())
}

pub(crate) fn rows_as_input(session: &Session, seen: &mut Seen) -> Result {
    on_rows_of_input::<1>(session, seen)?;
    on_rows_of_input::<7>(session, seen)?;
    on_rows_of_input::<32>(session, seen)
}

pub(crate) fn odd_shapes(session: &Session, seen: &mut Seen) -> Result {
    for (name, policy) in policies(session) {
        let mut x = DVector::from_fn(session, 6, |_| 0i32)?;
        let mut nothing = DVector::from_vec(session, Vec::<f64>::new())?;
        let mut one = DVector::from_fn(session, 1, |_| [0.5f32; 3])?;
        let count = session.count();
        for len in [0usize, 1, 2, 3, 5] {
            let input = DVector::from_fn(session, len, |i| i as u8)?;
            for minibatch in [1usize, 2, 4, usize::MAX] {
                for _ in 0..2 {
                    let report = sync_parallel_for!(
                        input,
                        minibatch,
                        [&mut x, &mut nothing, &mut one, &count],
                        |batch| {
                            assert!(nothing.is_empty() && one.len() == 1);
                            x[batch.len()].add(1);
                            one[0u32].axpy(0.5, &[f32::from(batch[0]); 3]);
                            count.add(batch.len() as u64);
                        },
                        policy
                    )?;
                    note(seen, name, &report);
                    assert_eq!(report.minibatches(), len.div_ceil(minibatch));
                }
            }
        }
        assert_eq!(count.get(), 2 * 4 * 11);
        seen.record("x", x.to_vec()?);
        seen.digest("one", &one)?;
    }
    // This many that the first average is the last.
    let input = DVector::from_fn(session, 40, |i| i as u32)?;
    let mut x = DVector::from_fn(session, 5, |_| 0i64)?;
    let report = sync_parallel_for!(
        input,
        1,
        [&mut x],
        |batch| x[batch[0] % 5].add(1),
        SyncPolicy::ModelAverage { every: usize::MAX }
    )?;
    note(seen, "one model", &report);
    seen.record("x", x.to_vec()?);
    Ok(())
}
