//! What the options of both loops have in common.

use syn::Expr;

use super::parse::OptionSyntax;
use crate::ctxt::Ctxt;

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
