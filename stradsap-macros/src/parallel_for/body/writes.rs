//! Places that the body assigns to or borrows as `&mut`, and whether their captures allow it.

use quote::ToTokens;
use syn::{BinOp, Expr, ExprMethodCall, ExprPath, Ident, Member, UnOp};

use super::scope::{Binding, is_variable_name, name_of};
use super::{Position, Use, Walker, shared};
use crate::parallel_for::ir::{Kind, Mode};

/// What is done to a place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// `x = ...`
    Assign,
    /// `x += ...`
    Update(BinOp),
    /// `&mut x`
    Borrow,
}

/// Methods of slices that need `&mut self`, and that no type offers with less.
const SLICE_METHODS: [&str; 8] = [
    "as_mut_slice",
    "chunks_exact_mut",
    "chunks_mut",
    "clone_from_slice",
    "copy_from_slice",
    "copy_within",
    "iter_mut",
    "split_at_mut",
];

/// Methods by which a synchronous loop changes an element that it shares.
const SHARED_METHODS: [&str; 5] = ["add", "axpy", "scale", "set", "step"];

/// Methods of a DVector's view that give elements to write.
const VIEW_METHODS: [&str; 3] = ["many_mut", "pair_mut", "swap"];

/// Methods of a map's view that need `&mut m`. No view of anything that is only read has one of these.
const MAP_METHODS: [&str; 4] = ["entry", "get_mut", "insert", "remove"];

/// Methods of std's collections that need `&mut self`.
const COLLECTION_METHODS: [&str; 28] = [
    "append",
    "clear",
    "dedup",
    "drain",
    "entry",
    "extend",
    "extend_from_slice",
    "fill",
    "get_mut",
    "insert",
    "iter_mut",
    "pop",
    "pop_back",
    "pop_front",
    "push",
    "push_back",
    "push_front",
    "push_str",
    "remove",
    "resize",
    "retain",
    "reverse",
    "sort",
    "sort_by",
    "sort_unstable",
    "swap",
    "swap_remove",
    "truncate",
];

impl Walker<'_> {
    /// Looks at the left side of an assignment, or at what `&mut` stands before.
    pub(super) fn written(&mut self, place: &Expr, write: Write) {
        match place {
            Expr::Tuple(tuple) if write == Write::Assign => {
                tuple.elems.iter().for_each(|elem| self.written(elem, write));
            }
            Expr::Array(array) if write == Write::Assign => {
                array.elems.iter().for_each(|elem| self.written(elem, write));
            }
            Expr::Call(call) if write == Write::Assign => {
                call.args.iter().for_each(|arg| self.written(arg, write));
            }
            Expr::Struct(fields) if write == Write::Assign => {
                fields.fields.iter().for_each(|field| self.written(&field.expr, write));
            }
            Expr::Infer(_) | Expr::Range(_) if write == Write::Assign => {}
            place => self.written_place(place, write),
        }
    }

    fn written_place(&mut self, place: &Expr, write: Write) {
        let (root, depth) = root(place);
        // The indices on the way are read.
        self.indices_of(place);
        let Some(name) = variable_of(root) else {
            self.expr(root, Position::Any);
            let of_map = shared::entry_of(root).filter(|_| self.kind == Kind::Sync && depth > 0);
            if let Some(name) = of_map.filter(|name| self.is_written(name)) {
                self.cx.error_on(place, shared::no_place(name));
            }
            return;
        };
        match self.scopes.resolve(&name_of(name)) {
            Some(Binding::Capture(at)) => {
                let capture = &self.captures[at];
                let refused = match (self.kind, capture.mode) {
                    (Kind::Async, Mode::Write | Mode::Sum) if of_old(place) => Some(format!(
                        "`{name}.old` is what was there before the loop, which nobody writes: write `{name}[i]`"
                    )),
                    (Kind::Async, Mode::Write | Mode::Sum) if of_entry(place) => Some(format!(
                        "entries of a map are written by `{name}.get_mut(key)`, `{name}.entry(key)` or \
                         `{name}.insert(key, value)`: `*{name}.entry(key).or_insert(..) = ..`"
                    )),
                    (Kind::Sync, Mode::Write) => shared::refusal(name, place, depth, write),
                    (kind, mode) => refusal(kind, mode, name, depth, write),
                };
                if let Some(message) = refused {
                    self.cx.error_on(place, message);
                }
            }
            Some(Binding::Local) => {}
            None => {
                let usage = if depth == 0 && write != Write::Borrow { Use::Assigned } else { Use::Written };
                self.missing(&name_of(name), name.span(), usage);
            }
        }
    }

    /// Whether a name is that of a capture that the body may write.
    fn is_written(&self, name: &Ident) -> bool {
        let binding = self.scopes.resolve(&name_of(name));
        matches!(binding, Some(Binding::Capture(at)) if self.captures[at].mode == Mode::Write)
    }

    fn indices_of(&mut self, place: &Expr) {
        match place {
            Expr::Index(index) => {
                self.indices_of(&index.expr);
                self.expr(&index.index, Position::Value);
            }
            Expr::Field(field) => self.indices_of(&field.base),
            Expr::Paren(paren) => self.indices_of(&paren.expr),
            Expr::Group(group) => self.indices_of(&group.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.indices_of(&unary.expr),
            _ => {}
        }
    }

    /// Whether a method call wants to have elements to itself that its capture doesn't give so. If so, it is reported.
    pub(super) fn writing_call(&mut self, call: &ExprMethodCall) {
        let method = call.method.to_string();
        let (root, depth) = root(&call.receiver);
        let of_view = depth == 0 && VIEW_METHODS.contains(&method.as_str());
        let of_map = depth == 0 && MAP_METHODS.contains(&method.as_str());
        let of_element = depth > 0 && SLICE_METHODS.contains(&method.as_str());
        if !(of_view || of_map || of_element) {
            return;
        }
        let Some(name) = variable_of(root) else { return };
        let Some(Binding::Capture(at)) = self.scopes.resolve(&name_of(name)) else { return };
        let message = match (self.kind, self.captures[at].mode) {
            (kind, Mode::Read) => read_only(kind, name),
            (Kind::Sync, Mode::Write) if method == "entry" || method == "insert" => return,
            (Kind::Sync, Mode::Write) if of_map => shared::no_keys(name, &method),
            (Kind::Sync, Mode::Write) => shared::no_exclusive(name),
            _ => return,
        };
        let mut tokens = call.receiver.to_token_stream();
        tokens.extend(call.method.to_token_stream());
        self.cx.error_on(tokens, message);
    }

    /// Reports a statement that is to change an element of what is only read: `x[i].add(1.0);` adds to nothing there.
    pub(super) fn changing_statement(&mut self, expr: &Expr) {
        let Expr::MethodCall(call) = expr else { return };
        let (root, depth) = root(&call.receiver);
        if self.kind != Kind::Sync || depth == 0 || SHARED_METHODS.iter().all(|method| call.method != method) {
            return;
        }
        let Some(name) = variable_of(root) else { return };
        let Some(Binding::Capture(at)) = self.scopes.resolve(&name_of(name)) else { return };
        if self.captures[at].mode == Mode::Read {
            self.cx.error_on(call, read_only(self.kind, name));
        }
    }

    /// Notes a method call that would change a captured value, if that is a collection. Only the runtime knows its type.
    pub(super) fn changing_call(&self, call: &ExprMethodCall) {
        let Some(name) = variable_of(&call.receiver) else { return };
        let Some(Binding::Capture(at)) = self.scopes.resolve(&name_of(name)) else { return };
        let capture = &self.captures[at];
        if capture.mode == Mode::Value && COLLECTION_METHODS.iter().any(|method| call.method == method) {
            capture.changed_by.get_or_init(|| call.method.clone());
        }
    }

    /// What a missing name that is called with one of these methods should be captured as.
    pub(super) fn use_of_receiver(&self, method: &Ident) -> Use {
        let method = method.to_string();
        let writes = VIEW_METHODS.contains(&method.as_str()) || MAP_METHODS.contains(&method.as_str());
        if writes { Use::Written } else { Use::Receiver }
    }
}

/// Where a place begins, and how many steps (fields, indices, `*`) lead from there to it.
fn root(place: &Expr) -> (&Expr, usize) {
    match place {
        Expr::Index(index) => deeper(&index.expr),
        Expr::Field(field) => deeper(&field.base),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => deeper(&unary.expr),
        Expr::Paren(paren) => root(&paren.expr),
        Expr::Group(group) => root(&group.expr),
        other => (other, 0),
    }
}

/// Whether a place is, or is within, an entry of a map: only they are found by reference, `m[&key]`.
fn of_entry(place: &Expr) -> bool {
    match place {
        Expr::Index(index) if root(&index.expr).1 == 0 => matches!(&*index.index, Expr::Reference(_)),
        Expr::Index(index) => of_entry(&index.expr),
        Expr::Field(field) => of_entry(&field.base),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => of_entry(&unary.expr),
        Expr::Paren(paren) => of_entry(&paren.expr),
        Expr::Group(group) => of_entry(&group.expr),
        _ => false,
    }
}

/// Whether a place is within `x.old`.
fn of_old(place: &Expr) -> bool {
    match place {
        Expr::Field(field) if root(&field.base).1 == 0 => {
            matches!(&field.member, Member::Named(member) if member == "old")
        }
        Expr::Field(field) => of_old(&field.base),
        Expr::Index(index) => of_old(&index.expr),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => of_old(&unary.expr),
        Expr::Paren(paren) => of_old(&paren.expr),
        Expr::Group(group) => of_old(&group.expr),
        _ => false,
    }
}

fn deeper(base: &Expr) -> (&Expr, usize) {
    let (start, depth) = root(base);
    (start, depth + 1)
}

/// The variable that an expression is, by its spelling.
pub(super) fn variable_of(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) => variable_of_path(path),
        _ => None,
    }
}

/// The same for a path.
pub(super) fn variable_of_path(path: &ExprPath) -> Option<&Ident> {
    let ident = path.path.get_ident().filter(|_| path.qself.is_none())?;
    is_variable_name(&name_of(ident)).then_some(ident)
}

fn refusal(kind: Kind, mode: Mode, name: &Ident, depth: usize, write: Write) -> Option<String> {
    match (mode, depth, write) {
        (Mode::Read, _, _) if kind == Kind::Operator => Some(read_only(kind, name)),
        (Mode::Read, 0, Write::Assign | Write::Update(_)) => {
            let elements = match kind {
                Kind::Async | Kind::Operator => format!("assigned one by one, `{name}[i] = ..`"),
                Kind::Sync => format!("changed one by one, `{name}[i].set(..)` or `{name}[i].add(..)`"),
            };
            Some(format!(
                "`{name}` is captured as `&{name}` and can't be assigned to: a reduction takes `{name}.add(..)`, \
                 `{name}.min(..)` or `{name}.max(..)`; the elements of a DDS captured as `&mut {name}` are {elements}"
            ))
        }
        (Mode::Read, _, _) => Some(read_only(kind, name)),
        (Mode::Value, _, _) => {
            let unit = kind.unit();
            let instead = match kind {
                Kind::Operator => "or `fold` to bring items together".to_string(),
                Kind::Async | Kind::Sync => format!("a reduction for a sum, or capture a DDS as `&mut {name}`"),
            };
            Some(format!(
                "`{name}` is captured by value, and every {unit} gets the same one: it can't be changed here; use \
                 `let mut {name} = {name};` for a copy that lasts one {unit}, {instead}"
            ))
        }
        (Mode::Write | Mode::Sum, 0, Write::Assign | Write::Update(_)) => {
            let reduction =
                if mode == Mode::Write { format!(", or add to a reduction, `{name}.add(..)`") } else { String::new() };
            Some(format!(
                "`{name}` itself can't be assigned to in the loop's body: assign to its elements, `{name}[i] = ..`{reduction}"
            ))
        }
        (Mode::Write | Mode::Sum, _, _) => None,
    }
}

fn read_only(kind: Kind, name: &Ident) -> String {
    if kind == Kind::Operator {
        return format!(
            "operators only read what they capture: a loop that captures `&mut {name}` changes it, or `transform`"
        );
    }
    let relaxed = match kind {
        Kind::Async => format!("; relaxed state is changed by its methods, `{name}.add(k, value)`"),
        _ => String::new(),
    };
    format!("`{name}` is captured as `&{name}`, which may only be read: capture `&mut {name}` to write it{relaxed}")
}
