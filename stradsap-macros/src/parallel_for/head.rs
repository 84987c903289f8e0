//! The head of the closure: one parameter, and none of what would make it another kind of closure.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{ExprClosure, Pat, Type};

use super::body::is_primitive;
use super::ir::{Capture, Closure, Index};
use crate::ctxt::Ctxt;

/// Understands the closure. After a mistake in its head, the body can be checked all the same.
pub(crate) fn check(closure: ExprClosure, captures: &[Capture], cx: &Ctxt) -> Closure {
    let header = closure.or1_token.span;
    refuse_modifiers(&closure, cx);
    let index = index(&closure, header, cx);
    if let Some(name) = index.as_ref().and_then(|index| index.name.as_ref())
        && captures.iter().any(|capture| capture.name == *name)
    {
        cx.error_at(name.span(), format!("`{name}` is the loop's index and a capture as well: rename one of them"));
    }
    Closure { movability: closure.capture, index, output: closure.output, body: *closure.body, header }
}

fn refuse_modifiers(closure: &ExprClosure, cx: &Ctxt) {
    if let Some(asyncness) = closure.asyncness {
        cx.error_at(
            asyncness.span,
            "the loop's body can't be async: each iteration runs to its end on one thread; remove `async`",
        );
    }
    if let Some(constness) = closure.constness {
        cx.error_at(constness.span, "the loop's body can't be `const`: remove it");
    }
    if let Some(movability) = closure.movability {
        cx.error_at(movability.span, "the loop's body can't be `static`: remove it");
    }
    if let Some(lifetimes) = &closure.lifetimes {
        cx.error_on(lifetimes, "the loop's body has no lifetime parameters: remove them");
    }
}

fn index(closure: &ExprClosure, header: Span, cx: &Ctxt) -> Option<Index> {
    let mut inputs = closure.inputs.iter();
    let Some(pattern) = inputs.next() else {
        cx.error_at(header, "the loop's body takes the index of its iteration: write `|i|`, or `|_|` to ignore it");
        return None;
    };
    if let Some(second) = inputs.next() {
        cx.error_on(
            second,
            "the loop's body has one parameter, the index of its iteration: what else it uses comes through the \
             capture list",
        );
    }
    let bare = match pattern {
        Pat::Type(typed) => {
            check_type(&typed.ty, cx);
            &*typed.pat
        }
        bare => bare,
    };
    let name = match bare {
        Pat::Wild(_) => None,
        Pat::Ident(ident) if ident.by_ref.is_none() && ident.subpat.is_none() => Some(ident.ident.clone()),
        other => {
            cx.error_at(other.span(), "the loop's index is a `usize`: give it a plain name, such as `i`");
            return None;
        }
    };
    Some(Index { name, pattern: pattern.clone() })
}

/// Another primitive would have rustc complain about types that it can't infer in the body.
fn check_type(ty: &Type, cx: &Ctxt) {
    let is_usize = matches!(ty, Type::Path(path) if path.path.is_ident("usize"));
    if is_primitive(ty) && !is_usize {
        let written = ty.to_token_stream();
        cx.error_on(
            ty,
            format!("the loop's index is a `usize`: remove the type, and convert with `as {written}` where needed"),
        );
    }
}
