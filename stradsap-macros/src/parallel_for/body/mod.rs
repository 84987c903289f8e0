//! The checks of the loop's body: names that nobody captured, writes through `&x`, jumps out of it.
//!
//! The walk follows Rust's scopes. It must never refuse a program that rustc would accept, so wherever syntax
//! alone can't tell a variable from a function or a constant, it says nothing and leaves the case to rustc and
//! to the runtime's own check, that the closure captures nothing.

mod format;
mod jumps;
mod kinds;
mod macros;
mod missing;
pub(super) mod scope;
mod shared;
#[cfg(test)]
mod tests;
mod writes;

use proc_macro2::Span;
use syn::{Block, Expr, ExprField, ExprMethodCall, ExprPath, Ident, Lifetime, Member, Pat, PointerMutability, Stmt};

use self::jumps::Jumps;
use self::kinds::{conditional, conditional_expr, is_no_outcome, is_numeric_function, is_numeric_method};
pub(crate) use self::kinds::{is_primitive, is_update};
pub(super) use self::macros::{call_unknown, is_unknown};
use self::missing::{MissingNames, Use};
use self::scope::{Binding, Scopes, name_of};
use self::shared::Misplaced;
use self::writes::{Write, variable_of, variable_of_path};
use super::captures::{CaptureList, text};
use super::ir::{Capture, Kind, Mode};
use crate::ctxt::Ctxt;

/// What can stand where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// A value that is computed with: a bare name is a variable.
    Value,
    /// The base of an index.
    Base,
    /// What a method is called on.
    Receiver(Use),
    /// Anything, functions too.
    Any,
}

impl Position {
    /// How a bare name is used here, if it can only be a variable.
    fn usage(self) -> Option<Use> {
        match self {
            Position::Value => Some(Use::Read),
            Position::Base => Some(Use::Element),
            Position::Receiver(usage) => Some(usage),
            Position::Any => None,
        }
    }
}

/// What is known of a loop when its body is checked.
pub(crate) struct Known<'l> {
    pub(crate) kind: Kind,
    /// The name of what the minibatches are made of.
    pub(crate) input: Option<&'l Ident>,
    pub(crate) captured: &'l CaptureList,
    /// The patterns of the closure's parameters.
    pub(crate) parameters: &'l [Pat],
}

/// Checks a body.
pub(crate) fn check(body: &Expr, known: &Known<'_>, cx: &Ctxt) {
    let mut walker = Walker {
        kind: known.kind,
        captures: &known.captured.captures,
        cx,
        scopes: Scopes::new(),
        jumps: Jumps::default(),
        missing: MissingNames::new(known.kind, known.input.map(name_of)),
        asyncs: 0,
    };
    for name in &known.captured.excused {
        walker.scopes.bind(name.clone(), Binding::Local);
    }
    for (at, capture) in walker.captures.iter().enumerate() {
        walker.scopes.bind(name_of(&capture.name), Binding::Capture(at));
    }
    for pattern in known.parameters {
        walker.scopes.bind_pattern(pattern);
    }
    walker.scopes.push();
    walker.expr(body, Position::Any);
    walker.missing.report(cx);
}

struct Walker<'l> {
    kind: Kind,
    captures: &'l [Capture],
    cx: &'l Ctxt,
    scopes: Scopes,
    jumps: Jumps,
    missing: MissingNames,
    /// How many async blocks and closures enclose the expression.
    asyncs: usize,
}

impl Walker<'_> {
    fn expr(&mut self, expr: &Expr, position: Position) {
        match expr {
            Expr::Array(array) => self.each_taken(&array.elems, Position::Any),
            Expr::Assign(assign) => {
                self.written(&assign.left, Write::Assign);
                self.taken(&assign.right, Position::Any);
            }
            Expr::Async(block) => self.detached(true, |walker| walker.block(&block.block, Position::Any)),
            Expr::Await(wait) => {
                if self.asyncs == 0 {
                    let (unit, body) = (self.kind.a_unit(), self.kind.body());
                    self.cx.error_at(
                        wait.await_token.span,
                        format!(
                            "`.await` can't stand in {body}: {unit} runs to its end on one thread; await the \
                             value before the loop and capture it"
                        ),
                    );
                }
                self.expr(&wait.base, Position::Value);
            }
            Expr::Binary(binary) => {
                if is_update(&binary.op) {
                    self.written(&binary.left, Write::Update(binary.op));
                } else {
                    self.taken(&binary.left, Position::Value);
                }
                self.taken(&binary.right, Position::Value);
            }
            Expr::Block(block) => self.labelled(block.label.as_ref().map(|label| &label.name), &block.block, position),
            Expr::Break(jump) => {
                self.jump("break", jump.break_token.span, jump.label.as_ref());
                self.optional(jump.expr.as_deref(), Position::Any);
            }
            Expr::Call(call) => {
                self.expr(&call.func, Position::Any);
                let numeric = matches!(&*call.func, Expr::Path(path) if is_numeric_function(path));
                self.each_taken(&call.args, if numeric { Position::Value } else { Position::Any });
            }
            Expr::Cast(cast) => {
                let position = if is_primitive(&cast.ty) { Position::Value } else { Position::Any };
                self.taken(&cast.expr, position);
            }
            Expr::Closure(closure) => self.detached(closure.asyncness.is_some(), |walker| {
                closure.inputs.iter().for_each(|input| walker.scopes.bind_pattern(input));
                walker.expr(&closure.body, Position::Any);
            }),
            Expr::Continue(jump) => self.jump("continue", jump.continue_token.span, jump.label.as_ref()),
            Expr::Field(field) => {
                self.misplaced(&field.base, Misplaced::Field);
                self.misplaced_old(field);
                self.expr(&field.base, Position::Value);
            }
            Expr::ForLoop(each) => {
                self.taken(&each.expr, Position::Value);
                self.scopes.push();
                self.scopes.bind_pattern(&each.pat);
                self.looped(each.label.as_ref().map(|label| &label.name), &each.body);
                self.scopes.pop();
            }
            Expr::Group(group) => self.expr(&group.expr, position),
            Expr::If(branch) => {
                self.scopes.push();
                self.expr(&branch.cond, Position::Value);
                self.block(&branch.then_branch, position);
                self.scopes.pop();
                self.optional(branch.else_branch.as_ref().map(|(_, otherwise)| &**otherwise), position);
            }
            Expr::Index(index) => {
                self.misplaced(&index.expr, Misplaced::Part);
                self.expr(&index.expr, Position::Base);
                self.taken(&index.index, Position::Value);
            }
            // Visible in what follows in the same condition, and in the branch: the scope is its owner's.
            Expr::Let(condition) => {
                self.expr(&condition.expr, Position::Value);
                self.scopes.bind_pattern(&condition.pat);
            }
            Expr::Loop(endless) => self.looped(endless.label.as_ref().map(|label| &label.name), &endless.body),
            Expr::Macro(call) => self.macro_call(&call.mac, false),
            Expr::Match(choice) => {
                self.expr(&choice.expr, Position::Value);
                for arm in choice.arms.iter().filter(|arm| !conditional(&arm.attrs)) {
                    self.scopes.push();
                    self.scopes.bind_pattern(&arm.pat);
                    self.optional(arm.guard.as_ref().map(|(_, guard)| &**guard), Position::Value);
                    self.expr(&arm.body, position);
                    self.scopes.pop();
                }
            }
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Paren(paren) => self.expr(&paren.expr, position),
            Expr::Path(path) => self.path(path, position),
            Expr::Range(range) => {
                self.each_taken(
                    [&range.start, &range.end].into_iter().flatten().map(|bound| &**bound),
                    Position::Value,
                );
            }
            Expr::RawAddr(raw) if matches!(raw.mutability, PointerMutability::Mut(_)) => {
                self.written(&raw.expr, Write::Borrow);
            }
            Expr::RawAddr(raw) => self.expr(&raw.expr, Position::Value),
            Expr::Reference(reference) if reference.mutability.is_some() => {
                self.written(&reference.expr, Write::Borrow);
            }
            Expr::Reference(reference) => self.expr(&reference.expr, Position::Value),
            // The length is a constant.
            Expr::Repeat(repeat) => self.expr(&repeat.expr, Position::Any),
            Expr::Return(end) => {
                if let Some(value) = &end.expr {
                    self.returned(value);
                    self.taken(value, Position::Any);
                }
            }
            Expr::Struct(fields) => {
                fields.fields.iter().for_each(|field| self.taken(&field.expr, Position::Any));
                self.optional(fields.rest.as_deref(), Position::Value);
            }
            Expr::Try(attempt) => {
                self.tried(&attempt.expr);
                self.expr(&attempt.expr, Position::Value);
            }
            Expr::TryBlock(attempt) => self.block(&attempt.block, Position::Any),
            Expr::Tuple(tuple) => self.each_taken(&tuple.elems, Position::Any),
            Expr::Unary(unary) => self.taken(&unary.expr, Position::Value),
            Expr::Unsafe(block) => self.block(&block.block, position),
            Expr::While(conditional) => {
                self.scopes.push();
                self.expr(&conditional.cond, Position::Value);
                self.looped(conditional.label.as_ref().map(|label| &label.name), &conditional.body);
                self.scopes.pop();
            }
            Expr::Yield(value) => self.optional(value.expr.as_deref(), Position::Any),
            // Literals, constants, and syntax that is not known here.
            _ => {}
        }
    }

    /// An expression whose value is moved, or computed with.
    fn taken(&mut self, expr: &Expr, position: Position) {
        self.misplaced(expr, Misplaced::Value);
        self.expr(expr, position);
    }

    fn each_taken<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>, position: Position) {
        exprs.into_iter().for_each(|expr| self.taken(expr, position));
    }

    fn optional(&mut self, expr: Option<&Expr>, position: Position) {
        if let Some(expr) = expr {
            self.expr(expr, position);
        }
    }

    fn method_call(&mut self, call: &ExprMethodCall) {
        self.writing_call(call);
        self.changing_call(call);
        let usage = self.use_of_receiver(&call.method);
        self.expr(&call.receiver, Position::Receiver(usage));
        let numeric = is_numeric_method(&call.method) || self.is_view(&call.receiver);
        self.each_taken(&call.args, if numeric { Position::Value } else { Position::Any });
    }

    /// Whether an expression is a DDS or a reduction, none of whose methods takes a function.
    fn is_view(&self, expr: &Expr) -> bool {
        let binding = variable_of(expr).and_then(|ident| self.scopes.resolve(&name_of(ident)));
        matches!(binding, Some(Binding::Capture(at)) if self.captures[at].mode != Mode::Value)
    }

    /// `x.old` where there is none.
    fn misplaced_old(&self, field: &ExprField) {
        let Some(name) = variable_of(&field.base) else { return };
        let Some(Binding::Capture(at)) = self.scopes.resolve(&name_of(name)) else { return };
        let is_old = matches!(&field.member, Member::Named(member) if member == "old");
        let message = match (self.kind, self.captures[at].mode) {
            _ if !is_old => return,
            (_, Mode::Value) | (Kind::Async, Mode::Write | Mode::Sum) => return,
            (Kind::Sync, Mode::Write | Mode::Sum) => format!(
                "`{name}.old` is for `async_parallel_for!`: to read what was there before, capture a second DVector"
            ),
            (_, _) => format!(
                "`{name}` is only read here, so what was there before is what is there: write `{name}` for `{name}.old`"
            ),
        };
        self.cx.error_on(field, message);
    }

    fn path(&mut self, path: &ExprPath, position: Position) {
        let Some(ident) = variable_of_path(path) else { return };
        let name = name_of(ident);
        // A function can't be called `self`.
        let usage = position.usage().or_else(|| (name == "self").then_some(Use::Read));
        if let Some(usage) = usage
            && self.scopes.resolve(&name).is_none()
        {
            self.missing(&name, ident.span(), usage);
        }
    }

    fn missing(&mut self, name: &str, span: Span, usage: Use) {
        if scope::is_variable_name(name) {
            self.missing.record(name, span, usage, self.scopes.names());
        }
    }

    fn jump(&self, keyword: &str, span: Span, label: Option<&Lifetime>) {
        if !self.jumps.leaves_body(label) {
            return;
        }
        let whole = match label {
            Some(label) => format!("{keyword} {label}"),
            None => keyword.to_string(),
        };
        let (unit, units) = (self.kind.unit(), self.kind.units());
        let message = if keyword == "break" && self.kind != Kind::Operator {
            format!(
                "`{whole}` can't end the loop: its {units} run in parallel, in no fixed order; `return` ends this \
                 {unit}"
            )
        } else {
            format!("`{whole}` can't leave {}, which is a closure: `return` ends this {unit}", self.kind.body())
        };
        self.cx.error_at(span, message);
    }

    /// What `return` gives, where it can't be what a body gives.
    fn returned(&self, value: &Expr) {
        if self.kind != Kind::Operator && !self.jumps.inside_barrier() && is_no_outcome(value) {
            let unit = self.kind.a_unit();
            self.cx.error_on(
                value,
                format!(
                    "{unit} returns no value: `return` alone ends it, `return Err(..)` ends the loop; what it computes goes \
                     to a DDS or a reduction"
                ),
            );
        }
    }

    /// `x.get(i)?`, of which outside loops the same stands for a `Result`.
    fn tried(&self, expr: &Expr) {
        let Expr::MethodCall(call) = expr else { return };
        if self.kind == Kind::Operator || self.jumps.inside_barrier() || call.method != "get" || call.args.len() != 1 {
            return;
        }
        let Some(name) = variable_of(&call.receiver).filter(|_| self.is_view(&call.receiver)) else { return };
        let (body, unit) = (self.kind.body(), self.kind.a_unit());
        let index = text(&call.args[0]);
        self.cx.error_on(
            expr,
            format!(
                "in {body} `{name}.get({index})` is an `Option`, which `?` can't return from {unit}: write `{name}[{index}]`, or \
                 `if let Some(found) = {name}.get({index}) {{ .. }}` where there may be none"
            ),
        );
    }

    /// A closure or an async block: no jump leaves it.
    fn detached(&mut self, asynchronous: bool, inside: impl FnOnce(&mut Self)) {
        self.scopes.push();
        self.jumps.enter_barrier();
        self.asyncs += usize::from(asynchronous);
        inside(self);
        self.asyncs -= usize::from(asynchronous);
        self.jumps.leave();
        self.scopes.pop();
    }

    fn looped(&mut self, label: Option<&Lifetime>, body: &Block) {
        self.jumps.enter_loop(label);
        self.block(body, Position::Any);
        self.jumps.leave();
    }

    fn labelled(&mut self, label: Option<&Lifetime>, body: &Block, position: Position) {
        if let Some(label) = label {
            self.jumps.enter_block(label);
        }
        self.block(body, position);
        if label.is_some() {
            self.jumps.leave();
        }
    }

    fn block(&mut self, block: &Block, position: Position) {
        self.scopes.push();
        self.scopes.bind_items(block);
        for stmt in &block.stmts {
            self.stmt(stmt, position);
        }
        self.scopes.pop();
    }

    fn stmt(&mut self, stmt: &Stmt, position: Position) {
        match stmt {
            Stmt::Local(local) => {
                if let Some(init) = &local.init
                    && !conditional(&local.attrs)
                {
                    self.misplaced_for(&local.pat, &init.expr);
                    self.expr(&init.expr, Position::Any);
                    self.optional(init.diverge.as_ref().map(|(_, diverge)| &**diverge), Position::Any);
                }
                self.scopes.bind_pattern(&local.pat);
            }
            // Items can't use the variables around them.
            Stmt::Item(_) => {}
            Stmt::Expr(expr, semi) => {
                if !conditional_expr(expr) {
                    if semi.is_some() {
                        self.changing_statement(expr);
                    }
                    self.expr(expr, if semi.is_none() { position } else { Position::Any });
                }
            }
            Stmt::Macro(call) => {
                if conditional(&call.attrs) {
                    self.scopes.bind_all_in(call.mac.tokens.clone());
                } else {
                    self.macro_call(&call.mac, true);
                }
            }
        }
    }
}
