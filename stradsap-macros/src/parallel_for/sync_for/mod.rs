//! `sync_parallel_for!`: minibatches of an input, on copies that a policy keeps together.

mod emit;
mod input;
mod options;
mod parse;
mod policy;

use proc_macro2::TokenStream;
use syn::{Error, Expr};

pub(crate) use self::options::NAMES as OPTIONS;
use self::options::Options;
pub(crate) use self::parse::CALL;
use self::parse::LoopSyntax;
pub(crate) use self::policy::looks_like_policy;
use super::async_for::over::Over;
use super::ir::{Capture, Closure, Kind};
use super::{body, captures, head, sums};
use crate::ctxt::Ctxt;

/// Everything that the expansion is made from.
struct Loop {
    input: Expr,
    minibatch: Expr,
    captures: Vec<Capture>,
    closure: Closure,
    policy: Expr,
    options: Options,
}

/// The expansion of a call: an expression of type `stradsap::Result<SyncReport>`, after a mistake as well.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let understood = syn::parse2::<LoopSyntax>(input).map_err(|error| vec![error]).and_then(understand);
    match understood {
        Ok(parallel_loop) => emit::parallel_loop(&parallel_loop),
        Err(errors) => super::emit::mistakes(Kind::Sync, &errors),
    }
}

fn understand(syntax: LoopSyntax) -> Result<Loop, Vec<Error>> {
    let cx = Ctxt::new();
    let captured = captures::check(syntax.captures, &cx);
    sums::refuse(&captured.captures, &cx);
    let input = input::check(syntax.input, &captured.captures, &cx);
    let minibatch = input::minibatch(syntax.minibatch, &cx);
    let parameters: Vec<_> = syntax.closure.inputs.iter().cloned().collect();
    let closure = head::check(Kind::Sync, Over::Numbers, syntax.closure, &captured.captures, &cx);
    let input_name = input::name(&input);
    let known =
        body::Known { kind: Kind::Sync, input: input_name.as_ref(), captured: &captured, parameters: &parameters };
    body::check(&closure.body, &known, &cx);
    let policy = policy::check(syntax.policy, &cx);
    let options = options::check(syntax.options, &policy, &cx);
    cx.check()?;
    Ok(Loop { input, minibatch, captures: captured.captures, closure, policy, options })
}
