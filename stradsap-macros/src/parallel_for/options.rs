//! What the options of both loops have in common.

use syn::{Expr, ExprLit, Ident, Lit};

use super::parse::{OptionSyntax, peel};
use crate::ctxt::Ctxt;
use crate::nearest::{list, nearest};

/// Hands each option that is known to `take`. Others, and those given twice, are reported.
pub(crate) fn each(
    written: Vec<OptionSyntax>,
    names: &[&'static str],
    unknown: impl Fn(&str) -> String,
    cx: &Ctxt,
    mut take: impl FnMut(&'static str, Expr),
) {
    let mut seen: Vec<String> = Vec::new();
    for OptionSyntax { name, value } in written {
        let key = name.to_string();
        let Some(known) = names.iter().find(|known| **known == key) else {
            cx.error_at(name.span(), unknown(&key));
            continue;
        };
        if seen.contains(&key) {
            cx.error_at(name.span(), format!("the option `{key}` is given twice"));
            continue;
        }
        seen.push(key);
        take(known, value);
    }
}

/// The value of an option that offers a few words.
pub(crate) enum Choice {
    /// One of the words.
    Word(Ident),
    /// An expression that gives the value when the program runs.
    Computed(Expr),
}

/// A word is taken bare or by its path (`Order::Preserve`); anything that is no name of a variant is computed.
pub(crate) fn choice(option: &str, value: Expr, words: &[&str], cx: &Ctxt) -> Option<Choice> {
    let path = match peel(value.clone()) {
        Expr::Path(path) if path.qself.is_none() => path.path,
        Expr::Lit(ExprLit { lit: lit @ (Lit::Str(_) | Lit::Bool(_) | Lit::Int(_)), .. }) => {
            cx.error_at(lit.span(), format!("`{option}` is one of {}, written without quotes", list(words)));
            return None;
        }
        _ => return Some(Choice::Computed(value)),
    };
    let last = path.segments.last().map(|segment| segment.ident.clone())?;
    let text = last.to_string();
    if words.contains(&text.as_str()) {
        return Some(Choice::Word(last));
    }
    // A variable or a constant; whether its type fits is rustc's to say.
    let is_variant = text.starts_with(char::is_uppercase) && text.contains(char::is_lowercase);
    let slip_of_case = words.iter().any(|word| word.eq_ignore_ascii_case(&text));
    if path.segments.len() > 1 || !(is_variant || slip_of_case) {
        return Some(Choice::Computed(value));
    }
    let meant = nearest(&text, words).unwrap_or_default();
    cx.error_at(
        last.span(),
        format!("`{option} = {text}` isn't known: did you mean `{meant}`? `{option}` is one of {}", list(words)),
    );
    None
}

/// A number that is written as 0 where one from 1 on is wanted.
pub(crate) fn refuse_zero(option: &str, value: &Expr, cx: &Ctxt) {
    if let Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) = value
        && int.base10_digits().chars().all(|digit| digit == '0')
    {
        cx.error_at(int.span(), format!("`{option}` must be at least 1"));
    }
}
