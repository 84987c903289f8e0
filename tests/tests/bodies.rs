//! Bodies that bind the names of the loop's index and of its DDSs anew, in every way that Rust has, against the plain loop.

#![allow(clippy::needless_range_loop, clippy::single_element_loop, reason = "bodies are written in every way")]

use stradsap::prelude::*;

/// Runs a body as a parallel loop in the loop's order, verified, and as a plain loop over a `Vec`, and compares.
macro_rules! same {
    ($what:literal: |$x:ident, $i:ident| $($body:tt)*) => {{
        let session = Session::builder().threads(2).verify(true).build().unwrap();
        let start: Vec<u64> = (0..100).map(|k| k * k % 37).collect();
        let mut $x = DVector::from_vec(&session, start.clone()).unwrap();
        async_parallel_for!(0..100, [&mut $x], |$i| { $($body)* }, order = Preserve).unwrap();
        let found = $x.to_vec().unwrap();
        let mut $x = start;
        let mut body = |$i: usize| { $($body)* };
        (0..100).for_each(&mut body);
        assert_eq!(found, $x, $what);
    }};
}

macro_rules! next_of {
    ($i:ident) => {
        let $i = ($i + 1) % 100;
    };
}

macro_rules! other_vector {
    ($x:ident) => {
        let mut $x = [0u64; 100];
    };
}

macro_rules! value_of {
    ($x:ident, $i:ident) => {
        $x[$i]
    };
}

/// A name that a glob brings into a block, where it hides a variable.
mod names {
    #![allow(non_upper_case_globals)]
    pub(super) const i: usize = 7;
    pub(super) const n: usize = 9;
}

#[test]
fn macros_may_bind_the_index_anew() {
    same!("a statement": |x, i| let own = i as u64; next_of!(i); x[i] = own;);
    same!("a statement, in a block": |x, i| { next_of!(i); x[i] += 1; } x[i] += 3;);
    same!("a statement, twice": |x, i| next_of!(i); next_of!(i); x[i] += 1;);
    same!("a statement that binds the vector's name": |x, i| x[i] += 1; { other_vector!(x); x[i] += 1; assert!(x[i] == 1); });
    same!("an expression": |x, i| let y = value_of!(x, i); x[i] = y + 2;);
    same!("in a closure": |x, i| let next = || { next_of!(i); i }; x[next()] += 1; x[i] += 5;);
}

#[test]
fn items_may_have_the_name_of_the_index() {
    #![allow(non_upper_case_globals)]
    same!("a constant": |x, i| x[i] = 0; { const i: usize = 5; x[i] += 1; });
    same!("a static": |x, i| x[i] += 2; { static i: usize = 5; x[i] += 1; });
    same!("a use": |x, i| x[i] += 2; { use names::i; x[i] += 1; });
    same!("a use under another name": |x, i| x[i] += 2; { use names::n as i; x[i] += 1; });
    same!("a glob": |x, i| x[i] += 2; { use names::*; x[i] += n as u64; });
}

#[test]
fn patterns_may_bind_the_index_anew() {
    same!("a let": |x, i| let own = i as u64; let i = 99 - i; x[i] += own;);
    same!("a let in a block": |x, i| { let i = i / 2; x[i] += 1; } x[i] += 2;);
    same!("a let with else": |x, i| let Some(i) = i.checked_sub(1) else { return }; x[i] += 1;);
    same!("an if let": |x, i| if let Some(i) = i.checked_sub(3) { x[i] += 1; } else { x[i] += 2; });
    same!("a chain of if let": |x, i| if i > 5 && let Some(i) = i.checked_sub(3) { x[i] += 1; } else { x[i] += 2; });
    same!("a while let": |x, i| let mut left = Some(i); while let Some(i) = left { x[i] += 1; left = i.checked_sub(40); });
    same!("a match": |x, i| match i.cmp(&50) { std::cmp::Ordering::Less => x[i] += 1, _ => { let i = 3; x[i] += 1; } });
    same!("a match with binding": |x, i| match i % 7 { 0 => x[i] += 1, i @ 1..=3 => x[i] += 2, i => x[i + 1] += 3 });
    same!("a loop": |x, i| for i in 0..i % 4 { x[i] += 1; } x[i] += 1;);
    same!("a loop over tuples": |x, i| for (k, i) in [(1, i), (2, 5)] { x[i] += k; });
    same!("a closure's parameter": |x, i| let half = |i: usize| i / 2; x[half(i)] += 1; x[i] += 1;);
    same!("a closure over the vector": |x, i| let mut add = |k: usize| x[k] += 1; add(i); add(i / 3););
    same!("the vector's name": |x, i| x[i] += 1; let x = vec![1u64; 100]; assert!(x[i] == 1););
    same!("the vector's name in a loop": |x, i| for x in [[1u64; 100]] { assert!(x[i] == 1); } x[i] += 1;);
}

#[test]
fn any_integer_is_an_index() {
    same!("numbers": |x, i| x[0] += 1; x[99] += x[i]; x[i] += x[7];);
    same!("a loop over numbers": |x, i| for k in 0..3 { x[i] += x[k]; });
    let session = Session::builder().threads(2).build().unwrap();
    let mut x = DVector::from_vec(&session, vec![1u64; 10]).unwrap();
    let counts = session.relaxed_vector(vec![0u64; 10]);
    async_parallel_for!(0..10, [&mut x, &counts], |i| {
        let (a, b, c, d) = (i as u8, i as u16, i as u64, i as i64);
        x[a] += 1;
        x[b] += 1;
        x[c] += 1;
        x[d] += 1;
        let (one, _) = x.pair_mut(i as u8, (i as u64 + 1) % 10);
        *one += 1;
        counts.add(i, counts[i] + 1);
    })
    .unwrap();
    assert_eq!(x.to_vec().unwrap(), [6; 10]);
}

#[test]
fn a_negative_index_is_out_of_range() {
    let session = Session::builder().threads(1).build().unwrap();
    let mut x = DVector::from_vec(&session, vec![1u64; 10]).unwrap();
    let ended = async_parallel_for!(0..10, [&mut x], |i| x[i as i64 - 1] += 1);
    let message = ended.unwrap_err().to_string();
    assert!(message.contains("10 elements"), "{message}");
    assert_eq!(x.to_vec().unwrap(), [1; 10]);
}
