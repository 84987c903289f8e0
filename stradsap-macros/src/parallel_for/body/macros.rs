//! Macro calls in the body: the well-known ones are read like code, the others are left alone.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, Macro, Pat, Result, Token};

use super::format::inline_names;
use super::scope::Binding;
use super::{Position, Use, Walker};

/// How the arguments of a macro are to be read.
enum Kind {
    /// This many expressions, then perhaps a format string and its arguments.
    Format {
        before: usize,
    },
    /// Expressions whose values are used.
    Values,
    /// `vec![a, b]` or `vec![a; n]`.
    Vec,
    /// `matches!(value, pattern if guard)`.
    Matches,
    /// Text for the compiler: no variable is used.
    Text,
    /// A loop of this library.
    ParallelLoop,
    Unknown,
}

fn kind(mac: &Macro) -> Kind {
    let Some(last) = mac.path.segments.last() else { return Kind::Unknown };
    let name = last.ident.to_string();
    if matches!(name.as_str(), "async_parallel_for" | "sync_parallel_for") {
        return Kind::ParallelLoop;
    }
    let root = mac.path.segments.first().map(|first| first.ident.to_string());
    let from_std = matches!(root.as_deref(), Some("std" | "core" | "alloc"));
    if mac.path.segments.len() > 1 && !from_std {
        return Kind::Unknown;
    }
    kind_of(&name)
}

/// What a macro of the standard library does with its arguments.
fn kind_of(name: &str) -> Kind {
    match name {
        "format" | "format_args" | "print" | "println" | "eprint" | "eprintln" | "panic" | "todo" | "unimplemented"
        | "unreachable" => Kind::Format { before: 0 },
        "assert" | "debug_assert" | "write" | "writeln" => Kind::Format { before: 1 },
        "assert_eq" | "assert_ne" | "debug_assert_eq" | "debug_assert_ne" => Kind::Format { before: 2 },
        "dbg" => Kind::Values,
        "vec" => Kind::Vec,
        "matches" => Kind::Matches,
        "cfg" | "column" | "concat" | "env" | "file" | "include" | "include_bytes" | "include_str" | "line"
        | "module_path" | "option_env" | "stringify" => Kind::Text,
        _ => Kind::Unknown,
    }
}

/// Whether only the macro itself knows what its arguments become.
pub(crate) fn is_unknown(mac: &Macro) -> bool {
    matches!(kind(mac), Kind::Unknown)
}

/// Whether some tokens call a macro that may have the names of variables in its definition.
pub(crate) fn call_unknown(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let call = |at: usize| match &tokens[at..] {
        [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(_), ..] if bang.as_char() == '!' => {
            let of_path = at > 0 && matches!(&tokens[at - 1], TokenTree::Punct(colon) if colon.as_char() == ':');
            of_path || matches!(kind_of(&name.to_string()), Kind::Unknown)
        }
        [TokenTree::Group(group), ..] => call_unknown(group.stream()),
        _ => false,
    };
    (0..tokens.len()).any(call)
}

impl Walker<'_> {
    /// Arguments that can't be parsed are left to rustc, which reports them.
    pub(super) fn macro_call(&mut self, mac: &Macro, statement: bool) {
        match kind(mac) {
            Kind::Format { before } => {
                if let Ok(args) = FormatArgs::parse.parse2(mac.tokens.clone()) {
                    self.format_args(&args, before);
                }
            }
            Kind::Values => {
                if let Ok(values) = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone()) {
                    values.iter().for_each(|value| self.expr(value, Position::Value));
                }
            }
            Kind::Vec => self.vec(mac),
            Kind::Matches => {
                if let Ok(matches) = Matches::parse.parse2(mac.tokens.clone()) {
                    self.matches(&matches);
                }
            }
            Kind::Text => {}
            Kind::ParallelLoop => self.cx.error_on(
                &mac.path,
                "a parallel loop can't be in the body of another: make the inner one a plain `for`, or run \
                 them one after the other",
            ),
            Kind::Unknown if statement => self.scopes.bind_all_in(mac.tokens.clone()),
            Kind::Unknown => {}
        }
    }

    fn format_args(&mut self, args: &FormatArgs, before: usize) {
        for (at, (_, value)) in args.args.iter().enumerate() {
            if at == before
                && let Expr::Lit(ExprLit { lit: Lit::Str(format), .. }) = value
            {
                let named = |name: &String| args.args.iter().any(|(given, _)| given.as_ref() == Some(name));
                for name in inline_names(&format.value()).into_iter().filter(|name| !named(name)) {
                    self.variable(&name, format.span(), Use::Read);
                }
            }
            self.expr(value, Position::Value);
        }
    }

    fn vec(&mut self, mac: &Macro) {
        if let Ok((value, len)) = repeat.parse2(mac.tokens.clone()) {
            self.expr(&value, Position::Any);
            self.expr(&len, Position::Value);
        } else if let Ok(values) = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone()) {
            values.iter().for_each(|value| self.expr(value, Position::Any));
        }
    }

    fn matches(&mut self, matches: &Matches) {
        self.expr(&matches.value, Position::Value);
        self.scopes.push();
        self.scopes.bind_pattern(&matches.pattern);
        if let Some(guard) = &matches.guard {
            self.expr(guard, Position::Value);
        }
        self.scopes.pop();
    }

    /// The use of a variable that only a format string names.
    fn variable(&mut self, name: &str, span: Span, usage: Use) {
        match self.scopes.resolve(name) {
            Some(Binding::Capture(_) | Binding::Local) => {}
            None => self.missing(name, span, usage),
        }
    }
}

/// Expressions, some of them as `name = value`.
struct FormatArgs {
    args: Vec<(Option<String>, Expr)>,
}

impl Parse for FormatArgs {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Vec::new();
        while !input.is_empty() {
            let named = input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]);
            let name = if named {
                let name = input.call(Ident::parse_any)?;
                input.parse::<Token![=]>()?;
                Some(name.unraw().to_string())
            } else {
                None
            };
            args.push((name, input.parse()?));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(FormatArgs { args })
    }
}

fn repeat(input: ParseStream<'_>) -> Result<(Expr, Expr)> {
    let value = input.parse()?;
    input.parse::<Token![;]>()?;
    Ok((value, input.parse()?))
}

struct Matches {
    value: Expr,
    pattern: Pat,
    guard: Option<Expr>,
}

impl Parse for Matches {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let value = input.parse()?;
        input.parse::<Token![,]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        let guard = if input.peek(Token![if]) {
            input.parse::<Token![if]>()?;
            Some(input.parse()?)
        } else {
            None
        };
        input.parse::<Option<Token![,]>>()?;
        Ok(Matches { value, pattern, guard })
    }
}
