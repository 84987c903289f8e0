#!/usr/bin/env bash
# Runs the engine of one process under Miri, which sees any undefined behaviour in what is executed: views and their slow
# path, execution, undo, maps, relaxed state, shared rows. Some minutes; problems are small there (`cfg!(miri)`).
# `tests/miri.sh NAME...` runs some of `tests/tests/races.rs` only. Without Miri it says so, and ends well.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "miri: SKIPPED, since it isn't installed: rustup toolchain install nightly --component miri,rust-src"
    exit 0
fi

# Of this machine's vector units Miri knows few.
export RUSTFLAGS=""
export CARGO_TARGET_DIR=target/miri
# Rows are reached through addresses that are kept as such; threads of a pool end after their session.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks"
run() {
    cargo +nightly miri test --quiet "$@"
}
names=("$@")
[ $# -gt 0 ] || names=(races::)
run -p stradsap-tests --test one_process -- "${names[@]}"
echo "miri: no undefined behaviour"
