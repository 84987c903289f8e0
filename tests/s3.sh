#!/usr/bin/env bash
# Checkpoints in an object store, against a real S3 server: `tests/s3.sh`. It takes ten minutes the first time, most of them to
# build, and two afterwards. Fails at the first result that isn't that of an undisturbed run.
#
# The server is `s3s-fs` of the registry, which keeps objects as files; it is installed below `target/s3`.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/target/s3
port=${PORT:-8014}
[ -x "$root/bin/s3s-fs" ] || cargo install s3s-fs --version 0.14.1 --locked --features binary --root "$root"
cargo build --release -p stradsap-examples --features remote --example sgdmf
cargo build --release -p stradsap --features remote --bin stradsap
sgdmf=target/release/examples/sgdmf
stradsap=target/release/stradsap

folder=$(mktemp -d)
server=0
serve() {
    "$root/bin/s3s-fs" --host 127.0.0.1 --port "$port" --access-key me --secret-key secret "$folder/store" >"$folder/server.log" 2>&1 &
    server=$!
}
end_server() {
    { kill -KILL "$server" && wait "$server"; } 2>/dev/null || true
}
finish() {
    end_server
    kill -KILL $(jobs -p) 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
mkdir -p "$folder/store/bucket"
serve
export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ALLOW_HTTP=true AWS_REGION=us-east-1
export AWS_ACCESS_KEY_ID=me AWS_SECRET_ACCESS_KEY=secret

fail() {
    echo "s3: $*" >&2
    exit 1
}
digest() {
    sed -n 's/^model //p' "$1"
}
# Waits for a line of a run's output.
await() {
    for _ in $(seq 600); do
        ! grep -q "$2" "$1" || return 0
        sleep 0.05
    done
    fail "no line \"$2\": $(tail -3 "$1")"
}
# Whether a process has a connection to the server.
talks() {
    local sockets inode
    sockets=$(awk -v port="$(printf ':%04X$' "$port")" '$3 ~ port { print $10 }' /proc/net/tcp)
    for inode in $sockets; do
        ! ls -l "/proc/$1/fd" 2>/dev/null | grep -q "socket:\[$inode\]" || return 0
    done
    return 1
}
# One of its workers talks to the server: workers write what is large themselves.
await_worker() {
    local worker
    while kill -0 "$1" 2>/dev/null; do
        for worker in $(pgrep -P "$1"); do
            ! talks "$worker" || return 0
        done
    done
    fail "no worker wrote anything"
}
# Its model takes 47 MB, so that elements are sent in parts, and more than 32, so that workers write some themselves.
train=("$sgdmf" --rank 1000 --epochs 30)

"${train[@]}" >"$folder/plain" 2>&1
want=$(digest "$folder/plain")
[ -n "$want" ] || fail "no digest: $(tail -3 "$folder/plain")"

for workers in 0 3; do
    for fault in none driver worker server; do
        name=w$workers-$fault
        [ "$fault$workers" != worker0 ] || continue
        at=s3://bucket/$name
        out=$folder/$name
        "${train[@]}" --workers $workers --checkpoint "$at" >"$out" 2>&1 &
        job=$!
        await "$out" 'epoch *9/'
        case $fault in
            driver)
                kill -KILL $job
                wait $job 2>/dev/null || true
                # The lease is the killed process's until nobody has renewed it for half a minute.
                "${train[@]}" --workers $workers --checkpoint "$at" --resume >"$out" 2>&1 || fail "$name: $(tail -3 "$out")"
                ;;
            worker)
                kill -KILL "$(pgrep -P $job | head -1)"
                wait $job || fail "$name: $(tail -3 "$out")"
                ;;
            server)
                end_server
                sleep 2
                serve
                wait $job || fail "$name: $(tail -3 "$out")"
                ;;
            none)
                if "${train[@]}" --epochs 1 --checkpoint "$at" >"$folder/second" 2>&1; then
                    fail "$name: two jobs write to one place"
                fi
                [ $workers = 0 ] || await_worker $job
                wait $job || fail "$name: $(tail -3 "$out")"
                ;;
        esac
        [ "$(digest "$out")" = "$want" ] || fail "$name: $(digest "$out") instead of $want"
        "$stradsap" checkpoints verify "$at" >"$folder/verify" 2>&1 || fail "$name: $(cat "$folder/verify")"
        echo "s3: $name is well: $(ls "$folder/store/bucket/$name" | wc -l) objects, $(du -sh "$folder/store/bucket/$name" | cut -f1)"
    done
done

# What is wrong is said in words.
if AWS_SECRET_ACCESS_KEY=wrong "${train[@]}" --checkpoint s3://bucket/denied >"$folder/denied" 2>&1; then
    fail "a wrong secret was accepted"
fi
grep -q "AWS_SECRET_ACCESS_KEY" "$folder/denied" || fail "a wrong secret: $(tail -3 "$folder/denied")"
if "${train[@]}" --checkpoint s3://nowhere/x >"$folder/nowhere" 2>&1; then
    fail "a bucket that isn't there was accepted"
fi
grep -q "s3://nowhere/x" "$folder/nowhere" || fail "no bucket: $(tail -3 "$folder/nowhere")"
echo "s3: all is well"
