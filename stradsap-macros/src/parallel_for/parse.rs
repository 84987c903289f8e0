//! The macros' input as it was written: expressions with commas between, so that rustfmt can format it.

use proc_macro2::Span;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Error, Expr, ExprClosure, Ident, Pat, Result, Token, token};

use super::captures::text;
use super::sums;

/// `name = value`
pub(crate) struct OptionSyntax {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

/// The comma behind an argument that is not the last.
pub(crate) fn comma(input: ParseStream<'_>, after: &str, usage: &str) -> Result<()> {
    if ends_here(input) {
        return Err(Error::new(Span::call_site(), format!("nothing follows {after}: {usage}")));
    }
    input.parse::<Token![,]>().map(|_| ())
}

/// Refuses what a plain loop begins with, `i in 0..n` or `for i in 0..n`. The body's parameter is called `what`, `list` stands
/// between the range and the body.
pub(crate) fn refuse_in(input: ParseStream<'_>, what: &str, list: &str) -> Result<()> {
    let fork = input.fork();
    let for_token = fork.parse::<Option<Token![for]>>()?;
    let Ok(pattern) = Pat::parse_single(&fork) else { return Ok(()) };
    let Ok(in_token) = fork.parse::<Token![in]>() else { return Ok(()) };
    let range = fork.call(Expr::parse_without_eager_brace).map_or_else(|_| "0..n".to_string(), |range| text(&range));
    let name = text(&pattern);
    Err(Error::new_spanned(
        quote!(#for_token #pattern #in_token),
        format!("the loop's {what} is the closure's parameter: write `{range}, {list}, |{name}| {{ ... }}`"),
    ))
}

/// Whether nothing follows but perhaps a comma.
pub(crate) fn ends_here(input: ParseStream<'_>) -> bool {
    let fork = input.fork();
    fork.parse::<Option<Token![,]>>().is_ok() && fork.is_empty()
}

/// The capture list's entries.
pub(crate) fn captures(input: ParseStream<'_>) -> Result<Vec<Expr>> {
    const WANTED: &str = "the capture list is missing: name in brackets what the body uses, such as \
                          `[alpha, &x, &mut y]`, or write `[]`";
    if !input.peek(token::Bracket) {
        // A `macro_rules!` macro passes an expression on within invisible delimiters.
        return match array_ahead(input) {
            Some(entries) => {
                input.parse::<Expr>()?;
                Ok(entries)
            }
            None => Err(input.error(WANTED)),
        };
    }
    let content;
    syn::bracketed!(content in input);
    let mut list = Vec::new();
    while !content.is_empty() {
        if content.peek(Token![mut]) {
            return Err(content.error("a DDS that the body writes is captured as `&mut x`, a value as `x`"));
        }
        list.push(sums::entry(&content)?);
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(list)
}

/// The elements of the list in brackets that stands next, in invisible delimiters or not.
fn array_ahead(input: ParseStream<'_>) -> Option<Vec<Expr>> {
    match input.fork().parse().map(peel) {
        Ok(Expr::Array(list)) => Some(list.elems.into_iter().collect()),
        _ => None,
    }
}

/// Whether a capture list stands next.
pub(crate) fn captures_ahead(input: ParseStream<'_>) -> bool {
    input.peek(token::Bracket) || array_ahead(input).is_some()
}

/// The loop's body, or what stands in its place.
pub(crate) fn closure(input: ParseStream<'_>) -> Result<std::result::Result<ExprClosure, Expr>> {
    let expr: Expr = input.parse()?;
    Ok(match peel(expr) {
        Expr::Closure(closure) => Ok(closure),
        other => Err(other),
    })
}

/// The options up to the end. `refused` may know what something is that is not written `name = value`.
pub(crate) fn options(
    input: ParseStream<'_>,
    usage: &str,
    refused: impl Fn(ParseStream<'_>) -> Option<Error>,
) -> Result<Vec<OptionSyntax>> {
    let mut options = Vec::new();
    while !input.is_empty() {
        input.parse::<Token![,]>()?;
        if input.is_empty() {
            break;
        }
        let how = || format!("options are written `name = value`: {usage}");
        if !option_ahead(input) {
            return Err(refused(input).unwrap_or_else(|| Error::new(input.span(), how())));
        }
        let name = input.call(Ident::parse_any)?;
        input.parse::<Token![=]>()?;
        options.push(OptionSyntax { name, value: input.parse()? });
    }
    Ok(options)
}

/// Whether `name = value` stands next.
pub(crate) fn option_ahead(input: ParseStream<'_>) -> bool {
    input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==])
}

/// The expression within parentheses and invisible delimiters.
pub(crate) fn peel(expr: Expr) -> Expr {
    match expr {
        Expr::Paren(paren) => peel(*paren.expr),
        Expr::Group(group) => peel(*group.expr),
        other => other,
    }
}
