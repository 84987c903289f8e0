//! The options that follow the policy.

use syn::Expr;

use super::policy;
use crate::ctxt::Ctxt;
use crate::nearest::{list, nearest};
use crate::parallel_for::async_for;
use crate::parallel_for::options::{Choice, choice, each, refuse_zero};
use crate::parallel_for::parse::OptionSyntax;

/// How each option is written.
pub(crate) const USAGE: &str = "`merge = Combine` or `Sum`, `interval = 4`, `label = \"epoch\"`, `prefetch = false`, \
                                `early = 20`, `caches = 64` or `false`";

/// Their names.
pub(crate) const NAMES: [&str; 6] = ["merge", "interval", "label", "prefetch", "early", "caches"];
const RULES: [&str; 2] = ["Combine", "Sum"];

/// The options of one loop.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) merge: Option<Choice>,
    pub(crate) interval: Option<Expr>,
    pub(crate) label: Option<Expr>,
    pub(crate) prefetch: Option<Expr>,
    pub(crate) early: Option<Expr>,
    pub(crate) caches: Option<Expr>,
}

/// Checks the options of a loop with this policy. Every mistake is reported; what is right is kept.
pub(crate) fn check(written: Vec<OptionSyntax>, policy: &Expr, cx: &Ctxt) -> Options {
    let mut options = Options::default();
    let own_rule = policy::of_its_own(policy);
    each(written, &NAMES, unknown_option, cx, |name, value| match name {
        "merge" => {
            options.merge = choice(name, value.clone(), &RULES, cx);
            if let (Some(Choice::Word(rule)), Some(own)) = (&options.merge, own_rule)
                && rule == "Combine"
            {
                cx.error_on(&value, format!("`merge = Combine` is for `Bsp` and `Hybrid`: {}", own.merges));
            }
        }
        "interval" => {
            refuse_zero(name, &value, cx);
            if let Some(own) = own_rule {
                cx.error_on(&value, format!("`interval` is for `Bsp` and `Hybrid`: {}", own.meets));
            }
            options.interval = Some(value);
        }
        "label" => options.label = Some(value),
        "prefetch" => options.prefetch = Some(value),
        "early" => options.early = Some(value),
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
