//! `break` and `continue`: which of them would leave the loop's body.

use syn::Lifetime;

enum Target {
    Loop(Option<String>),
    Block(String),
    /// A closure or an async block: no jump passes it, as rustc will say itself.
    Barrier,
}

/// What encloses the expression that is being looked at, the innermost last.
#[derive(Default)]
pub(crate) struct Jumps {
    targets: Vec<Target>,
}

impl Jumps {
    pub(crate) fn enter_loop(&mut self, label: Option<&Lifetime>) {
        self.targets.push(Target::Loop(label.map(|label| label.ident.to_string())));
    }

    pub(crate) fn enter_block(&mut self, label: &Lifetime) {
        self.targets.push(Target::Block(label.ident.to_string()));
    }

    pub(crate) fn enter_barrier(&mut self) {
        self.targets.push(Target::Barrier);
    }

    pub(crate) fn leave(&mut self) {
        self.targets.pop();
    }

    /// Whether a closure or an async block within the body encloses the expression: `return` ends that.
    pub(crate) fn inside_barrier(&self) -> bool {
        self.targets.iter().any(|target| matches!(target, Target::Barrier))
    }

    /// Whether a jump to this label, or to the innermost loop, ends outside the body.
    pub(crate) fn leaves_body(&self, label: Option<&Lifetime>) -> bool {
        let wanted = label.map(|label| label.ident.to_string());
        for target in self.targets.iter().rev() {
            let reached = match (target, &wanted) {
                (Target::Barrier, _) | (Target::Loop(_), None) => true,
                (Target::Loop(name), wanted) => name == wanted,
                (Target::Block(name), Some(wanted)) => name == wanted,
                (Target::Block(_), None) => false,
            };
            if reached {
                return false;
            }
        }
        true
    }
}
