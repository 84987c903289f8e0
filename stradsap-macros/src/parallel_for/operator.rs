//! `with!`: operators whose closures capture something.
//!
//! For `[alpha, &x], data.map(|item| body)`:
//!
//! ```text
//! data.map_with(values with their codecs, (read(&x),), |values, views, item| { let (alpha,) = values; ... body })
//! ```

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprClosure, ExprMethodCall, Ident, Result};

use super::ir::{Capture, Kind, Mode};
use super::parse::{captures, captures_ahead, comma, peel};
use super::{body, captures as list, emit};
use crate::ctxt::{Ctxt, compile_errors};

/// Operators whose first closure may capture.
const CAPTURING: [&str; 5] = ["map", "filter", "flat_map", "fold", "transform"];
/// Operators whose closures may not.
const PLAIN: [&str; 7] = ["reduce", "sort_by_key", "count_by_key", "reduce_by_key", "join", "top_k", "number_by_key"];

const USAGE: &str = "a capture list and an operator are wanted: `with!([alpha, &x], data.map(|item| ...))`";

struct Syntax {
    captures: Vec<Expr>,
    chain: Expr,
}

impl Parse for Syntax {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Err(Error::new(Span::call_site(), USAGE));
        }
        if !captures_ahead(input) {
            return Err(input.error(
                "the capture list is missing: name in brackets what the closures use, as in \
                 `with!([alpha, &x], data.map(|item| ...))`",
            ));
        }
        let captures = captures(input)?;
        comma(input, "the capture list", USAGE)?;
        let chain = input.parse()?;
        if !super::parse::ends_here(input) {
            return Err(input.error(format!("nothing follows the operator: {USAGE}")));
        }
        Ok(Syntax { captures, chain })
    }
}

/// The expansion of a call. After a mistake the operator stands there too, so that what follows has its type.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let syntax = match syn::parse2::<Syntax>(input) {
        Ok(syntax) => syntax,
        Err(error) => {
            let error = compile_errors(&[error]);
            return quote!({ #error });
        }
    };
    let (chain, warnings, mistakes) = understand(syntax);
    let errors = mistakes.map(|errors| compile_errors(&errors));
    let warnings = errors.is_none().then_some(warnings).filter(|warnings| !warnings.is_empty());
    if errors.is_none() && warnings.is_none() {
        // Not in a block: it would end what the operators borrow of expressions in the capture list.
        return chain.into_token_stream();
    }
    quote!({ #errors #warnings #chain })
}

/// The chain with its closures rewritten, warnings, and what is wrong with it.
fn understand(syntax: Syntax) -> (Expr, TokenStream, Option<Vec<Error>>) {
    let cx = Ctxt::new();
    let captured = list::check(syntax.captures, &cx);
    for capture in captured.captures.iter().filter(|capture| matches!(capture.mode, Mode::Write | Mode::Sum)) {
        let name = &capture.name;
        cx.error_on(
            &capture.written,
            format!("operators only read what they capture: write `&{name}`, or use a loop to change it"),
        );
    }
    let mut chain = peel(syntax.chain);
    let mut bodies = TokenStream::new();
    let mut operators = Operators { captured: &captured, cx: &cx, bodies: &mut bodies, found: false };
    operators.walk(&mut chain);
    let found = operators.found;
    if !found {
        cx.error_on(&chain, format!("no operator with a closure stands here: {USAGE}"));
    }
    let warnings = emit::warnings(&captured.captures, "no closure here uses", &bodies);
    (chain, warnings, cx.check().err())
}

struct Operators<'o> {
    captured: &'o list::CaptureList,
    cx: &'o Ctxt,
    /// All closures' bodies.
    bodies: &'o mut TokenStream,
    found: bool,
}

impl Operators<'_> {
    /// Rewrites the calls of a chain of methods, the last of which comes first.
    fn walk(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Try(attempt) => self.walk(&mut attempt.expr),
            Expr::Paren(paren) => self.walk(&mut paren.expr),
            Expr::Group(group) => self.walk(&mut group.expr),
            Expr::Reference(reference) => self.walk(&mut reference.expr),
            Expr::MethodCall(call) => {
                self.walk(&mut call.receiver);
                // The other pipe of a `zip` has closures of its own; other arguments are the program's own business.
                if call.method == "zip" {
                    call.args.iter_mut().for_each(|other| self.walk(other));
                }
                self.call(call);
            }
            _ => {}
        }
    }

    fn call(&mut self, call: &mut ExprMethodCall) {
        let name = call.method.to_string();
        let Some(at) = call.args.iter().position(|argument| matches!(peel(argument.clone()), Expr::Closure(_))) else {
            return;
        };
        self.found = true;
        let Expr::Closure(closure) = peel(call.args[at].clone()) else { return };
        let captures = &self.captured.captures;
        let used: Vec<&Capture> =
            captures.iter().filter(|capture| emit::mentions(closure.body.to_token_stream(), &capture.name)).collect();
        let parameters: Vec<_> = closure.inputs.iter().cloned().collect();
        let known = body::Known { kind: Kind::Operator, input: None, captured: self.captured, parameters: &parameters };
        body::check(&closure.body, &known, self.cx);
        closure.body.to_tokens(self.bodies);
        if !CAPTURING.contains(&name.as_str()) {
            if PLAIN.contains(&name.as_str()) && !used.is_empty() {
                self.cx.error_on(&call.method, no_captures(&name, &used[0].name));
            }
            return;
        }
        if used.is_empty() {
            return;
        }
        let (values, handles): (Vec<&Capture>, Vec<&Capture>) =
            used.into_iter().partition(|capture| capture.mode == Mode::Value);
        let rewritten = rewritten(&closure, &values, &handles);
        let values_with_codecs = with_codecs(&values);
        let handle_tuple = emit::tuple(handles.iter().map(|capture| reading(capture)));
        call.method = Ident::new(&format!("{name}_with"), call.method.span());
        let names = handles.iter().map(|capture| capture.name.to_string());
        call.args[at] = Expr::Verbatim(quote!(#values_with_codecs, (#handle_tuple, &[#(#names),*]), #rewritten));
    }
}

/// What to do where an operator's closure can't capture.
fn no_captures(operator: &str, name: &Ident) -> String {
    let advice = match operator {
        "reduce" => "use `fold`, whose first closure can".to_string(),
        "reduce_by_key" => format!("`map` the values to what it needs of `{name}` first"),
        _ => format!("`map` the items to what it needs of `{name}` first"),
    };
    format!("the closure of `{operator}` can't capture `{name}`: {advice}")
}

/// A captured DDS as the runtime takes it: to be read, even where somebody wrote `&mut`.
fn reading(capture: &Capture) -> TokenStream {
    let first = capture.and.as_ref().map_or_else(|| capture.place.span(), |and| and.span);
    emit::borrowed("read", first, &capture.place)
}

/// The tuple of captured values, each with the codec that its type has.
fn with_codecs(values: &[&Capture]) -> TokenStream {
    let given = emit::tuple(values.iter().map(|capture| emit::argument(capture, "write")));
    let (codecs, no_state) = (emit::codecs(values), emit::refuse_state(values));
    let own = Span::mixed_site();
    if values.is_empty() {
        return quote!(());
    }
    let name = Ident::new("values", own);
    // What a value borrows of an expression lives as long as the call: a `let` would end it.
    quote_spanned! {own=> match #given {
        #name => {
            #codecs
            if false {
                #no_state
            }
            #name
        }
    }}
}

fn rewritten(closure: &ExprClosure, values: &[&Capture], handles: &[&Capture]) -> TokenStream {
    let span = emit::own_span(closure.or1_token.span);
    let parameters = closure.inputs.to_token_stream();
    let movability = closure.capture.to_token_stream();
    emit::rewritten(span, &movability, &parameters, &closure.output, &closure.body, values, handles)
}
