//! `x[i]` in iteration `i` becomes `x[Here(i)]`: probably the element of the running iteration, which the view knows by itself.
//! `x[i + c]` becomes `x[Near(i + c)]`: probably the one at the same distance in every iteration (if `c` is no number and `x` is only read, it stays:
//! the view mostly owns everything then). So do the ends of `x[i - 1..=i + 1]`,
//! if both distances are written as numbers. Of each capture the largest such
//! distance is noted that is written as a number: its view knows by itself in which iterations all of them are owned.
//!
//! The view compares the index with the number of the iteration, so that the mark is right whatever `i` and `c` are. Where the two are
//! one variable, the compiler knows the outcome: nothing is compared with what the block owns, and a loop that reaches its
//! DDSs in no other way can be vectorised. Where the body may bind one of the two names anew, nothing is marked, since the
//! new one may have any type.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, ExprBinary, ExprIndex, ExprLit, ExprRange, Ident, Item, Lit, Pat, PatIdent, StmtMacro};

use super::body::scope::{Scopes, name_of};
use super::body::{is_primitive, is_unknown};
use super::ir::{Capture, Mode, Parameter};

/// Rewrites a checked body, and notes how near each capture is indexed.
pub(crate) fn rewrite(body: &mut Expr, index: &Parameter, captures: &mut [Capture]) {
    let Some(index) = plain(&index.pattern) else { return };
    let bound = names_bound_in(body);
    let is_bound = |name: &Ident| bound.resolve(&name_of(name)).is_some();
    if is_bound(&index) {
        return;
    }
    let by_reference = captures.iter().filter(|capture| capture.mode != Mode::Value).map(|capture| &capture.name);
    let dds = by_reference.filter(|name| !is_bound(name)).map(|name| (name.clone(), 0)).collect();
    let only_read = captures.iter().filter(|capture| capture.mode == Mode::Read).map(|capture| capture.name.clone());
    let mut rewriter = Rewriter { index, dds, only_read: only_read.collect(), far: BTreeSet::new() };
    rewriter.visit_expr_mut(body);
    for capture in captures {
        let near = rewriter.dds.get(&capture.name).copied().unwrap_or(0);
        capture.near = if near > 0 && rewriter.far.contains(&capture.name) { near + FAR } else { near };
    }
}

/// Whether all that a checked body does with what it may write is `x[i]`, by the loop's own index.
pub(crate) fn writes_own(body: &Expr, index: &Parameter, captures: &[Capture]) -> bool {
    let Some(index) = plain(&index.pattern) else { return false };
    let bound = names_bound_in(body);
    let is_bound = |name: &Ident| bound.resolve(&name_of(name)).is_some();
    let written = captures.iter().filter(|capture| matches!(capture.mode, Mode::Write | Mode::Sum));
    !is_bound(&index)
        && written.map(|capture| &capture.name).all(|name| {
            let mut own = OwnPlaces { index: &index, of: name, places: 0 };
            own.visit_expr(body);
            !is_bound(name) && own.places == mentions_of(body.to_token_stream(), name)
        })
}

/// Counts `x[i]`.
struct OwnPlaces<'n> {
    index: &'n Ident,
    of: &'n Ident,
    places: usize,
}

impl<'a> Visit<'a> for OwnPlaces<'_> {
    fn visit_expr_index(&mut self, expr: &'a ExprIndex) {
        visit::visit_expr_index(self, expr);
        self.places += usize::from(name(&expr.expr) == Some(self.of) && name(&expr.index) == Some(self.index));
    }
}

/// How often a name stands among these tokens.
pub(super) fn mentions_of(tokens: TokenStream, name: &Ident) -> usize {
    let here = |token| match token {
        TokenTree::Ident(ident) => usize::from(ident.unraw() == name.unraw()),
        TokenTree::Group(group) => mentions_of(group.stream(), name),
        TokenTree::Punct(_) | TokenTree::Literal(_) => 0,
    };
    tokens.into_iter().map(here).sum()
}

/// What is added to how near a capture that is only read is indexed, where it is indexed far from there, too (`body/view.rs` of the runtime).
const FAR: usize = 1 << 17;

/// Longer distances than this are no constant of a stencil.
pub(super) const FARTHEST: usize = 64;

/// The name of an index that never changes.
pub(super) fn plain(pattern: &Pat) -> Option<Ident> {
    match pattern {
        Pat::Ident(PatIdent { mutability: None, by_ref: None, subpat: None, ident, .. }) => Some(ident.clone()),
        Pat::Type(typed) => plain(&typed.pat),
        _ => None,
    }
}

/// All names that a body binds, or that a macro in it may bind.
pub(super) fn names_bound_in(body: &Expr) -> Scopes {
    let mut bound = Bound(Scopes::new());
    bound.visit_expr(body);
    bound.0
}

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
    /// The captures, and for each one more than the largest distance that is known.
    dds: BTreeMap<Ident, usize>,
    /// Those that the body only reads, and those of them that it reads far from its own index, too.
    only_read: BTreeSet<Ident>,
    far: BTreeSet<Ident>,
}

impl VisitMut for Rewriter {
    fn visit_expr_index_mut(&mut self, expr: &mut ExprIndex) {
        visit_mut::visit_expr_index_mut(self, expr);
        let Some(near) = name(&expr.expr).and_then(|name| self.dds.get(name)) else { return };
        let near = *near;
        if let Expr::Range(range) = &mut *expr.index {
            let known = self.mark_ends(range);
            if let Some((dds, known)) = name(&expr.expr).zip(known) {
                self.dds.insert(dds.clone(), near.max(known + 1));
            }
            return;
        }
        let index = &expr.index;
        let distance = distance(index, &self.index);
        // Of what is only read a view mostly owns everything, far or near.
        let is_near = distance.flatten().is_some_and(|distance| distance.unsigned_abs() <= FARTHEST);
        if let Some(name) = name(&expr.expr).filter(|name| self.only_read.contains(*name) && !is_near) {
            self.far.insert(name.clone());
            return;
        }
        let Some(distance) = distance else { return };
        let mark = if name(index) == Some(&self.index) { quote!(Here) } else { quote!(Near) };
        *expr.index = syn::parse_quote!(::stradsap::__private::#mark(#index));
        let known = distance.map(isize::unsigned_abs).filter(|&distance| distance <= FARTHEST);
        if let Some(dds) = name(&expr.expr) {
            self.dds.insert(dds.clone(), near.max(known.unwrap_or(0) + 1));
        }
    }

    // Items see neither the index nor the captures.
    fn visit_item_mut(&mut self, _item: &mut Item) {}
}

impl Rewriter {
    /// Marks both ends of a range whose distances from the loop's index are written as numbers. The farther one's.
    fn mark_ends(&self, range: &mut ExprRange) -> Option<usize> {
        let (Some(start), Some(end)) = (range.start.as_deref_mut(), range.end.as_deref_mut()) else { return None };
        let known = |end: &Expr| distance(end, &self.index).flatten().map(isize::unsigned_abs);
        let farther = known(start)?.max(known(end)?);
        if farther > FARTHEST {
            return None;
        }
        for end in [start, end] {
            *end = syn::parse_quote!(::stradsap::__private::Near(#end));
        }
        Some(farther)
    }
}

/// If an expression is the loop's index, or a sum with it as a term: what is added to it, if that is a number.
pub(super) fn distance(expr: &Expr, index: &Ident) -> Option<Option<isize>> {
    match expr {
        Expr::Binary(ExprBinary { left, op: BinOp::Add(_), right, .. }) => match distance(left, index) {
            Some(distance) => Some(distance.zip(number(right)).map(|(a, b)| a.saturating_add(b))),
            None => Some(distance(right, index)?.zip(number(left)).map(|(a, b)| a.saturating_add(b))),
        },
        Expr::Binary(ExprBinary { left, op: BinOp::Sub(_), right, .. }) => {
            Some(distance(left, index)?.zip(number(right)).map(|(a, b)| a.saturating_sub(b)))
        }
        Expr::Paren(paren) => distance(&paren.expr, index),
        Expr::Group(group) => distance(&group.expr, index),
        Expr::Cast(cast) if is_primitive(&cast.ty) => distance(&cast.expr, index),
        _ => (name(expr) == Some(index)).then_some(Some(0)),
    }
}

/// What a literal says.
pub(super) fn number(expr: &Expr) -> Option<isize> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        Expr::Paren(paren) => number(&paren.expr),
        Expr::Group(group) => number(&group.expr),
        _ => None,
    }
}

pub(super) fn name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.attrs.is_empty() && path.qself.is_none() => path.path.get_ident(),
        Expr::Paren(paren) => name(&paren.expr),
        Expr::Group(group) => name(&group.expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(body: &str) -> String {
        rewritten_near(body).0
    }

    fn rewritten_near(body: &str) -> (String, usize) {
        rewritten_as(Mode::Write, body)
    }

    fn rewritten_as(mode: Mode, body: &str) -> (String, usize) {
        let mut body: Expr = syn::parse_str(body).unwrap();
        let closure: syn::ExprClosure = syn::parse_quote!(|i| ());
        let index = Parameter { pattern: closure.inputs[0].clone() };
        let capture = Capture {
            name: syn::parse_quote!(x),
            mode,
            and: None,
            place: syn::parse_quote!(x),
            written: syn::parse_quote!(&x),
            near: 0,
            changed_by: Default::default(),
        };
        let mut captures = [capture];
        rewrite(&mut body, &index, &mut captures);
        (quote!(#body).to_string(), captures[0].near)
    }

    #[test]
    fn the_running_iterations_element_is_here() {
        assert!(rewritten("{ y = x[i]; }").contains("Here"));
        assert!(rewritten("{ f(|k| x[i] + k); }").contains("Here"));
    }

    #[test]
    fn what_is_written_may_be_the_iterations_own() {
        let own = |body: &str| {
            let body: Expr = syn::parse_str(body).unwrap();
            let closure: syn::ExprClosure = syn::parse_quote!(|i| ());
            let captures = [("x", Mode::Write), ("z", Mode::Read)].map(|(name, mode)| {
                let name = Ident::new(name, proc_macro2::Span::call_site());
                let place: Expr = syn::parse_quote!(#name);
                Capture {
                    name,
                    mode,
                    and: None,
                    written: place.clone(),
                    place,
                    near: 0,
                    changed_by: Default::default(),
                }
            });
            writes_own(&body, &Parameter { pattern: closure.inputs[0].clone() }, &captures)
        };
        for body in ["x[i] = z[i + 1] / z[k]", "{ if z[i] > 0 { x[i].push(f(x[i])); } }", "{ x[i][0] = 1; z.len(); }"] {
            assert!(own(body), "{body}");
        }
        for body in [
            "x[i + 1] = 0",
            "{ x[i] = x[k]; }",
            "{ let i = k; x[i] = 1; }",
            "{ let y = &mut x; y[k] = 1; }",
            "{ x.pair_mut(i, k); }",
            "{ x[i] = 1; debug!(x[k]); }",
            "{ include!(\"body\"); x[i] = 1; }",
            "{ let x = z; x[i] = 1; }",
        ] {
            assert!(!own(body), "{body}");
        }
    }

    #[test]
    fn elements_at_a_distance_are_near() {
        for (body, near) in [
            ("{ x[i + 1]; }", "Near (i + 1)"),
            ("{ x[i - 1]; }", "Near (i - 1)"),
            ("{ x[w + (i - 1)]; }", "Near (w + (i - 1))"),
            ("{ x[i as usize + w] += 1; }", "Near (i as usize + w)"),
        ] {
            assert!(rewritten(body).contains(near), "{body}");
        }
        for body in ["{ x[j + 1]; }", "{ x[w - i]; }", "{ x[2 * i]; }", "{ z[i + 1]; }", "{ let i = 2; x[i + 1]; }"] {
            assert!(!rewritten(body).contains("Near"), "{body}");
        }
    }

    #[test]
    fn both_ends_of_a_range_are_near() {
        let marked = rewritten("{ x[i - 1..=i + 1]; }");
        assert!(marked.contains("Near (i - 1) ..= ") && marked.contains("Near (i + 1)"), "{marked}");
        for body in ["{ x[i..k]; }", "{ x[i - 1..=i + w]; }", "{ x[..i]; }", "{ x[0..i + 1]; }", "{ x[i..i + 65]; }"] {
            assert!(!rewritten(body).contains("Near"), "{body}");
        }
    }

    #[test]
    fn the_largest_known_distance_is_noted() {
        for (body, near) in [
            ("{ z[i]; }", 0),
            ("{ x[j]; }", 0),
            ("{ x[i]; }", 1),
            ("{ x[i + w]; }", 1),
            ("{ x[i + 1]; x[i - 3]; x[i]; }", 4),
            ("{ x[2 + i - 1]; }", 2),
            ("{ x[i + 1_000_000]; }", 1),
            ("{ x[i - 1..=i + 2]; }", 3),
            ("{ x[i..i + 4]; x[i - 2]; }", 5),
            ("{ x[i..i + w]; }", 0),
            ("{ x[i..]; }", 0),
        ] {
            assert_eq!(rewritten_near(body).1, near, "{body}");
        }
    }

    #[test]
    fn of_what_is_only_read_far_elements_stay() {
        for (body, near) in [
            ("{ x[i]; }", 1),
            ("{ x[i - 1]; x[k]; }", FAR + 2),
            ("{ x[i]; x[i - w]; }", FAR + 1),
            ("{ x[i]; x[i + 1_000_000]; }", FAR + 1),
            ("{ x[i + w]; }", 0),
            ("{ x[k]; }", 0),
        ] {
            let (rewritten, noted) = rewritten_as(Mode::Read, body);
            assert_eq!(noted, near, "{body}");
            assert!(!rewritten.contains("Near (i - w)") && !rewritten.contains("Near (i + w)"), "{rewritten}");
        }
    }

    #[test]
    fn other_elements_and_other_names_stay() {
        for body in ["{ x[j]; }", "{ z[i]; }", "{ let i = 2; x[i]; }", "{ for i in 0..3 { x[i]; } }"] {
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
