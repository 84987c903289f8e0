//! `async_parallel_for!`: parse, understand, check, emit.

mod body;
mod captures;
mod emit;
mod head;
mod here;
mod ir;
mod options;
mod parse;

use proc_macro2::TokenStream;
use syn::{Error, Pat};

use self::captures::CaptureList;
use self::ir::Loop;
use self::parse::LoopSyntax;
use crate::ctxt::Ctxt;

/// The expansion of a call: an expression of type `stradsap::Result<LoopReport>`, after a mistake as well.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let syntax = match syn::parse2::<LoopSyntax>(input) {
        Ok(syntax) => syntax,
        Err(error) => return emit::mistakes(&[error]),
    };
    match understand(syntax) {
        Ok(parallel_loop) => emit::parallel_loop(&parallel_loop),
        Err(errors) => emit::mistakes(&errors),
    }
}

fn understand(syntax: LoopSyntax) -> Result<Loop, Vec<Error>> {
    let cx = Ctxt::new();
    let bound: Vec<Pat> = syntax.closure.inputs.iter().cloned().collect();
    let CaptureList { captures, excused } = captures::check(syntax.captures, &cx);
    let mut closure = head::check(syntax.closure, &captures, &cx);
    body::check(&closure.body, &bound, &captures, &excused, &cx);
    let options = options::check(syntax.options, &cx);
    cx.check()?;
    here::rewrite(&mut closure.body, closure.index.as_ref(), &captures);
    Ok(Loop { range: syntax.range, captures, closure, options })
}
