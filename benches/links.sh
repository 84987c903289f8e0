#!/usr/bin/env bash
# Links of a known rate, simulated and real: a driver and workers of one thread each, in network namespaces of their own whose traffic `tbf`
# limits both ways. Prints milliseconds of the fastest epoch of `sgdmf`. It needs Linux, root, `ip` and `tc`, and changes nothing outside
# the namespaces, which it removes.
#
#     benches/links.sh [RATE ...]           # 100Mbit 300Mbit 1Gbit unless told otherwise; none: no limit
#
# RANK=32, WORKERS=2, EPOCHS=12, DATA=FILE, BURST=64kb; SEGMENT=32768: the largest piece that TCP hands to a link. `tbf` cuts larger pieces
# than its burst into packets, whose way through the kernel then takes more time than the link. Network cards cut them without processors.
set -euo pipefail
cd "$(dirname "$0")/.."
rank=${RANK:-32} workers=${WORKERS:-2} epochs=${EPOCHS:-12} burst=${BURST:-64kb} segment=${SEGMENT:-32768}
[ $# -gt 0 ] || set -- 100Mbit 300Mbit 1Gbit
for tool in ip tc; do
    command -v "$tool" >/dev/null || { echo "error: $tool isn't installed" >&2; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo "error: network namespaces need root" >&2; exit 2; }

cargo build --quiet --release -p stradsap-examples --example sgdmf
cargo build --quiet --release -p stradsap --bin stradsap
job=(target/release/examples/sgdmf --rank "$rank" --epochs "$epochs" ${DATA:+--data "$DATA"})
folder=$(mktemp -d)
space=links$$
remove() {
    jobs -p | xargs -r kill 2>/dev/null || true
    for name in $(ip netns list | cut -d ' ' -f 1 | grep "^$space-" || true); do
        ip netns del "$name"
    done
    rm -rf "$folder"
}
trap remove EXIT

# The least and the median `"seconds"` of a report, in milliseconds.
seconds() {
    grep -o '"seconds": [0-9.e-]*' "$1" | cut -d ' ' -f 2 | sort -g |
        awk '{ all[NR] = 1000 * $1 } END { printf "%.1f %.1f\n", all[1], all[int((NR + 1) / 2)] }'
}

# One switch, and a link to each process.
ip netns add "$space-switch"
ip -n "$space-switch" link add bridge type bridge
ip -n "$space-switch" link set bridge up
for k in $(seq 0 "$workers"); do
    ip netns add "$space-$k"
    ip -n "$space-$k" link add eth0 type veth peer name "port$k" netns "$space-switch"
    ip -n "$space-$k" link set eth0 gso_max_size "$segment"
    ip -n "$space-switch" link set "port$k" gso_max_size "$segment"
    # The machine's own choice may pace, which takes timers.
    ip netns exec "$space-$k" sysctl -qw net.ipv4.tcp_congestion_control=reno
    ip -n "$space-$k" addr add "10.77.0.$((k + 1))/24" dev eth0
    ip -n "$space-$k" link set lo up
    ip -n "$space-$k" link set eth0 up
    ip -n "$space-switch" link set "port$k" master bridge up
done
limit() {
    local how=(tbf rate "$1" burst "$burst" latency 1s)
    [ "$1" != none ] || how=(pfifo)
    for k in $(seq 0 "$workers"); do
        ip netns exec "$space-$k" tc qdisc replace dev eth0 root "${how[@]}"
        ip netns exec "$space-switch" tc qdisc replace dev "port$k" root "${how[@]}"
    done
}

run() {
    "$@" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
}
echo "rank $rank, $workers workers of one thread: milliseconds of an epoch, the fastest and the median of $epochs"
printf '%-10s %10s %10s %10s\n' link simulated fastest median
for rate in "$@"; do
    limit "${rate,,}"
    links=(--shared-cores "$(nproc)" --link "$rate" --latency 10us)
    [ "$rate" != none ] || links=(--machines 1 --cores "$(nproc)")
    run "${job[@]}" --threads 1 --plan "$folder/plan.json"
    # How much the processors slow each other down.
    run "${job[@]}" --threads "$(nproc)" --plan "$folder/full.json"
    run target/release/stradsap simulate "$folder/plan.json" --crowded "$folder/full.json" --workers "$workers" "${links[@]}" --json "$folder/simulated.json"
    STRADSAP_SECRET=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
    export STRADSAP_SECRET STRADSAP_ENCRYPT=never
    for k in $(seq 1 "$workers"); do
        ip netns exec "$space-$k" "${job[0]}" --join 10.77.0.1:7350 --threads 1 2>"$folder/worker$k" &
    done
    run ip netns exec "$space-0" "${job[@]}" --threads 1 --workers "$workers" --listen 10.77.0.1:7350 --report "$folder/real.json"
    wait
    read -r simulated _ < <(seconds "$folder/simulated.json")
    read -r least median < <(seconds "$folder/real.json")
    printf '%-10s %10s %10s %10s\n' "$rate" "$simulated" "$least" "$median"
done
