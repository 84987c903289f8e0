//! The expansion: the closure rewritten so that everything it uses arrives as an argument.
//!
//! Tokens that the user wrote keep their spans, so that editors and rustc point at them. Nearly everything else has
//! the macro's own span context, moved to where a mistake would have to be shown: names are then invisible to the
//! user's code, and lints leave it alone. The expansion, for `0..n, [alpha, &x, &mut p], |i| body`:
//!
//! ```text
//! match (LoopOptions::new(), range(0..n), (value(&alpha),), (read(&x), write(p.reborrow()),)) {
//!     (options, range, values, handles) => {
//!         let values = each value with its codec;
//!         let body = typed_body(&values, &handles, |values, views, i| {
//!             let (alpha,) = values;
//!             let alpha = by value if Copy, else by reference;
//!             let (x, p,) = views;
//!             body
//!         });
//!         if false { body_uses_only_its_capture_list(body); }
//!         async_for(&SITE, options, range, values, handles, body)
//!     }
//! }
//! ```

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, ExprMethodCall, ExprReference, Lit, LitInt, Token};

use super::ir::{Capture, Closure, Loop, Mode};
use super::options::{Choice, Options};
use super::parse::peel;
use crate::ctxt::compile_errors;

/// What mistakes expand to: the errors, and an expression of the right type that causes no more of them.
pub(crate) fn mistakes(errors: &[Error]) -> TokenStream {
    let errors = compile_errors(errors);
    quote! {{
        #errors
        (|| -> ::stradsap::Result<::stradsap::LoopReport> { ::core::unreachable!() })()
    }}
}

/// The call of the runtime.
pub(crate) fn parallel_loop(parallel_loop: &Loop) -> TokenStream {
    let Loop { range, captures, closure, options } = parallel_loop;
    let (values, handles): (Vec<&Capture>, Vec<&Capture>) =
        captures.iter().partition(|capture| capture.mode == Mode::Value);
    let site = site(&handles);
    let warnings = warnings(captures, &closure.body);
    let given = [
        loop_options(options),
        call("range", range.span(), end_of(range), with_index_type(range).into_token_stream()),
        tuple(values.iter().map(|capture| argument(capture))),
        tuple(handles.iter().map(|capture| argument(capture))),
    ];
    let task = task(closure, &values, &handles);
    // What rustc has to say about the body's captures points at its head, about its result at all of it.
    let (head, end) = (own_span(closure.header), own_span(end_of(&closure.body)));
    let body = Ident::new("body", head);
    // Names that the user's code can't see.
    let own = Span::mixed_site();
    let codecs = codecs(values.len());
    let typed_body = call("typed_body", head, end, quote_spanned!(own=> &values, &handles, #task));
    let only_its_list = call("body_uses_only_its_capture_list", head, head, quote!(#body));
    let async_for = call("async_for", head, end, quote_spanned!(own=> #site, options, range, values, handles, #body));
    // A match keeps the temporaries of what it looks at.
    quote_spanned! {own=> {
        #warnings
        #[allow(unused_imports)]
        use ::stradsap::__private::Reborrow as _;
        match (#(#given,)*) {
            (options, range, values, handles) => {
                #codecs
                let #body = #typed_body;
                if false {
                    #only_its_list;
                }
                #async_for
            }
        }
    }}
}

fn tuple(elements: impl Iterator<Item = TokenStream>) -> TokenStream {
    quote!((#(#elements,)*))
}

/// Gives each captured value the codec that its type has.
fn codecs(values: usize) -> TokenStream {
    if values == 0 {
        return TokenStream::new();
    }
    let own = Span::mixed_site();
    let names: Vec<Ident> = (0..values).map(|at| format_ident!("value{at}", span = own)).collect();
    quote_spanned! {own=>
        let (#(#names,)*) = values;
        let values = {
            #[allow(unused_imports)]
            use ::stradsap::__private::{AnyCodec as _, SerdeCodec as _};
            (#(#names.by((&#names.probe()).codec()),)*)
        };
    }
}

/// A call of one of the runtime's functions that extends from one place to another in the eyes of rustc, so that
/// it underlines all that lies between.
fn call(function: &str, first: Span, last: Span, arguments: TokenStream) -> TokenStream {
    let colons = Token![::](first);
    let name = Ident::new(function, last);
    let mut arguments = Group::new(Delimiter::Parenthesis, arguments);
    arguments.set_span(last);
    quote!(#colons stradsap::__private::#name #arguments)
}

/// Where the last token of an expression stands.
fn end_of(expr: &Expr) -> Span {
    expr.to_token_stream().into_iter().last().map_or_else(|| expr.span(), |token| token.span())
}

/// Bounds that are numbers without a type are of the index's type: `0..10`.
fn with_index_type(range: &Expr) -> Expr {
    let mut range = peel(range.clone());
    if let Expr::Range(bounds) = &mut range
        && bounds.start.as_deref().is_some_and(is_untyped)
        && bounds.end.as_deref().is_some_and(is_untyped)
        && let Some(Expr::Lit(ExprLit { lit: Lit::Int(end), .. })) = bounds.end.as_deref_mut()
    {
        let typed = LitInt::new(&format!("{end}usize"), end.span());
        *end = typed;
    }
    range
}

fn is_untyped(bound: &Expr) -> bool {
    matches!(bound, Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) if int.suffix().is_empty())
}

/// The static stands in a block of its own, where the user's code can't see it.
fn site(handles: &[&Capture]) -> TokenStream {
    let names = handles.iter().map(|capture| super::body::scope::name_of(&capture.name));
    quote! {{
        static SITE: ::stradsap::__private::Site =
            ::stradsap::__private::Site::new(::core::file!(), ::core::line!(), ::core::column!(), &[#(#names),*]);
        &SITE
    }}
}

fn loop_options(options: &Options) -> TokenStream {
    let mut calls = quote!(::stradsap::__private::LoopOptions::new());
    if let Some(order) = &options.order {
        let value = choice(order, &quote!(::stradsap::Order));
        calls.extend(quote!(.order(#value)));
    }
    if let Some(parts) = &options.parts {
        calls.extend(quote!(.parts(#parts)));
    }
    if let Some(label) = &options.label {
        calls.extend(quote!(.label(#label)));
    }
    if let Some(strategy) = &options.strategy {
        let value = choice(strategy, &quote!(::stradsap::Strategy));
        calls.extend(quote!(.strategy(#value)));
    }
    calls
}

fn choice(choice: &Choice, of: &TokenStream) -> TokenStream {
    match choice {
        Choice::Word(word) => quote!(#of::#word),
        Choice::Computed(expr) => expr.to_token_stream(),
    }
}

/// A capture as the runtime takes it. What rustc has to say about it points at the entry in the list.
fn argument(capture: &Capture) -> TokenStream {
    let place = Box::new(capture.place.clone());
    // Function and argument extend over the same text in the user's own context: only then does rustc see that
    // what it could say about either is the same.
    let last = end_of(&place);
    if capture.mode == Mode::Write {
        let first = place.span();
        // By a method call, so that a parameter `p: &mut DVector<T>` is captured as `&mut p` without being `mut`.
        let reborrow = ExprMethodCall {
            attrs: Vec::new(),
            receiver: place,
            dot_token: Token![.](last),
            method: Ident::new("__stradsap_reborrow", last),
            turbofish: None,
            paren_token: syn::token::Paren(last),
            args: syn::punctuated::Punctuated::new(),
        };
        return call("write", first, last, reborrow.into_token_stream());
    }
    let (function, first) = match &capture.and {
        Some(and) => ("read", and.span),
        None => ("value", place.span()),
    };
    let reference = ExprReference { attrs: Vec::new(), and_token: Token![&](first), mutability: None, expr: place };
    call(function, first, last, reference.into_token_stream())
}

/// The closure, from whose arguments the captured names are bound first.
fn task(closure: &Closure, values: &[&Capture], handles: &[&Capture]) -> TokenStream {
    let span = own_span(closure.header);
    let Closure { movability, index, output, .. } = closure;
    let body = statements(&closure.body);
    let index = index.as_ref().map_or_else(|| quote!(_), |index| index.pattern.to_token_stream());
    let given_values = Ident::new("values", span);
    let given_views = Ident::new("views", span);
    let value_names: Vec<&Ident> = values.iter().map(|capture| &capture.name).collect();
    let view_names = handles.iter().map(|capture| &capture.name);
    // rustc would propose to rename an unused capture to `_x`, which would capture something else; the macro has
    // a warning of its own.
    let allow = quote_spanned! {span=>
        #[allow(unused_variables, clippy::shadow_reuse, clippy::shadow_same, clippy::shadow_unrelated)]
    };
    quote_spanned! {span=>
        #movability |#given_values, #given_views, #index| #output {
            let (#(#value_names,)*) = #given_values;
            #(
                #allow
                let #value_names = {
                    #[allow(unused_imports)]
                    use ::stradsap::__private::{CopyValue as _, RefValue as _};
                    (&::stradsap::__private::Probe(#value_names)).by_value()
                };
            )*
            #allow
            let (#(#view_names,)*) = #given_views;
            #(#body)*
        }
    }
}

/// The statements of the body, without the braces around them: within the closure's own they would be one pair
/// too many, and rustc would propose to remove the user's.
fn statements(body: &Expr) -> Vec<TokenStream> {
    match body {
        Expr::Block(block) if block.attrs.is_empty() && block.label.is_none() => {
            block.block.stmts.iter().map(ToTokens::to_token_stream).collect()
        }
        body => vec![body.to_token_stream()],
    }
}

/// A warning for each capture that the body never mentions. Stable macros can't warn, but they can use something
/// that is deprecated.
fn warnings(captures: &[Capture], body: &Expr) -> TokenStream {
    let unused = captures.iter().filter(|capture| !mentions(body.to_token_stream(), &capture.name));
    unused
        .map(|capture| {
            let name = &capture.name;
            let span = own_span(name.span());
            let note = format!("the loop's body doesn't use `{name}`: remove it from the capture list");
            let unused_capture = Ident::new("unused_capture", span);
            quote_spanned! {span=> {
                #[allow(non_upper_case_globals)]
                #[deprecated(note = #note)]
                const #unused_capture: () = ();
                let () = #unused_capture;
            }}
        })
        .collect()
}

/// Whether a name stands anywhere in some tokens, in the arguments of macros and in format strings too.
fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident.unraw() == name.unraw(),
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Literal(literal) => literal.to_string().contains(&name.unraw().to_string()),
        TokenTree::Punct(_) => false,
    })
}

/// The macro's own context, at a place in the user's source.
fn own_span(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}
