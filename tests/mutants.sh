#!/usr/bin/env bash
# Plants each of the bugs in `tests/mutants/` in a copy of the last commit, and runs the tests that are to find it:
# `tests/mutants.sh` for all of them (about half an hour on two cores, and the first build), `tests/mutants.sh one-holder` for some. Fails if more than
# one in twenty is not found. `tests/mutants.sh --check` only says whether each still fits the code, in a second.
#
# A mutant is a patch. Above it stand what is wrong in it, and after "Found by:" the command that must fail.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD

# The longest that a test may run that waits for what will never come.
limit=300

copy=$repository/target/mutants/copy
export CARGO_TARGET_DIR=$repository/target/mutants/target CARGO_INCREMENTAL=1

plant() { # WHERE NAME [--reverse | --check]
    git -C "$1" --git-dir= apply "${@:3}" "$repository/tests/mutants/$2.patch"
}

check=
[ "${1:-}" != --check ] || { check=1 && shift; }
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(cd tests/mutants && printf '%s\n' *.patch | sed 's/\.patch$//')

for name in "${names[@]}"; do
    if ! plant "$repository" "$name" --check; then
        echo "mutants: $name no longer fits the code" >&2
        exit 1
    fi
done
if [ -n "$check" ]; then
    echo "mutants: ${#names[@]} fit the code"
    exit 0
fi

# What is built there stays from run to run.
mkdir -p "$copy"
git archive HEAD | tar -x -m -C "$copy"
found=0 missed=()
for name in "${names[@]}"; do
    command=$(sed -n 's/^Found by: //p' "tests/mutants/$name.patch")
    plant "$copy" "$name"
    log=$repository/target/mutants/$name.log
    build="${command%% -- *} --no-run"
    if ! (cd "$copy" && bash -c "$build") >"$log" 2>&1; then
        echo "mutants: $name doesn't compile, see $log" >&2
        exit 1
    fi
    if (cd "$copy" && timeout "$limit" bash -c "$command") >>"$log" 2>&1; then
        grep -q '^running [1-9]' "$log" || { echo "mutants: $name is looked for by no test" >&2; exit 1; }
        missed+=("$name")
        echo "MISSED $name ($command)"
    else
        found=$((found + 1))
        red=$(sed -n 's/^test \(.*\) \.\.\. FAILED.*/\1/p' "$log" | head -n 3 | paste -sd, | sed 's/,/, /g')
        echo "found $name: ${red:-no test ended, see $log}"
    fi
    plant "$copy" "$name" --reverse
done
echo "mutants: $found of ${#names[@]} found"
[ $((20 * ${#missed[@]})) -le ${#names[@]} ]
