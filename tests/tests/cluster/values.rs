//! Reductions, elements of all kinds, and captured values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stradsap::Element;
use stradsap::prelude::*;

use crate::common::{Way, mix};
use crate::seen::Seen;

type Result = stradsap::Result<()>;

/// Numbers of very different sizes: any other order of additions shows.
fn number(i: usize) -> f64 {
    let scale = [1e-9, 1.0, 1e9, 1e16][i % 4];
    (mix(i as u64) % 10_000) as f64 * scale / 7.0 * if i.is_multiple_of(3) { -1.0 } else { 1.0 }
}

/// All kinds of reductions, in loops of all strategies and orders.
pub(crate) fn reductions(session: &Session, seen: &mut Seen) -> Result {
    let n = 2000;
    for way in [Way::Aligned, Way::Grid, Way::Coloured, Way::Serial] {
        for order in [Order::Any, Order::Preserve] {
            let strategy = way.option();
            let numbers = DVector::from_fn(session, n, number)?;
            let pairs = DVector::from_fn(session, n, |i| way.pair(i, 40, 50))?;
            let mut x = DVector::from_fn(session, if way == Way::Aligned { n } else { 50 }, |_| 0.0f64)?;
            let (sum, sum32) = (session.sum(1.0f64), session.sum(1.0f32));
            let (ints, big) = (session.sum(i32::MAX - 5), session.sum(u64::MAX));
            let (low, high) = (session.min(1e30f64), session.max(f32::NEG_INFINITY));
            let (lowest, count) = (session.min(i64::MAX), session.count());
            for _ in 0..2 {
                let report = async_parallel_for!(
                    0..n,
                    [&numbers, &pairs, &mut x, &sum, &sum32, &ints, &big, &low, &high, &lowest, &count],
                    |i| {
                        let [a, b] = pairs[i];
                        let number = numbers[i];
                        x[a] += number;
                        x[b] += number;
                        sum.add(number);
                        sum32.add(number as f32);
                        ints.add((i as i32).wrapping_mul(1_000_003));
                        big.add(i as u64);
                        low.min(number);
                        high.max(number as f32);
                        lowest.min(i as i64 - 70);
                        count.add(2);
                    },
                    strategy = strategy,
                    order = order,
                    parts = 4
                )?;
                seen.report("loop", &report);
                seen.record("floats", (sum.get().to_bits(), sum32.get().to_bits()));
                seen.record("whole", (ints.get(), big.get(), lowest.get(), count.get()));
                seen.record("ends", (low.get().to_bits(), high.get().to_bits()));
            }
            if order == Order::Preserve {
                let mut plain = 1.0f32;
                (0..2 * n).for_each(|i| plain += number(i % n) as f32);
                assert_eq!(sum32.get().to_bits(), plain.to_bits(), "{way:?}");
            }
            // What the program sets between loops is what the next one starts from.
            sum.set(-1.0);
            async_parallel_for!(0..10, [&numbers, &sum], |i| sum.add(numbers[i]), order = Preserve)?;
            seen.record("set", sum.get().to_bits());
        }
    }
    let alone = session.sum(0u32);
    async_parallel_for!(0..1000, [&alone], |i| alone.add(i as u32))?;
    assert_eq!(alone.get(), 499_500);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Element)]
enum Shape {
    Nothing,
    Circle(f64),
    Polygon { corners: Vec<(f32, f32)>, name: Option<String> },
    Group(Vec<Shape>, Box<Shape>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Element)]
#[element(serde)]
struct ByName {
    map: BTreeMap<String, i32>,
    text: Option<String>,
}

/// What can be made, changed so that the order of changes shows, and looked at.
trait Change: Element + PartialEq + std::fmt::Debug {
    fn make(i: usize) -> Self;
    fn change(&mut self, by: usize);
    fn look(&self) -> usize;
}

impl Change for String {
    fn make(i: usize) -> Self {
        format!("text {i}")
    }
    fn change(&mut self, by: usize) {
        self.insert_str(0, &by.to_string());
        self.truncate(12);
    }
    fn look(&self) -> usize {
        self.bytes().map(usize::from).sum()
    }
}

impl Change for Vec<f64> {
    fn make(i: usize) -> Self {
        vec![i as f64 / 3.0; i % 5]
    }
    fn change(&mut self, by: usize) {
        self.push(by as f64 + self.first().copied().unwrap_or(0.5));
        self.drain(..self.len().saturating_sub(6));
    }
    fn look(&self) -> usize {
        self.iter().fold(self.len(), |hash, x| mix(x.to_bits() ^ hash as u64) as usize % 1000)
    }
}

impl Change for Shape {
    fn make(i: usize) -> Self {
        match i % 4 {
            0 => Shape::Nothing,
            1 => Shape::Circle(i as f64),
            2 => Shape::Polygon { corners: vec![(i as f32, 0.5); i % 5], name: (i % 8 == 2).then(|| i.to_string()) },
            _ => Shape::Group(vec![Shape::Nothing], Box::new(Shape::Circle(0.25))),
        }
    }
    fn change(&mut self, by: usize) {
        *self = match std::mem::replace(self, Shape::Nothing) {
            Shape::Nothing => Shape::Circle(by as f64),
            Shape::Circle(r) => Shape::Polygon { corners: vec![(r as f32, by as f32)], name: None },
            Shape::Polygon { name: Some(_), .. } => Shape::Group(vec![Shape::make(by)], Box::new(Shape::make(by / 2))),
            Shape::Polygon { corners, name: None } => Shape::Polygon { corners, name: Some(by.to_string()) },
            Shape::Group(..) => Shape::Nothing,
        };
    }
    fn look(&self) -> usize {
        match self {
            Shape::Nothing => 1,
            Shape::Circle(r) => *r as usize,
            Shape::Polygon { corners, name } => corners.len() * 10 + name.as_ref().map_or(0, String::len),
            Shape::Group(all, one) => all.iter().map(Shape::look).sum::<usize>() + one.look(),
        }
    }
}

impl Change for ByName {
    fn make(i: usize) -> Self {
        let map = (0..i % 5).map(|k| (k.to_string(), i as i32)).collect();
        ByName { map, text: i.is_multiple_of(2).then(|| i.to_string()) }
    }
    fn change(&mut self, by: usize) {
        *self.map.entry((by % 4).to_string()).or_default() += by as i32;
        self.text = self.text.take().map_or(Some(by.to_string()), |text| (text.len() < 2).then_some(text));
    }
    fn look(&self) -> usize {
        self.map.values().map(|v| *v as usize % 100).sum::<usize>() + self.text.as_ref().map_or(0, String::len)
    }
}

/// One type of elements in all roles at once: shared, written in step, read in step, read anywhere.
fn in_all_roles<T: Change>(session: &Session, seen: &mut Seen) -> Result {
    let n = 400;
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        let mut shared = DVector::from_fn(session, 60, T::make)?;
        let mut own = DVector::from_fn(session, n, T::make)?;
        let given = DVector::from_fn(session, n, |i| T::make(i + 3))?;
        let table = DVector::from_fn(session, 37, |i| T::make(i * 5))?;
        let looked = session.sum(0usize);
        for round in 0..3 {
            let report = async_parallel_for!(
                0..n,
                [round, &mut shared, &mut own, &given, &table, &looked],
                |i| {
                    let by = given[i].look() + table[i * 11 % 37].look();
                    shared[i * 7 % 60].change(by + round);
                    own[i].change(i);
                    if i % 3 == 0 {
                        own[i] = shared[i * 7 % 60].clone();
                    }
                    shared[i * i % 60].change(own[i].look());
                    looked.add(by);
                },
                strategy = strategy,
                parts = 3
            )?;
            seen.report("roles", &report);
            // The program looks and changes between loops.
            if round == 1 {
                seen.record("own", own.get(7)?);
                shared.set(11, T::make(4))?;
                own.set(0, T::make(9))?;
            }
        }
        seen.record("looked", looked.get());
        seen.digest("shared", &shared)?;
        seen.digest("own", &own)?;
        seen.record("given", given.to_vec()? == (0..n).map(|i| T::make(i + 3)).collect::<Vec<_>>());
    }
    Ok(())
}

pub(crate) fn strings(session: &Session, seen: &mut Seen) -> Result {
    in_all_roles::<String>(session, seen)
}

pub(crate) fn lists(session: &Session, seen: &mut Seen) -> Result {
    in_all_roles::<Vec<f64>>(session, seen)
}

pub(crate) fn enums(session: &Session, seen: &mut Seen) -> Result {
    in_all_roles::<Shape>(session, seen)
}

pub(crate) fn by_serde(session: &Session, seen: &mut Seen) -> Result {
    in_all_roles::<ByName>(session, seen)
}

#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Nothing;

#[derive(Clone, Copy, Debug, PartialEq, Element)]
#[repr(align(256))]
struct Wide(u8);

/// Elements without a size, and with a large alignment.
pub(crate) fn odd_sizes(session: &Session, seen: &mut Seen) -> Result {
    let mut nothing = DVector::from_fn(session, 100, |_| Nothing)?;
    let mut wide = DVector::from_fn(session, 500, |i| Wide(i as u8))?;
    let count = session.count();
    for _ in 0..2 {
        let report = async_parallel_for!(0..1000, [&mut nothing, &mut wide, &count], |i| {
            let (a, b) = nothing.pair_mut(i * 7 % 100, (i * 7 + 1) % 100);
            std::mem::swap(a, b);
            nothing[i % 100] = Nothing;
            wide[i * 3 % 500].0 = wide[i * 3 % 500].0.wrapping_mul(3).wrapping_add(i as u8);
            count.add(1);
        })?;
        seen.report("odd", &report);
    }
    async_parallel_for!(0..500, [&mut wide], |i| wide[i].0 ^= 1)?;
    seen.record("count", count.get());
    seen.digest("nothing", &nothing)?;
    seen.digest("wide", &wide)
}

/// Several elements at once.
pub(crate) fn several_at_once(session: &Session, seen: &mut Seen) -> Result {
    let mut x = DVector::from_fn(session, 40, |i| vec![i])?;
    for _ in 0..2 {
        let report = async_parallel_for!(
            0..400,
            [&mut x],
            |i| {
                let (one, other) = x.pair_mut(i % 40, (i + 13) as u32 % 40);
                std::mem::swap(one, other);
                one.push(i);
                let [a, b, c] = x.many_mut([i * 3 % 40, (i * 3 + 1) % 40, (i * 3 + 2) % 40]);
                std::mem::swap(a, c);
                b.truncate(3);
            },
            parts = 3
        )?;
        seen.report("several", &report);
    }
    seen.digest("x", &x)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Settings {
    name: String,
    weights: BTreeMap<u32, f64>,
    limit: Option<usize>,
}

/// Values of all kinds, other ones in each call.
pub(crate) fn captured_values(session: &Session, seen: &mut Seen) -> Result {
    let mut x = DVector::from_fn(session, 300, |i| i as f64)?;
    for round in 0..4 {
        let weights: Vec<f32> = (0..round * 50).map(|k| k as f32 / 3.0).collect();
        let text = "ü".repeat(round);
        let settings = Settings {
            name: format!("round {round}"),
            weights: (0..round as u32).map(|k| (k, f64::from(k) / 7.0)).collect(),
            limit: (round > 1).then_some(round * 40),
        };
        let (small, pair) = (round as u8, (1.5f32, [round; 3]));
        let report = async_parallel_for!(0..900, [weights, text, settings, small, pair, &mut x], |i| {
            let at = i * 7 % 300;
            let weight = weights.get(i % 97).copied().unwrap_or(0.25);
            x[at] = x[at] * 0.5 + f64::from(weight) + text.len() as f64 + settings.name.len() as f64;
            x[at] += settings.weights.values().sum::<f64>() + f64::from(small) + f64::from(pair.0);
            if settings.limit.is_some_and(|limit| i > limit) {
                return;
            }
            x[at] += pair.1[i % 3] as f64;
        })?;
        seen.report("values", &report);
    }
    seen.digest("x", &x)
}

fn double<T: Element + Copy + std::ops::AddAssign>(x: &mut DVector<T>) -> stradsap::Result<LoopReport> {
    async_parallel_for!(0..x.len(), [&mut x], |i| {
        let copy = x[i];
        x[i] += copy;
    })
}

/// One loop of a generic function is as many loops as it has types.
pub(crate) fn generic(session: &Session, seen: &mut Seen) -> Result {
    let mut a = DVector::from_fn(session, 700, |i| i as u64)?;
    let mut b = DVector::from_fn(session, 600, |i| i as f32)?;
    let mut c = DVector::from_fn(session, 700, |i| i as i16)?;
    for _ in 0..3 {
        seen.report("a", &double(&mut a)?);
        seen.report("b", &double(&mut b)?);
        seen.report("c", &double(&mut c)?);
    }
    seen.digest("a", &a)?;
    seen.digest("b", &b)?;
    seen.digest("c", &c)
}
