//! Kinds of syntax that the walk tells apart.

use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::{Attribute, BinOp, Expr, ExprPath, Ident, Type};

const PRIMITIVES: [&str; 16] = [
    "f32", "f64", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "bool",
    "char",
];

/// Methods of numbers, whose arguments are numbers.
const NUMERIC_METHODS: [&str; 13] = [
    "abs_diff",
    "atan2",
    "clamp",
    "copysign",
    "div_euclid",
    "hypot",
    "mul_add",
    "powf",
    "powi",
    "rem_euclid",
    "wrapping_add",
    "wrapping_mul",
    "wrapping_sub",
];

/// Whether a type is a primitive, so that what is cast to it is a number and hardly a function.
pub(crate) fn is_primitive(ty: &Type) -> bool {
    match ty {
        Type::Path(path) if path.qself.is_none() => {
            path.path.get_ident().is_some_and(|name| PRIMITIVES.iter().any(|primitive| name == primitive))
        }
        Type::Paren(paren) => is_primitive(&paren.elem),
        Type::Group(group) => is_primitive(&group.elem),
        _ => false,
    }
}

/// Whether a function belongs to a primitive, as `f32::max` does: it takes numbers.
pub(super) fn is_numeric_function(path: &ExprPath) -> bool {
    path.path.segments.len() == 2
        && path.path.segments.first().is_some_and(|first| PRIMITIVES.iter().any(|primitive| first.ident == primitive))
}

pub(super) fn is_numeric_method(name: &Ident) -> bool {
    NUMERIC_METHODS.iter().any(|method| name == method)
}

/// `+=` and its like.
pub(crate) fn is_update(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// Whether an expression has a type that is neither `()` nor a `Result`, whatever the types of its parts.
pub(super) fn is_no_outcome(expr: &Expr) -> bool {
    match expr {
        Expr::Array(_)
        | Expr::Closure(_)
        | Expr::Lit(_)
        | Expr::Range(_)
        | Expr::RawAddr(_)
        | Expr::Reference(_)
        | Expr::Repeat(_) => true,
        Expr::Cast(cast) => is_primitive(&cast.ty),
        Expr::Binary(binary) => matches!(
            binary.op,
            BinOp::And(_)
                | BinOp::Or(_)
                | BinOp::Eq(_)
                | BinOp::Ne(_)
                | BinOp::Lt(_)
                | BinOp::Le(_)
                | BinOp::Gt(_)
                | BinOp::Ge(_)
        ),
        Expr::Tuple(tuple) => !tuple.elems.is_empty(),
        Expr::Paren(paren) => is_no_outcome(&paren.expr),
        Expr::Group(group) => is_no_outcome(&group.expr),
        _ => false,
    }
}

/// Whether attributes may remove what they stand on.
pub(super) fn conditional(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("cfg"))
}

/// The same for a statement: its attributes end up somewhere on the left edge of its tree.
pub(super) fn conditional_expr(expr: &Expr) -> bool {
    let mut tokens = expr.to_token_stream().into_iter();
    while let (Some(TokenTree::Punct(hash)), Some(TokenTree::Group(attribute))) = (tokens.next(), tokens.next()) {
        if hash.as_char() != '#' {
            return false;
        }
        if attribute.stream().into_iter().next().is_some_and(|first| first.to_string() == "cfg") {
            return true;
        }
    }
    false
}
