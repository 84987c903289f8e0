//! Where the mistakes of one macro call are gathered, so that a person sees all of them at once.

use std::cell::RefCell;
use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::Error;

/// Gathers errors. It has to be asked for them by [`Ctxt::check`]: dropping it unasked is a bug.
pub(crate) struct Ctxt {
    errors: RefCell<Option<Vec<Error>>>,
}

impl Ctxt {
    pub(crate) fn new() -> Self {
        Ctxt { errors: RefCell::new(Some(Vec::new())) }
    }

    /// An error that points at all the tokens of `object`.
    pub(crate) fn error_on(&self, object: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(object.into_token_stream(), message));
    }

    /// An error that points at a place.
    pub(crate) fn error_at(&self, span: Span, message: impl Display) {
        self.push(Error::new(span, message));
    }

    pub(crate) fn push(&self, error: Error) {
        if let Some(errors) = self.errors.borrow_mut().as_mut() {
            errors.push(error);
        }
    }

    /// `Ok` if there was no mistake.
    pub(crate) fn check(self) -> Result<(), Vec<Error>> {
        let errors = self.errors.borrow_mut().take().unwrap_or_default();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

impl Drop for Ctxt {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.errors.borrow().is_some() {
            panic!("the errors of a macro call were not looked at");
        }
    }
}

/// Errors as items or statements that make rustc print them, each at its own place.
pub(crate) fn compile_errors(errors: &[Error]) -> TokenStream {
    errors.iter().map(Error::to_compile_error).collect()
}
