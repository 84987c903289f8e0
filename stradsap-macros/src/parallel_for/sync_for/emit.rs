//! The call of the runtime that a synchronous loop expands to.
//!
//! For `data, 1024, [alpha, &x, &mut p], |batch| body, SyncPolicy::Bsp`:
//!
//! ```text
//! match (
//!     SyncOptions::new(), input(&data), minibatch(1024), policy(SyncPolicy::Bsp),
//!     (value(&alpha),), (read(&x), write_shared(p.reborrow()),),
//! ) {
//!     (options, input, minibatch, policy, values, handles) => {
//!         let body = typed_batch_body(&input, &values, &handles, |values, views, batch| ...);
//!         sync_for(&SITE, options, input, minibatch, policy, values, handles, body)
//!     }
//! }
//! ```

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Expr;
use syn::spanned::Spanned;

use super::Loop;
use super::options::Options;
use crate::parallel_for::emit::{Expansion, Runtime, borrowed, call, end_of};
use crate::parallel_for::options::Choice;

/// The whole expansion.
pub(crate) fn parallel_loop(parallel_loop: &Loop) -> TokenStream {
    let Loop { input, minibatch, captures, closure, policy, options } = parallel_loop;
    Expansion {
        captures,
        added: &[],
        closure,
        arguments: vec![
            ("options", loop_options(options)),
            ("input", borrowed("input", input.span(), input)),
            ("minibatch", argument("minibatch", minibatch)),
            ("policy", argument("policy", policy)),
        ],
        scratch: None,
        runtime: Runtime { write: "write_shared", typed_body: ("typed_batch_body", Some("input")), run: "sync_for" },
    }
    .emit()
}

fn argument(function: &str, expr: &Expr) -> TokenStream {
    call(function, expr.span(), end_of(expr), expr.to_token_stream())
}

fn loop_options(options: &Options) -> TokenStream {
    let Options { merge, interval, label, prefetch, early, caches } = options;
    let mut calls = quote!(::stradsap::__private::SyncOptions::new());
    calls.extend(merge.as_ref().map(|merge| match merge {
        Choice::Word(rule) => quote!(.merge(::stradsap::MergeRule::#rule)),
        Choice::Computed(rule) => quote!(.merge(#rule)),
    }));
    calls.extend(interval.as_ref().map(|interval| quote!(.interval(#interval))));
    calls.extend(label.as_ref().map(|label| quote!(.label(#label))));
    calls.extend(prefetch.as_ref().map(|prefetch| quote!(.prefetch(#prefetch))));
    calls.extend(early.as_ref().map(|early| quote!(.early(#early))));
    calls.extend(caches.as_ref().map(|caches| quote!(.caches(#caches))));
    calls
}
