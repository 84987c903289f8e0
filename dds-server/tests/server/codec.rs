//! The codec: it reads what bincode writes, and refuses everything else.

use std::collections::BTreeMap;
use std::pin::Pin;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use stradsap_dds_server::codec::*;
use tokio_serde::{Deserializer as _, Serializer as _};

const LIMIT: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Nothing,
    One(u64),
    Two(i8, char),
    Named { text: String, maybe: Option<Box<Shape>> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    flags: (bool, u8, u16, u32, u64, u128),
    signed: (i8, i16, i32, i64, i128),
    size: usize,
    floats: (f32, f64),
    letters: Vec<char>,
    text: String,
    bytes: Vec<u8>,
    shapes: Vec<Shape>,
    map: BTreeMap<String, Vec<Option<u16>>>,
    unit: (),
    array: [u32; 3],
    newtype: Wrapped,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(Vec<()>);

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Nothing),
        any::<u64>().prop_map(Shape::One),
        any::<(i8, char)>().prop_map(|(a, b)| Shape::Two(a, b)),
    ];
    leaf.prop_recursive(4, 8, 1, |inner| {
        (any::<String>(), proptest::option::of(inner))
            .prop_map(|(text, maybe)| Shape::Named { text, maybe: maybe.map(Box::new) })
    })
}

prop_compose! {
    fn everything()(
        flags: (bool, u8, u16, u32, u64, u128), signed: (i8, i16, i32, i64, i128), size: usize,
        floats in (-1e30f32..1e30, any::<i64>().prop_map(|n| n as f64)),
        letters: Vec<char>, text: String, bytes: Vec<u8>, shapes in proptest::collection::vec(shape(), 0..4),
        map in proptest::collection::btree_map(any::<String>(), any::<Vec<Option<u16>>>(), 0..4),
        array: [u32; 3], units in 0..100usize,
    ) -> Everything {
        Everything {
            flags, signed, size, floats, letters, text, bytes, shapes, map, unit: (), array,
            newtype: Wrapped(vec![(); units]),
        }
    }
}

proptest! {
    #[test]
    fn every_value_is_read_as_bincode_wrote_it(value in everything()) {
        let bytes = encode(&value).unwrap();
        let config = bincode::config::standard().with_fixed_int_encoding();
        prop_assert_eq!(&bytes, &bincode::serde::encode_to_vec(&value, config).unwrap());
        prop_assert_eq!(decode::<Everything>(&bytes, LIMIT).unwrap(), value);
    }

    #[test]
    fn a_message_that_ends_early_is_refused(value in everything(), cut: prop::sample::Index) {
        let bytes = encode(&value).unwrap();
        prop_assert!(decode::<Everything>(&bytes[..cut.index(bytes.len())], LIMIT).is_err());
    }

    #[test]
    fn a_changed_message_is_refused_or_read_but_never_more(value in everything(), at: prop::sample::Index, byte: u8) {
        let mut bytes = encode(&value).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _read_or_not = decode::<Everything>(&bytes, LIMIT);
    }
}

#[test]
fn a_message_that_ends_anywhere_is_refused() {
    let value = vec![(Shape::Named { text: "ä".into(), maybe: Some(Box::new(Shape::Two(-1, 'ß'))) }, 'x', 3.5f32)];
    let bytes = encode(&value).unwrap();
    for end in 0..bytes.len() {
        assert!(decode::<Vec<(Shape, char, f32)>>(&bytes[..end], LIMIT).is_err(), "{end}");
    }
    assert_eq!(decode::<Vec<(Shape, char, f32)>>(&bytes, LIMIT).unwrap(), value);
}

/// Twenty bytes that claim 2^63 elements.
fn claim() -> Vec<u8> {
    let mut bytes = (1u64 << 63).to_le_bytes().to_vec();
    bytes.resize(20, 0);
    bytes
}

#[test]
fn claims_are_refused_by_arithmetic() {
    fn refuses<T: serde::de::DeserializeOwned>() {
        match decode::<T>(&claim(), LIMIT).map(drop) {
            Err(CodecError::Length { claimed, left: 12 }) if claimed == 1 << 63 => {}
            other => panic!("{}: {other:?}", std::any::type_name::<T>()),
        }
    }
    refuses::<Vec<u8>>();
    refuses::<Vec<u64>>();
    refuses::<String>();
    refuses::<Vec<String>>();
    refuses::<BTreeMap<u32, u32>>();
    refuses::<Vec<()>>();
    refuses::<BTreeMap<(), ()>>();
    refuses::<Wrapped>();
    let error = decode::<Vec<u8>>(&claim(), LIMIT).unwrap_err();
    assert_eq!(error.to_string(), "a length of 9223372036854775808 is claimed, but 12 bytes are left");
}

#[test]
fn elements_that_take_no_bytes_have_a_budget() {
    let some = encode(&vec![(); 1 << 20]).unwrap();
    assert_eq!(decode::<Vec<()>>(&some, LIMIT).unwrap().len(), 1 << 20);
    // Each list is within the budget, both are not.
    let two = encode(&vec![vec![(); 600_000], vec![(); 600_000]]).unwrap();
    assert!(matches!(decode::<Vec<Vec<()>>>(&two, LIMIT), Err(CodecError::Length { .. })));
    // What the type says, the message can't blow up.
    let lists = encode(&vec![((), [(); 30], 1u8); 100_000]).unwrap();
    assert_eq!(decode::<Vec<((), [(); 30], u8)>>(&lists, LIMIT).unwrap().len(), 100_000);
}

#[derive(Debug, Serialize, Deserialize)]
struct Deep(Option<Box<Deep>>);

#[test]
fn nesting_is_bounded() {
    let deep = (0..40).fold(Deep(None), |inner, _| Deep(Some(Box::new(inner))));
    decode::<Deep>(&encode(&deep).unwrap(), LIMIT).unwrap();
    let hostile = vec![1; 1 << 20];
    let error = decode::<Deep>(&hostile, LIMIT).unwrap_err();
    assert_eq!(error.to_string(), "the message nests deeper than 1024 levels");
}

#[test]
fn what_is_no_such_value_is_refused() {
    assert!(matches!(decode::<u8>(&[1, 2, 3], LIMIT), Err(CodecError::Trailing(2))));
    assert!(matches!(decode::<u32>(&[1, 2, 3], LIMIT), Err(CodecError::Truncated { needed: 4, left: 3 })));
    assert!(matches!(decode::<bool>(&[2], LIMIT), Err(CodecError::Invalid(_))));
    assert!(matches!(decode::<Option<()>>(&[2], LIMIT), Err(CodecError::Invalid(_))));
    assert!(matches!(decode::<char>(&[0xff, 0xff, 0xff, 0xff], LIMIT), Err(CodecError::Invalid(_))));
    assert!(matches!(decode::<char>(&[0x80, 0x80], LIMIT), Err(CodecError::Invalid(_))));
    assert!(matches!(decode::<Shape>(&[9, 0, 0, 0], LIMIT), Err(CodecError::Invalid(_))));
    let text = [&2u64.to_le_bytes()[..], &[0xc3, 0x28]].concat();
    assert!(matches!(decode::<String>(&text, LIMIT), Err(CodecError::Invalid(_))));
    assert!(matches!(decode::<u32>(&[1, 2, 3, 4], 3), Err(CodecError::TooLong { len: 4, limit: 3 })));
}

struct Stubborn;

impl Serialize for Stubborn {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not\ntoday"))
    }
}

#[test]
fn a_value_that_refuses_to_be_written_is_an_error_of_one_line() {
    let error = encode(&Stubborn).unwrap_err().to_string();
    assert_eq!(error, "the value can't be encoded: not today");
}

#[test]
fn bounded_refuses_on_both_sides() {
    let mut codec = Bounded::new(16);
    let bytes = Pin::new(&mut codec).serialize(&"short").unwrap();
    let text: String = Pin::new(&mut codec).deserialize(&bytes.as_ref().into()).unwrap();
    assert_eq!(text, "short");
    let error = Pin::new(&mut codec).serialize(&"rather longer").unwrap_err();
    assert!(matches!(error, CodecError::TooLong { len: 21, limit: 16 }));
    let long = encode("rather longer").unwrap();
    let error: Result<String, _> = Pin::new(&mut codec).deserialize(&long.as_slice().into());
    let error = std::io::Error::from(error.unwrap_err());
    assert_eq!(error.to_string(), "the message has 21 bytes, but at most 16 are allowed");
}
