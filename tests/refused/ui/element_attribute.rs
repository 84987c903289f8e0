//! `#[element(...)]`, and types that can't be elements.
use stradsap::prelude::*;

#[derive(Clone, Element)]
#[element(bincode)]
struct Unknown(u32);

#[derive(Clone, Element)]
#[element]
struct Empty(u32);

#[derive(Clone, Element)]
#[element(serde, serde)]
struct Twice(u32);

#[derive(Clone, Element)]
struct OnField(#[element(serde)] u32);

#[derive(Clone, Copy, Element)]
union Bits {
    int: u32,
    float: f32,
}

#[derive(Clone, Element)]
struct Borrowed<'a>(&'a str);

fn main() {}
