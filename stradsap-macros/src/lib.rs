//! The procedural macros of [stradsap](https://docs.rs/stradsap), which re-exports and documents them. (Examples here would depend
//! on that crate, so cargo would build it once more, as a dependency of a procedural macro.)
//!
//! Each macro has the same stages, each in files of its own: it parses, understands and checks the input, collects every mistake,
//! and only then emits code.

#![expect(missing_docs, reason = "stradsap documents what it re-exports")]

mod ctxt;
mod element;
mod main_fn;
mod nearest;
mod parallel_for;

use proc_macro::TokenStream;

#[proc_macro]
pub fn async_parallel_for(input: TokenStream) -> TokenStream {
    parallel_for::async_for::expand(input.into()).into()
}

#[proc_macro]
pub fn sync_parallel_for(input: TokenStream) -> TokenStream {
    parallel_for::sync_for::expand(input.into()).into()
}

#[proc_macro]
pub fn with(input: TokenStream) -> TokenStream {
    parallel_for::operator::expand(input.into()).into()
}

#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    main_fn::expand(&args.into(), item.into()).into()
}

#[proc_macro_derive(Element, attributes(element))]
pub fn derive_element(input: TokenStream) -> TokenStream {
    element::expand(input.into()).into()
}
