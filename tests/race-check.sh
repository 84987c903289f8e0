#!/usr/bin/env bash
# Runs the tests under a race detector, ThreadSanitizer: `tests/race-check.sh` for all of them, `tests/race-check.sh races`
# for some test files. Fails if there is a data race.
#
# Needs a nightly toolchain with its sources (`rustup toolchain install nightly --component rust-src`): the standard
# library is built anew, so that what passes between threads by its locks and channels is seen as well. Valgrind's
# detectors can't be used: helgrind and drd know only the locks of pthreads, while Rust's are futexes, and take every
# atomic operation for a race, those of the standard library first.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
if ! sysroot=$(rustc +nightly --print sysroot 2>/dev/null) || [ ! -e "$sysroot/lib/rustlib/src/rust/library" ]; then
    echo "race-check: no nightly toolchain with sources: rustup toolchain install nightly --component rust-src" >&2
    exit 1
fi

# All but the tests of compile errors, which build programs of their own.
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
    files=(random_loops)
    for file in tests/tests/*.rs; do
        name=$(basename "$file" .rs)
        [ "$name" = ui ] || files+=("$name")
    done
fi

export RUSTFLAGS="-Zsanitizer=thread"
export CARGO_TARGET_DIR=target/race-check
run() {
    cargo +nightly test -Zbuild-std --target "$target" --quiet "$@"
}
[ $# -gt 0 ] || run -p stradsap-runtime --lib
run -p stradsap-tests --no-fail-fast "${files[@]/#/--test=}"
echo "race-check: no data race"
