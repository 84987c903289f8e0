//! The policy: an expression, or the bare name of one.

use proc_macro2::Span;
use quote::ToTokens;
use syn::{Expr, ExprLit, Ident, Lit, Path, parse_quote};

use crate::ctxt::Ctxt;
use crate::nearest::slip;
use crate::parallel_for::parse::peel;

/// How each is written.
pub(crate) const OFFERED: &str = "`SyncPolicy::Bsp`, `Ssp { staleness: 2 }`, `Hybrid` and `ModelAverage { every: 8 }`";

const WORDS: [&str; 4] = ["Bsp", "Ssp", "Hybrid", "ModelAverage"];

/// The parameter of a policy and an example of its value.
fn parameter(word: &str) -> Option<&'static str> {
    match word {
        "Ssp" => Some("staleness: 2"),
        "ModelAverage" => Some("every: 8"),
        _ => None,
    }
}

/// Whether an expression is a policy by its spelling.
pub(crate) fn looks_like_policy(expr: &Expr) -> bool {
    match expr {
        Expr::Path(path) => {
            of_policy(&path.path) || bare(&path.path).is_some_and(|word| WORDS.iter().any(|w| word == w))
        }
        Expr::Struct(fields) => {
            of_policy(&fields.path) || bare(&fields.path).is_some_and(|word| WORDS.iter().any(|w| word == w))
        }
        Expr::Call(call) => looks_like_policy(&call.func),
        Expr::Paren(paren) => looks_like_policy(&paren.expr),
        Expr::Group(group) => looks_like_policy(&group.expr),
        _ => false,
    }
}

fn of_policy(path: &Path) -> bool {
    path.segments.iter().any(|segment| segment.ident == "SyncPolicy")
}

fn bare(path: &Path) -> Option<&Ident> {
    path.get_ident()
}

/// The policy as the runtime takes it: bare names are those of `SyncPolicy`.
pub(crate) fn check(policy: Expr, cx: &Ctxt) -> Expr {
    let _ = (cx, Span::call_site());
    match peel(policy.clone()) {
        Expr::Path(path) if path.qself.is_none() => {
            if let Some(word) = bare(&path.path)
                && WORDS.iter().any(|w| word == w)
            {
                return parse_quote!(::stradsap::SyncPolicy::#word);
            }
            policy
        }
        Expr::Struct(mut fields) => {
            if let Some(word) = bare(&fields.path).cloned()
                && WORDS.iter().any(|w| word == *w)
            {
                fields.path = parse_quote!(::stradsap::SyncPolicy::#word);
            }
            Expr::Struct(fields)
        }
        _ => policy,
    }
}
