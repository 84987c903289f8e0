//! The expansion: the closure rewritten so that everything it uses arrives as an argument.
//!
//! Tokens that the user wrote keep their spans, so that editors and rustc point at them. Nearly everything else has
//! the macro's own span context, moved to where a mistake would have to be shown: names are then invisible to the
//! user's code, and lints leave it alone. The expansion, for `[alpha, &x, &mut p], |i| body`:
//!
//! ```text
//! match (options and other arguments, (value(&alpha),), (read(&x), write(p.reborrow()),)) {
//!     (options, and, others, values, handles) => {
//!         let values = each value with its codec;
//!         let scratch = typed_scratch(&values, &handles, |values, views| what sets it up, or ());
//!         let body = typed_body(&range, &values, &handles, &scratch, |values, views, scratch, i| {
//!             let (alpha,) = values;
//!             let alpha = by value if Copy, else by reference;
//!             let (x, p,) = views;
//!             body
//!         });
//!         if false { loop_uses_only_its_capture_list(body); }
//!         async_for(&SITE, options, and, others, values, handles, scratch, body)
//!     }
//! }
//! ```

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprMethodCall, ExprReference, Token};

use super::apart;
use super::async_for::old::shown;
use super::body::call_unknown;
use super::ir::{Capture, Closure, Kind, Mode};
use crate::ctxt::compile_errors;

/// What mistakes expand to: the errors, and an expression of the right type that causes no more of them.
pub(crate) fn mistakes(kind: Kind, errors: &[Error]) -> TokenStream {
    let errors = compile_errors(errors);
    let report = match kind {
        Kind::Async => quote!(::stradsap::LoopReport),
        Kind::Sync | Kind::Operator => quote!(::stradsap::SyncReport),
    };
    quote! {{
        #errors
        (|| -> ::stradsap::Result<#report> { ::core::unreachable!() })()
    }}
}

/// What the expansions of both loops have in common.
pub(crate) struct Expansion<'l> {
    pub(crate) captures: &'l [Capture],
    /// Those captured as `&mut x` that the body only adds to.
    pub(crate) added: &'l [Ident],
    pub(crate) closure: &'l Closure,
    /// The arguments besides the captures: the name that the expansion gives each, and the call that makes it.
    pub(crate) arguments: Vec<(&'static str, TokenStream)>,
    /// What sets up the scratch of a loop whose blocks have some; nothing for the other loop.
    pub(crate) scratch: Option<Scratch<'l>>,
    /// The runtime's functions.
    pub(crate) runtime: Runtime,
}

/// What a block of an asynchronous loop has for itself.
pub(crate) enum Scratch<'l> {
    /// Nothing.
    None,
    /// What this expression gives.
    Given(&'l Expr),
}

/// The functions that a loop calls.
pub(crate) struct Runtime {
    /// Takes a DDS captured as `&mut x`.
    pub(crate) write: &'static str,
    /// Tells rustc the types of the body's parameters, from the argument with this name besides values and handles.
    pub(crate) typed_body: (&'static str, Option<&'static str>),
    /// Runs the loop.
    pub(crate) run: &'static str,
}

impl Expansion<'_> {
    /// The call of the runtime.
    pub(crate) fn emit(self) -> TokenStream {
        let Expansion { captures, added, closure, arguments, scratch, runtime } = self;
        let (values, handles): (Vec<&Capture>, Vec<&Capture>) =
            captures.iter().partition(|capture| capture.mode == Mode::Value);
        let site = site(&handles);
        let mut bodies = closure.body.to_token_stream();
        if let Some(Scratch::Given(set_up)) = &scratch {
            set_up.to_tokens(&mut bodies);
        }
        let warnings = warnings(captures, "the loop's body doesn't use", &bodies);
        // Names that the user's code can't see.
        let own = Span::mixed_site();
        let (names, made): (Vec<Ident>, Vec<TokenStream>) =
            arguments.into_iter().map(|(name, made)| (Ident::new(name, own), made)).unzip();
        let value_tuple = tuple(values.iter().map(|capture| argument(capture, runtime.write)));
        let handle_tuple = tuple(handles.iter().map(|capture| argument(capture, runtime.write)));
        let task = task(closure, scratch.is_some(), &values, &handles);
        // What rustc has to say about the body's captures points at its head, about its result at all of it.
        let (head, end) = (own_span(closure.header), own_span(end_of(&closure.body)));
        let body = Ident::new("body", head);
        let (codecs, sums) = (codecs(&values), sums(&handles, added));
        let (typed_body, typed_by) = runtime.typed_body;
        let typed_by = typed_by.map(|name| Ident::new(name, own)).into_iter();
        let set_up = Ident::new("scratch", own);
        let (set_up, set_up_first, uses_only) = match &scratch {
            None => (TokenStream::new(), TokenStream::new(), "body_uses_only_its_capture_list"),
            Some(scratch) => {
                (quote!(#set_up,), scratch.emit(&set_up, &values, &handles), "loop_uses_only_its_capture_list")
            }
        };
        let set_up_by = scratch.is_some().then(|| quote_spanned!(own=> &scratch,));
        let typed_body =
            call(typed_body, head, end, quote_spanned!(own=> #(&#typed_by,)* &values, &handles, #set_up_by #task));
        let only_its_list = call(uses_only, head, head, quote!(#body));
        let no_state = refuse_state(&values);
        let run = call(runtime.run, head, end, quote_spanned!(own=> #site, #(#names,)* values, handles, #set_up #body));
        // A match keeps the temporaries of what it looks at.
        quote_spanned! {own=> {
            #warnings
            #[allow(unused_imports)]
            use ::stradsap::__private::Reborrow as _;
            match (#(#made,)* #value_tuple, #handle_tuple) {
                (#(#names,)* values, handles) => {
                    #codecs
                    #sums
                    #set_up_first
                    let #body = #typed_body;
                    if false {
                        #only_its_list;
                        #no_state
                    }
                    #run
                }
            }
        }}
    }
}

impl Scratch<'_> {
    /// The closure that sets the scratch up, bound to a name.
    fn emit(&self, name: &Ident, values: &[&Capture], handles: &[&Capture]) -> TokenStream {
        let own = Span::mixed_site();
        let set_up = match self {
            Scratch::None => {
                return quote_spanned! {own=>
                    let #name = ::stradsap::__private::typed_scratch(&values, &handles, |_, _| ());
                };
            }
            Scratch::Given(set_up) => set_up,
        };
        let (head, end) = (own_span(set_up.span()), own_span(end_of(set_up)));
        let nothing = TokenStream::new();
        let closure = rewritten(head, &nothing, &nothing, &syn::ReturnType::Default, set_up, values, handles);
        let typed = call("typed_scratch", head, end, quote_spanned!(own=> &values, &handles, #closure));
        let only_the_list = call("scratch_uses_only_the_capture_list", head, head, quote!(#name));
        quote_spanned! {own=>
            let #name = #typed;
            if false {
                #only_the_list;
            }
        }
    }
}

pub(crate) fn tuple(elements: impl Iterator<Item = TokenStream>) -> TokenStream {
    quote!((#(#elements,)*))
}

/// Finds out of which kind each captured value is. What can't be captured is refused there.
pub(crate) fn codecs(values: &[&Capture]) -> TokenStream {
    if values.is_empty() {
        return TokenStream::new();
    }
    let own = Span::mixed_site();
    let names: Vec<Ident> = (0..values.len()).map(|at| format_ident!("value{at}", span = own)).collect();
    let kinds = values.iter().zip(&names).map(|(capture, name)| {
        let span = own_span(end_of(&capture.place));
        let name = Ident::new(&name.to_string(), span);
        quote_spanned!(span=> (&&&&&&#name.probe()).kind())
    });
    quote_spanned! {own=>
        let (#(#names,)*) = values;
        let values = {
            #[allow(unused_imports)]
            use ::stradsap::__private::{
                ChooseCode as _, ChooseCopy as _, ChooseFunction as _, ChooseKnown as _, ChooseNone as _, ChooseSerde as _,
            };
            (#(#kinds,)*)
        };
    }
}

/// Lets blocks add to copies of those captures that the body only adds to, where their types allow it.
fn sums(handles: &[&Capture], added: &[Ident]) -> TokenStream {
    if added.is_empty() {
        return TokenStream::new();
    }
    let own = Span::mixed_site();
    let names: Vec<Ident> = (0..handles.len()).map(|at| format_ident!("handle{at}", span = own)).collect();
    let each = names.iter().zip(handles).map(|(name, capture)| {
        if !added.contains(&capture.name) {
            return quote_spanned!(own=> #name);
        }
        quote_spanned!(own=> ::stradsap::__private::summed(
            (&&::stradsap::__private::handle_type(&#name)).adding(), #name
        ))
    });
    quote_spanned! {own=>
        let (#(#names,)*) = handles;
        let handles = {
            #[allow(unused_imports)]
            use ::stradsap::__private::{AddsInOrder as _, AddsUp as _};
            (#(#each,)*)
        };
    }
}

/// Refuses values whose type shows state that bodies could change. In loops it stands behind the body, where all types are
/// known.
pub(crate) fn refuse_state(values: &[&Capture]) -> TokenStream {
    let checks = values.iter().enumerate().map(|(at, capture)| {
        let span = own_span(capture.place.span());
        let at = syn::Index { index: at as u32, span };
        let changed = capture.changed_by.get().map(|method| {
            let span = own_span(method.span());
            quote_spanned!(span=> (&values.#at.probe()).check_unchanged();)
        });
        quote_spanned!(span=> (&values.#at.probe()).check_value(); #changed)
    });
    quote_spanned! {Span::mixed_site()=> {
        #[allow(unused_imports)]
        use ::stradsap::__private::{IsCollection as _, IsNoCollection as _, ShowsNone as _, ShowsState as _};
        #(#checks)*
    }}
}

/// A call of one of the runtime's functions that extends from one place to another in the eyes of rustc, so that
/// it underlines all that lies between.
pub(crate) fn call(function: &str, first: Span, last: Span, arguments: TokenStream) -> TokenStream {
    let colons = Token![::](first);
    let name = Ident::new(function, last);
    let mut arguments = Group::new(Delimiter::Parenthesis, arguments);
    arguments.set_span(last);
    quote!(#colons stradsap::__private::#name #arguments)
}

/// Where the last token of an expression stands.
pub(crate) fn end_of(expr: &Expr) -> Span {
    expr.to_token_stream().into_iter().last().map_or_else(|| expr.span(), |token| token.span())
}

/// The static stands in a block of its own, where the user's code can't see it.
fn site(handles: &[&Capture]) -> TokenStream {
    let names = handles.iter().map(|capture| shown(&capture.name));
    quote! {{
        static SITE: ::stradsap::__private::Site =
            ::stradsap::__private::Site::new(::core::file!(), ::core::line!(), ::core::column!(), &[#(#names),*]);
        &SITE
    }}
}

/// A capture as the runtime takes it. What rustc has to say about it points at the entry in the list.
pub(crate) fn argument(capture: &Capture, write: &str) -> TokenStream {
    let place = Box::new(capture.place.clone());
    // Function and argument extend over the same text in the user's own context: only then does rustc see that
    // what it could say about either is the same.
    let last = end_of(&place);
    if let Mode::Write | Mode::Sum = capture.mode {
        let write = if capture.mode == Mode::Sum { "sum" } else { write };
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
        return near(capture, call(write, first, last, reborrow.into_token_stream()));
    }
    let (function, first) = match &capture.and {
        Some(and) => ("read", and.span),
        None => ("value", place.span()),
    };
    near(capture, borrowed(function, first, &capture.place))
}

/// A handle that knows how near to the loop's index it is indexed, if at all.
fn near(capture: &Capture, handle: TokenStream) -> TokenStream {
    if capture.near == 0 || capture.mode == Mode::Sum {
        return handle;
    }
    let near = Literal::usize_unsuffixed(capture.near);
    quote_spanned!(Span::mixed_site()=> ::stradsap::__private::indexed_near::<#near, _>(#handle))
}

/// A call with a shared borrow of a place.
pub(crate) fn borrowed(function: &str, first: Span, place: &Expr) -> TokenStream {
    let last = end_of(place);
    let expr = Box::new(place.clone());
    let reference = ExprReference { attrs: Vec::new(), and_token: Token![&](first), mutability: None, expr };
    call(function, first, last, reference.into_token_stream())
}

/// The closure, from whose arguments the captured names are bound first.
fn task(closure: &Closure, has_scratch: bool, values: &[&Capture], handles: &[&Capture]) -> TokenStream {
    let span = own_span(closure.header);
    let Closure { movability, parameter, scratch, output, body, .. } = closure;
    let parameter = parameter.as_ref().map_or_else(|| quote!(_), |parameter| parameter.pattern.to_token_stream());
    let scratch = has_scratch.then(|| scratch.as_ref().map_or_else(|| quote!(_,), |scratch| quote!(#scratch,)));
    // The compiler makes small bodies part of the loops over iterations in any case, but what is small to it, a stencil of five
    // elements is not. (Of a body that is large, its call costs little.)
    let inline = (has_scratch && closure.size <= LARGE).then(|| quote_spanned!(span=> #[inline(always)]));
    let mut body = body.clone();
    if has_scratch {
        apart::rewrite(&mut body, output, handles);
    }
    rewritten(span, &quote!(#inline #movability), &quote!(#scratch #parameter), output, &body, values, handles)
}

/// Bodies with more tokens than this are called.
const LARGE: usize = 150;

pub(crate) fn size(tokens: TokenStream) -> usize {
    let of = |token| if let TokenTree::Group(group) = token { 2 + size(group.stream()) } else { 1 };
    tokens.into_iter().map(of).sum()
}

/// A closure with these parameters after those for values and views.
pub(crate) fn rewritten(
    span: Span,
    movability: &TokenStream,
    parameters: &TokenStream,
    output: &syn::ReturnType,
    body: &Expr,
    values: &[&Capture],
    handles: &[&Capture],
) -> TokenStream {
    let body = statements(body);
    let given_values = Ident::new("values", span);
    let given_views = Ident::new("views", span);
    let value_names: Vec<&Ident> = values.iter().map(|capture| &capture.name).collect();
    let view_names = handles.iter().map(|capture| &capture.name);
    // `for element in &mut x` borrows the reference that `x` is.
    let all = quote!(#(#body)*);
    let named = view_names.clone().filter(|name| is_map(all.clone(), name)).map(|name| {
        let shown = name.unraw().to_string();
        quote_spanned! {span=> {
            #[allow(unused_imports)]
            use ::stradsap::__private::Named as _;
            #name.__stradsap_named(#shown);
        }}
    });
    let lent = view_names.clone().filter(|name| lent_to_change(all.clone(), name));
    // rustc would propose to rename an unused capture to `_x`, which would capture something else; the macro has
    // a warning of its own.
    let allow = quote_spanned! {span=>
        #[allow(unused_mut, unused_variables, clippy::shadow_reuse, clippy::shadow_same, clippy::shadow_unrelated)]
    };
    quote_spanned! {span=>
        #movability |#given_values, #given_views, #parameters| #output {
            let (#(#value_names,)*) = #given_values;
            #(
                #allow
                let #value_names = {
                    #[allow(unused_imports)]
                    use ::stradsap::__private::{CopyValue as _, RefValue as _};
                    (&#value_names).by_value()
                };
            )*
            #allow
            let (#(#view_names,)*) = #given_views;
            #(#allow let mut #lent = #lent;)*
            #(#named)*
            #(#body)*
        }
    }
}

/// Whether `x[&..]` or `x[".."]` stands somewhere: only maps are indexed so.
fn is_map(tokens: TokenStream, name: &Ident) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let inside = |token: &TokenTree| matches!(token, TokenTree::Group(group) if is_map(group.stream(), name));
    let by_reference = |pair: &[TokenTree]| match pair {
        [TokenTree::Ident(what), TokenTree::Group(key)] if what == name && key.delimiter() == Delimiter::Bracket => {
            match key.stream().into_iter().next() {
                Some(TokenTree::Punct(first)) => first.as_char() == '&',
                Some(TokenTree::Literal(first)) => first.to_string().starts_with('"'),
                _ => false,
            }
        }
        _ => false,
    };
    tokens.iter().any(inside) || tokens.windows(2).any(by_reference)
}

/// Whether `&mut x` stands somewhere by itself: a reference to all of `x`, and not to an element or a field.
fn lent_to_change(tokens: TokenStream, name: &Ident) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let inside = |token: &TokenTree| matches!(token, TokenTree::Group(group) if lent_to_change(group.stream(), name));
    let lent = |at: usize| {
        let goes_on = match tokens.get(at + 3) {
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Bracket,
            Some(TokenTree::Punct(punct)) => punct.as_char() == '.',
            _ => false,
        };
        matches!(&tokens[at..], [TokenTree::Punct(and), TokenTree::Ident(how), TokenTree::Ident(what), ..]
            if and.as_char() == '&' && how == "mut" && what == name && !goes_on)
    };
    tokens.iter().any(inside) || (0..tokens.len()).any(lent)
}

/// The statements of the body, without the braces around them: within the closure's own they would be one pair
/// too many, and rustc would propose to remove the user's.
pub(crate) fn statements(body: &Expr) -> Vec<TokenStream> {
    match body {
        Expr::Block(block) if block.attrs.is_empty() && block.label.is_none() => {
            block.block.stmts.iter().map(ToTokens::to_token_stream).collect()
        }
        body => vec![body.to_token_stream()],
    }
}

/// A warning for each capture that the body never mentions, unless it calls a macro whose definition may. Stable macros can't warn, but they can use something
/// that is deprecated.
pub(crate) fn warnings(captures: &[Capture], problem: &str, bodies: &TokenStream) -> TokenStream {
    if call_unknown(bodies.clone()) {
        return TokenStream::new();
    }
    let unused = captures.iter().filter(|capture| !mentions(bodies.clone(), &capture.name));
    unused
        .map(|capture| {
            let name = &capture.name;
            let span = own_span(name.span());
            let note = format!("{problem} `{name}`: remove it from the capture list");
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
pub(crate) fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident.unraw() == name.unraw(),
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Literal(literal) => literal.to_string().contains(&name.unraw().to_string()),
        TokenTree::Punct(_) => false,
    })
}

/// The macro's own context, at a place in the user's source.
pub(crate) fn own_span(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}
