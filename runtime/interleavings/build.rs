//! Has the modules compiled with loom's locks in place of the standard library's.

#![allow(clippy::print_stdout, reason = "this is how cargo is told")]

fn main() {
    println!("cargo::rustc-cfg=stradsap_loom");
    println!("cargo::rerun-if-changed=build.rs");
}
