//! The input and the size of its minibatches.

use syn::{Expr, ExprLit, Ident, Lit, LitInt};

use crate::ctxt::Ctxt;
use crate::parallel_for::captures::{own_name, text};
use crate::parallel_for::ir::{Capture, Mode};
use crate::parallel_for::parse::peel;

/// The place of the input: `&data` is `data`.
pub(crate) fn check(written: Expr, captures: &[Capture], cx: &Ctxt) -> Expr {
    let place = match peel(written) {
        Expr::Reference(reference) => {
            if let Some(mutability) = reference.mutability {
                cx.error_at(mutability.span, "the loop only reads its input: remove `mut`");
            }
            peel(*reference.expr)
        }
        place => place,
    };
    for capture in captures.iter().filter(|capture| capture.mode == Mode::Write && capture.place == place) {
        let input = text(&place);
        cx.error_on(
            &capture.written,
            format!(
                "`{input}` is the loop's input, which nobody may write while the loop runs: remove it from the list, \
                 capture `&{input}` to read elements outside the minibatch, or write to another DVector"
            ),
        );
    }
    place
}

/// The input's name, if it has one.
pub(crate) fn name(place: &Expr) -> Option<Ident> {
    own_name(place)
}

/// The size of a minibatch, a bare number with the type of sizes.
pub(crate) fn minibatch(written: Expr, cx: &Ctxt) -> Expr {
    let mut size = peel(written);
    if let Expr::Lit(ExprLit { lit, .. }) = &mut size {
        match lit {
            Lit::Int(int) if int.base10_digits().chars().all(|digit| digit == '0') => {
                cx.error_at(int.span(), "a minibatch must have at least 1 element");
            }
            Lit::Int(int) if int.suffix().is_empty() => *int = LitInt::new(&format!("{int}usize"), int.span()),
            Lit::Int(_) => {}
            other => {
                cx.error_on(other, "the size of a minibatch is a number of elements, such as `1024`");
            }
        }
    }
    size
}
