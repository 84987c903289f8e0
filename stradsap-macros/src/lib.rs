//! The procedural macros of [stradsap](https://docs.rs/stradsap), which re-exports them.
//!
//! Each goes through the same stages in files of their own: what was written is parsed, understood and checked,
//! with every mistake gathered, and only then is anything emitted.

mod ctxt;
mod element;
mod main_fn;
mod nearest;
mod parallel_for;

use proc_macro::TokenStream;

/// TODO
#[proc_macro]
pub fn async_parallel_for(input: TokenStream) -> TokenStream {
    parallel_for::expand(input.into()).into()
}
/// TODO
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    main_fn::expand(args.into(), item.into()).into()
}
/// TODO
#[proc_macro_derive(Element, attributes(element))]
pub fn derive_element(input: TokenStream) -> TokenStream {
    element::expand(input.into()).into()
}
