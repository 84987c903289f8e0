//! Bodies that do nothing but compute with floats: such a loop can't fail, if its captures are floats and its indices in range, which
//! the runtime looks at. Then nothing has to be saved to undo it.
//!
//! What counts is `x[i] = e`, with any of `+=`, `-=`, `*=`, `/=`, and `let name = e`; `e` is made of number literals with a point,
//! captured values, names bound so, `x[i]`, `x[i + 1]` and the like, `x[i - 1..=i + 1].iter().sum::<f64>()`, the four operations, and
//! floats' own methods. `s.add(e)`, `s.min(e)` and `s.max(e)` count as well, if `s` is a reduction of numbers. No operation on
//! floats panics, and no loop or condition stands there, so that each iteration touches the same places. (Of what a program has
//! defined itself nothing is known; but its operators and methods don't come before those of floats.)

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::Ident;
use syn::{
    BinOp, Block, Expr, ExprAssign, ExprBinary, ExprIndex, ExprLit, ExprMethodCall, ExprRange, ExprUnary,
    GenericArgument, Lit, Local, Pat, PatIdent, Stmt, Type, UnOp,
};

use super::indices::{FARTHEST, name, number, plain};
use super::ir::{Capture, Mode, Parameter};

/// Methods of floats that give floats, and panic for none.
const METHODS: [&str; 19] = [
    "abs", "atan", "ceil", "cos", "exp", "floor", "ln", "max", "min", "mul_add", "powf", "recip", "round", "signum",
    "sin", "sqrt", "tan", "tanh", "trunc",
];

/// What is said of a reduction, which has no elements: so far no element can be (`loops/sure.rs` of the runtime).
const REDUCED: (usize, usize) = (u32::MAX as usize, u32::MAX as usize);

/// How far before and behind the iteration's own element a body reaches, of each DDS; and whether it also reads what it writes near its
/// own element, so that it can't fail only if the loop runs in its own order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OfFloats {
    pub(crate) reach: Vec<(usize, usize)>,
    pub(crate) in_order: bool,
}

/// What such a checked body does, in which no index has been marked yet. None of other bodies.
pub(crate) fn of(body: &Expr, index: &Parameter, captures: &[Capture]) -> Option<OfFloats> {
    let reach = |in_order| is_floats(body, index, captures, in_order);
    match reach(false) {
        Some(reach) => Some(OfFloats { reach, in_order: false }),
        None => reach(true).map(|reach| OfFloats { reach, in_order: true }),
    }
}

fn is_floats(body: &Expr, index: &Parameter, captures: &[Capture], in_order: bool) -> Option<Vec<(usize, usize)>> {
    let index = plain(&index.pattern)?;
    let mut floats = Floats { index, captures, in_order, bound: BTreeSet::new(), reach: RefCell::default() };
    let is_all = match body {
        Expr::Block(block) if block.attrs.is_empty() && block.label.is_none() => floats.block(&block.block),
        body => floats.assignment(body),
    };
    let reach = floats.reach.into_inner();
    let of = |capture: &Capture| reach.get(&capture.name).copied().unwrap_or_default();
    is_all.then(|| captures.iter().filter(|capture| capture.mode != Mode::Value).map(of).collect())
}

struct Floats<'c> {
    index: Ident,
    captures: &'c [Capture],
    /// Whether it may read what it writes, near its own element.
    in_order: bool,
    /// What the body has bound so far.
    bound: BTreeSet<Ident>,
    /// How far before and behind its own element it has reached so far.
    reach: RefCell<BTreeMap<Ident, (usize, usize)>>,
}

impl Floats<'_> {
    fn block(&mut self, block: &Block) -> bool {
        block.stmts.iter().all(|statement| match statement {
            Stmt::Local(local) => self.bind(local),
            Stmt::Expr(Expr::MethodCall(call), _) => self.reduced(call),
            Stmt::Expr(expr, _) => self.assignment(expr),
            Stmt::Item(_) | Stmt::Macro(_) => false,
        })
    }

    fn bind(&mut self, local: &Local) -> bool {
        let Pat::Ident(PatIdent { by_ref: None, mutability: None, subpat: None, ident, .. }) = &local.pat else {
            return false;
        };
        let is_new = *ident != self.index && self.captures.iter().all(|capture| capture.name != *ident);
        let of_floats = local.init.as_ref().is_some_and(|init| init.diverge.is_none() && self.value(&init.expr));
        self.bound.insert(ident.clone());
        is_new && of_floats && local.attrs.is_empty()
    }

    /// `s.add(e)`.
    fn reduced(&self, call: &ExprMethodCall) -> bool {
        let ExprMethodCall { attrs, receiver, method, turbofish: None, args, .. } = call else { return false };
        let reduction = self.captures.iter().find(|capture| Some(&capture.name) == name(receiver));
        let Some(reduction) = reduction.filter(|capture| capture.mode == Mode::Read) else { return false };
        self.reach.borrow_mut().insert(reduction.name.clone(), REDUCED);
        let is_known = ["add", "min", "max"].iter().any(|known| method == known);
        is_known && attrs.is_empty() && args.len() == 1 && args.iter().all(|argument| self.value(argument))
    }

    fn assignment(&self, expr: &Expr) -> bool {
        let (place, value) = match expr {
            Expr::Assign(ExprAssign { attrs, left, right, .. }) if attrs.is_empty() => (left, right),
            Expr::Binary(ExprBinary {
                attrs,
                left,
                op: BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_),
                right,
            }) if attrs.is_empty() => (left, right),
            _ => return false,
        };
        matches!(&**place, Expr::Index(place) if self.element(place, Mode::Write)) && self.value(value)
    }

    /// An element: that of the iteration's own number, or of one that is read, near it.
    fn element(&self, place: &ExprIndex, mode: Mode) -> bool {
        let of =
            |mode| self.captures.iter().any(|capture| capture.mode == mode && Some(&capture.name) == name(&place.expr));
        let own = |expr: &Expr| name(expr) == Some(&self.index);
        match &*place.index {
            index if own(index) => of(mode) || of(Mode::Write),
            index => {
                let near = self.distance(index).is_some_and(|distance| self.reaches(&place.expr, distance));
                mode == Mode::Read && near && (of(Mode::Read) || self.in_order && of(Mode::Write))
            }
        }
    }

    /// Notes that an element at this distance from the iteration's own is used.
    fn reaches(&self, dds: &Expr, distance: isize) -> bool {
        let Some(dds) = name(dds) else { return false };
        let mut all = self.reach.borrow_mut();
        let (before, behind) = all.entry(dds.clone()).or_default();
        match distance {
            ..0 => *before = distance.unsigned_abs().max(*before),
            0.. => *behind = distance.unsigned_abs().max(*behind),
        }
        true
    }

    /// `x[i - 1..=i + 1].iter().sum::<f64>()` of a DDS that is read, which is not empty.
    fn sum(&self, call: &ExprMethodCall) -> bool {
        let ExprMethodCall { receiver, method, turbofish: Some(of), args, .. } = call else { return false };
        let Expr::MethodCall(ExprMethodCall { receiver, method: iter, turbofish: None, args: none, .. }) = &**receiver
        else {
            return false;
        };
        let Expr::Index(ExprIndex { expr, index, .. }) = &**receiver else { return false };
        let Expr::Range(ExprRange { start: Some(start), end: Some(end), .. }) = &**index else { return false };
        let is_read = |capture: &Capture| capture.mode == Mode::Read && Some(&capture.name) == name(expr);
        let of_floats = of.args.len() == 1
            && matches!(of.args.first(), Some(GenericArgument::Type(Type::Path(of))) if of.path.is_ident("f32") || of.path.is_ident("f64"));
        let in_order = self
            .distance(start)
            .zip(self.distance(end))
            .is_some_and(|(first, last)| first < last && self.reaches(expr, first) && self.reaches(expr, last));
        method == "sum"
            && iter == "iter"
            && args.is_empty()
            && none.is_empty()
            && of_floats
            && in_order
            && self.captures.iter().any(is_read)
    }

    /// How far a number is from the iteration's own, if that is written as a number.
    fn distance(&self, expr: &Expr) -> Option<isize> {
        let far = match expr {
            Expr::Binary(ExprBinary { left, op: BinOp::Add(_), right, .. }) if name(left) == Some(&self.index) => {
                number(right)?
            }
            Expr::Binary(ExprBinary { left, op: BinOp::Sub(_), right, .. }) if name(left) == Some(&self.index) => {
                number(right)?.checked_neg()?
            }
            expr => (name(expr) == Some(&self.index)).then_some(0)?,
        };
        (far.unsigned_abs() <= FARTHEST).then_some(far)
    }

    fn value(&self, expr: &Expr) -> bool {
        let is_value = |name: &Ident| {
            self.bound.contains(name)
                || self.captures.iter().any(|capture| capture.mode == Mode::Value && capture.name == *name)
        };
        match expr {
            Expr::Lit(ExprLit { lit: Lit::Float(_), .. }) => true,
            Expr::Paren(paren) => self.value(&paren.expr),
            Expr::Group(group) => self.value(&group.expr),
            Expr::Index(place) => self.element(place, Mode::Read),
            Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => self.value(expr),
            Expr::Binary(ExprBinary {
                left,
                op: BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_),
                right,
                ..
            }) => self.value(left) && self.value(right),
            Expr::MethodCall(ExprMethodCall { receiver, method, turbofish: None, args, .. }) => {
                let known = METHODS.iter().any(|known| method == known);
                known && self.value(receiver) && args.iter().all(|argument| self.value(argument))
            }
            Expr::MethodCall(call) => self.sum(call),
            expr => name(expr).is_some_and(is_value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_all_floats(body: &str) -> bool {
        understood(body).is_some_and(|floats| !floats.in_order)
    }

    fn understood(body: &str) -> Option<OfFloats> {
        let body: Expr = syn::parse_str(body).unwrap();
        let closure: syn::ExprClosure = syn::parse_quote!(|i| ());
        let index = Parameter { pattern: closure.inputs[0].clone() };
        let captures = [("a", Mode::Value), ("x", Mode::Read), ("y", Mode::Write)].map(|(name, mode)| {
            let name = Ident::new(name, proc_macro2::Span::call_site());
            let place: Expr = syn::parse_quote!(#name);
            Capture { name, mode, and: None, written: place.clone(), place, near: 0, changed_by: Default::default() }
        });
        of(&body, &index, &captures)
    }

    #[test]
    fn computing_with_floats_is_all() {
        for body in [
            "{ y[i] += a * x[i]; }",
            "y[i] = 0.5 * x[i] + 0.25 * (x[i - 1] + x[i + 1])",
            "{ y[i] = x[i - 1..=i + 1].iter().sum::<f64>() / 3.0; }",
            "{ y[i] += x[i..i + 4].iter().sum::<f32>(); }",
            "{ let t = -y[i].sqrt(); let u = t.max(a); y[i] = u / x[i]; y[i] *= 2.0; }",
            "{ y[i] += a; x.add(y[i] * y[i]); }",
            "{ x.max(y[i].abs()); y[i] = 0.0; }",
        ] {
            assert!(is_all_floats(body), "{body}");
        }
    }

    #[test]
    fn whatever_else_stands_there_may_fail() {
        for body in [
            "{ y[i + 1] = x[i]; }",
            "{ y[i] = y[i - 1]; }",
            "{ x[i] = 1.0; }",
            "{ y[i] = x[a]; }",
            "{ y[i] = x[i + a]; }",
            "{ y[i] = x[i + 100]; }",
            "{ y[i] = x[1 - i]; }",
            "{ y[i] = i as f32; }",
            "{ y[i] = z; }",
            "{ y[i] = f(x[i]); }",
            "{ y[i] = x[i].unwrap(); }",
            "{ y[i] = 1 / 0; }",
            "{ y[i] %= a; }",
            "{ if x[i] > a { y[i] = a; } }",
            "{ let a = 1.0; y[i] = a; }",
            "{ let i = 1.0; y[i] = a; }",
            "{ let t: f32 = 1.0; y[i] = t; }",
            "{ let Some(t) = a else { return; }; y[i] = t; }",
            "{ y[i] = { panic!() }; }",
            "{ panic!(); y[i] = a; }",
            "{ #[cfg(any())] let t = 1.0; y[i] = a; }",
            "{ y[i] = a; Ok(()) }",
            "{ y[i] = y[i - 1..=i + 1].iter().sum::<f64>(); }",
            "{ y[i] = x[i + 1..i].iter().sum::<f64>(); }",
            "{ y[i] = x[i..a].iter().sum::<f64>(); }",
            "{ y[i] = x[i..i + 100].iter().sum::<f64>(); }",
            "{ y[i] = x[i - 1..=i + 1].iter().sum::<Checked>(); }",
            "{ y[i] = x[i - 1..=i + 1].iter().sum(); }",
            "{ y[i] = x[i - 1..=i + 1].iter().product::<f64>(); }",
            "{ y[i] = x[i - 1..=i + 1].rchunks(0).sum::<f64>(); }",
            "{ y[i] = a; x.push(y[i]); }",
            "{ y[i] = a; y.add(y[i]); }",
            "{ y[i] = a; x.add(f(y[i])); }",
            "{ y[i] = a; z.add(y[i]); }",
        ] {
            assert!(!is_all_floats(body), "{body}");
        }
    }

    #[test]
    fn in_the_loops_own_order_it_may_read_what_it_writes() {
        for body in ["{ y[i] = y[i - 1]; }", "{ let t = y[i - 1]; y[i] = 0.5 * (y[i] + t) + x[i + 1]; }"] {
            assert!(understood(body).is_some_and(|floats| floats.in_order), "{body}");
        }
        for body in ["{ y[i + 1] = x[i]; }", "{ y[i] = y[a]; }", "{ x[i] = y[i - 1]; }", "{ y[i] = y[i - 1] as f64; }"]
        {
            assert_eq!(understood(body), None, "{body}");
        }
    }

    #[test]
    fn how_far_a_body_reaches_is_known() {
        for (body, x, y) in [
            ("{ y[i] = x[i]; }", (0, 0), (0, 0)),
            ("{ y[i] = a; x.add(y[i]); }", REDUCED, (0, 0)),
            ("{ y[i] = x[i - 2] + x[i - 1]; }", (2, 0), (0, 0)),
            ("{ y[i] = 0.5 * (y[i] + y[i - 1]); }", (0, 0), (1, 0)),
            ("{ let t = x[i + 3]; y[i] = t + x[i - 1] + y[i + 1]; }", (1, 3), (0, 1)),
            ("{ y[i] = x[i - 1..=i + 2].iter().sum::<f64>(); }", (1, 2), (0, 0)),
            ("{ y[i] = x[i + 1..i + 4].iter().sum::<f64>(); }", (0, 4), (0, 0)),
        ] {
            assert_eq!(understood(body).unwrap().reach, [x, y], "{body}");
        }
    }
}
