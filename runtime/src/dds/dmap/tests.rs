use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::*;

fn session() -> Session {
    Session::builder().threads(1).build().unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u32),
    Remove(u16),
    Add(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..900u16, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        1 => (0..900u16).prop_map(Step::Remove),
        2 => (0..900u16).prop_map(Step::Add),
    ];
    prop::collection::vec(step, 0..1500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn behaves_as_a_plain_map(steps in steps()) {
        let session = session();
        let (mut map, mut plain) = (DMap::new(&session).unwrap(), BTreeMap::new());
        for step in steps {
            match step {
                Step::Insert(key, value) => {
                    prop_assert_eq!(map.insert(key, value).unwrap(), plain.insert(key, value));
                }
                Step::Remove(key) => prop_assert_eq!(map.remove(&key).unwrap(), plain.remove(&key)),
                Step::Add(key) => {
                    map.update(key, |entry| *entry.or_default() ^= 1).unwrap();
                    *plain.entry(key).or_default() ^= 1;
                }
            }
        }
        prop_assert_eq!(map.len().unwrap(), plain.len());
        let mut sorted = map.to_vec().unwrap();
        // One order and one digest, whatever happened before.
        let again = DMap::from_entries(&session, plain.clone()).unwrap();
        prop_assert_eq!(&again.to_vec().unwrap(), &sorted);
        prop_assert_eq!(again.digest().unwrap(), map.digest().unwrap());
        sorted.sort_unstable();
        prop_assert!(sorted.into_iter().eq(plain.clone()));
        for key in 0..900u16 {
            prop_assert_eq!(map.get(&key).unwrap(), plain.get(&key).copied());
        }
    }
}

#[derive(Clone, Debug)]
enum Use {
    Insert(u16, i64),
    Remove(u16),
    /// What a synchronous loop does: values are written apart from their keys.
    AddToAll(i64),
    Fail,
    Transform(i64),
    Look(u16),
    Count,
    Pipe,
    Grow,
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let step = prop_oneof![
        3 => (0..400u16, any::<i64>()).prop_map(|(key, value)| Use::Insert(key, value)),
        1 => (0..400u16).prop_map(Use::Remove),
        4 => any::<i64>().prop_map(Use::AddToAll),
        1 => Just(Use::Fail),
        1 => any::<i64>().prop_map(Use::Transform),
        3 => (0..400u16).prop_map(Use::Look),
        2 => Just(Use::Count),
        1 => Just(Use::Pipe),
        1 => Just(Use::Grow),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn both_forms_hold_the_same_entries(
        first in prop::collection::btree_map(0..400u16, any::<i64>(), 0..300),
        uses in uses(),
    ) {
        let session = session();
        let (mut map, mut plain) = (DMap::from_entries(&session, first.clone()).unwrap(), first);
        for (step, each) in uses.into_iter().enumerate() {
            match each {
                Use::Insert(key, value) => {
                    prop_assert_eq!(map.insert(key, value).unwrap(), plain.insert(key, value));
                }
                Use::Remove(key) => prop_assert_eq!(map.remove(&key).unwrap(), plain.remove(&key)),
                Use::AddToAll(by) => {
                    let dense = map.buckets.dense();
                    let ids = (dense.values.id(), dense.index.id());
                    prop_assert_eq!(dense.values.len(), plain.len());
                    dense.values.change(|values| values.iter_mut().for_each(|v| *v = v.wrapping_add(by))).unwrap();
                    plain.values_mut().for_each(|v| *v = v.wrapping_add(by));
                    // A loop after the other finds what the first one left.
                    let dense = map.buckets.dense();
                    prop_assert_eq!((dense.values.id(), dense.index.id()), ids);
                }
                // A loop that fails leaves its values as they were.
                Use::Fail => drop(map.buckets.dense().values.describe(true)),
                Use::Transform(by) => {
                    let id = map.buckets.id();
                    let all = |b: &mut [Bucket<_, _>]| b.iter_mut().flat_map(Bucket::iter_mut).for_each(|(_, v)| *v ^= by);
                    map.buckets.change(all).unwrap();
                    prop_assert_eq!(map.buckets.id(), id);
                    plain.values_mut().for_each(|v| *v ^= by);
                }
                Use::Look(key) => {
                    prop_assert_eq!(map.get(&key).unwrap(), plain.get(&key).copied());
                    prop_assert_eq!(map.contains_key(&key).unwrap(), plain.contains_key(&key));
                }
                Use::Count => prop_assert_eq!(map.len().unwrap(), plain.len()),
                Use::Pipe => {
                    let sum = map.map(|(_, v)| *v).reduce(i64::wrapping_add).unwrap().unwrap_or(0);
                    prop_assert_eq!(sum, plain.values().fold(0i64, |a, &b| a.wrapping_add(b)));
                }
                Use::Grow => (0..50u16).for_each(|k| {
                    map.insert(k * 7, i64::from(k)).unwrap();
                    plain.insert(k * 7, i64::from(k));
                }),
            }
            // Some steps are followed by a look at all, others by the next step.
            if step % 3 == 0 {
                let again = DMap::from_entries(&session, plain.clone()).unwrap();
                prop_assert_eq!(map.to_vec().unwrap(), again.to_vec().unwrap());
                prop_assert_eq!(map.digest().unwrap(), again.digest().unwrap());
                prop_assert_eq!(format!("{map:?}"), format!("{again:?}"));
            }
        }
        let mut left = map.to_vec().unwrap();
        left.sort_unstable();
        prop_assert!(left.into_iter().eq(plain));
    }
}

#[test]
fn values_of_the_same_keys_stay_where_they_are() {
    let session = session();
    let mut map = DMap::from_entries(&session, (0..100u32).map(|i| (i, i))).unwrap();
    let dense = map.buckets.dense();
    let ids = (dense.values.id(), dense.index.id());
    map.update(7, |entry| *entry.or_default() = 1000).unwrap();
    let dense = map.buckets.dense();
    assert_eq!((dense.values.id(), dense.index.id()), ids);
    let sum: u32 = dense.values.to_vec().unwrap().into_iter().sum();
    assert_eq!(sum, 99 * 50 - 7 + 1000);
    // One key for another: as many, but not the same.
    map.remove(&7).unwrap();
    map.insert(700, 7).unwrap();
    let dense = map.buckets.dense();
    assert_ne!((dense.values.id(), dense.index.id()), ids);
    assert_eq!(dense.values.to_vec().unwrap().into_iter().sum::<u32>(), 99 * 50);
}

#[test]
fn grows_with_its_entries() {
    let session = session();
    let mut map = DMap::new(&session).unwrap();
    for i in 0..3000u64 {
        map.insert(i.to_string(), i).unwrap();
        assert!(map.buckets.len() >= map.len().unwrap());
    }
    assert!((0..3000u64).all(|i| map.get(i.to_string().as_str()).unwrap() == Some(i)));
    let full = map.to_vec().unwrap().len();
    assert_eq!(map.iter().unwrap().map(|(key, _)| key).collect::<HashSet<_>>().len(), full);
}

#[test]
fn several_values_a_key_stay_in_their_order() {
    let session = session();
    let mut map = DMultiMap::from_pairs(&session, (0..100u32).map(|i| (i % 7, i))).unwrap();
    map.insert(3, 1000).unwrap();
    let want: Vec<u32> = (0..100).filter(|i| i % 7 == 3).chain([1000]).collect();
    assert_eq!(map.get(&3).unwrap(), want);
    assert_eq!((map.keys().unwrap(), map.len().unwrap()), (7, 101));
    assert_eq!(map.remove(&3).unwrap(), want);
    assert!(map.get(&3).unwrap().is_empty() && !map.contains_key(&3).unwrap());
}
