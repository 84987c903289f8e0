//! The options that follow the closure.

use syn::Expr;

use crate::ctxt::Ctxt;
use crate::nearest::{list, nearest};
use crate::parallel_for::options::{Choice, choice, each, refuse_zero};
use crate::parallel_for::parse::OptionSyntax;
use crate::parallel_for::sync_for;

/// How each option is written.
pub(crate) const USAGE: &str = "`order = Preserve` or `Any`, `parts = 8`, `grain = 100`, `label = \"epoch\"`, \
                                `strategy = Grid`, `Coloured`, `Tiled` or `Serial`, `scratch = Buckets::new(k)` with a \
                                body `|i, scratch|`, `staleness = 2`, `on_failure = Poison` or `Undo`";

/// Their names.
pub(crate) const NAMES: [&str; 8] =
    ["order", "parts", "grain", "label", "strategy", "scratch", "staleness", "on_failure"];
const ORDERS: [&str; 2] = ["Preserve", "Any"];
const OUTCOMES: [&str; 2] = ["Poison", "Undo"];
const STRATEGIES: [&str; 4] = ["Grid", "Coloured", "Tiled", "Serial"];

/// The options of one loop.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) order: Option<Choice>,
    pub(crate) parts: Option<Expr>,
    pub(crate) grain: Option<Expr>,
    pub(crate) label: Option<Expr>,
    pub(crate) strategy: Option<Choice>,
    pub(crate) scratch: Option<Expr>,
    pub(crate) staleness: Option<Expr>,
    pub(crate) on_failure: Option<Choice>,
}

impl Options {
    /// Whether the loop may have to keep its own order.
    pub(crate) fn may_preserve(&self) -> bool {
        self.order.as_ref().is_some_and(|order| !matches!(order, Choice::Word(word) if word == "Any"))
    }
}

/// Checks the options. Every mistake is reported; what is right is kept.
pub(crate) fn check(written: Vec<OptionSyntax>, cx: &Ctxt) -> Options {
    let mut options = Options::default();
    each(written, &NAMES, unknown_option, cx, |name, value| match name {
        "order" => options.order = choice(name, value, &ORDERS, cx),
        "strategy" => options.strategy = choice(name, value, &STRATEGIES, cx),
        "parts" => {
            refuse_zero("parts", &value, cx);
            options.parts = Some(value);
        }
        "grain" => {
            refuse_zero("grain", &value, cx);
            options.grain = Some(value);
        }
        "on_failure" => options.on_failure = choice(name, value, &OUTCOMES, cx),
        "scratch" => options.scratch = Some(value),
        "staleness" => {
            refuse_zero("staleness", &value, cx);
            options.staleness = Some(value);
        }
        _ => options.label = Some(value),
    });
    options
}

fn unknown_option(key: &str) -> String {
    if sync_for::OPTIONS.contains(&key) {
        return format!("`{key}` is an option of `sync_parallel_for!`; those of this loop are {}", list(&NAMES));
    }
    let meant = nearest(key, &NAMES).unwrap_or_default();
    format!("unknown option `{key}`: did you mean `{meant}`? The options are {}", list(&NAMES))
}

#[cfg(test)]
mod tests {
    use syn::parse_str;

    use super::*;

    fn messages(written: &[(&str, &str)]) -> Vec<String> {
        let cx = Ctxt::new();
        let parsed = written
            .iter()
            .map(|(name, value)| OptionSyntax { name: parse_str(name).unwrap(), value: parse_str(value).unwrap() });
        check(parsed.collect(), &cx);
        match cx.check() {
            Ok(()) => Vec::new(),
            Err(errors) => errors.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn what_is_offered() {
        assert!(
            messages(&[("order", "Preserve"), ("parts", "8"), ("label", "\"epoch\""), ("strategy", "Grid")]).is_empty()
        );
        assert!(messages(&[("order", "Order::Any"), ("strategy", "stradsap::Strategy::Serial")]).is_empty());
        assert!(messages(&[("order", "wanted"), ("strategy", "args.strategy"), ("parts", "args.parts")]).is_empty());
        assert!(messages(&[("strategy", "WANTED"), ("on_failure", "Poison")]).is_empty());
        assert!(messages(&[("on_failure", "OnFailure::Undo")]).is_empty());
    }

    #[test]
    fn an_unknown_option_names_the_nearest() {
        assert_eq!(
            messages(&[("oder", "Preserve")]),
            [
                "unknown option `oder`: did you mean `order`? The options are `order`, `parts`, `grain`, `label`, `strategy`, `scratch`, `staleness` and `on_failure`"
            ]
        );
    }

    #[test]
    fn every_mistake_is_reported() {
        let found = messages(&[("order", "Keep"), ("strategy", "colored"), ("parts", "0"), ("parts", "2")]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("`order` is one of `Preserve` and `Any`"), "{found:?}");
        assert!(found[1].contains("at least 1"), "{found:?}");
        assert!(found[2].contains("given twice"), "{found:?}");
    }

    #[test]
    fn a_slip_of_case_is_a_slip() {
        assert_eq!(messages(&[("order", "preserve")]).len(), 1);
        assert_eq!(messages(&[("strategy", "SERIAL")]).len(), 1);
    }
}
