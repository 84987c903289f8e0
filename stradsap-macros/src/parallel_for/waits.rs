//! Loops in a body that have no bound of their own and name a DDS are counted: they may wait for another iteration
//! (`runtime/src/body/waiting.rs`). Counting takes a register; loops over DDSs have a call in them anyway.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprBlock, ExprRange, Item, Stmt};

use super::emit::mentions;
use super::ir::{Capture, Mode};

/// Rewrites a body in which indices have been rewritten.
pub(crate) fn rewrite(body: &mut Expr, captures: &[Capture]) {
    let dds = captures.iter().filter(|capture| capture.mode != Mode::Value).map(|capture| &capture.name).collect();
    let mut counter = Counter { dds, counts: false };
    counter.visit_expr_mut(body);
    if !counter.counts {
        return;
    }
    let own = Span::mixed_site();
    // One for all loops of an iteration, which closures in the body may share.
    let rounds: Stmt = syn::parse_quote_spanned!(own=> let rounds = &::core::cell::Cell::new(0u64););
    match body {
        Expr::Block(ExprBlock { attrs, label: None, block }) if attrs.is_empty() => block.stmts.insert(0, rounds),
        other => *other = syn::parse_quote_spanned!(own=> { #rounds #other }),
    }
}

struct Counter<'c> {
    dds: Vec<&'c Ident>,
    counts: bool,
}

impl VisitMut for Counter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        if !self.dds.iter().any(|name| mentions(expr.to_token_stream(), name)) {
            return;
        }
        let block = match expr {
            Expr::While(counted) => &mut counted.body,
            Expr::Loop(counted) => &mut counted.body,
            Expr::ForLoop(counted) if endless(&counted.expr) => &mut counted.body,
            _ => return,
        };
        let own = Span::mixed_site();
        block.stmts.insert(0, syn::parse_quote_spanned!(own=> ::stradsap::__private::round(rounds);));
        self.counts = true;
    }

    // Items don't see the captures.
    fn visit_item_mut(&mut self, _item: &mut Item) {}
}

/// Whether a loop goes over `0..`.
fn endless(over: &Expr) -> bool {
    match over {
        Expr::Range(ExprRange { end: None, .. }) => true,
        Expr::Paren(paren) => endless(&paren.expr),
        Expr::Group(group) => endless(&group.expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn counted(body: &str) -> usize {
        let mut body: Expr = syn::parse_str(body).unwrap();
        let capture = Capture {
            name: syn::parse_quote!(x),
            mode: Mode::Write,
            and: None,
            place: syn::parse_quote!(x),
            written: syn::parse_quote!(&mut x),
            near: 0,
            changed_by: Default::default(),
        };
        rewrite(&mut body, &[capture]);
        quote!(#body).to_string().matches("round (").count()
    }

    #[test]
    fn loops_without_a_bound_are_counted() {
        assert_eq!(counted("{ while x[k] < 50 {} }"), 1);
        assert_eq!(counted("{ 'all: loop { if x[k] > 3 { break 'all; } } }"), 1);
        assert_eq!(counted("{ let n = loop { while x[k] < 50 {} break 3; }; }"), 2);
        assert_eq!(counted("{ for k in 0.. { if x[k] > 3 { break; } } }"), 1);
        assert_eq!(counted("while x[k] < 50 {}"), 1);
    }

    #[test]
    fn others_stay() {
        assert_eq!(counted("{ while k < 50 { k += 1; } x[k] += 1; }"), 0);
        assert_eq!(counted("{ for k in 0..50 { x[k] += 1; } }"), 0);
        assert_eq!(counted("{ for y in [1, 2] { x[y] += 1; } }"), 0);
    }
}
