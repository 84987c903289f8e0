//! `x.old`: a DVector that the loop writes, as it was before the loop.
//!
//! `x.old[j]` becomes `old[j]`, where `old` is a capture by itself under a name that the body can't see: a copy of `x` that the call
//! has made, and that nobody writes. In the tokens of macros, too. Where the body binds `x` anew, `x.old` is left to rustc: it may be
//! a field.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, Token};

use super::over::is_place;
use crate::ctxt::Ctxt;
use crate::parallel_for::body::scope::name_of;
use crate::parallel_for::captures::MOST;
use crate::parallel_for::emit::{borrowed, call, end_of};
use crate::parallel_for::indices::names_bound_in;
use crate::parallel_for::ir::{Capture, Mode};

/// A copy that the call makes.
pub(crate) struct Old {
    /// The name that the expansion gives it.
    name: Ident,
    /// That of the DVector in the body.
    of: String,
    place: Expr,
}

/// Rewrites a checked body and its scratch, and adds a capture for each DVector that they read as it was before the loop.
pub(crate) fn rewrite(body: &mut Expr, scratch: Option<&mut Expr>, captures: &mut Vec<Capture>, cx: &Ctxt) -> Vec<Old> {
    let mut bodies: Vec<&mut Expr> = [Some(body), scratch].into_iter().flatten().collect();
    let mut olds = Vec::new();
    let bound: Vec<_> = bodies.iter().map(|body| names_bound_in(body)).collect();
    let written = captures.iter().filter(|capture| matches!(capture.mode, Mode::Write | Mode::Sum));
    let names = written
        .map(|capture| name_of(&capture.name))
        .filter(|name| bound.iter().all(|bound| bound.resolve(name).is_none()))
        .map(|name| (name, None));
    let mut replacing = Replacing(names.collect());
    for body in &mut bodies {
        let before = replacing.used();
        let tokens = replacing.replace(body.to_token_stream());
        if replacing.used() > before || before > 0 {
            match syn::parse2(tokens) {
                Ok(rewritten) => **body = rewritten,
                Err(error) => cx.error_on(&**body, error),
            }
        }
    }
    for (of, name) in replacing.0 {
        let (Some(name), Some(capture)) = (name, captures.iter().find(|capture| name_of(&capture.name) == of)) else {
            continue;
        };
        if !is_place(&capture.place) {
            let message = format!(
                "bind what is captured to a variable first, and give that: `{of}.old` reads it before the loop"
            );
            cx.error_on(&capture.place, message);
        }
        let (place, written) = (capture.place.clone(), capture.written.clone());
        olds.push(Old { name: name.clone(), of, place });
        let (and, own) = (Some(Token![&](name.span())), syn::parse_quote!(#name));
        captures.push(Capture {
            name,
            mode: Mode::Read,
            and,
            place: own,
            written,
            near: 0,
            changed_by: OnceCell::new(),
        });
    }
    if captures.iter().filter(|capture| capture.mode != Mode::Value).count() > MOST
        && let Some(old) = olds.last()
    {
        cx.error_on(
            &old.place,
            format!("a loop captures at most {MOST} DDSs and reductions, and `{}.old` is one", old.of),
        );
    }
    olds
}

/// How reports and errors name a capture.
pub(crate) fn shown(name: &Ident) -> String {
    let name = name_of(name);
    match name.strip_prefix(OLD) {
        Some(of) => format!("{of}.old"),
        None => name,
    }
}

const OLD: &str = "__stradsap_old_";

/// The expansion with its copies made first.
pub(crate) fn with_copies(olds: &[Old], expansion: TokenStream) -> TokenStream {
    let own = Span::mixed_site();
    olds.iter().fold(expansion, |inner, Old { name, of, place }| {
        let (first, last) = (syn::spanned::Spanned::span(place), end_of(place));
        let copied = borrowed("to_copy", first, place);
        let shown = format!("{of}.old");
        let site = quote! {{
            static SITE: ::stradsap::__private::Site =
                ::stradsap::__private::Site::new(::core::file!(), ::core::line!(), ::core::column!(), &[#of, #shown]);
            &SITE
        }};
        let made = call("before_loop", first, last, quote!(#site, #copied));
        quote_spanned! {own=>
            match #made {
                ::core::result::Result::Ok(#name) => #inner,
                ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
            }
        }
    })
}

/// The names of captures, and what stands for their `old` once it was seen.
struct Replacing(BTreeMap<String, Option<Ident>>);

impl Replacing {
    fn used(&self) -> usize {
        self.0.values().flatten().count()
    }

    fn replace(&mut self, tokens: TokenStream) -> TokenStream {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut replaced = Vec::with_capacity(tokens.len());
        let mut k = 0;
        while k < tokens.len() {
            if !is_field(&tokens[..k])
                && let Some(old) = self.old_at(&tokens[k..])
            {
                replaced.push(TokenTree::Ident(old));
                k += 3;
                continue;
            }
            replaced.push(match &tokens[k] {
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), self.replace(group.stream()));
                    inner.set_span(group.span());
                    TokenTree::Group(inner)
                }
                other => other.clone(),
            });
            k += 1;
        }
        replaced.into_iter().collect()
    }

    /// What stands for `x.old`, if that is next, and no method.
    fn old_at(&mut self, tokens: &[TokenTree]) -> Option<Ident> {
        let [first, TokenTree::Punct(dot), TokenTree::Ident(old), rest @ ..] = tokens else { return None };
        let called = matches!(rest, [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Parenthesis);
        if dot.as_char() != '.' || *old != "old" || called {
            return None;
        }
        let of = only_ident(first)?;
        let (name, place) = (name_of(&of), Span::mixed_site().located_at(old.span()));
        let known = self.0.get_mut(&name)?;
        Some(known.get_or_insert_with(|| Ident::new(&format!("{OLD}{name}"), place)).clone())
    }
}

/// An identifier, or one that came as a fragment of another macro.
fn only_ident(token: &TokenTree) -> Option<Ident> {
    match token {
        TokenTree::Ident(ident) => Some(ident.clone()),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let mut inner = group.stream().into_iter();
            match (inner.next(), inner.next()) {
                (Some(only), None) => only_ident(&only),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether what follows is a field, a method or part of a path: behind `a.` or `a::`, and not behind `a..`.
fn is_field(before: &[TokenTree]) -> bool {
    let is =
        |token: Option<&TokenTree>, c: char| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == c);
    let (last, second) = (before.last(), before.len().checked_sub(2).map(|k| &before[k]));
    is(last, '.') && !is(second, '.') || is(last, ':') && is(second, ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body with `OLD` for the names, and how many captures there are.
    fn rewritten(body: &str) -> (String, usize) {
        let mut body: Expr = syn::parse_str(body).unwrap();
        let capture = |name: &str, mode| Capture {
            name: syn::parse_str(name).unwrap(),
            mode,
            and: None,
            place: syn::parse_str(name).unwrap(),
            written: syn::parse_str(name).unwrap(),
            near: 0,
            changed_by: OnceCell::new(),
        };
        let mut captures = vec![capture("x", Mode::Write), capture("y", Mode::Read)];
        let cx = Ctxt::new();
        let olds = rewrite(&mut body, None, &mut captures, &cx);
        assert!(cx.check().is_ok());
        assert_eq!(olds.len() + 2, captures.len());
        (quote!(#body).to_string().replace(OLD, "OLD_"), captures.len())
    }

    #[test]
    fn what_was_there_before_is_a_capture_by_itself() {
        for body in [
            "{ x[i] = x.old[i - 1]; }",
            "{ assert!(x.old[i] > 0); }",
            "{ for k in 0..x.old.len() { f(k); } }",
            "{ x[i] = f(&x.old[a..b]); }",
            "{ for e in &x.old { f(e); } }",
            "{ let f = |k| x.old[k] + x.old[x.old[k]]; }",
            "{ x.old.iter().zip(y.iter()) }",
        ] {
            let (text, captures) = rewritten(body);
            assert!(text.contains("OLD_x") && !text.contains("old") && captures == 3, "{body}: {text}");
        }
    }

    #[test]
    fn fields_and_methods_of_other_things_stay() {
        for body in [
            "{ x[i].old = 2; }",
            "{ a.x.old; }",
            "{ a::x.old; }",
            "{ y.old[i]; }",
            "{ x.old(); }",
            "{ let x = other; x.old[i]; }",
            "{ for x in all { x.old; } }",
            "{ |x: &Pair| x.old; }",
        ] {
            let (text, captures) = rewritten(body);
            assert!(!text.contains("OLD_x") && captures == 2, "{body}: {text}");
        }
    }

    #[test]
    fn it_is_shown_as_it_is_written() {
        assert_eq!(shown(&Ident::new(&format!("{OLD}x"), Span::call_site())), "x.old");
        assert_eq!(shown(&Ident::new("x", Span::call_site())), "x");
    }
}
