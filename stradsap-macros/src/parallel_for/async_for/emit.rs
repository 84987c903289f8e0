//! The call of the runtime that an asynchronous loop expands to.
//!
//! For `0..n, [alpha, &x, &mut p], |i| body`:
//!
//! ```text
//! match (LoopOptions::new(), range(0..n), (value(&alpha),), (read(&x), write(p.reborrow()),)) {
//!     (options, range, values, handles) => {
//!         let scratch = typed_scratch(&values, &handles, |values, views| ...);
//!         let body = typed_body(&range, &values, &handles, &scratch, |values, views, scratch, i| ...);
//!         async_for(&SITE, options, range, values, handles, scratch, body)
//!     }
//! }
//! ```

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit, LitInt};

use super::Loop;
use super::old::with_copies;
use super::options::Options;
use crate::parallel_for::emit::{Expansion, Runtime, Scratch, call, end_of};
use crate::parallel_for::floats::OfFloats;
use crate::parallel_for::options::Choice;
use crate::parallel_for::parse::peel;

/// The whole expansion.
pub(crate) fn parallel_loop(parallel_loop: &Loop) -> TokenStream {
    let Loop { range, captures, added, olds, closure, options, floats, writes_own } = parallel_loop;
    let expansion = Expansion {
        captures,
        added,
        closure,
        arguments: vec![
            ("options", loop_options(options, floats.as_ref(), *writes_own)),
            ("range", call("range", range.span(), end_of(range), with_index_type(range).into_token_stream())),
        ],
        scratch: Some(options.scratch.as_ref().map_or(Scratch::None, Scratch::Given)),
        runtime: Runtime { write: "write", typed_body: ("typed_body", Some("range")), run: "async_for" },
    };
    with_copies(olds, expansion.emit())
}

/// Bounds that are numbers without a type are `usize`: `0..10`, `(0..10).rev()`.
fn with_index_type(range: &Expr) -> Expr {
    let mut range = peel(range.clone());
    if let Expr::Tuple(pair) = &mut range {
        pair.elems.iter_mut().for_each(|range| *range = with_index_type(range));
        return range;
    }
    if let Expr::MethodCall(call) = &mut range
        && (call.method == "rev" || call.method == "step_by")
    {
        let receiver = with_index_type(&call.receiver);
        // A range needs its parentheses, which `peel` takes off.
        *call.receiver = if let Expr::Range(_) = receiver { syn::parse_quote!((#receiver)) } else { receiver };
        return range;
    }
    if let Expr::Range(bounds) = &mut range
        && bounds.start.as_deref().is_some_and(is_untyped)
        && bounds.end.as_deref().is_some_and(is_untyped)
        && let Some(Expr::Lit(ExprLit { lit: Lit::Int(end), .. })) = bounds.end.as_deref_mut()
    {
        let typed = LitInt::new(&format!("{end}usize"), end.span());
        *end = typed;
    }
    range
}

fn is_untyped(bound: &Expr) -> bool {
    matches!(bound, Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) if int.suffix().is_empty())
}

fn loop_options(options: &Options, floats: Option<&OfFloats>, writes_own: bool) -> TokenStream {
    let mut calls = quote!(::stradsap::__private::LoopOptions::new());
    if let Some(OfFloats { reach, in_order }) = floats {
        let reach = reach.iter().map(|(before, behind)| quote!((#before, #behind)));
        calls.extend(quote!(.floats(&[#(#reach),*], #in_order)));
    }
    if let Some(on_failure) = &options.on_failure {
        let value = choice(on_failure, &quote!(::stradsap::OnFailure));
        calls.extend(quote!(.on_failure(#value)));
        if writes_own {
            calls.extend(quote!(.writes_own()));
        }
    }
    if let Some(order) = &options.order {
        let value = choice(order, &quote!(::stradsap::Order));
        calls.extend(quote!(.order(#value)));
    }
    if let Some(parts) = &options.parts {
        calls.extend(quote!(.parts(#parts)));
    }
    if let Some(grain) = &options.grain {
        calls.extend(quote!(.grain(#grain)));
    }
    if options.scratch.is_some() {
        calls.extend(quote!(.scratch()));
    }
    if let Some(staleness) = &options.staleness {
        calls.extend(quote!(.staleness(#staleness)));
    }
    if let Some(label) = &options.label {
        calls.extend(quote!(.label(#label)));
    }
    if let Some(strategy) = &options.strategy {
        let value = choice(strategy, &quote!(::stradsap::Strategy));
        calls.extend(quote!(.strategy(#value)));
    }
    calls
}

fn choice(choice: &Choice, of: &TokenStream) -> TokenStream {
    match choice {
        Choice::Word(word) => quote!(#of::#word),
        Choice::Computed(expr) => expr.to_token_stream(),
    }
}
