//! The policy: an expression, or the bare name of one.

use quote::ToTokens;
use syn::{Expr, ExprLit, ExprStruct, Ident, Lit, Member, Path, parse_quote};

use crate::ctxt::Ctxt;
use crate::nearest::nearest;
use crate::parallel_for::parse::peel;

/// How each is written.
pub(crate) const OFFERED: &str = "`SyncPolicy::Bsp`, `SyncPolicy::Ssp { staleness: 2 }`, `SyncPolicy::Hybrid` and \
                                  `SyncPolicy::ModelAverage { every: 8 }`";

const WORDS: [&str; 4] = ["Bsp", "Ssp", "Hybrid", "ModelAverage"];

/// Whether an expression is a policy by its spelling.
pub(crate) fn looks_like_policy(expr: &Expr) -> bool {
    match expr {
        Expr::Path(path) => of_policy(&path.path),
        Expr::Struct(fields) => of_policy(&fields.path),
        Expr::Call(call) => looks_like_policy(&call.func),
        Expr::Paren(paren) => looks_like_policy(&paren.expr),
        Expr::Group(group) => looks_like_policy(&group.expr),
        _ => false,
    }
}

fn of_policy(path: &Path) -> bool {
    path.segments.iter().any(|segment| segment.ident == "SyncPolicy") || path.get_ident().is_some_and(is_word)
}

fn is_word(name: &Ident) -> bool {
    WORDS.iter().any(|word| name == word)
}

/// The policy as the runtime takes it: bare names are those of `SyncPolicy`. What is no policy by its spelling is
/// computed by the program, and rustc knows its type.
pub(crate) fn check(policy: Expr, cx: &Ctxt) -> Expr {
    match peel(policy) {
        Expr::Path(path) if path.qself.is_none() => {
            let variant = variant(&path.path);
            if let Some(parameter) = variant.and_then(parameter) {
                cx.error_on(&path, needs_parameter(variant, parameter));
            } else if let Some(word) = path.path.get_ident() {
                return named(word, cx).unwrap_or(Expr::Path(path));
            }
            Expr::Path(path)
        }
        Expr::Call(call) => {
            if let Expr::Path(path) = &*call.func
                && let variant = variant(&path.path)
                && let Some(parameter) = variant.and_then(parameter)
            {
                cx.error_on(&call, needs_parameter(variant, parameter));
            }
            Expr::Call(call)
        }
        Expr::Struct(mut fields) => {
            if let Some(word) = fields.path.get_ident()
                && let Some(Expr::Path(whole)) = named(word, cx)
            {
                fields.path = whole.path;
            }
            check_every(&fields, cx);
            Expr::Struct(fields)
        }
        other => other,
    }
}

/// What a policy says itself of how copies meet.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) merges: &'static str,
    pub(crate) meets: &'static str,
}

/// What a policy says itself, if it is one that does by its spelling.
pub(crate) fn of_its_own(policy: &Expr) -> Option<Own> {
    let Expr::Struct(fields) = policy else { return None };
    match variant(&fields.path)?.to_string().as_str() {
        "Ssp" => Some(Own {
            merges: "under `Ssp` there is no round whose changes could be combined, each is added when it comes",
            meets: "under `Ssp` copies don't meet, `staleness` says how far they may be apart",
        }),
        "ModelAverage" => Some(Own {
            merges: "under `ModelAverage` the mean of the copies is taken",
            meets: "under `ModelAverage` copies meet every `every` minibatches",
        }),
        _ => None,
    }
}

/// The variant of `SyncPolicy` that a path names.
fn variant(path: &Path) -> Option<&Ident> {
    let mut segments = path.segments.iter().rev();
    let last = &segments.next()?.ident;
    let of_policy = segments.next().is_none_or(|before| before.ident == "SyncPolicy");
    (of_policy && is_word(last)).then_some(last)
}

/// The variant's field, with an example of its value.
fn parameter(variant: &Ident) -> Option<&'static str> {
    match variant.to_string().as_str() {
        "Ssp" => Some("staleness: 2"),
        "ModelAverage" => Some("every: 8"),
        _ => None,
    }
}

fn needs_parameter(variant: Option<&Ident>, parameter: &str) -> String {
    let variant = variant.to_token_stream();
    format!("the policy `{variant}` has a parameter, and is written `SyncPolicy::{variant} {{ {parameter} }}`")
}

/// What a bare name stands for, if it is meant for a policy's; a slip is reported.
fn named(word: &Ident, cx: &Ctxt) -> Option<Expr> {
    if is_word(word) {
        return Some(parse_quote!(::stradsap::SyncPolicy::#word));
    }
    let text = word.to_string();
    // A lower-case name is a variable, and one in capitals a constant, unless it is a policy's in other letters.
    let is_variant = text.starts_with(char::is_uppercase) && text.contains(char::is_lowercase);
    let in_capitals = !text.contains(char::is_lowercase) && WORDS.iter().any(|word| word.eq_ignore_ascii_case(&text));
    if is_variant || in_capitals {
        let meant = nearest(&text, &WORDS).unwrap_or_default();
        cx.error_at(
            word.span(),
            format!("`{text}` is no policy: did you mean `SyncPolicy::{meant}`? The policies are {OFFERED}"),
        );
    }
    None
}

fn check_every(policy: &ExprStruct, cx: &Ctxt) {
    for field in &policy.fields {
        if let (Member::Named(name), Expr::Lit(ExprLit { lit: Lit::Int(int), .. })) = (&field.member, &field.expr)
            && name == "every"
            && int.base10_parse::<u128>().is_ok_and(|every| every == 0)
        {
            cx.error_at(int.span(), "`every` must be at least 1");
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::parse_str;

    use super::*;

    /// The policy as it is passed on, or the messages about it.
    fn checked(policy: &str) -> Result<String, Vec<String>> {
        let cx = Ctxt::new();
        let policy = check(parse_str(policy).unwrap(), &cx);
        cx.check().map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(quote!(#policy).to_string().replace(' ', ""))
    }

    #[track_caller]
    fn refused(policy: &str, because: &str) {
        let messages = checked(policy).unwrap_err();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains(because), "{messages:?}");
    }

    #[test]
    fn bare_names_are_those_of_the_policies() {
        assert_eq!(checked("Bsp").unwrap(), "::stradsap::SyncPolicy::Bsp");
        assert_eq!(checked("(Hybrid)").unwrap(), "::stradsap::SyncPolicy::Hybrid");
        assert_eq!(checked("Ssp { staleness: s }").unwrap(), "::stradsap::SyncPolicy::Ssp{staleness:s}");
        assert_eq!(checked("ModelAverage { every }").unwrap(), "::stradsap::SyncPolicy::ModelAverage{every}");
    }

    #[test]
    fn anything_else_stays_as_it_is() {
        for policy in [
            "SyncPolicy::Bsp",
            "stradsap::SyncPolicy::Ssp{staleness:2}",
            "policy",
            "hybrid",
            "args.sync",
            "POLICY",
            "policy_of(round)",
            "other::Ssp",
        ] {
            assert_eq!(checked(policy).unwrap(), policy);
        }
    }

    #[test]
    fn slips() {
        refused("Bps", "did you mean `SyncPolicy::Bsp`?");
        refused("SSP", "did you mean `SyncPolicy::Ssp`?");
        refused("ModelAveraging { every: 3 }", "did you mean `SyncPolicy::ModelAverage`?");
        refused("Async", "The policies are");
        refused("Ssp", "`SyncPolicy::Ssp { staleness: 2 }`");
        refused("SyncPolicy::ModelAverage", "`SyncPolicy::ModelAverage { every: 8 }`");
        refused("stradsap::SyncPolicy::Ssp(3)", "`SyncPolicy::Ssp { staleness: 2 }`");
        refused("ModelAverage { every: 0 }", "at least 1");
    }

    #[test]
    fn policies_with_rules_of_their_own() {
        let own = |policy: &str| of_its_own(&parse_str(policy).unwrap()).is_some();
        assert!(
            ["SyncPolicy::Ssp { staleness: 2 }", "stradsap::SyncPolicy::ModelAverage { every }"].map(own) == [true; 2]
        );
        assert!(["SyncPolicy::Bsp", "Hybrid", "policy", "other::Ssp { x: 1 }", "f()"].map(own) == [false; 5]);
    }

    #[test]
    fn policies_by_their_spelling() {
        let looks = |expr: &str| looks_like_policy(&parse_str(expr).unwrap());
        assert!(
            ["Bsp", "SyncPolicy::Bsp", "Ssp { staleness: 2 }", "Ssp(2)", "stradsap::SyncPolicy::Any"].map(looks)
                == [true; 5]
        );
        assert!(["policy", "Preserve", "Order::Any", "f(Bsp)", "3"].map(looks) == [false; 5]);
    }
}
