//! `range, [captures], |i| body, name = value, ...`

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, ExprClosure, Result, Token};

use super::options;
use crate::parallel_for::parse::{self, OptionSyntax, captures_ahead, comma};
use crate::parallel_for::sync_for;

/// A call as it was written.
pub(crate) struct LoopSyntax {
    pub(crate) range: Expr,
    pub(crate) captures: Vec<Expr>,
    pub(crate) closure: ExprClosure,
    pub(crate) options: Vec<OptionSyntax>,
}

const USAGE: &str = "a loop takes a range, a capture list and a closure: \
                     `async_parallel_for!(0..n, [alpha, &x, &mut y], |i| { ... })`";

impl Parse for LoopSyntax {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Err(Error::new(Span::call_site(), USAGE));
        }
        parse::refuse_in(input, "index", "[&x, &mut y]")?;
        let range = input.parse()?;
        comma(input, "the range", USAGE)?;
        refuse_minibatch(input)?;
        let captures = parse::captures(input)?;
        comma(input, "the capture list", USAGE)?;
        let closure = parse::closure(input)?.map_err(|other| {
            let message = match other {
                Expr::Assign(_) => "options stand behind the loop's body: `|i| { ... }, order = Preserve`",
                _ => "the loop's body is a closure of one parameter, the iteration's index: `|i| { ... }`",
            };
            Error::new_spanned(other, message)
        })?;
        let options = parse::options(input, options::USAGE, refuse_policy)?;
        Ok(LoopSyntax { range, captures, closure, options })
    }
}

/// Two arguments before the capture list are those of the other loop.
fn refuse_minibatch(input: ParseStream<'_>) -> Result<()> {
    let fork = input.fork();
    if captures_ahead(&fork) {
        return Ok(());
    }
    let Ok(second) = fork.parse::<Expr>() else { return Ok(()) };
    if fork.parse::<Token![,]>().is_ok() && captures_ahead(&fork) {
        return Err(Error::new_spanned(
            second,
            format!(
                "`async_parallel_for!` runs over a range, without minibatches: remove this argument, or use {}",
                sync_for::CALL
            ),
        ));
    }
    Ok(())
}

fn refuse_policy(input: ParseStream<'_>) -> Option<Error> {
    let expr = input.fork().parse::<Expr>().ok()?;
    sync_for::looks_like_policy(&expr).then(|| {
        Error::new_spanned(
            expr,
            format!(
                "`async_parallel_for!` takes no policy, since its result is that of a serial order: remove it, or use {}",
                sync_for::CALL
            ),
        )
    })
}
