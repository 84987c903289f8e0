#!/usr/bin/env bash
# Runs tests under ThreadSanitizer and AddressSanitizer: `tests/sanitize.sh` for all of them, `tests/sanitize.sh thread races`
# for one sanitizer and the tests whose names contain a word. Fails if one of them finds anything.
#
# Needs a nightly toolchain, with its sources (`rustup toolchain install nightly --component rust-src`): the standard
# library is built anew, so that what passes between threads by its locks and channels is seen as well. AddressSanitizer
# also runs without sources; it then checks all but the standard library's own compiled code. Valgrind's
# detectors can't be used: helgrind and drd know only the locks of pthreads, while Rust's are futexes, and take every
# atomic operation for a race, those of the standard library first.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
if ! sysroot=$(rustc +nightly --print sysroot 2>/dev/null); then
    echo "sanitize: no nightly toolchain: rustup toolchain install nightly --component rust-src" >&2
    exit 1
fi
standard_library=(-Zbuild-std)
[ -e "$sysroot/lib/rustlib/src/rust/library" ] || standard_library=()

sanitizers=(thread address)
case "${1:-}" in thread | address) sanitizers=("$1") && shift ;; esac

for sanitizer in "${sanitizers[@]}"; do
    if [ ${#standard_library[@]} -eq 0 ]; then
        if [ "$sanitizer" = thread ]; then
            echo "sanitize: ThreadSanitizer needs the sources: rustup component add --toolchain nightly rust-src" >&2
            exit 1
        fi
        echo "sanitize: no sources: the standard library stays as it is"
    fi
    export RUSTFLAGS="-Zsanitizer=$sanitizer"
    # A test asks for more memory than there can be.
    export ASAN_OPTIONS=allocator_may_return_null=1
    # Frames are larger, and some tests decode what is nested as deeply as is allowed.
    export RUST_MIN_STACK=$((64 << 20))
    export CARGO_TARGET_DIR=target/sanitize-$sanitizer
    run() {
        cargo +nightly test "${standard_library[@]}" --target "$target" --quiet "$@"
    }
    # One test looks at what lies between the program's constants, where AddressSanitizer lets nobody look.
    [ $# -gt 0 ] || run -p stradsap-runtime --lib -- --skip no_other_name_leads_anywhere
    run -p stradsap-tests --test one_process -- "$@"
    [ $# -gt 0 ] || run -p stradsap-tests --test workers -- "in process" ::alone:: ::verified::
    echo "sanitize: nothing found by the $sanitizer sanitizer"
done
