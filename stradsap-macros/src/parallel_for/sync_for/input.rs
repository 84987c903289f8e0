//! The input and the size of its minibatches.

use syn::{Expr, Ident};

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
