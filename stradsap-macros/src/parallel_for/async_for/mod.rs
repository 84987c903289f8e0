//! `async_parallel_for!`: iterations over a range of indices.

mod emit;
mod options;
mod parse;

use proc_macro2::TokenStream;
use syn::{Error, Expr};

pub(crate) use self::options::NAMES as OPTIONS;
use self::options::Options;
use self::parse::LoopSyntax;
use super::ir::{Capture, Closure, Kind};
use super::{body, captures, head};
use crate::ctxt::Ctxt;

/// Everything that the expansion is made from.
struct Loop {
    range: Expr,
    captures: Vec<Capture>,
    closure: Closure,
    options: Options,
}

/// The expansion of a call: an expression of type `stradsap::Result<LoopReport>`, after a mistake as well.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let understood = syn::parse2::<LoopSyntax>(input).map_err(|error| vec![error]).and_then(understand);
    match understood {
        Ok(parallel_loop) => emit::parallel_loop(&parallel_loop),
        Err(errors) => super::emit::mistakes(Kind::Async, &errors),
    }
}

fn understand(syntax: LoopSyntax) -> Result<Loop, Vec<Error>> {
    let cx = Ctxt::new();
    let captured = captures::check(syntax.captures, &cx);
    let parameters: Vec<_> = syntax.closure.inputs.iter().cloned().collect();
    let mut closure = head::check(Kind::Async, syntax.closure, &captured.captures, &cx);
    let known = body::Known { kind: Kind::Async, input: None, captured: &captured, parameters: &parameters };
    body::check(&closure.body, &known, &cx);
    let options = options::check(syntax.options, &cx);
    cx.check()?;
    super::indices::rewrite(&mut closure.body, closure.parameter.as_ref(), &captured.captures);
    Ok(Loop { range: syntax.range, captures: captured.captures, closure, options })
}
