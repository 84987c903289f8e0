//! `#[element(serde)]`, and the representation of the type.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, Data, DeriveInput};

use crate::ctxt::Ctxt;

/// How an element is turned into bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Field by field, or as memory if it is nothing else.
    Fields,
    /// By its `serde::Serialize`.
    Serde,
}

const OFFERED: &str = "the only option is `#[element(serde)]`";

/// Reads the `#[element]` attributes; those on fields and variants are mistakes.
pub(crate) fn form(input: &DeriveInput, cx: &Ctxt) -> Form {
    let mut form = Form::Fields;
    for attr in elements(&input.attrs) {
        let mut empty = true;
        let parsed = attr.parse_nested_meta(|meta| {
            empty = false;
            option(&meta, &mut form)
        });
        match parsed {
            Err(error) => cx.push(error),
            Ok(()) if empty => cx.error_on(attr, OFFERED),
            Ok(()) => {}
        }
    }
    inner_attributes(&input.data, cx);
    form
}

fn option(meta: &ParseNestedMeta<'_>, form: &mut Form) -> syn::Result<()> {
    if !meta.path.is_ident("serde") {
        return Err(meta.error(format!("unknown option: {OFFERED}")));
    }
    if *form == Form::Serde {
        return Err(meta.error("`serde` is given twice"));
    }
    *form = Form::Serde;
    Ok(())
}

fn inner_attributes(data: &Data, cx: &Ctxt) {
    let refuse = |attrs: &[Attribute]| {
        for attr in elements(attrs) {
            cx.error_on(attr, "`#[element]` stands on the whole type, not on a part of it");
        }
    };
    match data {
        Data::Struct(data) => data.fields.iter().for_each(|field| refuse(&field.attrs)),
        Data::Enum(data) => {
            for variant in &data.variants {
                refuse(&variant.attrs);
                variant.fields.iter().for_each(|field| refuse(&field.attrs));
            }
        }
        Data::Union(data) => data.fields.named.iter().for_each(|field| refuse(&field.attrs)),
    }
}

fn elements(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("element"))
}

/// Whether the type is `#[repr(packed)]`, so that its fields can't be borrowed.
pub(crate) fn is_packed(attrs: &[Attribute]) -> bool {
    let mut packed = false;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        // rustc checks the attribute itself.
        let _ = attr.parse_nested_meta(|meta| {
            packed |= meta.path.is_ident("packed");
            if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<proc_macro2::TokenStream>()?;
            }
            Ok(())
        });
    }
    packed
}
