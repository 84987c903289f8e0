//! `async_parallel_for!`: iterations over a range of indices.

mod emit;
pub(super) mod old;
mod options;
pub(super) mod over;
mod parse;

use proc_macro2::TokenStream;
use syn::{Error, Expr, Ident};

use self::old::Old;
pub(crate) use self::options::NAMES as OPTIONS;
use self::options::Options;
use self::over::Over;
use self::parse::LoopSyntax;
use super::floats::{self, OfFloats};
use super::ir::{Capture, Closure, Kind, Mode};
use super::{body, captures, head, sums};
use crate::ctxt::Ctxt;

/// What is added to how near a capture is indexed, where the loop may run by tiles (`body/tiling.rs` of the runtime).
const IN_TILES: usize = 1 << 16;

/// Everything that the expansion is made from.
struct Loop {
    range: Expr,
    captures: Vec<Capture>,
    /// Those captured as `&mut x` that the body only adds to.
    added: Vec<Ident>,
    /// The copies of those that the body reads as they were before the loop.
    olds: Vec<Old>,
    closure: Closure,
    options: Options,
    /// Of a body that does nothing but compute with floats: what it does with them.
    floats: Option<OfFloats>,
    /// Whether the body does nothing but `x[i]`, by its own index, with what it may write.
    writes_own: bool,
}

/// The expansion of a call: an expression of type `stradsap::Result<LoopReport>`, after a mistake as well.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let understood = syn::parse2::<LoopSyntax>(input).map_err(|error| vec![error]).and_then(understand);
    match understood {
        Ok(parallel_loop) => emit::parallel_loop(&parallel_loop),
        Err(errors) => super::emit::mistakes(Kind::Async, &errors),
    }
}

/// The option and the body's second parameter belong together.
fn check_scratch(options: &Options, closure: &Closure, captured: &captures::CaptureList, cx: &Ctxt) {
    match (&options.scratch, &closure.scratch) {
        (Some(set_up), None) => cx.error_on(
            set_up,
            "the loop's body doesn't take its scratch: give it a second parameter, such as `|i, scratch|`",
        ),
        (None, Some(parameter)) => cx.error_on(
            parameter,
            "the loop's body has one parameter, the index of its iteration: all else comes through the capture \
             list; a second parameter is for `scratch = ...` after the body",
        ),
        _ => {}
    }
    if let Some(set_up) = &options.scratch {
        let known = body::Known { kind: Kind::Async, input: None, captured, parameters: &[] };
        body::check(set_up, &known, cx);
    }
}

fn understand(mut syntax: LoopSyntax) -> Result<Loop, Vec<Error>> {
    let cx = Ctxt::new();
    let mut captured = captures::check(syntax.captures, &cx);
    let parameters: Vec<_> = syntax.closure.inputs.iter().cloned().collect();
    let mut closure = head::check(Kind::Async, Over::of(&syntax.range), syntax.closure, &captured.captures, &cx);
    let known = body::Known { kind: Kind::Async, input: None, captured: &captured, parameters: &parameters };
    body::check(&closure.body, &known, &cx);
    let mut options = options::check(syntax.options, &cx);
    check_scratch(&options, &closure, &captured, &cx);
    let elements = over::elements(&syntax.range, &captured.captures, &cx);
    let olds = old::rewrite(&mut closure.body, options.scratch.as_mut(), &mut captured.captures, &cx);
    let added = sums::check(&closure.body, options.scratch.as_ref(), &captured.captures, &cx);
    cx.check()?;
    let (mut floats, mut writes_own) = (None, false);
    if let Some(index) = closure.parameter.as_ref().filter(|_| elements.is_none()) {
        floats = match &options.scratch {
            None => floats::of(&closure.body, index, &captured.captures),
            Some(_) => None,
        };
        writes_own = super::indices::writes_own(&closure.body, index, &captured.captures);
    }
    super::held::rewrite(&mut closure.body, closure.parameter.as_ref(), &captured.captures);
    if let Some(index) = closure.parameter.as_ref().filter(|_| elements.is_none()) {
        super::indices::rewrite(&mut closure.body, index, &mut captured.captures);
    }
    if options.may_preserve() {
        let written = captured.captures.iter_mut().filter(|capture| capture.mode == Mode::Write);
        written.for_each(|capture| capture.near += IN_TILES);
    }
    super::waits::rewrite(&mut closure.body, &captured.captures);
    if let Some(elements) = elements {
        elements.give(&mut syntax.range, &mut captured.captures, &mut closure);
    }
    Ok(Loop { range: syntax.range, captures: captured.captures, added, olds, closure, options, floats, writes_own })
}
