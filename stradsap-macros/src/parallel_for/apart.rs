//! Elements that a body borrows side by side, `let (x, y) = (&mut a[i], &b[j]);`.
//!
//! rustc tells the code generator that the references among a function's parameters don't overlap, but not that those in a body's
//! variables don't: each write through one of them would count as a change of the others, and loops over rows would not be
//! vectorised. So what stands behind such statements becomes a closure that is called with the references.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Item, Local, Macro, Pat, ReturnType, Stmt};

use super::emit::{mentions, own_span};
use super::ir::{Capture, Mode};

/// More references than this aren't told apart (`body/apart.rs` of the runtime).
const MOST: usize = 6;

/// Rewrites a body, whose closure has this return type, when all else has been done with it.
pub(crate) fn rewrite(body: &mut Expr, output: &ReturnType, captures: &[&Capture]) {
    // (A closure can't give a variable its first value.)
    if declares_later(body) {
        return;
    }
    let views = captures.iter().filter(|capture| matches!(capture.mode, Mode::Read | Mode::Write));
    let mut rewriter = Rewriter { views: views.map(|capture| &capture.name).collect() };
    match body {
        Expr::Block(body) if body.label.is_none() => {
            visit_mut::visit_block_mut(&mut rewriter, &mut body.block);
            rewriter.block(&mut body.block, Some(output));
        }
        other => rewriter.visit_expr_mut(other),
    }
}

struct Rewriter<'c> {
    views: Vec<&'c Ident>,
}

/// A variable that refers to an element of a view, or to several.
struct Borrowed {
    name: Ident,
    view: Ident,
    write: bool,
}

impl Rewriter<'_> {
    /// Rewrites the block's own statements. `output` is given of the body's outermost block, which jumps may leave.
    fn block(&self, block: &mut Block, output: Option<&ReturnType>) {
        let mut borrowed: Vec<Borrowed> = Vec::new();
        let mut rest = 0;
        for (at, statement) in block.stmts.iter().enumerate() {
            let Stmt::Local(local) = statement else { break };
            let mut more = self.borrowed(local);
            if borrowed.iter().any(|known| mentions(local.to_token_stream(), &known.name)) {
                break;
            }
            if !more.is_empty() {
                borrowed.append(&mut more);
                rest = at + 1;
            }
        }
        // Lets before the first such one may be anything.
        if borrowed.is_empty() {
            let Some(first) = block.stmts.iter().position(|statement| self.is_borrowing(statement)) else { return };
            if first == 0 {
                return;
            }
            let mut tail = Block { brace_token: block.brace_token, stmts: block.stmts.split_off(first) };
            self.block(&mut tail, output);
            block.stmts.append(&mut tail.stmts);
            return;
        }
        let behind: TokenStream = block.stmts[rest..].iter().map(ToTokens::to_token_stream).collect();
        borrowed.retain(|one| mentions(behind.clone(), &one.name));
        let is_reached = |one: &Borrowed| {
            mentions(behind.clone(), &one.view) && !borrowed.iter().any(|other| other.name == one.view)
        };
        let twice = |k: usize| borrowed[..k].iter().any(|other| other.name == borrowed[k].name);
        if !(2..=MOST).contains(&borrowed.len())
            || !borrowed.iter().any(|one| one.write)
            || borrowed.iter().any(is_reached)
            || (0..borrowed.len()).any(twice)
            || (output.is_none() && block.stmts[rest..].iter().any(may_jump))
        {
            return;
        }
        let behind = block.stmts.split_off(rest);
        // A value of the type `()` is left only where there was none.
        let semicolon = match behind.last() {
            Some(Stmt::Expr(_, semicolon)) if !behind.iter().any(may_jump) => *semicolon,
            _ => None,
        };
        let span = own_span(behind.first().map_or_else(Span::mixed_site, Spanned::span));
        let function = format_ident!("apart{}", borrowed.len(), span = span);
        let names: Vec<&Ident> = borrowed.iter().map(|one| &one.name).collect();
        let output = output.into_iter();
        let call = quote_spanned! {span=>
            ::stradsap::__private::#function(#(#names,)* |#(#names),*| #(#output)* { #(#behind)* })
        };
        block.stmts.push(Stmt::Expr(Expr::Verbatim(call), semicolon));
    }

    fn is_borrowing(&self, statement: &Stmt) -> bool {
        matches!(statement, Stmt::Local(local) if !self.borrowed(local).is_empty())
    }

    /// What a statement borrows, if it does nothing else.
    fn borrowed(&self, local: &Local) -> Vec<Borrowed> {
        let Some(init) = local.init.as_ref().filter(|init| init.diverge.is_none() && local.attrs.is_empty()) else {
            return Vec::new();
        };
        match (&local.pat, &*init.expr) {
            (Pat::Tuple(names), Expr::Tuple(elements)) if names.elems.len() == elements.elems.len() => {
                let each = names.elems.iter().zip(&elements.elems).map(|(name, element)| self.one(name, element));
                each.collect::<Option<_>>().unwrap_or_default()
            }
            (name, element) => self.one(name, element).into_iter().collect(),
        }
    }

    fn one(&self, name: &Pat, element: &Expr) -> Option<Borrowed> {
        let Pat::Ident(name) = name else { return None };
        let Expr::Reference(reference) = element else { return None };
        let Expr::Index(index) = &*reference.expr else { return None };
        let Expr::Path(view) = &*index.expr else { return None };
        let view = view.path.get_ident().filter(|view| self.views.contains(view))?;
        if name.by_ref.is_some() || name.mutability.is_some() || name.subpat.is_some() {
            return None;
        }
        Some(Borrowed { name: name.ident.clone(), view: view.clone(), write: reference.mutability.is_some() })
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_block_mut(&mut self, block: &mut Block) {
        visit_mut::visit_block_mut(self, block);
        self.block(block, None);
    }

    // Items don't see the captures.
    fn visit_item_mut(&mut self, _item: &mut Item) {}
}

/// Whether a statement may go elsewhere than to the next one, as far as can be seen: macros may do anything.
fn may_jump(statement: &Stmt) -> bool {
    struct Jumps(bool);
    impl<'s> Visit<'s> for Jumps {
        fn visit_expr(&mut self, expr: &'s Expr) {
            let jumps = matches!(
                expr,
                Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Try(_) | Expr::Await(_) | Expr::Yield(_)
            );
            self.0 |= jumps;
            visit::visit_expr(self, expr);
        }

        fn visit_macro(&mut self, _macro: &'s Macro) {
            self.0 = true;
        }
    }
    let mut jumps = Jumps(false);
    jumps.visit_stmt(statement);
    jumps.0
}

/// Whether a variable gets its first value later than where it is declared.
fn declares_later(body: &Expr) -> bool {
    struct Later(bool);
    impl<'s> Visit<'s> for Later {
        fn visit_local(&mut self, local: &'s Local) {
            self.0 |= local.init.is_none();
            visit::visit_local(self, local);
        }
    }
    let mut later = Later(false);
    later.visit_expr(body);
    later.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    /// The body, rewritten, with `a` and `b` captured to be written and `c` to be read.
    fn rewritten(body: &str) -> String {
        let capture = |name: &str, mode| Capture {
            name: Ident::new(name, Span::call_site()),
            mode,
            and: None,
            place: syn::parse_str(name).unwrap(),
            written: syn::parse_str(name).unwrap(),
            near: 0,
            changed_by: Default::default(),
        };
        let captures =
            [capture("a", Mode::Write), capture("b", Mode::Write), capture("c", Mode::Read), capture("n", Mode::Value)];
        let mut body = syn::parse_str(body).unwrap();
        rewrite(&mut body, &ReturnType::Default, &captures.each_ref());
        quote!(#body).to_string().replace(' ', "")
    }

    fn stays(body: &str) {
        let parsed: Expr = syn::parse_str(body).unwrap();
        assert_eq!(rewritten(body), quote!(#parsed).to_string().replace(' ', ""), "{body}");
    }

    #[test]
    fn what_is_behind_several_borrows_is_called_with_them() {
        assert_eq!(
            rewritten("{ let r = c[i]; let (x, y) = (&mut a[i], &c[j]); f(x, y); g(r) }"),
            "{letr=c[i];let(x,y)=(&muta[i],&c[j]);::stradsap::__private::apart2(x,y,|x,y|{f(x,y);g(r)})}"
        );
        assert_eq!(
            rewritten("{ let a = &mut a[i]; let k = n; let b = &b[k..]; if stop { return; } a[0] += b[0]; }"),
            "{leta=&muta[i];letk=n;letb=&b[k..];::stradsap::__private::apart2(a,b,|a,b|{ifstop{return;}a[0]+=b[0];})}"
        );
        assert_eq!(
            rewritten("for k in 0..n { let (x, y, z) = (&mut a[k], &mut b[k], &c[k]); f(x, y, z); }"),
            "forkin0..n{let(x,y,z)=(&muta[k],&mutb[k],&c[k]);::stradsap::__private::apart3(x,y,z,|x,y,z|{f(x,y,z);});}"
        );
    }

    #[test]
    fn what_may_not_become_a_closure_stays() {
        // The views are used again, or through each other.
        stays("{ let (x, y) = (&mut a[i], &mut b[j]); x[0] += y[0]; a[k] = 1; }");
        stays("{ let x = &mut a[i]; let s = x[0]; let y = &mut b[j]; y[0] = s; }");
        // Jumps out of the block.
        stays("for k in 0..n { let (x, y) = (&mut a[k], &mut b[k]); if x[0] > y[0] { continue; } f(x, y); }");
        stays("for k in 0..n { let (x, y) = (&mut a[k], &mut b[k]); f(x, y)?; }");
        stays("for k in 0..n { let (x, y) = (&mut a[k], &mut b[k]); any!(x, y); }");
        // Nothing is written, only one is used, or it is no element.
        stays("{ let (x, y) = (&c[i], &b[j]); f(x, y); }");
        stays("{ let (x, y) = (&mut a[i], &mut b[j]); x[0] = 1; }");
        stays("{ let (x, y) = (&mut a[i], &mut n[j]); f(x, y); }");
        stays("{ let (x, y) = (&mut a[i].0, &mut b[j]); f(x, y); }");
        stays("{ let (mut x, y) = (&mut a[i], &mut b[j]); f(x, y); }");
        // A closure can't be the first to set a variable.
        stays("{ let t; let (x, y) = (&mut a[i], &mut b[j]); t = x[0] + y[0]; f(t); }");
    }
}
