//! Elements and captured values read back from their bytes, whole, cut short and changed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::num::{NonZero, NonZeroI64, NonZeroU8, NonZeroU128};
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use stradsap::__private::{BySerde, ChooseFunction, ChooseKnown, ChooseSerde, Copied, Values};
use stradsap::{CodecError, DecodeError, Element};

fn bytes_of<T: Element>(element: &T) -> Vec<u8> {
    let mut out = Vec::new();
    element.encode(&mut out);
    out
}

fn decoded<T: Element>(mut bytes: &[u8]) -> Result<T, DecodeError> {
    let element = T::decode(&mut bytes)?;
    assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
    Ok(element)
}

/// The elements come back, one after the other; no part of them passes for the whole; and whatever a changed byte makes
/// of them is an element or an error.
fn through_bytes<T: Element + PartialEq + Debug>(elements: &[T]) {
    let mut all = Vec::new();
    elements.iter().for_each(|element| element.encode(&mut all));
    let mut rest = &all[..];
    for element in elements {
        assert_eq!(&T::decode(&mut rest).unwrap(), element);
    }
    assert!(rest.is_empty());

    for element in elements {
        let bytes = bytes_of(element);
        for end in 0..bytes.len() {
            let cut = T::decode(&mut &bytes[..end]);
            assert!(cut.is_err(), "{end} of the {} bytes of {element:?} gave {cut:?}", bytes.len());
        }
        let mut changed = bytes.clone();
        for at in 0..bytes.len() {
            for byte in [0, 1, 2, 4, 0x7f, 0x80, 0xd8, 0xff, !bytes[at], bytes[at] ^ 1, bytes[at].wrapping_add(1)] {
                changed[at] = byte;
                if let Ok(other) = T::decode(&mut &changed[..]) {
                    // What it is said to be, it also says.
                    let again = decoded::<T>(&bytes_of(&other)).unwrap();
                    assert_eq!(bytes_of(&again), bytes_of(&other));
                }
            }
            changed[at] = bytes[at];
        }
        // Several bytes at once, from a fixed sequence.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200.min(20 * bytes.len()) {
            let mut changed = bytes.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                changed[at] = (state >> 24) as u8;
            }
            let _any = T::decode(&mut &changed[..]);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Plain {
    user: u32,
    item: u32,
    stars: [f32; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Element)]
#[repr(C, packed(2))]
struct Packed {
    small: u16,
    flag: bool,
    large: u32,
}

#[derive(Clone, Debug, PartialEq, Element)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Element)]
struct Row<T, const K: usize>([T; K], Unit)
where
    T: Default;

#[derive(Clone, Debug, PartialEq, Element)]
struct Node {
    name: String,
    children: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Element)]
enum Shape<T> {
    Nothing,
    Circle(f64),
    Other { corners: Vec<(T, T)>, closed: bool, name: Option<Box<str16>> },
    Group(Box<[Shape<T>]>, Box<Shape<T>>),
}

/// A type of the program's own with a lower-case name.
#[allow(non_camel_case_types)]
#[derive(Clone, Debug, PartialEq, Element)]
struct str16([char; 2]);

#[derive(Clone, Debug, PartialEq, Element)]
enum Never {}

#[derive(Clone, Debug, PartialEq, Element)]
struct Dropped(u32);

impl Drop for Dropped {
    fn drop(&mut self) {}
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Element)]
#[element(serde)]
struct Known<T: Ord> {
    by_name: BTreeMap<String, T>,
    set: BTreeSet<T>,
    kind: Kind,
    letters: Vec<char>,
    numbers: (i8, i16, i32, i64, i128, u8, u16, u32, u64, u128),
    more: (f32, f64, bool, (), Option<Box<Kind>>, usize),
    wrapped: Wrapped,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(String);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Nothing,
    One(Wrapped),
    Two(u8, String),
    Named { text: String, more: Vec<Kind> },
}

fn known(i: u32) -> Known<u32> {
    let two = Kind::Two(i as u8, "zwei".to_string());
    Known {
        by_name: (0..i).map(|k| (format!("name {k}"), k)).collect(),
        set: (0..i).collect(),
        kind: match i % 4 {
            0 => Kind::Nothing,
            1 => Kind::One(Wrapped("one".to_string())),
            2 => two,
            _ => Kind::Named { text: "ü".to_string(), more: vec![Kind::Nothing, two] },
        },
        letters: "aß€𝄞".chars().take(i as usize).collect(),
        numbers: (-1, -2, -3, -4, -5, 1, 2, 3, 4, 5),
        more: (0.5, -0.5, i.is_multiple_of(2), (), (i > 1).then(|| Box::new(Kind::Nothing)), 7),
        wrapped: Wrapped(i.to_string()),
    }
}

#[test]
fn numbers_and_arrays_of_them() {
    fn ends<T: Element + PartialEq + Debug + Copy>(all: &[T]) {
        through_bytes(all);
        through_bytes(&[[all[0]; 3], [all[1]; 3]]);
        through_bytes(&[all.to_vec(), vec![]]);
    }
    ends(&[u8::MAX, 1]);
    ends(&[u16::MAX, 1]);
    ends(&[u32::MAX, 1]);
    ends(&[u64::MAX, 1]);
    ends(&[u128::MAX, 1]);
    ends(&[usize::MAX, 1]);
    ends(&[i8::MIN, 1]);
    ends(&[i16::MIN, 1]);
    ends(&[i32::MIN, 1]);
    ends(&[i64::MIN, 1]);
    ends(&[i128::MIN, 1]);
    ends(&[isize::MIN, 1]);
    ends(&[f32::MIN_POSITIVE, f32::NEG_INFINITY]);
    ends(&[f64::MIN_POSITIVE, f64::NEG_INFINITY]);
    assert!(decoded::<f64>(&bytes_of(&f64::NAN)).unwrap().is_nan());
}

#[test]
fn library_types() {
    through_bytes(&[true, false]);
    through_bytes(&['a', 'ß', '\u{10ffff}']);
    through_bytes(&["".to_string(), "text".to_string(), "ü€𝄞".to_string()]);
    through_bytes(&[(), ()]);
    through_bytes(&[[(); 3], [(); 3]]);
    through_bytes(&[vec![(), ()], vec![]]);
    through_bytes(&[["a".to_string(), "b".to_string()]]);
    through_bytes(&[vec!["a".to_string()], vec![]]);
    through_bytes(&[vec![1u8, 2].into_boxed_slice(), Box::new([])]);
    through_bytes(&[Box::new(1u64), Box::new(2)]);
    through_bytes(&[Some(Box::new(3u16)), None]);
    through_bytes(&[(1u8,), (2,)]);
    through_bytes(&[(1u8, true, 'c', 4.0f32, vec![5u16], "six".to_string())]);
    through_bytes(&[(1u8, 2u8, 3u8, 4u8, 5u8, 6u8, 7u8, 8u8, 9u8, 10u8, 11u8, "12".to_string())]);
    through_bytes(&[Ok(1u16), Err("text".to_string())]);
    through_bytes(&[NonZeroU8::MIN, NonZeroU8::MAX]);
    through_bytes(&[NonZeroU128::MAX]);
    through_bytes(&[NonZeroI64::MIN, NonZeroI64::MAX]);
    through_bytes(&[Duration::ZERO, Duration::MAX, Duration::from_millis(1500)]);
}

#[test]
fn collections() {
    let mut turned: VecDeque<String> = ["b", "c"].map(String::from).into();
    turned.push_front("a".to_string());
    assert_eq!(bytes_of(&turned), bytes_of(&["a", "b", "c"].map(String::from).to_vec()));
    through_bytes(&[turned, VecDeque::new()]);
    through_bytes(&[VecDeque::from([1u32, 2, 3])]);
    let words = || (0..5u16).map(|i| (format!("word {}", i * 7 % 5), i));
    through_bytes(&[words().collect::<BTreeMap<_, _>>(), BTreeMap::new()]);
    through_bytes(&[words().collect::<HashMap<_, _>>(), HashMap::new()]);
    through_bytes(&[words().collect::<HashMap<_, _, BuildHasherDefault<DefaultHasher>>>()]);
    through_bytes(&[words().map(|(word, _)| word).collect::<BTreeSet<_>>(), BTreeSet::new()]);
    through_bytes(&[words().map(|(word, _)| word).collect::<HashSet<_>>(), HashSet::new()]);
    through_bytes(&[HashMap::from([((), vec![1u8])])]);
    // Whatever the hashers' keys and in whatever order entries came: the same bytes.
    let maps: Vec<HashMap<u32, Vec<u8>>> = [1u32, 37, 41]
        .map(|step| (0..1000).map(|i| (i * step % 1000, (i * step % 1000).to_string().into_bytes())).collect())
        .into();
    assert!(maps.iter().all(|map| map.len() == 1000 && bytes_of(map) == bytes_of(&maps[0])));
    let sets: Vec<HashSet<u32>> = maps.iter().map(|map| map.keys().copied().collect()).collect();
    assert!(sets.iter().all(|set| bytes_of(set) == bytes_of(&sets[0])));
}

#[test]
fn derived_types() {
    through_bytes(&[Plain { user: 1, item: 2, stars: [0.5, -1.0] }]);
    through_bytes(&[Packed { small: 1, flag: true, large: 3 }, Packed { small: 9, flag: false, large: 7 }]);
    through_bytes(&[Row(["a".to_string(), "b".to_string()], Unit)]);
    through_bytes(&[Row([1u8, 2, 3], Unit)]);
    through_bytes(&[Unit, Unit]);
    through_bytes(&[Dropped(5), Dropped(6)]);
    let leaf = |name: &str| Node { name: name.to_string(), children: vec![] };
    through_bytes(&[Node { name: "root".to_string(), children: vec![leaf("a"), leaf("b")] }]);
    let other = |closed| Shape::Other { corners: vec![(1u16, 2), (3, 4)], closed, name: None };
    through_bytes(&[
        Shape::Nothing,
        Shape::Circle(0.5),
        other(true),
        Shape::Other { corners: vec![], closed: false, name: Some(Box::new(str16(['a', 'ß']))) },
        Shape::Group(Box::new([Shape::Nothing, other(false)]), Box::new(Shape::Circle(1.0))),
    ]);
    assert_eq!(
        Never::decode(&mut &[0, 0, 0, 0][..]).unwrap_err().to_string(),
        "0 is no variant of one_process::decoding::Never, which has 0"
    );
}

#[test]
fn serde_types() {
    through_bytes(&[known(0), known(1), known(2), known(3)]);
}

#[test]
fn what_is_no_element_is_refused() {
    fn says<T: Element + Debug>(bytes: &[u8], message: &str) {
        assert_eq!(T::decode(&mut &*bytes).unwrap_err().to_string(), message);
    }
    says::<u32>(&[1, 2], "u32: 4 bytes were expected, and 2 are left");
    says::<bool>(&[3], "3 is no bool: 0 or 1 was expected");
    says::<Option<u8>>(&[2, 0], "2 is no Option: 0 or 1 was expected");
    says::<char>(&0xd800u32.to_ne_bytes(), "55296 is no char: a Unicode scalar value was expected");
    says::<String>(
        &[&2usize.to_ne_bytes()[..], &[b'a', 0xff]].concat(),
        "UTF-8 was expected, but only the first 1 bytes are",
    );
    says::<Shape<u8>>(&9u32.to_ne_bytes(), "9 is no variant of one_process::decoding::Shape<u8>, which has 4");
    says::<Result<u8, u8>>(&[2, 0], "2 is no Result: 0 or 1 was expected");
    says::<NonZero<u16>>(&[0, 0], "0 is no NonZero<u16>: any other number was expected");
    let long = bytes_of(&(1u64, 1_000_000_000u32));
    says::<Duration>(&long, "1000000000 is no Duration: less than a second in nanoseconds was expected");
    let twice = bytes_of(&vec![(1u8, 2u8), (3, 4), (1, 5)]);
    let name = "alloc::collections::btree::map::BTreeMap<u8, u8>";
    says::<BTreeMap<u8, u8>>(&twice, &format!("{name}: key 2 came before"));
    assert!(matches!(HashMap::<u8, u8>::decode(&mut &twice[..]), Err(DecodeError::Repeated { at: 2, .. })));
    let twice = bytes_of(&vec![1u8, 1]);
    assert!(matches!(BTreeSet::<u8>::decode(&mut &twice[..]), Err(DecodeError::Repeated { at: 1, .. })));
    assert!(matches!(HashSet::<u8>::decode(&mut &twice[..]), Err(DecodeError::Repeated { at: 1, .. })));
    says::<Plain>(&[0; 15], "one_process::decoding::Plain: 16 bytes were expected, and 15 are left");
}

/// The elements' claimed number, or the text's length, is huge.
#[test]
fn claims_are_not_believed() {
    fn refused<T: Element + Debug>() {
        for claim in [1usize << 63, usize::MAX, (1 << 61) + 1, 1 << 40, 1 << 20] {
            let mut bytes = bytes_of(&claim);
            bytes.extend_from_slice(&[0; 12]);
            assert!(T::decode(&mut &bytes[..]).is_err(), "{claim}");
        }
    }
    refused::<Vec<u8>>();
    refused::<Vec<u64>>();
    refused::<Vec<[f64; 1000]>>();
    refused::<Box<[u16]>>();
    refused::<Vec<String>>();
    refused::<Vec<Option<[f64; 1000]>>>();
    refused::<String>();
    refused::<VecDeque<u64>>();
    refused::<BTreeMap<String, [f64; 1000]>>();
    refused::<HashMap<u64, [f64; 1000]>>();
    refused::<HashMap<(), ()>>();
    refused::<BTreeSet<u8>>();
    refused::<HashSet<u64>>();
    refused::<Known<u32>>();
    refused::<OnlyList<String>>();
    refused::<OnlyList<u8>>();
    refused::<OnlyText>();
    // Nothings take no bytes, yet their number is bounded.
    let nothings = bytes_of(&vec![Unit; 1000]);
    assert_eq!((nothings.len(), decoded::<Vec<Unit>>(&nothings).unwrap().len()), (8, 1000));
    assert_eq!(decoded::<OnlyList<()>>(&bytes_of(&OnlyList(vec![(); 1000]))).unwrap().0.len(), 1000);
    for claim in [1usize << 63, (1 << 20) + 1] {
        let error = Vec::<Unit>::decode(&mut &bytes_of(&claim)[..]).unwrap_err();
        assert_eq!(error, DecodeError::Length { of: "one_process::decoding::Unit", len: claim, left: 0 });
        assert!(Vec::<()>::decode(&mut &bytes_of(&claim)[..]).is_err());
        assert!(OnlyList::<()>::decode(&mut &bytes_of(&claim)[..]).is_err());
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Element)]
#[element(serde)]
struct OnlyList<T>(Vec<T>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Element)]
#[element(serde)]
struct OnlyText(String);

#[derive(Clone, Debug, Element)]
struct List(Option<Box<List>>);

#[derive(Clone, Debug, Serialize, Deserialize, Element)]
#[element(serde)]
struct SerdeList(Option<Box<SerdeList>>);

#[derive(Clone, Debug, Element)]
struct Tree(Vec<Tree>);

#[derive(Clone, Debug, Element)]
struct Leaves(BTreeMap<u8, Leaves>);

/// The bytes alone say how deep a type goes that contains itself.
#[test]
fn deep_nesting_is_an_error() {
    const DEEP: usize = 1 << 20;
    let nested = |error: DecodeError| assert!(matches!(error, DecodeError::Nesting { levels: 16.. }), "{error}");
    nested(List::decode(&mut &vec![1u8; DEEP][..]).unwrap_err());
    nested(SerdeList::decode(&mut &vec![1u8; DEEP][..]).unwrap_err());
    nested(Tree::decode(&mut &1u64.to_ne_bytes().repeat(DEEP)[..]).unwrap_err());
    let one_key = [&1u64.to_ne_bytes()[..], &[7]].concat();
    nested(Leaves::decode(&mut &one_key.repeat(DEEP)[..]).unwrap_err());
    // What programs have goes through.
    for levels in [0, 15, 16, 17, 100, 300] {
        let mut bytes = vec![1u8; levels];
        bytes.push(0);
        assert_eq!(bytes_of(&decoded::<List>(&bytes).unwrap()), bytes);
        assert_eq!(bytes_of(&decoded::<SerdeList>(&bytes).unwrap()), bytes);
    }
}

fn value<T: stradsap::Value>(value: &T) -> Copied<'_, T, BySerde> {
    (&&&stradsap::__private::value(value).probe()).kind()
}

fn round<V: Values>(values: &V) -> V::Owned {
    let bytes = values.encode().unwrap();
    for end in 0..bytes.len() {
        assert!(V::decode(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(V::decode(&longer), Err(CodecError::Trailing { left: 1, .. })));
    V::decode(&bytes).unwrap()
}

fn refs<'o, V: Values>(_values: &V, owned: &'o V::Owned) -> V::Refs<'o> {
    V::owned_refs(owned)
}

#[test]
fn captured_values_travel() {
    let (rate, name, table) = (0.5f32, "text".to_string(), vec![vec![1u64, 2], vec![]]);
    let kinds = known(3);
    let values = (value(&rate), value(&name), value(&table), value(&kinds));
    let owned = round(&values);
    let (a, b, c, d) = refs(&values, &owned);
    assert_eq!((a.0, b.0, c.0, d.0), (&rate, &name, &table, &kinds));
    round(&());
}

#[test]
fn references_and_functions_travel() {
    let (list, text, root): (&[u32], &str, fn(f32) -> f32) = (&[1, 2, 3], "text", f32::sqrt);
    let shared = std::sync::Arc::<[String]>::from(["one".to_string()]);
    let values = (
        (&&&&&stradsap::__private::value(&list).probe()).kind(),
        (&&&&&stradsap::__private::value(&text).probe()).kind(),
        (&&&&&stradsap::__private::value(&shared).probe()).kind(),
        (&&stradsap::__private::value(&root).probe()).kind(),
    );
    let owned = round(&values);
    let (list_again, text_again, shared_again, root_again) = refs(&values, &owned);
    assert_eq!((list_again.by_value(), text_again.by_value(), shared_again.0), (list, text, &shared));
    assert_eq!((root_again.0)(9.0), 3.0);
    // No place in the program, and none of its code.
    let only = ((&&stradsap::__private::value(&root).probe()).kind(),);
    for place in [u64::MAX, u64::MAX / 2, 0] {
        let refused = decode_as(&only, &place.to_le_bytes()).unwrap_err();
        assert!(refused.to_string().contains("a function of the program was expected"), "{refused}");
    }
}

fn decode_as<V: Values>(_values: &V, bytes: &[u8]) -> Result<V::Owned, CodecError> {
    V::decode(bytes)
}

#[derive(Clone, Debug, Deserialize)]
struct Refuses;

impl Serialize for Refuses {
    fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not today"))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u32),
}

#[test]
fn captured_values_that_can_not_travel() {
    let refused = (value(&1u8), value(&Refuses)).encode().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "captured value 1, a one_process::decoding::Refuses, can't be serialised: not today"
    );
    let values = (value(&Untagged::Number(3)),);
    let bytes = values.encode().unwrap();
    fn back<V: Values>(_: &V, bytes: &[u8]) -> String {
        V::decode(bytes).map(|_| ()).unwrap_err().to_string()
    }
    assert_eq!(
        back(&values, &bytes),
        "captured value 0, a one_process::decoding::Untagged, can't be read back: the bytes are no such value: \
         the type asks what the bytes are, which they don't say"
    );
    let flags = (value(&1u8), value(&true));
    assert_eq!(
        back(&flags, &[1, 2]),
        "captured value 1, a bool, can't be read back: the bytes are no such value: a bool is 0 or 1, but 2 came"
    );
    assert_eq!(back(&flags, &[1, 1, 1, 1]), "2 bytes follow the 2 captured values");
}
