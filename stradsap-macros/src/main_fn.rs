//! `#[stradsap::main]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, FnArg, ItemFn, ReturnType, Type};

use crate::ctxt::{Ctxt, compile_errors};

const WANTED: &str = "the program starts with one parameter, the session: `fn main(session: &Session)`";

/// The program's `main`, around the function that was written.
pub(crate) fn expand(args: &TokenStream, item: TokenStream) -> TokenStream {
    let function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(_) => {
            let error =
                Error::new_spanned(item, "`#[stradsap::main]` stands on a function: `fn main(session: &Session)`");
            return with_empty_main(&[error], None);
        }
    };
    match check(args, &function) {
        Ok(()) => emit(&function),
        Err(errors) => with_empty_main(&errors, Some(&function)),
    }
}

fn check(args: &TokenStream, function: &ItemFn) -> Result<(), Vec<Error>> {
    let cx = Ctxt::new();
    let sig = &function.sig;
    if !args.is_empty() {
        cx.error_on(args, "`#[stradsap::main]` takes no arguments: the session is set up by its own methods");
    }
    if let Some(asyncness) = sig.asyncness {
        cx.error_at(asyncness.span, "the program's main function can't be async: remove `async`");
    }
    if let Some(constness) = sig.constness {
        cx.error_at(constness.span, "the program's main function can't be `const`: remove it");
    }
    if let Some(unsafety) = sig.unsafety {
        cx.error_at(unsafety.span, "the program's main function can't be `unsafe`: remove it");
    }
    if let Some(abi) = &sig.abi {
        cx.error_on(abi, "the program's main function can't be `extern`: remove it");
    }
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        cx.error_on(&sig.generics, "the program's main function can't be generic");
    }
    let mut inputs = sig.inputs.iter();
    match inputs.next() {
        None => cx.error_at(sig.paren_token.span.join(), WANTED),
        Some(FnArg::Receiver(receiver)) => cx.error_on(receiver, WANTED),
        Some(FnArg::Typed(typed)) => check_session(&typed.ty, &cx),
    }
    for more in inputs {
        cx.error_on(more, WANTED);
    }
    cx.check()
}

fn check_session(ty: &Type, cx: &Ctxt) {
    match ty {
        Type::Reference(reference) if reference.mutability.is_none() => {}
        Type::Paren(paren) => check_session(&paren.elem, cx),
        Type::Group(group) => check_session(&group.elem, cx),
        other => cx.error_on(other, WANTED),
    }
}

fn emit(function: &ItemFn) -> TokenStream {
    let name = &function.sig.ident;
    let parameter = match function.sig.inputs.first() {
        Some(FnArg::Typed(typed)) => typed.ty.span(),
        _ => name.span(),
    };
    let result = match &function.sig.output {
        ReturnType::Default => name.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    // What rustc has to say about the parameter points at its type, and about the result at the result's.
    let session = format_ident!("session", span = Span::mixed_site());
    let argument = format_ident!("session", span = Span::mixed_site().located_at(parameter));
    let launch = quote_spanned! {Span::mixed_site().located_at(result)=>
        ::stradsap::__private::launch(|#session| #name(#argument))
    };
    if name == "main" {
        let mut inner = function.clone();
        inner.vis = syn::Visibility::Inherited;
        quote! {
            fn main() -> ::std::process::ExitCode {
                #inner
                #launch
            }
        }
    } else {
        quote! {
            #function
            fn main() -> ::std::process::ExitCode {
                #launch
            }
        }
    }
}

/// After a mistake there is still a `main`, so that rustc doesn't ask for one.
fn with_empty_main(errors: &[Error], function: Option<&ItemFn>) -> TokenStream {
    let errors = compile_errors(errors);
    match function {
        Some(function) if function.sig.ident != "main" => quote!(#errors #function fn main() {}),
        Some(function) => quote!(#errors fn main() { #[allow(dead_code)] #function }),
        None => quote!(#errors fn main() {}),
    }
}
