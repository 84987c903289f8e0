//! `input, minibatch, [captures], |batch| body, policy, name = value, ...`

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, ExprClosure, ExprLit, Ident, Result, Token};

use super::{options, policy};
use crate::parallel_for::parse::{self, OptionSyntax, captures_ahead, comma, ends_here, option_ahead, peel};

/// A call as it was written.
pub(crate) struct LoopSyntax {
    pub(crate) input: Expr,
    pub(crate) minibatch: Expr,
    pub(crate) captures: Vec<Expr>,
    pub(crate) closure: ExprClosure,
    pub(crate) policy: Expr,
    pub(crate) options: Vec<OptionSyntax>,
}

/// How the loop is called.
pub(crate) const CALL: &str = "`sync_parallel_for!(data, 1024, [alpha, &x, &mut y], |batch| { ... }, SyncPolicy::Bsp)`";

const USAGE: &str = "a loop over minibatches takes an input, the size of a minibatch, a capture list, a closure and a \
                     policy: `sync_parallel_for!(data, 1024, [alpha, &x, &mut y], |batch| { ... }, SyncPolicy::Bsp)`";

impl Parse for LoopSyntax {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Err(Error::new(Span::call_site(), USAGE));
        }
        let data = data(input)?;
        comma(input, "the input", USAGE)?;
        let minibatch = minibatch(input)?;
        comma(input, "the minibatch's size", USAGE)?;
        let captures = parse::captures(input)?;
        comma(input, "the capture list", USAGE)?;
        let closure = closure(input)?;
        let policy = policy(input)?;
        let options = parse::options(input, options::USAGE, refuse_policy)?;
        Ok(LoopSyntax { input: data, minibatch, captures, closure, policy, options })
    }
}

fn data(input: ParseStream<'_>) -> Result<Expr> {
    if captures_ahead(input) {
        return Err(input.error(format!("the input and the size of a minibatch come before the capture list: {CALL}")));
    }
    parse::refuse_in(input, "minibatch", "1024, [&x, &mut y]")?;
    let data: Expr = input.parse()?;
    match peel(data.clone()) {
        Expr::Range(range) => Err(Error::new_spanned(
            range,
            "the input is a DVector, whose elements the minibatches are made of: for a loop over indices use \
             `async_parallel_for!(0..n, [alpha, &x, &mut y], |i| { ... })`",
        )),
        Expr::Lit(ExprLit { lit, .. }) => {
            Err(Error::new_spanned(lit, format!("the input, a DVector, comes first: {CALL}")))
        }
        Expr::Closure(closure) => {
            Err(Error::new(closure.or1_token.span, format!("the closure comes after the capture list: {CALL}")))
        }
        _ => Ok(data),
    }
}

fn minibatch(input: ParseStream<'_>) -> Result<Expr> {
    let missing = "the size of a minibatch is missing: it stands between the input and the capture list";
    if captures_ahead(input) {
        return Err(input.error(format!("{missing}, {CALL}")));
    }
    let minibatch: Expr = input.parse()?;
    match peel(minibatch.clone()) {
        Expr::Closure(closure) => Err(Error::new(closure.or1_token.span, format!("{missing}, {CALL}"))),
        _ => Ok(minibatch),
    }
}

fn closure(input: ParseStream<'_>) -> Result<ExprClosure> {
    parse::closure(input)?.map_err(|other| {
        let message = if policy::looks_like_policy(&other) {
            format!("the policy comes after the closure: {CALL}")
        } else {
            "the loop's body is a closure of one parameter, the minibatch: `|batch| { ... }`".to_string()
        };
        Error::new_spanned(other, message)
    })
}

fn policy(input: ParseStream<'_>) -> Result<Expr> {
    let missing = || format!("the policy is missing: it follows the closure, one of {}", policy::OFFERED);
    if ends_here(input) {
        return Err(Error::new(Span::call_site(), missing()));
    }
    input.parse::<Token![,]>()?;
    if option_ahead(input) {
        let name = input.fork().call(Ident::parse_any)?;
        let message = match name.to_string().as_str() {
            "policy" | "sync" => "the policy has no name: write it alone, `SyncPolicy::Bsp` for instance".to_string(),
            _ => missing(),
        };
        return Err(Error::new(name.span(), message));
    }
    input.parse()
}

fn refuse_policy(input: ParseStream<'_>) -> Option<Error> {
    let expr = input.fork().parse::<Expr>().ok()?;
    let again = policy::looks_like_policy(&expr);
    again.then(|| Error::new_spanned(expr, "a loop has one policy, which stands right behind the closure"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(call: &str, because: &str) {
        let error = syn::parse_str::<LoopSyntax>(call).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(because), "{call}: {error}");
    }

    #[test]
    fn all_arguments_in_their_order() {
        for call in [
            "data, 8, [], |batch| (), SyncPolicy::Bsp",
            "&model.data, n / 4, [alpha, &x, &mut y], |batch| { }, Ssp { staleness: 2 }, label = \"a\", prefetch = true,",
            "data, 8, [], |batch| (), if fast { SyncPolicy::Hybrid } else { policy },",
            "data, 8, [], |_| (), a == b",
        ] {
            assert!(syn::parse_str::<LoopSyntax>(call).is_ok(), "{call}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        refused("", "a loop over minibatches takes an input");
        refused("data", "nothing follows the input");
        refused("data,", "nothing follows the input");
        refused("data, [&x], |batch| (), Bsp", "the size of a minibatch is missing");
        refused("data, |batch| (), Bsp", "the size of a minibatch is missing");
        refused("data, 8", "nothing follows the minibatch's size");
        refused("data, 8, |batch| (), Bsp", "the capture list is missing");
        refused("data, 8, [&x]", "nothing follows the capture list");
        refused("data, 8, [&x], Bsp", "the policy comes after the closure");
        refused("data, 8, [&x], { }, Bsp", "a closure of one parameter, the minibatch");
        refused("data, 8, [&x], |batch| ()", "the policy is missing");
        refused("data, 8, [&x], |batch| (),", "the policy is missing");
        refused("data, 8, [&x], |batch| (), label = \"a\"", "the policy is missing");
    }

    #[test]
    fn another_order() {
        refused("8, data, [&x], |batch| (), Bsp", "the input, a DVector, comes first");
        refused("[&x], data, 8, |batch| (), Bsp", "come before the capture list");
        refused("|batch| (), data, 8, [&x], Bsp", "the closure comes after the capture list");
        refused("data, 8, [&x], SyncPolicy::Bsp, |batch| ()", "the policy comes after the closure");
        refused("data, 8, [&x], |batch| (), label = \"a\", Bsp", "the policy is missing");
        refused("data, 8, [&x], |batch| (), policy = Bsp", "the policy has no name");
        refused("data, 8, [&x], |batch| (), policy, SyncPolicy::Bsp", "a loop has one policy");
        refused("data, 8, [&x], |batch| (), Bsp, \"a\"", "options are written `name = value`");
        refused("0..n, 8, [&x], |batch| (), Bsp", "for a loop over indices use `async_parallel_for!");
        refused("0..n, [&x], |i| ()", "for a loop over indices use `async_parallel_for!");
    }
}
