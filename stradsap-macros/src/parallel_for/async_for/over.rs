//! What a loop runs over besides one range: pairs of two, or the elements of a DVector.
//!
//! `&order, [..], |i| body` becomes `0..order.len(), [&order, ..], |at| { let i = order[Here(at)]; body }`, in which the body sees
//! neither name: the elements are read in step with the loop, like those of any other DVector.

use std::cell::OnceCell;

use proc_macro2::Span;
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprReference, Ident, Pat, Token};

use crate::ctxt::Ctxt;
use crate::parallel_for::captures::{MOST, own_name};
use crate::parallel_for::emit::{end_of, statements};
use crate::parallel_for::ir::{Capture, Closure, Mode, Parameter};
use crate::parallel_for::parse::peel;

/// What the body's parameter may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// A range, or what can't be told by its syntax: a number has a name.
    Numbers,
    /// Two ranges, or what might be.
    Pairs,
    /// The elements of a DVector: any pattern.
    Elements,
}

impl Over {
    /// By the syntax of what the loop runs over.
    pub(crate) fn of(range: &Expr) -> Over {
        match peel(range.clone()) {
            Expr::Reference(_) => Over::Elements,
            Expr::Range(_) | Expr::MethodCall(_) | Expr::Lit(_) => Over::Numbers,
            _ => Over::Pairs,
        }
    }
}

/// A DVector whose elements a loop runs over.
pub(crate) struct Elements {
    and: Token![&],
    place: Expr,
}

/// What a loop over elements runs over.
pub(crate) fn elements(range: &Expr, captures: &[Capture], cx: &Ctxt) -> Option<Elements> {
    let Expr::Reference(ExprReference { mutability, and_token: and, expr, .. }) = peel(range.clone()) else {
        return None;
    };
    if let Some(mutability) = mutability {
        cx.error_at(mutability.span, "a loop reads the elements that it runs over: write `&` instead of `&mut`");
    }
    let place = peel(*expr);
    if !is_place(&place) {
        cx.error_on(&place, "bind what the loop runs over to a variable first, and give that: `&order`");
    }
    if captures.iter().filter(|capture| capture.mode != Mode::Value).count() >= MOST {
        cx.error_on(range, format!("a loop captures at most {MOST} DDSs and reductions, with what it runs over"));
    }
    Some(Elements { and, place })
}

impl Elements {
    /// Makes the loop one over a range.
    pub(crate) fn give(self, range: &mut Expr, captures: &mut Vec<Capture>, closure: &mut Closure) {
        let Elements { and, place } = self;
        let Some(parameter) = closure.parameter.take() else { return };
        // Names that the user's code can't see.
        let own = Span::mixed_site();
        let named = own_name(&place).map_or_else(|| "order".to_string(), |name| name.unraw().to_string());
        let (name, at) = (Ident::new(&named, own), Ident::new("at", own));
        let (pattern, body) = (parameter.pattern, statements(&closure.body));
        let of_pattern = own.located_at(pattern.span());
        let element = quote_spanned!(of_pattern=> #name[::stradsap::__private::Here(#at)]);
        let whole = own.located_at(end_of(&closure.body));
        closure.body = Expr::Verbatim(quote_spanned!(whole=> { let #pattern = #element; #(#body)* }));
        closure.parameter = Some(Parameter { pattern: syn::parse_quote_spanned!(own=> #at) });
        let written =
            std::mem::replace(range, syn::parse_quote_spanned!(own=> 0..::stradsap::__private::order(&#place)));
        captures.push(Capture {
            name,
            mode: Mode::Read,
            and: Some(and),
            place,
            written,
            near: 1,
            changed_by: OnceCell::new(),
        });
    }
}

/// Whether an expression may stand twice.
pub(super) fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(field) => is_place(&field.base),
        Expr::Index(index) => is_place(&index.expr) && matches!(&*index.index, Expr::Path(_) | Expr::Lit(_)),
        Expr::Unary(unary) => matches!(unary.op, syn::UnOp::Deref(_)) && is_place(&unary.expr),
        Expr::Paren(paren) => is_place(&paren.expr),
        Expr::Group(group) => is_place(&group.expr),
        _ => false,
    }
}

/// What a loop's parameter is here: another name or pattern than expected is an error.
pub(crate) fn refuses(over: Over, pattern: &Pat) -> Option<Error> {
    match (over, pattern) {
        (Over::Elements, _) => None,
        (Over::Pairs, Pat::Tuple(pair)) if pair.elems.len() == 2 => None,
        (Over::Pairs, Pat::Tuple(more)) if more.elems.len() > 2 => Some(Error::new(
            more.span(),
            "a loop runs over at most two ranges: write the third one in the body, `for k in 0..n`, or compute it from the second \
             one, `let (j, k) = (jk / n, jk % n)`",
        )),
        _ => Some(Error::new(
            pattern.span(),
            "the loop's index is a number: give it a plain name, such as `i`, let the loop run over numbers, `0..x.len()`, and read \
             elements in the body, `x[i]`; a loop over `(0..rows, 0..columns)` has pairs \
             of them, `|(i, j)|`",
        )),
    }
}
