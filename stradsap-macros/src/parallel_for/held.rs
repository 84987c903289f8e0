//! Loops in a body whose rounds all reach the same elements, or elements that follow each other:
//!
//! ```text
//! for k in 0..n { x[u][k] += v; }
//! for k in a..b { x[c + k] += v; }
//! for (k, v) in list.iter().enumerate() { x[c + k] += v; }
//! ```
//!
//! Such a loop is written twice. Before it the views are asked to hold what its indices lead to (`body/view/held.rs` of the runtime). If
//! they do, the first one runs, in which indices are marked: no round asks whether the block owns an element, so that the compiler
//! can do several at once. A mark says nothing about an index: the view compares it with what it holds.
//!
//! An index is evaluated once more for this. So nothing that could fail is taken for one, unless the first round evaluates it for certain.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use proc_macro2::{Ident, Span};
use quote::{ToTokens, format_ident};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, ExprForLoop, ExprIndex, ExprRange, Item, Local, Pat, Stmt, Token, UnOp};

use super::body::scope::{Scopes, name_of};
use super::body::{call_unknown, is_primitive, is_update};
use super::emit::mentions;
use super::indices::{FARTHEST, distance, mentions_of, name, names_bound_in, plain};
use super::ir::{Capture, Mode, Parameter};

/// How many stretches of elements a view holds.
const PLACES: usize = 4;

/// Rewrites a checked body, before its indices are.
pub(crate) fn rewrite(body: &mut Expr, index: Option<&Parameter>, captures: &[Capture]) {
    let bound = names_bound_in(body);
    let is_bound = |name: &Ident| bound.resolve(&name_of(name)).is_some();
    let by_reference = captures.iter().filter(|capture| capture.mode != Mode::Value && !is_bound(&capture.name));
    let dds = by_reference.map(|capture| (capture.name.clone(), capture.mode != Mode::Read)).collect();
    let index = index.and_then(|index| plain(&index.pattern)).filter(|index| !is_bound(index));
    Rewriter { dds, index }.visit_expr_mut(body);
}

struct Rewriter {
    /// The captures that are indexed, and whether the body may write them.
    dds: BTreeMap<Ident, bool>,
    /// The loop's own index. What stands near it needs no help.
    index: Option<Ident>,
}

impl VisitMut for Rewriter {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        if let Expr::ForLoop(each) = expr
            && let Some(held) = self.held(each)
        {
            *expr = held.emit(each);
        }
    }

    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        let is_loop = matches!(stmt, Stmt::Expr(Expr::ForLoop(_), None));
        visit_mut::visit_stmt_mut(self, stmt);
        // A loop is a statement in any case.
        if let Stmt::Expr(Expr::Match(_), semicolon) = stmt
            && is_loop
        {
            *semicolon = Some(Token![;](Span::mixed_site()));
        }
    }

    // Items see neither the index nor the captures.
    fn visit_item_mut(&mut self, _item: &mut Item) {}
}

/// How an index goes on from round to round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Stays,
    /// By one.
    Counts,
}

/// One `x[e]` of a loop.
struct Access {
    dds: Ident,
    index: Expr,
    /// None where nothing is known.
    shape: Option<Shape>,
    /// The element is near the loop's own index: the view knows it by other means.
    near: bool,
    /// To evaluate the index can fail, and it isn't certain that the first round does.
    risky: bool,
    write: bool,
}

/// What views hold while a loop runs: in each place of each, and whether to write it.
struct Held {
    places: BTreeMap<(Ident, String), Place>,
    /// What counts the loop's rounds.
    count: Option<(Ident, Count)>,
}

/// How a loop counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    /// It is over a range.
    Range,
    /// From 0 on, beside something else.
    Enumerated,
}

struct Place {
    number: usize,
    index: Expr,
    shape: Shape,
    write: bool,
}

impl Rewriter {
    /// What is to be held for a loop, if that helps: everything that the loop does with DDSs that it may write.
    fn held(&self, each: &ExprForLoop) -> Option<Held> {
        let tokens = each.body.to_token_stream();
        let simple = each.attrs.is_empty() && !call_unknown(tokens.clone()) && !has_loops_or_items(&each.body);
        let written = |tokens: proc_macro2::TokenStream| {
            self.dds.iter().any(|(name, &write)| write && mentions(tokens.clone(), name))
        };
        if !simple || written(each.expr.to_token_stream()) || !written(tokens.clone()) {
            return None;
        }
        let count = count(each);
        let body = &each.body;
        let mut bound = names_bound_in(&syn::parse_quote!(#body));
        bound.bind_pattern(&each.pat);
        let mut accesses = Accesses {
            rewriter: self,
            counter: count.as_ref().map(|(name, _)| name),
            bound,
            // Any other loop may have no round.
            certain: count.is_some(),
            write: false,
            all: Vec::new(),
        };
        Assigned(&mut accesses.bound).visit_block(&each.body);
        accesses.visit_block(&each.body);
        let accesses = accesses.all;
        let certain = |access: &Access| {
            let same = |other: &&Access| other.dds == access.dds && other.index == access.index;
            !access.risky || accesses.iter().filter(same).any(|other| !other.risky)
        };
        let mut places: BTreeMap<(Ident, String), Place> = BTreeMap::new();
        for (dds, &may_write) in &self.dds {
            let own: Vec<&Access> = accesses.iter().filter(|access| access.dds == *dds).collect();
            let far = own.iter().filter(|access| !access.near);
            let known = |access: &&&Access| access.shape.is_some() && certain(access);
            if may_write && (own.len() != mentions_of(tokens.clone(), dds) || !far.clone().all(|access| known(&access)))
            {
                return None;
            }
            for access in far.filter(known) {
                let number = places.keys().filter(|(other, _)| other == dds).count();
                let key = (dds.clone(), access.index.to_token_stream().to_string());
                let (index, shape) = (access.index.clone(), access.shape?);
                places.entry(key).or_insert(Place { number, index, shape, write: false }).write |= access.write;
            }
        }
        let helps = places.keys().any(|(dds, _)| self.dds[dds]) && places.values().all(|place| place.number < PLACES);
        helps.then_some(Held { places, count })
    }
}

/// What counts a loop's rounds, if something does that has a plain name.
fn count(each: &ExprForLoop) -> Option<(Ident, Count)> {
    match (&*each.expr, &*each.pat) {
        (Expr::Range(ExprRange { start: Some(_), end: Some(_), .. }), pattern) => Some((plain(pattern)?, Count::Range)),
        (Expr::MethodCall(call), Pat::Tuple(pair)) if call.method == "enumerate" && pair.elems.len() == 2 => {
            Some((plain(&pair.elems[0])?, Count::Enumerated))
        }
        _ => None,
    }
}

/// Whether another loop stands in a block, or an item, of which there must not be two.
fn has_loops_or_items(block: &Block) -> bool {
    struct Found(bool);
    impl<'a> Visit<'a> for Found {
        fn visit_expr(&mut self, expr: &'a Expr) {
            self.0 |= matches!(expr, Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) | Expr::Verbatim(_));
            visit::visit_expr(self, expr);
        }

        fn visit_item(&mut self, _item: &'a Item) {
            self.0 = true;
        }
    }
    let mut found = Found(false);
    found.visit_block(block);
    found.0
}

/// Variables that are assigned to count as names that the loop binds.
struct Assigned<'s>(&'s mut Scopes);

impl<'a> Visit<'a> for Assigned<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        let to = match expr {
            Expr::Assign(assign) => Some(&assign.left),
            Expr::Binary(binary) if is_update(&binary.op) => Some(&binary.left),
            Expr::Reference(reference) if reference.mutability.is_some() => Some(&reference.expr),
            _ => None,
        };
        if let Some(to) = to {
            self.0.bind_all_in(match &**to {
                Expr::Index(_) => proc_macro2::TokenStream::new(),
                place => place.to_token_stream(),
            });
        }
        visit::visit_expr(self, expr);
    }
}

/// Collects what a loop's body indexes.
struct Accesses<'r> {
    rewriter: &'r Rewriter,
    counter: Option<&'r Ident>,
    /// What may change in the loop.
    bound: Scopes,
    /// Whether the first round comes here for certain.
    certain: bool,
    /// Whether the place that is looked at is written.
    write: bool,
    all: Vec<Access>,
}

impl Accesses<'_> {
    /// Something that the first round may leave out.
    fn perhaps(&mut self, visit: impl FnOnce(&mut Self)) {
        let certain = std::mem::take(&mut self.certain);
        visit(self);
        self.certain = certain;
    }

    fn place(&mut self, place: &Expr, write: bool) {
        self.write = write;
        self.visit_expr(place);
        self.write = false;
    }

    /// How an index goes on, and whether to evaluate it can fail.
    fn shape(&self, index: &Expr) -> Option<(Shape, bool)> {
        match index {
            Expr::Lit(_) => Some((Shape::Stays, false)),
            Expr::Paren(paren) => self.shape(&paren.expr),
            Expr::Group(group) => self.shape(&group.expr),
            Expr::Cast(cast) if is_primitive(&cast.ty) => self.shape(&cast.expr),
            Expr::Field(field) => self.shape(&field.base).filter(|&(shape, _)| shape == Shape::Stays),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.shape(&unary.expr),
            Expr::Path(_) => {
                let name = name(index)?;
                if Some(name) == self.counter {
                    return Some((Shape::Counts, false));
                }
                let changes = self.bound.resolve(&name_of(name)).is_some();
                (!changes && !self.rewriter.dds.contains_key(name)).then_some((Shape::Stays, false))
            }
            Expr::Binary(binary) => {
                let shape = match (&binary.op, self.shape(&binary.left)?.0, self.shape(&binary.right)?.0) {
                    (BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_), Shape::Stays, Shape::Stays) => Shape::Stays,
                    (BinOp::Add(_) | BinOp::Sub(_), Shape::Counts, Shape::Stays)
                    | (BinOp::Add(_), Shape::Stays, Shape::Counts) => Shape::Counts,
                    _ => return None,
                };
                Some((shape, true))
            }
            _ => None,
        }
    }

    fn access(&mut self, access: &ExprIndex, write: bool) {
        let Some(dds) = name(&access.expr).filter(|name| self.rewriter.dds.contains_key(*name)) else { return };
        let (index, of_loop) = (&access.index, self.rewriter.index.as_ref());
        let shape = self.shape(index);
        let by = of_loop.and_then(|of_loop| distance(index, of_loop)).flatten();
        self.all.push(Access {
            dds: dds.clone(),
            index: (**index).clone(),
            shape: shape.map(|(shape, _)| shape),
            near: by.is_some_and(|by| by.unsigned_abs() <= FARTHEST),
            risky: shape.is_some_and(|(_, may_fail)| may_fail) && !self.certain,
            write,
        });
    }
}

impl<'a> Visit<'a> for Accesses<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        let write = std::mem::take(&mut self.write);
        match expr {
            Expr::Assign(assign) => {
                self.visit_expr(&assign.right);
                self.place(&assign.left, true);
            }
            Expr::Binary(binary) if is_update(&binary.op) => {
                self.visit_expr(&binary.right);
                self.place(&binary.left, true);
            }
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.visit_expr(&binary.left);
                self.perhaps(|inner| inner.visit_expr(&binary.right));
            }
            Expr::Reference(reference) => self.place(&reference.expr, reference.mutability.is_some()),
            Expr::Field(field) => self.place(&field.base, write),
            Expr::Paren(paren) => self.place(&paren.expr, write),
            Expr::Group(group) => self.place(&group.expr, write),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.place(&unary.expr, write),
            Expr::Index(index) => {
                self.access(index, write);
                self.place(&index.expr, write);
                self.visit_expr(&index.index);
            }
            Expr::If(branch) => {
                self.visit_expr(&branch.cond);
                self.perhaps(|inner| {
                    inner.visit_block(&branch.then_branch);
                    if let Some((_, otherwise)) = &branch.else_branch {
                        inner.visit_expr(otherwise);
                    }
                });
            }
            Expr::Match(choice) => {
                self.visit_expr(&choice.expr);
                self.perhaps(|inner| choice.arms.iter().for_each(|arm| inner.visit_arm(arm)));
            }
            Expr::Closure(closure) => self.perhaps(|inner| inner.visit_expr(&closure.body)),
            _ => {
                visit::visit_expr(self, expr);
                // What stands behind may never be reached.
                self.certain &= !leaves(expr);
            }
        }
        // A branch may have left, too.
        self.certain &= !matches!(expr, Expr::If(_) | Expr::Match(_)) || !may_leave(expr);
    }

    fn visit_local(&mut self, local: &'a Local) {
        visit::visit_local(self, local);
        self.certain &= local.init.as_ref().is_none_or(|init| init.diverge.is_none());
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        visit::visit_stmt(self, stmt);
        self.certain &= !matches!(stmt, Stmt::Macro(_));
    }
}

/// Whether an expression may itself keep what stands behind it from running.
fn leaves(expr: &Expr) -> bool {
    matches!(expr, Expr::Try(_) | Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Macro(_))
}

/// Whether something in an expression may keep what stands behind it from running.
fn may_leave(expr: &Expr) -> bool {
    struct Found(bool);
    impl<'a> Visit<'a> for Found {
        fn visit_expr(&mut self, expr: &'a Expr) {
            self.0 |= leaves(expr);
            visit::visit_expr(self, expr);
        }

        fn visit_macro(&mut self, _call: &'a syn::Macro) {
            self.0 = true;
        }
    }
    let mut found = Found(false);
    found.visit_expr(expr);
    found.0
}

impl Held {
    /// The loop, twice.
    fn emit(&self, each: &ExprForLoop) -> Expr {
        // Names that the user's code can't see.
        let own = Span::mixed_site();
        let [over, nth] = ["over", "nth"].map(|name| Ident::new(name, own));
        let ExprForLoop { label, pat, body, .. } = each;
        let expr = &each.expr;
        let marks: Vec<Ident> = (0..self.places.len()).map(|at| format_ident!("mark{at}", span = own)).collect();
        let holds = self.places.iter().map(|((dds, _), Place { number, index, shape, write })| -> Expr {
            let n: Expr = match shape {
                Shape::Stays => syn::parse_quote_spanned!(own=> 1),
                Shape::Counts => syn::parse_quote_spanned!(own=> (&#over).__stradsap_rounds()),
            };
            syn::parse_quote_spanned!(own=> (*#dds).__stradsap_hold(#number, &(#index), #n, #write))
        });
        let makes = self.places.iter().zip(&marks).map(|(((dds, _), Place { number, .. }), mark)| -> Stmt {
            syn::parse_quote_spanned!(own=> let #mark = (*#dds).__stradsap_mark::<#number>();)
        });
        let mut marked = body.clone();
        Marker { held: self, marks: &marks, nth: &nth }.visit_block_mut(&mut marked);
        let uses: Stmt = syn::parse_quote_spanned! {own=>
            #[allow(unused_imports)]
            use ::stradsap::__private::{Counts as _, CountsNothing as _, HoldsNothing as _, NoRounds as _, Rounds as _};
        };
        let otherwise: Block = syn::parse_quote_spanned!(own=> { #label for #pat in #over #body });
        let Some((counter, count)) = &self.count else {
            return syn::parse_quote_spanned! {own=>
                match #expr {
                    #over => if { #uses #(#holds)&&* } {
                        #uses
                        #(#makes)*
                        #label for #pat in #over #marked
                    } else #otherwise,
                }
            };
        };
        let (first, rounds) = rounds(each, (counter, *count), (&over, &nth), &marked);
        syn::parse_quote_spanned! {own=>
            match #expr {
                #over => if { #uses (&#over).__stradsap_any() && {
                    #[allow(unused_variables)]
                    let #counter = #first;
                    #(#holds)&&*
                } } {
                    #uses
                    #(#makes)*
                    #rounds
                } else #otherwise,
            }
        }
    }
}

/// What the counter is before the first round, and the loop over all rounds, whose indices are marked.
fn rounds(
    each: &ExprForLoop,
    (counter, count): (&Ident, Count),
    (over, nth): (&Ident, &Ident),
    marked: &Block,
) -> (Expr, Expr) {
    let own = Span::mixed_site();
    let (ExprForLoop { label, pat, .. }, stmts) = (each, &marked.stmts);
    match count {
        Count::Range => (
            syn::parse_quote_spanned!(own=> (&#over).__stradsap_count(0usize)),
            syn::parse_quote_spanned! {own=>
                #label for #nth in 0..(&#over).__stradsap_rounds() {
                    #[allow(unused_variables)]
                    let #pat = (&#over).__stradsap_count(#nth);
                    #(#stmts)*
                }
            },
        ),
        Count::Enumerated => (
            syn::parse_quote_spanned!(own=> 0usize),
            syn::parse_quote_spanned! {own=>
                #label for #pat in #over {
                    let #nth = #counter;
                    #(#stmts)*
                }
            },
        ),
    }
}

/// Marks the indices that lead to what is held.
struct Marker<'h> {
    held: &'h Held,
    marks: &'h [Ident],
    nth: &'h Ident,
}

impl VisitMut for Marker<'_> {
    fn visit_expr_index_mut(&mut self, expr: &mut ExprIndex) {
        visit_mut::visit_expr_index_mut(self, expr);
        let Some(dds) = name(&expr.expr) else { return };
        let key = (dds.clone(), expr.index.to_token_stream().to_string());
        let mut places = self.held.places.iter().zip(self.marks);
        let Some(((_, place), mark)) = places.find(|((known, _), _)| **known == key) else { return };
        let (index, nth) = (&expr.index, self.nth);
        let own = Span::mixed_site();
        *expr.index = match place.shape {
            Shape::Stays => syn::parse_quote_spanned!(own=> #mark.on(0, #index)),
            Shape::Counts => syn::parse_quote_spanned!(own=> #mark.on(#nth, #index)),
        };
    }
}
