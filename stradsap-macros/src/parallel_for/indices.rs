//! `x[i]` in iteration `i` becomes `x[Here]`: the element of the running iteration, which the view knows by itself.
//!
//! A view can then find it without comparing `i` with what the block owns, and a loop that reaches its DDSs in no
//! other way can be vectorised. And `x[0]` becomes `x[0usize]`, in minibatches too. Where the body binds one of the two
//! names anew anywhere, nothing is rewritten.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprIndex, ExprLit, Ident, Item, Lit, LitInt, Pat, PatIdent};

use super::ir::{Capture, Mode, Parameter};

/// Rewrites a checked body, whose index is given if its loop has one.
pub(crate) fn rewrite(body: &mut Expr, index: Option<&Parameter>, captures: &[Capture]) {
    let mut bound = Bound::default();
    bound.visit_expr(body);
    let index = index.and_then(|index| plain(&index.pattern)).filter(|index| !bound.names.contains(index));
    let by_reference = captures.iter().filter(|capture| capture.mode != Mode::Value).map(|capture| &capture.name);
    let dds = by_reference.filter(|name| !bound.names.contains(*name)).cloned().collect();
    let mut rewriter = Rewriter { index, dds, rewrote: false };
    rewriter.visit_expr_mut(body);
    if rewriter.rewrote {
        // The index was used, whatever is left of it.
        let index = rewriter.index;
        let used: syn::Stmt = syn::parse_quote!(let _ = #index;);
        match body {
            Expr::Block(block) => block.block.stmts.insert(0, used),
            body => *body = syn::parse_quote!({ #used #body }),
        }
    }
}

/// The name of an index that never changes.
fn plain(pattern: &Pat) -> Option<Ident> {
    match pattern {
        Pat::Ident(PatIdent { mutability: None, by_ref: None, subpat: None, ident, .. }) => Some(ident.clone()),
        Pat::Type(typed) => plain(&typed.pat),
        _ => None,
    }
}

/// All names that patterns bind.
#[derive(Default)]
struct Bound {
    names: BTreeSet<Ident>,
}

impl<'a> Visit<'a> for Bound {
    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        self.names.insert(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

struct Rewriter {
    index: Option<Ident>,
    dds: BTreeSet<Ident>,
    rewrote: bool,
}

impl VisitMut for Rewriter {
    fn visit_expr_index_mut(&mut self, expr: &mut ExprIndex) {
        visit_mut::visit_expr_index_mut(self, expr);
        if !name(&expr.expr).is_some_and(|name| self.dds.contains(name)) {
            return;
        }
        if let Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) = &mut *expr.index
            && int.suffix().is_empty()
        {
            // DDSs are indexed by two types of integers; rustc would take neither for a bare number.
            *int = LitInt::new(&format!("{int}usize"), int.span());
        }
        if self.index.is_some() && name(&expr.index) == self.index.as_ref() {
            *expr.index = syn::parse_quote!(::stradsap::__private::Here);
            self.rewrote = true;
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
        let index = Parameter { name: None, pattern: closure.inputs[0].clone() };
        let capture = Capture {
            name: syn::parse_quote!(x),
            mode: Mode::Read,
            and: None,
            place: syn::parse_quote!(x),
            written: syn::parse_quote!(&x),
        };
        rewrite(&mut body, Some(&index), &[capture]);
        quote!(#body).to_string()
    }

    #[test]
    fn the_running_iterations_element_is_here() {
        assert!(rewritten("{ y = x[i]; }").contains("Here"));
        assert!(rewritten("{ f(|k| x[i] + k); }").contains("Here"));
    }

    #[test]
    fn bare_numbers_are_indices() {
        assert!(rewritten("{ x[0] += 1; }").contains("0usize"));
        assert!(!rewritten("{ z[0] += 1; x[1u32]; }").contains("usize"));
    }

    #[test]
    fn other_elements_and_other_names_stay() {
        for body in ["{ x[i + 1]; }", "{ x[j]; }", "{ z[i]; }", "{ let i = 2; x[i]; }", "{ for i in 0..3 { x[i]; } }"] {
            assert!(!rewritten(body).contains("Here"), "{body}");
        }
        assert!(!rewritten("{ let x = [1, 2]; x[i]; }").contains("Here"));
    }
}
