//! Elements that the body of a synchronous loop shares with others: captured as `&mut x`, `x[i]` is a `Shared<T>`.
//!
//! It has methods for all that can be done to it, and is neither assigned to, nor lent as `&mut`, nor an operand. What is
//! refused here rustc would refuse as well, and explain less.

use syn::{BinOp, Expr, Ident, Pat, UnOp};

use super::scope::{Binding, name_of};
use super::writes::{Write, variable_of};
use super::{Kind, Mode, Walker};

/// Why a place that starts at such a capture can't be written so.
pub(super) fn refusal(name: &Ident, place: &Expr, depth: usize, write: Write) -> Option<String> {
    let others = format!("the elements of `{name}` are shared with minibatches that run at the same time");
    match write {
        Write::Borrow if depth == 0 => None,
        Write::Borrow => Some(no_exclusive(name)),
        Write::Assign | Write::Update(_) if depth == 0 => Some(format!(
            "`{name}` itself can't be assigned to in the loop's body: change its elements, `{name}[i].set(..)` or \
             `{name}[i].add(..)`"
        )),
        Write::Assign if is_element(place) => Some(format!("{others}: write `{name}[i].set(..)`")),
        Write::Update(op) if is_element(place) => Some(format!("{others}: {}", update(name, op))),
        _ => Some(format!(
            "{others}, and have no parts to assign to: change a copy, `let mut copy = {name}[i].get();`, and write it \
             back, `{name}[i].set(copy)`"
        )),
    }
}

/// What stands for `x[i] += ...` and its like.
fn update(name: &Ident, op: BinOp) -> String {
    let sign = match op {
        BinOp::AddAssign(_) => {
            return format!(
                "write `{name}[i].add(..)`; a row of floats also has `{name}[i].axpy(a, &row)`, which adds `a * row`"
            );
        }
        BinOp::SubAssign(_) => '-',
        BinOp::MulAssign(_) => '*',
        BinOp::DivAssign(_) => '/',
        BinOp::RemAssign(_) => '%',
        BinOp::BitXorAssign(_) => '^',
        BinOp::BitAndAssign(_) => '&',
        BinOp::BitOrAssign(_) => '|',
        BinOp::ShlAssign(_) => return format!("write `{name}[i].set({name}[i].get() << ..)`"),
        BinOp::ShrAssign(_) => return format!("write `{name}[i].set({name}[i].get() >> ..)`"),
        _ => return format!("write `{name}[i].set(..)`"),
    };
    format!("write `{name}[i].set({name}[i].get() {sign} ..)`")
}

/// About `&mut x[i]`, and methods that need it.
pub(super) fn no_exclusive(name: &Ident) -> String {
    format!(
        "the elements of `{name}` are shared with minibatches that run at the same time, so none can be borrowed as `&mut`: \
         change it by its methods, such as `{name}[i].add(..)`, or change a copy, `let mut copy = {name}[i].get();`, and \
         write it back, `{name}[i].set(copy)`"
    )
}

/// About methods of a map that a synchronous loop's view doesn't have.
pub(super) fn no_keys(name: &Ident, method: &str) -> String {
    if method == "get_mut" {
        return format!(
            "the values of `{name}` are shared with minibatches that run at the same time, so none can be borrowed as `&mut`: \
             change it by its methods, such as `{name}[&key].add(..)`; `{name}.get(&key)` gives it where there may be none"
        );
    }
    format!(
        "a synchronous loop changes values of `{name}` and adds keys, and removes none, since other copies may change them: remove \
         keys outside the loop, or in an `async_parallel_for!`"
    )
}

/// About `*m.entry(key).or_insert(0) += ..` and its like.
pub(super) fn no_place(name: &Ident) -> String {
    format!(
        "the values of `{name}` are shared with minibatches that run at the same time: write \
         `{name}.entry(key).or_insert(..).add(..)`, or `.set(..)` in place of `.add(..)`"
    )
}

/// The map whose entry an expression gives: `m.entry(key).or_insert(0)`.
pub(super) fn entry_of(expr: &Expr) -> Option<&Ident> {
    let Expr::MethodCall(insert) = bare(expr) else { return None };
    let Expr::MethodCall(entry) = bare(&insert.receiver) else { return None };
    if entry.method == "entry" { variable_of(bare(&entry.receiver)) } else { entry_of(&insert.receiver) }
}

/// Whether a place is a whole element, `x[i]` or `*x[i]`.
fn is_element(place: &Expr) -> bool {
    match place {
        Expr::Index(index) => variable_of(bare(&index.expr)).is_some(),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => is_element(&unary.expr),
        Expr::Paren(paren) => is_element(&paren.expr),
        Expr::Group(group) => is_element(&group.expr),
        _ => false,
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(paren) => bare(&paren.expr),
        Expr::Group(group) => bare(&group.expr),
        other => other,
    }
}

/// Where a `Shared` stands that can't stand there.
#[derive(Clone, Copy)]
pub(super) enum Misplaced {
    /// Its value is wanted.
    Value,
    /// `x[i].field`
    Field,
    /// `x[i][k]`
    Part,
}

impl Walker<'_> {
    /// The capture whose shared element an expression is.
    fn shared_element<'e>(&self, expr: &'e Expr) -> Option<&'e Ident> {
        let Expr::Index(index) = bare(expr) else { return None };
        let name = variable_of(bare(&index.expr))?;
        let Some(Binding::Capture(at)) = self.scopes.resolve(&name_of(name)) else { return None };
        (self.kind == Kind::Sync && self.captures[at].mode == Mode::Write).then_some(name)
    }

    /// Reports a shared element that stands where only its value can.
    pub(super) fn misplaced(&self, expr: &Expr, misplaced: Misplaced) {
        let Some(name) = self.shared_element(expr) else { return };
        let advice = match misplaced {
            Misplaced::Value => format!("`{name}[i].get()`"),
            Misplaced::Field => format!("`{name}[i].get().field`"),
            Misplaced::Part => {
                format!("`{name}[i].get()[k]`, or for several of its numbers once, `let row = {name}[i].get();`")
            }
        };
        self.cx.error_on(
            expr,
            format!(
                "the elements of `{name}` are shared with minibatches that run at the same time: read one by {advice}"
            ),
        );
    }

    /// The same for a value that a pattern takes.
    pub(super) fn misplaced_for(&self, pattern: &Pat, expr: &Expr) {
        let takes = match pattern {
            Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        if matches!(takes, Pat::Ident(name) if name.by_ref.is_none()) {
            self.misplaced(expr, Misplaced::Value);
        }
    }
}
