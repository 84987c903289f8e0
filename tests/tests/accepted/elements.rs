//! Types that derive `Element`, in a crate that forbids unsafe code of its own.
#![forbid(unsafe_code)]
#![deny(warnings)]
use serde::{Deserialize, Serialize};
use stradsap::prelude::*;

#[derive(Clone, Copy, Element)]
struct Rating {
    user: u32,
    item: u32,
    stars: f32,
}

/// Stored in another order than written, and without padding.
#[derive(Clone, Copy, Element)]
struct Reordered {
    small: u16,
    large: u32,
    other: u16,
}

#[derive(Clone, Element)]
struct Padded {
    small: u16,
    large: u32,
}

#[derive(Clone, Copy, Element)]
#[repr(C, packed(2))]
struct Packed {
    small: u16,
    large: u32,
}

#[derive(Clone, Element)]
struct Row<T, const K: usize>([T; K])
where
    T: Default;

#[derive(Clone, Element)]
struct Unit;

#[derive(Clone, Element)]
struct Node {
    name: String,
    children: Vec<Node>,
}

#[derive(Clone, Element)]
enum Shape<T> {
    Nothing,
    Circle(f32),
    Other { corners: Vec<T>, closed: bool },
}

#[derive(Clone, Element)]
enum Never {}

#[derive(Clone, Element, Serialize, Deserialize)]
#[element(serde)]
struct Known<T> {
    by_name: std::collections::BTreeMap<String, T>,
}

/// All of its fields are plain, but it has to be dropped.
#[derive(Clone, Element)]
struct Dropped(u32);

impl Drop for Dropped {
    fn drop(&mut self) {}
}

fn is_plain<T: Element>() -> bool {
    T::PLAIN
}

fn bytes<T: Element>(element: &T) -> Vec<u8> {
    let mut out = Vec::new();
    element.encode(&mut out);
    out
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    assert!(is_plain::<Rating>() && is_plain::<Reordered>() && is_plain::<Packed>() && is_plain::<Unit>());
    assert!(is_plain::<Row<f32, 3>>() && !is_plain::<Row<bool, 3>>());
    assert!(!is_plain::<Padded>() && !is_plain::<Dropped>() && !is_plain::<Node>());
    assert!(!is_plain::<Shape<f32>>() && !is_plain::<Never>() && !is_plain::<Known<u32>>());

    assert_eq!(bytes(&Rating { user: 1, item: 2, stars: 0.0 }), [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&Reordered { small: 1, large: 2, other: 3 }).len(), 8);
    assert_eq!(bytes(&Packed { small: 1, large: 2 }), [1, 0, 2, 0, 0, 0]);
    assert_eq!(bytes(&Padded { small: 1, large: 2 }), [1, 0, 2, 0, 0, 0]);
    assert_eq!(bytes(&Row([1u8, 2])), [1, 2]);
    assert_eq!(bytes(&Unit), [0u8; 0]);
    assert_eq!(bytes(&Dropped(5)), [5, 0, 0, 0]);
    assert_eq!(bytes(&Shape::<u8>::Nothing), [0, 0, 0, 0]);
    assert_eq!(bytes(&Shape::<u8>::Circle(0.0)), [1, 0, 0, 0, 0, 0, 0, 0]);
    let other = bytes(&Shape::Other { corners: vec![7u8, 8], closed: true });
    assert_eq!(other, [2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 8, 1]);

    let leaf = |name: &str| Node { name: name.to_string(), children: Vec::new() };
    let tree = Node { name: "root".to_string(), children: vec![leaf("a"), leaf("b")] };
    let mut trees = DVector::from_vec(session, vec![tree, leaf("c")])?;
    async_parallel_for!(0..trees.len(), [&mut trees], |i| {
        let tree = &mut trees[i];
        tree.children.push(Node { name: tree.name.clone() + "!", children: Vec::new() });
    })?;
    let trees = trees.to_vec()?;
    assert_eq!((trees[0].children.len(), trees[1].children[0].name.as_str()), (3, "c!"));

    let known = Known { by_name: [("one".to_string(), 1u32)].into() };
    let known = DVector::from_vec(session, vec![known])?;
    assert_eq!(known.get(0)?.by_name["one"], 1);
    assert!(known.digest()?.starts_with("blake3:"));
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}
