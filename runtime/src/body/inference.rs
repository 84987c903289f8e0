//! What the macros call so that rustc infers a body's types, and says in words what a capture list lacks.

use crate::body::capture::Handles;
use crate::body::value::Values;
use crate::session::options::{Bounds, Indices};

/// A loop body, whose parameters rustc infers from the captures beside it and from what sets up its scratch.
pub fn typed_body<X, V, H, S, I, F, R>(_range: &Bounds<X>, _values: &V, _handles: &H, _scratch: &I, body: F) -> F
where
    X: Indices,
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R,
{
    body
}

/// What sets up a block's scratch, whose parameters rustc infers from the captures beside it.
pub fn typed_scratch<V, H, S, I>(_values: &V, _handles: &H, scratch: I) -> I
where
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S,
{
    scratch
}

/// Takes a body that captures nothing, since only such a closure becomes a `fn`. The macro calls it in code that
/// never runs: for any other body rustc then names the variable that is missing from the capture list.
pub fn body_uses_only_its_capture_list<A, B, C, R>(_body: fn(A, B, C) -> R) {}

/// The same for a body that is given scratch.
pub fn loop_uses_only_its_capture_list<A, B, S, C, R>(_body: fn(A, B, S, C) -> R) {}

/// The same for what sets up the scratch.
pub fn scratch_uses_only_the_capture_list<A, B, S>(_scratch: fn(A, B) -> S) {}
