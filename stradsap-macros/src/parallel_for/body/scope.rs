//! Which names the body has bound where it uses one.

use std::collections::HashMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::{Block, Item, Pat, Stmt, UseTree};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// The capture with this number.
    Capture(usize),
    /// Bound by the body, or its index.
    Local,
}

/// Bound where a glob import may bind any name.
const ANY: &str = "*";

/// Names and what they stand for, the innermost scope last.
pub(crate) struct Scopes {
    scopes: Vec<HashMap<String, Binding>>,
}

impl Scopes {
    pub(crate) fn new() -> Self {
        Scopes { scopes: vec![HashMap::new()] }
    }

    pub(crate) fn push(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(crate) fn pop(&mut self) {
        self.scopes.pop();
    }

    pub(crate) fn bind(&mut self, name: String, binding: Binding) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, binding);
        }
    }

    pub(crate) fn resolve(&self, name: &str) -> Option<Binding> {
        let bound = |name: &str| self.scopes.iter().rev().find_map(|scope| scope.get(name).copied());
        bound(name).or_else(|| bound(ANY))
    }

    /// The names that are visible.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().flat_map(|scope| scope.keys().map(String::as_str))
    }

    fn local(&mut self, name: &syn::Ident) {
        self.bind(name_of(name), Binding::Local);
    }

    /// Any name may be bound from here on.
    pub(crate) fn bind_any(&mut self) {
        self.bind(ANY.to_owned(), Binding::Local);
    }

    /// Binds what a pattern binds.
    pub(crate) fn bind_pattern(&mut self, pattern: &Pat) {
        match pattern {
            Pat::Ident(ident) => {
                self.local(&ident.ident);
                if let Some((_, inner)) = &ident.subpat {
                    self.bind_pattern(inner);
                }
            }
            Pat::Or(or) => or.cases.iter().for_each(|case| self.bind_pattern(case)),
            Pat::Paren(paren) => self.bind_pattern(&paren.pat),
            Pat::Reference(reference) => self.bind_pattern(&reference.pat),
            Pat::Slice(slice) => slice.elems.iter().for_each(|elem| self.bind_pattern(elem)),
            Pat::Struct(fields) => fields.fields.iter().for_each(|field| self.bind_pattern(&field.pat)),
            Pat::Tuple(tuple) => tuple.elems.iter().for_each(|elem| self.bind_pattern(elem)),
            Pat::TupleStruct(tuple) => tuple.elems.iter().for_each(|elem| self.bind_pattern(elem)),
            Pat::Type(typed) => self.bind_pattern(&typed.pat),
            Pat::Macro(call) => self.bind_all_in(call.mac.tokens.clone()),
            Pat::Verbatim(tokens) => self.bind_all_in(tokens.clone()),
            _ => {}
        }
    }

    /// Binds every identifier among tokens that only their macro understands: one of them may become a name.
    pub(crate) fn bind_all_in(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => self.local(&ident),
                TokenTree::Group(group) => self.bind_all_in(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Binds the items of a block, which are visible from its first statement on.
    pub(crate) fn bind_items(&mut self, block: &Block) {
        for stmt in &block.stmts {
            if let Stmt::Item(item) = stmt {
                self.bind_item(item);
            }
        }
    }

    fn bind_item(&mut self, item: &Item) {
        match item {
            Item::Const(item) => self.local(&item.ident),
            Item::Fn(item) => self.local(&item.sig.ident),
            Item::Static(item) => self.local(&item.ident),
            Item::Struct(item) => self.local(&item.ident),
            Item::Use(item) => self.bind_use(&item.tree),
            // The name of a `macro_rules!` definition is no value.
            Item::Macro(item) if item.ident.is_none() => self.bind_all_in(item.mac.tokens.clone()),
            Item::Verbatim(tokens) => self.bind_all_in(tokens.clone()),
            _ => {}
        }
    }

    fn bind_use(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.bind_use(&path.tree),
            UseTree::Name(name) => self.local(&name.ident),
            UseTree::Rename(rename) => self.local(&rename.rename),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.bind_use(item)),
            UseTree::Glob(_) => self.bind_any(),
        }
    }
}

/// An identifier's name, whether or not it is written raw.
pub(crate) fn name_of(ident: &syn::Ident) -> String {
    let name = ident.to_string();
    match name.strip_prefix("r#") {
        Some(plain) => plain.to_string(),
        None => name,
    }
}

/// Whether a name is spelt as variables are. Constants and types are not.
pub(crate) fn is_variable_name(name: &str) -> bool {
    name.trim_start_matches('_').starts_with(|first: char| first.is_alphabetic() && !first.is_uppercase())
}
