//! The procedural macros of [stradsap](https://docs.rs/stradsap), which re-exports and documents them: examples would have to
//! depend on that crate, and so have it built once more for the compiler's own machine.
//!
//! Each goes through the same stages, in files of their own: what was written is parsed, understood and checked,
//! with every mistake gathered, and only then is anything emitted.

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
