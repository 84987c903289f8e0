//! A loop that has been understood.

use proc_macro2::Span;
use syn::{Expr, Ident, Pat, ReturnType, Token};

use super::options::Options;

/// Everything that the expansion is made from.
pub(crate) struct Loop {
    pub(crate) range: Expr,
    pub(crate) captures: Vec<Capture>,
    pub(crate) closure: Closure,
    pub(crate) options: Options,
}

/// The loop's body and the name that it gives its index.
pub(crate) struct Closure {
    pub(crate) movability: Option<Token![move]>,
    /// `None` after a mistake.
    pub(crate) index: Option<Index>,
    pub(crate) output: ReturnType,
    pub(crate) body: Expr,
    /// Where errors about the body as a whole point: its first bar.
    pub(crate) header: Span,
}

/// The closure's parameter.
pub(crate) struct Index {
    pub(crate) name: Option<Ident>,
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
}

impl Mode {
    /// The entry of the capture list for this name.
    pub(crate) fn entry(self, name: impl std::fmt::Display) -> String {
        match self {
            Mode::Value => name.to_string(),
            Mode::Read => format!("&{name}"),
            Mode::Write => format!("&mut {name}"),
        }
    }
}
