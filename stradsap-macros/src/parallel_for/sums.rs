//! DDSs that a body only adds to: those that are captured as `sum x`, and those captured as `&mut x` of which it can be seen.
//!
//! What counts is `x[..] += ..`, with fields and indices behind the first, and `*x.entry(..).or_insert(0) += ..`, where the value
//! begins as zeros, and `x.add(.., ..)`; `x.len()` does no harm. Any other place where the name stands may be something else, in
//! the tokens of macros too: then a `&mut x` stays what it is, and a `sum x` is refused.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ExprBinary, ExprMethodCall, ExprPath, Lit, Macro, Pat, PatIdent, Result, Token, UnOp};

use super::emit::mentions;
use super::ir::{Capture, Mode};
use crate::ctxt::Ctxt;

/// An entry of a capture list. `sum x` stays as its tokens.
pub(super) fn entry(input: ParseStream<'_>) -> Result<Expr> {
    if sum_ahead(input) {
        return tokens_of_sum(input);
    }
    let fork = input.fork();
    if fork.parse::<Ident>().is_ok() && fork.parse::<Token![=]>().is_ok() && sum_ahead(&fork) {
        let (name, equals): (Ident, Token![=]) = (input.parse()?, input.parse()?);
        let (left, right) = (syn::parse_quote!(#name), tokens_of_sum(input)?);
        return Ok(syn::ExprAssign {
            attrs: Vec::new(),
            left: Box::new(left),
            eq_token: equals,
            right: Box::new(right),
        }
        .into());
    }
    input.parse()
}

/// Whether the word `sum` stands next, and a place behind it. (`sum` alone may be a variable.)
fn sum_ahead(input: ParseStream<'_>) -> bool {
    input.fork().parse::<Ident>().is_ok_and(|word| word == "sum")
        && (input.peek2(Ident::peek_any))
        && !input.peek2(Token![as])
}

fn tokens_of_sum(input: ParseStream<'_>) -> Result<Expr> {
    let (sum, place): (Ident, Expr) = (input.parse()?, input.parse()?);
    Ok(Expr::Verbatim(quote::quote!(#sum #place)))
}

/// The place of a `sum x` that [`entry`] has left as tokens.
pub(super) fn place(entry: &Expr) -> Option<Expr> {
    let Expr::Verbatim(tokens) = entry else { return None };
    let sum = |input: ParseStream<'_>| {
        input.parse::<Ident>()?;
        input.parse::<Expr>()
    };
    sum.parse2(tokens.clone()).ok()
}

/// Refuses `sum x` where minibatches run on copies of everything.
pub(super) fn refuse(captures: &[Capture], cx: &Ctxt) {
    for capture in captures.iter().filter(|capture| capture.mode == Mode::Sum) {
        let name = &capture.name;
        let message = format!(
            "`sum {name}` is for `async_parallel_for!`: a loop over minibatches adds up the changes of what it captures as \
             `&mut {name}`"
        );
        cx.error_on(&capture.place, message);
    }
}

/// Checks what the body and its scratch do with each `sum x`. Gives the captures `&mut x` that the body only adds to.
pub(super) fn check(body: &Expr, scratch: Option<&Expr>, captures: &[Capture], cx: &Ctxt) -> Vec<Ident> {
    let mut added = Vec::new();
    for capture in captures.iter().filter(|capture| matches!(capture.mode, Mode::Write | Mode::Sum)) {
        let name = &capture.name;
        let mut uses = Uses { name, additions: 0, others: Vec::new() };
        uses.visit_expr(body);
        uses.others.extend(scratch.filter(|set_up| mentions(set_up.to_token_stream(), name)).map(Spanned::span));
        match (capture.mode, uses.others.first()) {
            (Mode::Write, None) if uses.additions > 0 => added.push(name.clone()),
            (Mode::Sum, Some(&other)) => cx.error_at(
                other,
                format!(
                    "`{name}` is captured as `sum {name}`, and can only be added to: `{name}[k] += v` (`+= -v` to subtract) or `{name}.add(k, v)`, \
                     of a map `*{name}.entry(key).or_insert(0) += v` or `{name}.add(&key, v)`; capture it as `&mut {name}` to do anything else with it"
                ),
            ),
            _ => {}
        }
    }
    added
}

/// What a body does with one name.
struct Uses<'n> {
    name: &'n Ident,
    additions: usize,
    /// Where the name stands and nothing is added.
    others: Vec<Span>,
}

impl Uses<'_> {
    fn is_name(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(path) => {
                path.qself.is_none() && path.path.get_ident().is_some_and(|ident| ident.unraw() == self.name.unraw())
            }
            Expr::Paren(paren) => self.is_name(&paren.expr),
            Expr::Group(group) => self.is_name(&group.expr),
            _ => false,
        }
    }

    /// The expressions within a place that is added to, if it is one of this name.
    fn within<'e>(&self, place: &'e Expr, inner: &mut Vec<&'e Expr>) -> bool {
        match place {
            Expr::Index(index) => {
                inner.push(&index.index);
                self.is_name(&index.expr) || self.within(&index.expr, inner)
            }
            Expr::Field(field) => self.within(&field.base, inner),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.within(&unary.expr, inner),
            Expr::Paren(paren) => self.within(&paren.expr, inner),
            Expr::Group(group) => self.within(&group.expr, inner),
            Expr::MethodCall(call) => match (&*call.receiver, starts_at_zero(call)) {
                (Expr::MethodCall(entry), true) if entry.method == "entry" && entry.args.len() == 1 => {
                    inner.extend(&entry.args);
                    self.is_name(&entry.receiver)
                }
                _ => false,
            },
            _ => false,
        }
    }
}

/// Whether an entry of a map gets zeros where it has no value.
fn starts_at_zero(call: &ExprMethodCall) -> bool {
    match call.args.first() {
        None => call.method == "or_default",
        Some(value) => call.method == "or_insert" && is_zero(value),
    }
}

fn is_zero(value: &Expr) -> bool {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(int) => int.base10_digits() == "0",
            Lit::Float(float) => float.base10_digits().chars().all(|digit| matches!(digit, '0' | '.')),
            _ => false,
        },
        Expr::Array(array) => array.elems.iter().all(is_zero),
        Expr::Tuple(tuple) => !tuple.elems.is_empty() && tuple.elems.iter().all(is_zero),
        Expr::Repeat(repeat) => is_zero(&repeat.expr),
        Expr::Paren(paren) => is_zero(&paren.expr),
        Expr::Group(group) => is_zero(&group.expr),
        _ => false,
    }
}

impl<'a> Visit<'a> for Uses<'_> {
    fn visit_expr_binary(&mut self, binary: &'a ExprBinary) {
        let mut inner = Vec::new();
        if matches!(binary.op, BinOp::AddAssign(_)) && self.within(&binary.left, &mut inner) {
            self.additions += 1;
            inner.into_iter().for_each(|expr| self.visit_expr(expr));
            self.visit_expr(&binary.right);
        } else {
            visit::visit_expr_binary(self, binary);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        if self.is_name(&call.receiver) && call.method == "add" && call.args.len() == 2 {
            self.additions += 1;
            call.args.iter().for_each(|arg| self.visit_expr(arg));
        } else if self.is_name(&call.receiver) && (call.method == "len" || call.method == "is_empty") {
            // The same throughout a loop. (Maps have neither in one.)
            call.args.iter().for_each(|arg| self.visit_expr(arg));
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Verbatim(tokens) = expr {
            self.tokens(tokens, expr.span());
        }
        visit::visit_expr(self, expr);
    }

    fn visit_expr_path(&mut self, path: &'a ExprPath) {
        if path.path.get_ident().is_some_and(|ident| ident.unraw() == self.name.unraw()) {
            self.others.push(path.span());
        }
    }

    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        if pattern.ident.unraw() == self.name.unraw() {
            self.others.push(pattern.span());
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_pat(&mut self, pattern: &'a Pat) {
        if let Pat::Verbatim(tokens) = pattern {
            self.tokens(tokens, pattern.span());
        }
        visit::visit_pat(self, pattern);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        self.tokens(&call.tokens, call.span());
    }
}

impl Uses<'_> {
    fn tokens(&mut self, tokens: &TokenStream, span: Span) {
        if mentions(tokens.clone(), self.name) {
            self.others.push(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a body does with `x`, captured so: whether that is seen to be additions alone, or what is wrong with it.
    fn checked(mode: Mode, body: &str) -> std::result::Result<bool, String> {
        let body: Expr = syn::parse_str(body).unwrap();
        let capture = Capture {
            name: syn::parse_quote!(x),
            mode,
            and: None,
            place: syn::parse_quote!(x),
            written: syn::parse_quote!(x),
            near: 0,
            changed_by: Default::default(),
        };
        let cx = Ctxt::new();
        let added = check(&body, None, &[capture], &cx);
        cx.check().map(|()| !added.is_empty()).map_err(|errors| errors[0].to_string())
    }

    #[test]
    fn additions_are_seen() {
        for body in [
            "x[k] += 1",
            "{ x[a[i]][2].0 += v * y[k]; (x)[i] += 1; }",
            "{ *x.entry(words[n].clone()).or_insert(0) += 1; }",
            "{ *x.entry(k).or_default() += 1; x.entry(k).or_insert([0.0; 3])[1] += v; }",
            "for w in 0..3 { if w > 1 { x[w] += 1 } }",
            "{ let add = |k| x[k] += 1; add(2) }",
            "{ x[k] += row.x + row.x(); }",
            "x.add(y[k], [g, h])",
            "if !x.is_empty() { x[k % x.len()] += 1 }",
        ] {
            assert_eq!(checked(Mode::Write, body), Ok(true), "{body}");
            assert_eq!(checked(Mode::Sum, body), Ok(false), "{body}");
        }
    }

    #[test]
    fn anything_else_is_no_addition() {
        for body in [
            "x[k] -= 1",
            "x[k] = x[k] + 1",
            "{ x[x[k]] += 1 }",
            "{ x[k] += x[j] }",
            "{ x[k] += 1; f(&x) }",
            "{ x[k] += 1; println!(\"{}\", x[k]) }",
            "{ x[k] += 1; println!(\"{x:?}\") }",
            "{ let x = [1]; x[k] += 1 }",
            "*x.entry(k).or_insert(1) += 1",
            "*x.entry(k).or_insert_with(f) += 1",
            "x.add(k, x[j])",
            "x.add(1)",
            "x += 1",
            "x.field += 1",
            "{ x[k] += 1; next!(x) }",
        ] {
            assert_eq!(checked(Mode::Write, body), Ok(false), "{body}");
            assert!(checked(Mode::Sum, body).unwrap_err().contains("can only be added to"), "{body}");
        }
    }

    #[test]
    fn sum_is_a_word_in_capture_lists_alone() {
        let place_of = |entry: &str| {
            let entry = super::entry.parse_str(entry).unwrap();
            place(&entry).map(|place| place.to_token_stream().to_string())
        };
        assert_eq!(place_of("sum x"), Some("x".to_string()));
        assert_eq!(place_of("sum self.hist"), Some("self . hist".to_string()));
        for other in ["sum", "&sum", "sum.x", "sum as f64", "s = sum", "x = sum(y)"] {
            assert_eq!(place_of(other), None, "{other}");
        }
        let named = super::entry.parse_str("h = sum self.hist").unwrap();
        assert!(matches!(named, Expr::Assign(assign) if place(&assign.right).is_some()));
    }
}
