//! A loop that has been understood: what both loops have.

use std::cell::OnceCell;

use proc_macro2::Span;
use syn::{Expr, Ident, Pat, ReturnType, Token};

/// Which of the loops a call is, or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `async_parallel_for!`: iterations, each of an index.
    Async,
    /// `sync_parallel_for!`: minibatches of an input.
    Sync,
    /// `with!`: a closure of an operator.
    Operator,
}

/// The loop's body and the name that it gives its parameter.
pub(crate) struct Closure {
    pub(crate) movability: Option<Token![move]>,
    /// `None` after a mistake.
    pub(crate) parameter: Option<Parameter>,
    /// The second parameter, with its type where one was written.
    pub(crate) scratch: Option<Pat>,
    pub(crate) output: ReturnType,
    pub(crate) body: Expr,
    /// Of how many tokens the user made it.
    pub(crate) size: usize,
    /// Where errors about the body as a whole point: its first bar.
    pub(crate) header: Span,
}

/// The closure's parameter: the index or the minibatch.
pub(crate) struct Parameter {
    /// With its type where one was written.
    pub(crate) pattern: Pat,
}

/// How the body may use a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `x`: copied into the loop's tasks.
    Value,
    /// `&x`: a DDS that is only read, or a reduction.
    Read,
    /// `&mut x`: a DDS that may be written.
    Write,
    /// `sum x`: a DDS that is only added to.
    Sum,
}

/// One entry of the capture list.
pub(crate) struct Capture {
    /// What the body calls it.
    pub(crate) name: Ident,
    pub(crate) mode: Mode,
    /// The `&` of `&x` and `&mut x`.
    pub(crate) and: Option<Token![&]>,
    /// What is captured, without `&` or `&mut`.
    pub(crate) place: Expr,
    /// The whole entry.
    pub(crate) written: Expr,
    /// How far from the loop's index the body indexes it: see `indices`.
    pub(crate) near: usize,
    /// Of a value: the first method that the body calls on it and that changes collections.
    pub(crate) changed_by: OnceCell<Ident>,
}

impl Kind {
    /// One run of the body.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Kind::Async => "iteration",
            Kind::Sync => "minibatch",
            Kind::Operator => "call",
        }
    }

    /// Whose body it is.
    pub(crate) fn body(self) -> &'static str {
        match self {
            Kind::Async | Kind::Sync => "the loop's body",
            Kind::Operator => "the closure",
        }
    }

    /// The same with its article.
    pub(crate) fn a_unit(self) -> &'static str {
        match self {
            Kind::Async => "an iteration",
            Kind::Sync => "a minibatch",
            Kind::Operator => "a call",
        }
    }

    /// All runs of the body.
    pub(crate) fn units(self) -> &'static str {
        match self {
            Kind::Async => "iterations",
            Kind::Sync => "minibatches",
            Kind::Operator => "calls",
        }
    }

    /// What the body's parameter is.
    pub(crate) fn parameter(self) -> &'static str {
        match self {
            Kind::Async => "index",
            Kind::Sync => "minibatch",
            Kind::Operator => "item",
        }
    }
}

impl Mode {
    /// The entry of the capture list for this name.
    pub(crate) fn entry(self, name: impl std::fmt::Display) -> String {
        match self {
            Mode::Value => name.to_string(),
            Mode::Read => format!("&{name}"),
            Mode::Write => format!("&mut {name}"),
            Mode::Sum => format!("sum {name}"),
        }
    }
}
