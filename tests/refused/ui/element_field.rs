//! Fields that are no elements, of structs and of enums.
use stradsap::prelude::*;

#[derive(Clone)]
struct Name(String);

#[derive(Clone, Element)]
struct User {
    name: Name,
    age: u32,
}

#[derive(Clone, Element)]
enum Owner {
    Nobody,
    One(Name),
}

#[derive(Element)]
struct NotClone {
    age: u32,
}

#[derive(Clone, Element)]
#[element(serde)]
struct NotSerde {
    age: u32,
}

fn main() {}
