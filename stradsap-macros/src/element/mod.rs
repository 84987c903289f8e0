//! `#[derive(Element)]`: attributes, check, emit.

mod attr;
mod emit;

use proc_macro2::TokenStream;
use syn::{Data, DeriveInput, Error};

use self::attr::Form;
use crate::ctxt::{Ctxt, compile_errors};

/// The implementation of `Element`.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(input) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    match check(&input) {
        Ok(form) => emit::implementation(&input, form),
        Err(errors) => compile_errors(&errors),
    }
}

fn check(input: &DeriveInput) -> Result<Form, Vec<Error>> {
    let cx = Ctxt::new();
    let form = attr::form(input, &cx);
    if let Data::Union(data) = &input.data {
        cx.error_at(
            data.union_token.span,
            "a union can't be an element of a DDS: which of its fields holds is known to nobody; use an enum",
        );
    }
    for lifetime in input.generics.lifetimes() {
        cx.error_on(lifetime, "an element of a DDS owns all it holds and can't have lifetime parameters");
    }
    cx.check()?;
    Ok(form)
}
