//! What DVectors hold, and how the driver reads and changes it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::num::NonZero;
use std::time::Duration;

use crate::common::session;
use serde::{Deserialize, Serialize};
use stradsap::prelude::*;
use stradsap::{Element, Error};

#[derive(Clone, Debug, PartialEq, Element)]
struct Person {
    name: String,
    tags: Vec<String>,
    age: Option<u32>,
    scores: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Element)]
enum Shape {
    Nothing,
    Circle(f64),
    Polygon { corners: Vec<(f32, f32)>, name: Option<String> },
    Group(Vec<Person>, Box<Person>),
}

#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Pair<A, B> {
    first: A,
    second: B,
}

#[derive(Clone, Debug, PartialEq, Element)]
struct Nested {
    pair: Pair<String, Pair<u8, u64>>,
    unit: (),
    shapes: [Shape; 2],
    inner: Inner,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Element)]
struct Inner(u16, [f32; 3]);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Element)]
#[element(serde)]
struct ByName {
    map: BTreeMap<String, i32>,
    text: Option<String>,
}

fn person(i: usize) -> Person {
    Person {
        name: format!("person {i}"),
        tags: (0..i % 4).map(|k| format!("tag {k}")).collect(),
        age: (!i.is_multiple_of(3)).then_some(i as u32),
        scores: vec![i as f64; i % 3],
    }
}

fn shape(i: usize) -> Shape {
    match i % 4 {
        0 => Shape::Nothing,
        1 => Shape::Circle(i as f64),
        2 => Shape::Polygon { corners: vec![(i as f32, 0.5); i % 5], name: (i % 8 == 2).then(|| i.to_string()) },
        _ => Shape::Group(vec![person(i), person(i + 1)], Box::new(person(i + 2))),
    }
}

fn nested(i: usize) -> Nested {
    Nested {
        pair: Pair { first: i.to_string(), second: Pair { first: i as u8, second: i as u64 } },
        unit: (),
        shapes: [shape(i), shape(i + 1)],
        inner: Inner(i as u16, [i as f32; 3]),
    }
}

fn by_name(i: usize) -> ByName {
    ByName {
        map: (0..i % 5).map(|k| (k.to_string(), i as i32)).collect(),
        text: i.is_multiple_of(2).then(|| i.to_string()),
    }
}

/// A change that shows how often and in which order it was made.
trait Change: Element + PartialEq + std::fmt::Debug {
    fn make(i: usize) -> Self;
    fn change(&mut self, by: usize);
}

impl Change for Person {
    fn make(i: usize) -> Self {
        person(i)
    }
    fn change(&mut self, by: usize) {
        self.tags.insert(0, by.to_string());
        self.tags.truncate(4);
        self.scores.push(by as f64);
        self.scores.drain(..self.scores.len().saturating_sub(3));
        self.age = self.age.take().map_or(Some(by as u32), |age| if age > 5000 { None } else { Some(age + 1) });
    }
}

impl Change for Shape {
    fn make(i: usize) -> Self {
        shape(i)
    }
    fn change(&mut self, by: usize) {
        *self = match std::mem::replace(self, Shape::Nothing) {
            Shape::Nothing => Shape::Circle(by as f64),
            Shape::Circle(r) => Shape::Polygon { corners: vec![(r as f32, by as f32)], name: None },
            Shape::Polygon { name: Some(_), .. } => Shape::Group(vec![person(by)], Box::new(person(by / 2))),
            Shape::Polygon { corners, name: None } => Shape::Polygon { corners, name: Some(by.to_string()) },
            Shape::Group(_, one) if one.age.is_none() => Shape::Nothing,
            Shape::Group(mut all, one) => {
                all[0].change(by);
                Shape::Group(all, one)
            }
        };
    }
}

impl Change for Nested {
    fn make(i: usize) -> Self {
        nested(i)
    }
    fn change(&mut self, by: usize) {
        self.pair.first = format!("{by} after {}", self.pair.first.len());
        self.pair.second.second ^= by as u64;
        self.shapes[by % 2].change(by);
        self.inner.1[by % 3] += by as f32;
    }
}

impl Change for ByName {
    fn make(i: usize) -> Self {
        by_name(i)
    }
    fn change(&mut self, by: usize) {
        *self.map.entry((by % 4).to_string()).or_default() += by as i32;
        self.text = self.text.take().map_or(Some(by.to_string()), |text| (text.len() < 2).then_some(text));
    }
}

/// Changes elements in loops of all strategies, and the same elements plainly.
fn change_all<T: Change>() {
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        let session = session(2);
        session.verify(true);
        let mut x = DVector::from_fn(&session, 60, T::make).unwrap();
        let mut own = DVector::from_fn(&session, 300, T::make).unwrap();
        let (mut px, mut pown) = (x.to_vec().unwrap(), own.to_vec().unwrap());
        let before = (x.digest().unwrap(), own.digest().unwrap());
        for _ in 0..2 {
            let report = async_parallel_for!(
                0..300,
                [&mut x, &mut own],
                |i| {
                    x[i * 7 % 60].change(i);
                    own[i].change(i);
                    own[i] = x[i * 7 % 60].clone();
                    x[i * i % 60].change(i + 1);
                },
                strategy = strategy,
                parts = 3
            )
            .unwrap();
            assert_eq!(report.strategy(), strategy);
            for i in report.serial_order() {
                px[i * 7 % 60].change(i);
                pown[i] = px[i * 7 % 60].clone();
                px[i * i % 60].change(i + 1);
            }
        }
        assert_eq!((x.to_vec().unwrap(), own.to_vec().unwrap()), (px, pown), "{strategy}");
        assert!(x.digest().unwrap() != before.0 && own.digest().unwrap() != before.1);
    }
}

/// One element of every kind of the standard library's that grows.
type Collections = (
    HashMap<String, u32>,
    BTreeMap<u32, Vec<u32>>,
    VecDeque<u64>,
    HashSet<u16>,
    BTreeSet<i8>,
    Result<NonZero<u32>, Duration>,
    (u8, bool),
    Option<NonZero<i64>>,
);

impl Change for Collections {
    fn make(i: usize) -> Self {
        (
            (0..i % 5).map(|k| (k.to_string(), i as u32)).collect(),
            (0..i as u32 % 3).map(|k| (k, vec![k; i % 4])).collect(),
            (0..i as u64 % 4).collect(),
            (0..i as u16 % 6).collect(),
            (0..i as i8 % 3).collect(),
            NonZero::new(i as u32 % 4).ok_or(Duration::from_millis(i as u64)),
            (i as u8, i.is_multiple_of(2)),
            NonZero::new(i as i64),
        )
    }
    fn change(&mut self, by: usize) {
        *self.0.entry((by % 7).to_string()).or_default() += by as u32;
        self.0.remove(&(by / 7 % 7).to_string());
        self.1.entry(by as u32 % 5).or_default().push(by as u32);
        self.1.values_mut().for_each(|list| list.truncate(3));
        self.2.push_front(by as u64);
        self.2.truncate(4);
        self.3 = self.3.iter().map(|k| k / 2 + by as u16 % 9).collect();
        self.4.insert(by as i8 % 5);
        self.5 = match self.5 {
            Ok(n) if n.get() > 9 => Err(Duration::from_nanos(by as u64)),
            Ok(n) => Ok(n.saturating_add(by as u32 % 3)),
            Err(time) => NonZero::new(time.subsec_nanos()).ok_or(time * 2),
        };
        self.6.0 = self.6.0.wrapping_add(by as u8);
        self.7 = NonZero::new(self.7.map_or(by as i64, NonZero::get) - 5);
    }
}

#[test]
fn collections() {
    change_all::<Collections>();
    digests_tell::<Collections>();
}

#[test]
fn structs_with_text_lists_and_options() {
    change_all::<Person>();
}

#[test]
fn enums() {
    change_all::<Shape>();
}

#[test]
fn nested_and_generic_types() {
    change_all::<Nested>();
}

#[test]
fn types_that_know_only_serde() {
    change_all::<ByName>();
}

#[test]
fn what_is_plain() {
    const fn plain<T: Element>() -> bool {
        T::PLAIN
    }
    #[derive(Clone, Element)]
    struct Unit;
    #[derive(Clone, Element)]
    struct Padded(#[allow(dead_code)] u8, #[allow(dead_code)] u32);
    assert!(plain::<Pair<u32, f32>>() && plain::<[[f64; 3]; 2]>() && plain::<Unit>());
    assert!(plain::<Pair<Pair<u16, u16>, f32>>());
    assert!(plain::<(u32, u32, f32)>() && plain::<[(u64, f64); 2]>() && plain::<((u16, u16), u32)>());
    assert!(plain::<Pair<(u32, u32), f32>>());
    // Padding, or more than bytes.
    assert!(!plain::<Pair<u8, u32>>() && !plain::<Padded>() && !plain::<Inner>());
    assert!(!plain::<Pair<u32, bool>>() && !plain::<Pair<u32, char>>() && !plain::<Pair<u64, String>>());
    assert!(!plain::<(u32, f64)>() && !plain::<(u32, bool)>() && !plain::<(u64, String)>());
    assert!(!plain::<Person>() && !plain::<Shape>() && !plain::<ByName>() && !plain::<[String; 2]>());
    assert!(!plain::<Option<u32>>());
}

/// Whichever way rustc lays a tuple out.
#[derive(Clone, Element)]
struct Counted(Vec<u8>);

impl Drop for Counted {
    fn drop(&mut self) {}
}

#[derive(Clone, Element)]
enum Named {
    Nobody,
    Somebody(String, Vec<u32>),
    Counted { by: Counted },
}

#[derive(Clone, Debug, PartialEq, Element)]
enum Row {
    None,
    Dense(Vec<u16>),
    Sparse { entries: Vec<u32>, used: u32 },
}

/// Only what a `Drop` of its own may notice is dropped at the end of a loop.
#[test]
fn unused_elements_keep_their_memory_where_nobody_notices() {
    fn keeps<T: Element>() -> bool {
        T::KEEPS_ROOM
    }
    assert!(keeps::<Person>() && keeps::<Row>() && keeps::<(Row, u8)>() && keeps::<Vec<Option<Vec<String>>>>());
    // A list of a program's own types doesn't ask them.
    assert!(
        !keeps::<Shape>()
            && !keeps::<Vec<Row>>()
            && !keeps::<Counted>()
            && !keeps::<Named>()
            && !keeps::<Vec<Counted>>()
            && !keeps::<Box<Named>>()
    );
    let rows = [
        Row::None,
        Row::Dense(vec![1, 2]),
        Row::Dense(vec![3; 9]),
        Row::Dense(Vec::new()),
        Row::Sparse { entries: vec![5; 3], used: 2 },
        Row::Sparse { entries: vec![7], used: 1 },
    ];
    for (from, to) in rows.iter().flat_map(|from| rows.iter().map(move |to| (from, to))) {
        let mut other = to.clone();
        from.clone_over(&mut other);
        assert_eq!(&other, from, "over {to:?}");
    }
    let mut row = Row::Dense(Vec::with_capacity(100));
    rows[1].clone_over(&mut row);
    assert!(matches!(&row, Row::Dense(counts) if counts.capacity() == 100), "it kept its memory: {row:?}");
    for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
        let (mut a, mut b, mut c) = (shape(to), person(to), nested(to));
        shape(from).clone_over(&mut a);
        person(from).clone_over(&mut b);
        nested(from).clone_over(&mut c);
        assert_eq!((a, b, c), (shape(from), person(from), nested(from)));
    }
    let mut named = [Named::Nobody, Named::Somebody(String::new(), Vec::new())];
    Named::Counted { by: Counted(vec![1]) }.clone_over(&mut named[0]);
    named[0].clone().clone_over(&mut named[1]);
    assert!(matches!(&named[1], Named::Counted { by } if by.0 == [1]));
}

#[test]
fn the_bytes_of_a_tuple_are_those_of_its_parts_in_their_order() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(tuple: T, expected: &[u8]) {
        let (mut one, mut several) = (Vec::new(), Vec::new());
        tuple.encode(&mut one);
        assert_eq!(one, expected);
        vec![tuple.clone(); 3].encode(&mut several);
        assert_eq!(several[size_of::<usize>()..], expected.repeat(3));
        assert_eq!(Vec::<T>::decode(&mut &several[..]).unwrap(), vec![tuple; 3]);
    }
    check((1u8, 2u8, [3u8; 2]), &[1, 2, 3, 3]);
    check((1u8, [2u8; 4]), &[1, 2, 2, 2, 2]);
    check((0x0201u16.to_le(), [3u16.to_le(); 2]), &[1, 2, 3, 0, 3, 0]);
    check((1u8, 2u32.to_le()), &[1, 2, 0, 0, 0]);
    check((1u32.to_le(), (2u16.to_le(), 3u16.to_le())), &[1, 0, 0, 0, 2, 0, 3, 0]);
}

/// Digests of vectors that were made in different ways, in different sessions.
fn digests_tell<T: Change>() {
    let (one, other) = (session(1), session(2));
    let x = DVector::from_fn(&one, 5000, T::make).unwrap();
    let mut y = DVector::from_vec(&other, (0..5000).map(T::make).collect()).unwrap();
    assert!(
        x.digest().unwrap().starts_with("blake3:") && x.digest().unwrap().len() == 7 + 64,
        "{}",
        x.digest().unwrap()
    );
    assert_eq!(x.digest().unwrap(), y.digest().unwrap());
    for at in [0, 4095, 4096, 4999] {
        let old = y.get(at).unwrap();
        let mut new = old.clone();
        new.change(at + 1);
        assert_ne!(new, old);
        y.set(at, new).unwrap();
        assert_ne!(x.digest().unwrap(), y.digest().unwrap(), "element {at} differs");
        y.set(at, old).unwrap();
        assert_eq!(x.digest().unwrap(), y.digest().unwrap());
    }
    let shorter = DVector::from_fn(&one, 4999, T::make).unwrap();
    assert_ne!(shorter.digest().unwrap(), x.digest().unwrap());
    let backwards = DVector::from_fn(&one, 5000, |i| T::make(4999 - i)).unwrap();
    assert_ne!(backwards.digest().unwrap(), x.digest().unwrap());
}

#[test]
fn equal_bits_equal_digest_and_other_bits_another() {
    digests_tell::<Person>();
    digests_tell::<Shape>();
    digests_tell::<Nested>();
    digests_tell::<ByName>();
    let session = session(1);
    let digest = |numbers: &[f64]| DVector::from_vec(&session, numbers.to_vec()).unwrap().digest().unwrap();
    assert_eq!(digest(&[0.0, 1.0]), digest(&[0.0, 1.0]));
    assert_ne!(digest(&[0.0, 1.0]), digest(&[-0.0, 1.0]));
    assert_eq!(digest(&[f64::NAN]), digest(&[f64::NAN]));
    // Where one element ends and the next begins shows.
    let words =
        |words: &[&str]| DVector::from_iter(&session, words.iter().map(ToString::to_string)).unwrap().digest().unwrap();
    assert_ne!(words(&["ab", "c"]), words(&["a", "bc"]));
    assert_ne!(words(&["abc", ""]), words(&["abc"]));
    let lists =
        |lists: &[&[u8]]| DVector::from_iter(&session, lists.iter().map(|l| l.to_vec())).unwrap().digest().unwrap();
    assert_ne!(lists(&[&[1, 2], &[]]), lists(&[&[1], &[2]]));
    let options = |options: &[Option<u32>]| DVector::from_vec(&session, options.to_vec()).unwrap().digest().unwrap();
    assert_ne!(options(&[None]), options(&[Some(0)]));
    // Plain elements are hashed as their memory.
    let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let floats = DVector::from_vec(&session, vec![1.5f32, -2.0]).unwrap().digest().unwrap();
    assert_eq!(floats, DVector::from_vec(&session, bytes).unwrap().digest().unwrap());
}

#[test]
fn reading_and_changing_elements_one_by_one() {
    let session = session(1);
    let mut x = DVector::from_fn(&session, 10, person).unwrap();
    assert_eq!((x.len(), x.is_empty()), (10, false));
    assert_eq!(x.get(9).unwrap(), person(9));
    x.set(3, person(33)).unwrap();
    assert_eq!(x.get(3).unwrap(), person(33));
    assert_eq!(x.read(2..5).unwrap(), [person(2), person(33), person(4)]);
    assert_eq!(x.read(10..10).unwrap(), []);
    assert_eq!(x.read(0..10).unwrap(), x.to_vec().unwrap());
    let mut iter = x.iter().unwrap();
    assert_eq!(iter.len(), 10);
    assert_eq!(iter.next(), Some(person(0)));
    assert_eq!(iter.len(), 9);
    drop(iter);
    assert!(x.iter().unwrap().eq(x.to_vec().unwrap()));
    assert_eq!(format!("{x:?}"), format!("{:?}", x.to_vec().unwrap()));
    let empty = DVector::<String>::from_iter(&session, []).unwrap();
    assert_eq!((empty.len(), empty.is_empty(), empty.to_vec().unwrap()), (0, true, vec![]));

    fn out<T: std::fmt::Debug>(result: stradsap::Result<T>, start: usize, end: usize, len: usize) {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), format!("elements {start}..{end} were asked for, but the DVector has {len}"));
        assert!(matches!(error, Error::OutOfBounds { .. }) && error.exit_code() == 1);
    }
    out(x.get(10), 10, 11, 10);
    out(x.get(usize::MAX), usize::MAX, usize::MAX, 10);
    out(x.set(10, person(0)), 10, 11, 10);
    out(x.read(5..11), 5, 11, 10);
    out(x.read(11..11), 11, 11, 10);
    #[allow(clippy::reversed_empty_ranges)]
    out(x.read(5..3), 5, 3, 10);
    out(empty.get(0), 0, 1, 0);
    assert_eq!(x.read(0..10).unwrap().len(), 10);
}

#[test]
fn too_many_elements_are_refused_before_they_are_made() {
    let session = session(1);
    let len = (1usize << 48) + 1;
    let error = DVector::from_fn(&session, len, |_| -> u8 { panic!("made") }).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("at most {} elements fit into a DDS of this kind, and {len} were given", len - 1)
    );
}

/// A vector drops what it holds, and so do the copies that loops keep of it.
#[test]
fn every_element_is_dropped_once() {
    use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};
    static ALIVE: AtomicIsize = AtomicIsize::new(0);
    #[derive(Debug, Element)]
    struct Counted(Vec<u32>);
    impl Counted {
        fn new(i: u32) -> Self {
            ALIVE.fetch_add(1, Relaxed);
            Counted(vec![i])
        }
    }
    impl Clone for Counted {
        fn clone(&self) -> Self {
            ALIVE.fetch_add(1, Relaxed);
            Counted(self.0.clone())
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Relaxed);
        }
    }
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        for len in [50, 20_000] {
            let session = session(2);
            let mut x = DVector::from_fn(&session, len, |i| Counted::new(i as u32)).unwrap();
            assert_eq!(ALIVE.load(Relaxed), len as isize);
            for bad in [1000, 100, 1000, 0, 299] {
                let result = async_parallel_for!(
                    0..300,
                    [bad, &mut x],
                    |i| {
                        x[i * 7 % 50].0.push(i as u32);
                        x[i * i % 50] = Counted::new(0);
                        let (one, other) = x.pair_mut(i % 50, (i + 1) % 50);
                        std::mem::swap(one, other);
                        if i == bad { Err("as asked") } else { Ok(()) }
                    },
                    strategy = strategy,
                    parts = 3
                );
                assert_eq!(result.is_ok(), bad == 1000);
            }
            drop(x);
            assert_eq!(ALIVE.load(Relaxed), 0, "{strategy}, {len} elements");
        }
    }
}

#[derive(Clone, Debug, PartialEq, Element)]
struct Nothing;

#[test]
fn elements_without_a_size() {
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        let session = session(2);
        let mut x = DVector::from_fn(&session, 100, |_| Nothing).unwrap();
        let before = x.digest().unwrap();
        let count = session.count();
        let report = async_parallel_for!(
            0..1000,
            [&mut x, &count],
            |i| {
                let (a, b) = x.pair_mut(i * 7 % 100, (i * 7 + 1) % 100);
                std::mem::swap(a, b);
                x[i % 100] = Nothing;
                count.add(1);
            },
            strategy = strategy,
            parts = 3
        )
        .unwrap();
        assert_eq!((report.strategy(), count.get()), (strategy, 1000));
        assert_eq!((x.to_vec().unwrap(), x.digest().unwrap()), (vec![Nothing; 100], before));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Element)]
#[repr(align(256))]
struct Wide(u8);

#[test]
fn elements_may_ask_for_any_alignment() {
    let session = Session::builder().threads(2).build().unwrap();
    let mut wide = DVector::from_fn(&session, 3000, |i| Wide(i as u8)).unwrap();
    async_parallel_for!(0..wide.len(), [&mut wide], |i| wide[i].0 = wide[i].0.wrapping_add(1)).unwrap();
    assert!(wide.iter().unwrap().enumerate().all(|(i, element)| element == Wide((i as u8).wrapping_add(1))));
}

/// Elements with padding that a loop over a grid reads in step are laid out in its order, and again when they have changed.
#[test]
fn elements_with_padding_in_the_order_of_a_grid() {
    let (n, len) = (20_000, 3_000);
    fn at(i: usize, k: usize, turn: usize, len: usize) -> usize {
        crate::common::below((i * 7919 + k * 104_729 + turn * 31) as u64, len)
    }
    for threads in [1, 2, 4] {
        let session = session(threads);
        let rows = |turn: usize| move |i: usize| ([0, 1].map(|k| at(i, k, turn, len) as u32), (i % 5) as u8, i as f64);
        let mut data = DVector::from_fn(&session, n, rows(0)).unwrap();
        let pairs = DVector::from_fn(&session, n, |i| Pair { first: (i % 3) as u8, second: i as u64 }).unwrap();
        let mut x = DVector::from_fn(&session, len, |j| j as f64).unwrap();
        let mut plain = x.to_vec().unwrap();
        for turn in 0..4 {
            let report = async_parallel_for!(
                0..n,
                [&data, &pairs, &mut x],
                |i| {
                    let (at, kind, value) = data[i];
                    let pair = pairs[i];
                    let step = 0.01 * (value - x[at[0]] + pair.second as f64);
                    x[at[1]] += step * f64::from(kind + pair.first);
                },
                strategy = Grid
            )
            .unwrap();
            assert_eq!(report.strategy(), Strategy::Grid);
            for i in report.serial_order() {
                let step = 0.01 * (i as f64 - plain[at(i, 0, turn, len)] + i as f64);
                plain[at(i, 1, turn, len)] += step * (i % 5 + i % 3) as f64;
            }
            assert!(x.to_vec().unwrap().iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits()), "turn {turn}");
            async_parallel_for!(0..n, [&mut data, turn, len], |i| {
                data[i].0 = [0, 1].map(|k| at(i, k, turn + 1, len) as u32);
            })
            .unwrap();
        }
    }
}
