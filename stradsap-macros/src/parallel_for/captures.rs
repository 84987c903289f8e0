//! The capture list: what it may say, and what people write instead.

use std::cell::OnceCell;

use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::{Expr, ExprReference, Ident, Member, UnOp};

use super::ir::{Capture, Mode};
use super::parse::peel;
use super::sums;
use crate::ctxt::Ctxt;

/// The runtime's tuples end here.
pub(crate) const MOST: usize = 12;

/// The capture list as far as it could be understood.
#[derive(Default)]
pub(crate) struct CaptureList {
    pub(crate) captures: Vec<Capture>,
    /// Names that entries with a mistake were probably meant for: the body may use them without another error.
    pub(crate) excused: Vec<String>,
}

/// Understands the entries, reports those that can't be, and keeps the rest.
pub(crate) fn check(written: Vec<Expr>, cx: &Ctxt) -> CaptureList {
    let mut captures: Vec<Capture> = Vec::new();
    let mut excused = Vec::new();
    for entry in written {
        let Some(capture) = understand(entry.clone(), cx) else {
            excused.extend(entry.to_token_stream().into_iter().filter_map(|token| match token {
                TokenTree::Ident(ident) => Some(ident.to_string()),
                _ => None,
            }));
            continue;
        };
        if let Some(before) = captures.iter().find(|before| before.name == capture.name) {
            cx.error_on(&capture.written, same_name(before, &capture));
        } else if let Some(before) = captures.iter().find(|before| overlap(before, &capture)) {
            cx.error_on(&capture.written, same_place(before, &capture));
        }
        captures.push(capture);
    }
    too_many(&captures, |capture| capture.mode == Mode::Value, "values", "put some into one struct or tuple", cx);
    too_many(
        &captures,
        |capture| capture.mode != Mode::Value,
        "DDSs and reductions",
        "put what belongs together into one element type",
        cx,
    );
    CaptureList { captures, excused }
}

fn too_many(captures: &[Capture], counts: impl Fn(&&Capture) -> bool, what: &str, advice: &str, cx: &Ctxt) {
    if let Some(capture) = captures.iter().filter(counts).nth(MOST) {
        cx.error_on(&capture.written, format!("a loop captures at most {MOST} {what}: {advice}"));
    }
}

fn understand(entry: Expr, cx: &Ctxt) -> Option<Capture> {
    let written = entry.clone();
    let (name, expr) = match peel(entry) {
        Expr::Assign(assign) => match ident(&assign.left) {
            Some(name) => (Some(name), peel(*assign.right)),
            None => {
                cx.error_on(assign.left, "a capture's name is a plain identifier: `p = &mut self.p`");
                return None;
            }
        },
        expr => (None, expr),
    };
    let (mode, and, place) = match expr {
        Expr::Reference(ExprReference { mutability, and_token, expr, .. }) => {
            let mode = if mutability.is_some() { Mode::Write } else { Mode::Read };
            (mode, Some(and_token), peel(*expr))
        }
        expr => match sums::place(&expr) {
            Some(place) => (Mode::Sum, None, peel(place)),
            None => (Mode::Value, None, expr),
        },
    };
    let name = match name.or_else(|| own_name(&place)) {
        Some(name) => name,
        None => {
            cx.error_on(&written, needs_name(mode, &place));
            return None;
        }
    };
    if mode == Mode::Value && ident(&place).is_some_and(|place| place == name) && is_constant_name(&name) {
        cx.error_on(&written, constant(&name));
        return None;
    }
    Some(Capture { name, mode, and, place, written, near: 0, changed_by: OnceCell::new() })
}

/// The identifier that an expression is.
fn ident(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() && path.attrs.is_empty() => {
            path.path.get_ident().filter(|name| *name != "self").cloned()
        }
        Expr::Group(group) => ident(&group.expr),
        _ => None,
    }
}

/// The name that needs no saying: that of `x` and of `*x`.
pub(crate) fn own_name(place: &Expr) -> Option<Ident> {
    match place {
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => ident(&unary.expr),
        place => ident(place),
    }
}

fn needs_name(mode: Mode, place: &Expr) -> String {
    if let Expr::Path(path) = place
        && path.path.is_ident("self")
    {
        return "`self` can't be captured: capture the fields that the body uses, such as `alpha = self.alpha` \
                or `p = &mut self.p`"
            .to_string();
    }
    let name = match place {
        Expr::Field(field) => match &field.member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(_) => "name".to_string(),
        },
        _ => "name".to_string(),
    };
    let place = text(place);
    format!("this capture needs a name for the body to use: `{name} = {}`", mode.entry(place))
}

/// Whether a name is spelt as those of constants and statics are. They can't be bound again.
fn is_constant_name(name: &Ident) -> bool {
    let name = name.to_string();
    name.contains(char::is_uppercase) && !name.contains(char::is_lowercase)
}

fn constant(name: &Ident) -> String {
    format!(
        "`{name}` is spelt as a constant, which the body can use without capturing it: remove it from the list; a \
         variable of that name is captured under another, `{} = {name}`",
        name.to_string().to_lowercase()
    )
}

/// Source text without the spaces that token streams put around punctuation.
pub(crate) fn text(place: &impl ToTokens) -> String {
    let tight = [
        (" . ", "."),
        (" .. ", ".."),
        (" ..= ", "..="),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("& ", "&"),
        (" ,", ","),
    ];
    tight.into_iter().fold(place.to_token_stream().to_string(), |text, (loose, tight)| text.replace(loose, tight))
}

fn same_name(before: &Capture, again: &Capture) -> String {
    let name = &again.name;
    if before.place != again.place {
        return format!("two captures are named `{name}`: give one of them another name");
    }
    let (first, second) = (before.mode.entry(name), again.mode.entry(name));
    match (before.mode, again.mode) {
        (one, other) if one == other => format!("`{name}` is captured twice: remove one `{first}`"),
        (Mode::Value, _) | (_, Mode::Value) => format!(
            "`{name}` is captured twice, as `{first}` and as `{second}`: keep the one with `&` for a DDS or a \
             reduction, the one without for a value"
        ),
        _ => format!(
            "`{name}` is captured twice, as `{first}` and as `{second}`: keep `&mut {name}`, which can be read as well"
        ),
    }
}

/// Whether both captures are of the same DDS and one of them may write it.
fn overlap(a: &Capture, b: &Capture) -> bool {
    let by_reference = a.mode != Mode::Value && b.mode != Mode::Value;
    by_reference && (a.mode != Mode::Read || b.mode != Mode::Read) && a.place == b.place
}

fn same_place(before: &Capture, again: &Capture) -> String {
    format!(
        "`{}` is captured twice, as `{}` and as `{}`: capture it once, with `&mut`",
        text(&again.place),
        before.name,
        again.name
    )
}
