//! Names that the body uses and nobody has bound: what to say about each, once.

use proc_macro2::Span;

use super::scope::is_variable_name;
use crate::ctxt::Ctxt;
use crate::nearest::slip;
use crate::parallel_for::ir::Kind;

/// How a name is used. The stronger a use, the more it says about how to capture the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// As an operand.
    Read,
    /// A method is called on it.
    Receiver,
    /// It is indexed.
    Element,
    /// It is assigned to as a whole.
    Assigned,
    /// An element is written.
    Written,
}

struct Missing {
    name: String,
    /// Of its first use.
    span: Span,
    usage: Use,
    slip: Option<String>,
}

/// The missing names of one body, in the order of their first uses.
pub(crate) struct MissingNames {
    kind: Kind,
    /// The name of the loop's input.
    input: Option<String>,
    names: Vec<Missing>,
}

impl MissingNames {
    pub(crate) fn new(kind: Kind, input: Option<String>) -> Self {
        MissingNames { kind, input, names: Vec::new() }
    }

    pub(crate) fn record<'n>(&mut self, name: &str, span: Span, usage: Use, visible: impl Iterator<Item = &'n str>) {
        if let Some(known) = self.names.iter_mut().find(|known| known.name == name) {
            known.usage = known.usage.max(usage);
            return;
        }
        let slip = slip(name, visible.filter(|visible| is_variable_name(visible))).map(str::to_string);
        self.names.push(Missing { name: name.to_string(), span, usage, slip });
    }

    pub(crate) fn report(&self, cx: &Ctxt) {
        for missing in &self.names {
            let is_input = self.input.as_ref() == Some(&missing.name);
            cx.error_at(missing.span, if is_input { missing.input() } else { missing.message(self.kind) });
        }
    }
}

impl Missing {
    /// For the input of a loop over minibatches.
    fn input(&self) -> String {
        let name = &self.name;
        format!(
            "`{name}` is the loop's input, of which the body gets one minibatch: use the closure's parameter, or add \
             `&{name}` to the capture list to read elements outside the minibatch"
        )
    }

    fn message(&self, kind: Kind) -> String {
        let name = &self.name;
        if name == "self" {
            return format!(
                "{} uses `self`, which can't be captured: capture the fields that it uses by name, such as \
                 `alpha = self.alpha` or `p = &{}self.p`",
                kind.body(),
                if kind == Kind::Operator { "" } else { "mut " }
            );
        }
        let start = format!("{} uses `{name}`, which is not in its capture list", kind.body());
        let advice = self.advice(kind);
        if name == "session" {
            return format!(
                "{start}, and a `Session` can't be captured: make reductions, relaxed state and generators of random numbers \
                 before, and capture those (`let total = session.sum(0.0)`, then `&total`). If `{name}` is no `Session`: \
                 {advice}"
            );
        }
        match &self.slip {
            Some(slip) => format!("{start}: did you mean `{slip}`? If not: {advice}"),
            None => format!("{start}: {advice}"),
        }
    }

    /// How to capture it.
    fn advice(&self, kind: Kind) -> String {
        let name = &self.name;
        match self.usage {
            Use::Read => format!("add `{name}`"),
            Use::Receiver if kind == Kind::Operator => format!("add `&{name}` for a DDS, `{name}` for a value"),
            Use::Receiver => format!("add `&{name}` for a DDS or a reduction, `{name}` for a value"),
            Use::Element => format!("add `&{name}` for a DDS, `{name}` for a value"),
            Use::Assigned | Use::Written if kind == Kind::Operator => {
                "closures of operators change nothing outside: `fold` and `reduce` bring items together, loops change \
                 DDSs"
                    .to_string()
            }
            Use::Assigned => format!(
                "{} run in parallel and can't assign to a variable outside; use a reduction (`let {name} = \
                 session.sum(..)`, captured as `&{name}`), or `let mut {name}` in the body",
                kind.units()
            ),
            Use::Written => format!("add `&mut {name}`"),
        }
    }
}
