//! The macro's input as it was written: expressions with commas between, so that rustfmt can format it.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, ExprClosure, Ident, Result, Token, token};

/// `range, [captures], |i| body, name = value, ...`
pub(crate) struct LoopSyntax {
    pub(crate) range: Expr,
    pub(crate) captures: Vec<Expr>,
    pub(crate) closure: ExprClosure,
    pub(crate) options: Vec<OptionSyntax>,
}

/// `name = value`
pub(crate) struct OptionSyntax {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

const USAGE: &str = "a loop takes a range, a capture list and a closure: \
                     `async_parallel_for!(0..n, [alpha, &x, &mut y], |i| { ... })`";

impl Parse for LoopSyntax {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Err(Error::new(Span::call_site(), USAGE));
        }
        let range = input.parse()?;
        comma(input, "the range")?;
        let captures = captures(input)?;
        comma(input, "the capture list")?;
        let closure = closure(input)?;
        let mut options = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if !input.is_empty() {
                options.push(input.parse()?);
            }
        }
        Ok(LoopSyntax { range, captures, closure, options })
    }
}

fn comma(input: ParseStream<'_>, after: &str) -> Result<()> {
    if input.is_empty() {
        return Err(Error::new(Span::call_site(), format!("nothing follows {after}: {USAGE}")));
    }
    input.parse::<Token![,]>().map(|_| ())
}

fn captures(input: ParseStream<'_>) -> Result<Vec<Expr>> {
    const WANTED: &str = "the capture list is missing: name in brackets what the body uses, such as \
                          `[alpha, &x, &mut y]`, or write `[]`";
    if !input.peek(token::Bracket) {
        // A `macro_rules!` macro passes an expression on within invisible delimiters.
        let fork = input.fork();
        return match fork.parse().map(peel) {
            Ok(Expr::Array(list)) => {
                input.parse::<Expr>()?;
                Ok(list.elems.into_iter().collect())
            }
            _ => Err(input.error(WANTED)),
        };
    }
    let content;
    syn::bracketed!(content in input);
    let mut list = Vec::new();
    while !content.is_empty() {
        if content.peek(Token![mut]) {
            return Err(content.error("a DDS that the body writes is captured as `&mut x`, a value as `x`"));
        }
        list.push(content.parse()?);
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(list)
}

fn closure(input: ParseStream<'_>) -> Result<ExprClosure> {
    let expr: Expr = input.parse()?;
    match peel(expr) {
        Expr::Closure(closure) => Ok(closure),
        other => Err(Error::new_spanned(
            other,
            "the loop's body is a closure of one parameter, the iteration's index: `|i| { ... }`",
        )),
    }
}

/// The expression within parentheses and invisible delimiters.
pub(crate) fn peel(expr: Expr) -> Expr {
    match expr {
        Expr::Paren(paren) => peel(*paren.expr),
        Expr::Group(group) => peel(*group.expr),
        other => other,
    }
}

impl Parse for OptionSyntax {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let how = || format!("options are written `name = value`: {}", super::options::USAGE);
        if !input.peek(Ident::peek_any) {
            return Err(input.error(how()));
        }
        let name = input.call(Ident::parse_any)?;
        if !input.peek(Token![=]) || input.peek(Token![==]) {
            return Err(Error::new(name.span(), how()));
        }
        input.parse::<Token![=]>()?;
        Ok(OptionSyntax { name, value: input.parse()? })
    }
}
