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
