//! The head of the closure: one parameter, and none of what would make it another kind of closure.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ExprClosure, Ident, Pat, PatIdent, Type};

use super::async_for::over::{self, Over};
use super::body::is_primitive;
use super::emit::size;
use super::ir::{Capture, Closure, Kind, Parameter};
use crate::ctxt::Ctxt;

/// Understands the closure. After a mistake in its head, the body can be checked all the same.
pub(crate) fn check(kind: Kind, over: Over, closure: ExprClosure, captures: &[Capture], cx: &Ctxt) -> Closure {
    let header = closure.or1_token.span;
    refuse_modifiers(kind, &closure, cx);
    let parameter = parameter(kind, over, &closure, header, cx);
    let mut names = Names::default();
    parameter.iter().for_each(|parameter| names.visit_pat(&parameter.pattern));
    if let Some(name) = names.0.iter().find(|name| captures.iter().any(|capture| capture.name == **name)) {
        let what = kind.parameter();
        cx.error_at(name.span(), format!("`{name}` is the loop's {what} and a capture as well: rename one of them"));
    }
    let scratch = closure.inputs.iter().nth(1).cloned();
    let size = size(closure.body.to_token_stream());
    Closure {
        movability: closure.capture,
        parameter,
        scratch,
        output: closure.output,
        body: *closure.body,
        size,
        header,
    }
}

/// The names that a pattern binds.
#[derive(Default)]
struct Names(Vec<Ident>);

impl<'a> Visit<'a> for Names {
    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        self.0.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

fn refuse_modifiers(kind: Kind, closure: &ExprClosure, cx: &Ctxt) {
    if let Some(asyncness) = closure.asyncness {
        let unit = kind.unit();
        cx.error_at(
            asyncness.span,
            format!("the loop's body can't be async: each {unit} runs to its end on one thread; remove `async`"),
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

fn parameter(kind: Kind, over: Over, closure: &ExprClosure, header: Span, cx: &Ctxt) -> Option<Parameter> {
    let mut inputs = closure.inputs.iter();
    let Some(pattern) = inputs.next() else {
        cx.error_at(
            header,
            match kind {
                Kind::Async => "the loop's body takes the index of its iteration: write `|i|`, or `|_|` to ignore it",
                Kind::Sync | Kind::Operator => {
                    "the loop's body takes a minibatch of the input: write `|batch|`, or `|_|` to ignore it"
                }
            },
        );
        return None;
    };
    // The second parameter of an asynchronous loop is its scratch.
    if kind == Kind::Async {
        inputs.next();
    }
    if let Some(one_more) = inputs.next() {
        cx.error_on(
            one_more,
            match kind {
                Kind::Async => {
                    "the loop's body has one parameter, the index of its iteration, and with `scratch = ...` a second \
                     one: all else comes through the capture list"
                }
                Kind::Sync | Kind::Operator => {
                    "the loop's body has one parameter, the minibatch, which knows its `number()` and the `start()` \
                     of its elements: all else comes through the capture list"
                }
            },
        );
    }
    let bare = match pattern {
        Pat::Type(typed) => {
            if over != Over::Elements {
                check_type(kind, &typed.ty, cx);
            }
            &*typed.pat
        }
        bare => bare,
    };
    match bare {
        Pat::Wild(_) => {}
        Pat::Ident(ident) if ident.by_ref.is_none() && ident.subpat.is_none() => {}
        other if kind == Kind::Async => {
            if let Some(error) = over::refuses(over, other) {
                cx.push(error);
                return None;
            }
        }
        other => {
            cx.error_at(
                other.span(),
                "the loop's body takes a minibatch, not one element: give it a plain name, such as `batch`, and take the \
                 elements one by one, `for element in batch { ... }`",
            );
            return None;
        }
    }
    Some(Parameter { pattern: pattern.clone() })
}

/// Another primitive would have rustc complain about types that it can't infer in the body.
fn check_type(kind: Kind, ty: &Type, cx: &Ctxt) {
    let written = ty.to_token_stream();
    match kind {
        Kind::Async => {
            let is_usize = matches!(ty, Type::Path(path) if path.path.is_ident("usize"));
            if is_primitive(ty) && !is_usize {
                cx.error_on(
                    ty,
                    format!(
                        "the loop's index is of its range's type: remove the type, or give the range's bounds the type `{written}`"
                    ),
                );
            }
        }
        Kind::Sync if is_primitive(ty) => cx.error_on(
            ty,
            format!(
                "the loop's body takes a minibatch, not a `{written}`: remove the type; `batch.number()` and \
                 `batch.start()` are indices, and `for element in batch` gives the elements"
            ),
        ),
        Kind::Sync if is_no_batch(ty) => cx.error_on(
            ty,
            "the loop's body takes a minibatch, which is a `Batch` and has the methods of a slice: remove the type",
        ),
        Kind::Sync | Kind::Operator => {}
    }
}

/// Whether a type is none that could name a `Batch`.
fn is_no_batch(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            path.path.segments.last().is_some_and(|last| last.ident == "Vec" || last.ident == "DVector")
        }
        Type::Group(group) => is_no_batch(&group.elem),
        Type::Paren(paren) => is_no_batch(&paren.elem),
        Type::Array(_) | Type::Ptr(_) | Type::Reference(_) | Type::Slice(_) | Type::Tuple(_) => true,
        _ => false,
    }
}
