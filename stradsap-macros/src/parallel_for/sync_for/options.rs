//! The options that follow the policy.

use syn::Expr;

use crate::ctxt::Ctxt;
use crate::nearest::{list, nearest};
use crate::parallel_for::async_for;
use crate::parallel_for::options::each;
use crate::parallel_for::parse::OptionSyntax;

/// How each option is written.
pub(crate) const USAGE: &str = "`label = \"epoch\"`, `prefetch = false`, `caches = false`";

/// Their names.
pub(crate) const NAMES: [&str; 3] = ["label", "prefetch", "caches"];

/// The options of one loop.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) label: Option<Expr>,
    pub(crate) prefetch: Option<Expr>,
    pub(crate) caches: Option<Expr>,
}

/// Checks the options. Every mistake is reported; what is right is kept.
pub(crate) fn check(written: Vec<OptionSyntax>, cx: &Ctxt) -> Options {
    let mut options = Options::default();
    each(written, &NAMES, unknown_option, cx, |name, value| match name {
        "label" => options.label = Some(value),
        "prefetch" => options.prefetch = Some(value),
        _ => options.caches = Some(value),
    });
    options
}

fn unknown_option(key: &str) -> String {
    if async_for::OPTIONS.contains(&key) {
        return format!("`{key}` is an option of `async_parallel_for!`; those of this loop are {}", list(&NAMES));
    }
    if matches!(key, "policy" | "sync") {
        return "the policy has no name and stands before the options: `SyncPolicy::Bsp` for instance".to_string();
    }
    let meant = nearest(key, &NAMES).unwrap_or_default();
    format!("unknown option `{key}`: did you mean `{meant}`? The options are {}", list(&NAMES))
}
