//! `x[i]` in iteration `i` becomes `x[Here(i)]`: probably the element of the running iteration, which the view knows by itself.
//!
//! The view compares the index with the number of the iteration, so that the mark is right whatever `i` is. Where the two are
//! one variable, the compiler knows the outcome: nothing is compared with what the block owns, and a loop that reaches its
//! DDSs in no other way can be vectorised. Where the body may bind one of the two names anew, nothing is marked, since the
//! new one may have any type.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprIndex, Ident, Item, Pat, PatIdent, StmtMacro};

use super::body::is_unknown;
use super::body::scope::{Scopes, name_of};
use super::ir::{Capture, Mode, Parameter};

/// Rewrites a checked body.
pub(crate) fn rewrite(body: &mut Expr, index: &Parameter, captures: &[Capture]) {
    let Some(index) = plain(&index.pattern) else { return };
    let mut bound = Bound(Scopes::new());
    bound.visit_expr(body);
    let is_bound = |name: &Ident| bound.0.resolve(&name_of(name)).is_some();
    if is_bound(&index) {
        return;
    }
    let by_reference = captures.iter().filter(|capture| capture.mode != Mode::Value).map(|capture| &capture.name);
    let dds = by_reference.filter(|name| !is_bound(name)).cloned().collect();
    Rewriter { index, dds }.visit_expr_mut(body);
}

/// The name of an index that never changes.
fn plain(pattern: &Pat) -> Option<Ident> {
    match pattern {
        Pat::Ident(PatIdent { mutability: None, by_ref: None, subpat: None, ident, .. }) => Some(ident.clone()),
        Pat::Type(typed) => plain(&typed.pat),
        _ => None,
    }
}

/// All names that the body binds, or that a macro in it may bind.
struct Bound(Scopes);

impl<'a> Visit<'a> for Bound {
    fn visit_pat(&mut self, pattern: &'a Pat) {
        self.0.bind_pattern(pattern);
        visit::visit_pat(self, pattern);
    }

    fn visit_block(&mut self, block: &'a Block) {
        self.0.bind_items(block);
        visit::visit_block(self, block);
    }

    fn visit_stmt_macro(&mut self, call: &'a StmtMacro) {
        if call.mac.path.is_ident("include") {
            self.0.bind_any();
        } else if is_unknown(&call.mac) {
            self.0.bind_all_in(call.mac.tokens.clone());
        }
    }
}

struct Rewriter {
    index: Ident,
    dds: BTreeSet<Ident>,
}

impl VisitMut for Rewriter {
    fn visit_expr_index_mut(&mut self, expr: &mut ExprIndex) {
        visit_mut::visit_expr_index_mut(self, expr);
        if name(&expr.expr).is_some_and(|name| self.dds.contains(name)) && name(&expr.index) == Some(&self.index) {
            let index = &expr.index;
            *expr.index = syn::parse_quote!(::stradsap::__private::Here(#index));
        }
    }

    // Items see neither the index nor the captures.
    fn visit_item_mut(&mut self, _item: &mut Item) {}
}

fn name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.attrs.is_empty() && path.qself.is_none() => path.path.get_ident(),
        Expr::Paren(paren) => name(&paren.expr),
        Expr::Group(group) => name(&group.expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn rewritten(body: &str) -> String {
        let mut body: Expr = syn::parse_str(body).unwrap();
        let closure: syn::ExprClosure = syn::parse_quote!(|i| ());
        let index = Parameter { pattern: closure.inputs[0].clone() };
        let capture = Capture {
            name: syn::parse_quote!(x),
            mode: Mode::Read,
            and: None,
            place: syn::parse_quote!(x),
            written: syn::parse_quote!(&x),
        };
        rewrite(&mut body, &index, &[capture]);
        quote!(#body).to_string()
    }

    #[test]
    fn the_running_iterations_element_is_here() {
        assert!(rewritten("{ y = x[i]; }").contains("Here"));
        assert!(rewritten("{ f(|k| x[i] + k); }").contains("Here"));
    }

    #[test]
    fn other_elements_and_other_names_stay() {
        for body in ["{ x[i + 1]; }", "{ x[j]; }", "{ z[i]; }", "{ let i = 2; x[i]; }", "{ for i in 0..3 { x[i]; } }"] {
            assert!(!rewritten(body).contains("Here"), "{body}");
        }
        assert!(!rewritten("{ let x = [1, 2]; x[i]; }").contains("Here"));
    }

    #[test]
    fn names_that_a_macro_or_an_item_may_bind_stay() {
        for body in [
            "{ next!(i); x[i]; }",
            "{ next!(x); x[i]; }",
            "{ { const i: usize = 5; x[i]; } }",
            "{ use other::i; x[i]; }",
            "{ use other::*; x[i]; }",
            "{ include!(\"part.rs\"); x[i]; }",
        ] {
            assert!(!rewritten(body).contains("Here"), "{body}");
        }
        assert!(rewritten("{ assert!(i < 5); next!(j); x[i]; }").contains("Here"));
    }
}
