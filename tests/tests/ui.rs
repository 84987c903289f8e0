//! What the macros accept, and what they say about mistakes: `ui/pass` holds programs that must build and run,
//! `ui` one program for every kind of mistake, with the messages beside it.
//!
//! Messages that come from rustc itself change with its version; `TRYBUILD=overwrite cargo test -p stradsap-tests
//! --test ui` writes them anew.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    cases.compile_fail("ui/*.rs");
}
