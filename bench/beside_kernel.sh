#!/bin/sh
# What a kernel CUBIC flow keeps beside one flow of `pliant send`, through a token bucket of 50 Mbit/s in network namespaces.
#
# Usage: beside_kernel.sh PLIANT [SECONDS] [TRANSPORT]...   (as root; needs iperf3, tc, ip)
#
# Prints a table: buffer in ms, transport, and both goodputs in Mbit/s over SECONDS (20), of which the first five do not
# count. The path without queue takes next to no time. `kernel` in place of a transport is a second kernel CUBIC flow, and `none`
# nobody. Flags may follow a transport's name: "ledbat --target 5ms".
set -eu

pliant=${1:?"usage: beside_kernel.sh PLIANT [SECONDS] [TRANSPORT]..."}
seconds=${2:-20}
if [ $# -gt 2 ]; then shift 2; else
    set -- none kernel cubic "cubic --hystart off" ledbat ledbat++ "ledbat++ --target 5ms" tcp-lp
fi
skipped=5
left=bk-left-$$
right=bk-right-$$
logs=$(mktemp -d)

cleanup() {
    for name in "$left" "$right"; do
        ip netns pids "$name" 2>/dev/null | xargs -r kill 2>/dev/null || true
        ip netns delete "$name" 2>/dev/null || true
    done
    rm -rf "$logs"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

ip netns add "$left"
ip netns add "$right"
ip link add veth0 netns "$left" type veth peer name veth0 netns "$right"
ip -n "$left" address add 10.77.0.1/24 dev veth0
ip -n "$right" address add 10.77.0.2/24 dev veth0
for name in "$left" "$right"; do
    ip -n "$name" link set lo up
    ip -n "$name" link set veth0 up
    # Packets as large as on a wire: a token bucket drops what is larger than its bucket.
    ip netns exec "$name" ethtool -K veth0 tso off gso off gro off >/dev/null 2>&1 || true
done

rate() { # FILE: goodput in Mbit/s as iperf3's JSON tells it
    python3 -c 'import json,sys; print("%.1f" % (json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"]/1e6))' "$1"
}

printf '%-9s %-24s %-12s %s\n' buffer beside kernel other
for buffer in 10 160; do
    ip netns exec "$left" tc qdisc replace dev veth0 root tbf rate 50mbit burst 15kb latency ${buffer}ms
    for other in "$@"; do
        ip netns exec "$right" iperf3 --server --one-off --port 5201 >/dev/null 2>&1 &
        theirs=-
        case $other in
            none) ;;
            kernel) ip netns exec "$right" iperf3 --server --one-off --port 5202 >/dev/null 2>&1 & ;;
            *) ip netns exec "$right" "$pliant" recv --discard --plain --testbed --quiet --listen 10.77.0.2:7410 >/dev/null 2>&1 & ;;
        esac
        sleep 1
        ip netns exec "$left" iperf3 --client 10.77.0.2 --port 5201 --congestion cubic --time "$((seconds - skipped))" \
            --omit $skipped --json >"$logs/mine" 2>&1 &
        mine=$!
        # The other comes second, as in the middle of a transfer.
        sleep 2
        case $other in
            none) ;;
            kernel)
                ip netns exec "$left" iperf3 --client 10.77.0.2 --port 5202 --congestion cubic --time "$((seconds - 2))" \
                    --json >"$logs/other" 2>&1 || true
                theirs=$(rate "$logs/other") ;;
            *)
                # Flags follow the name.
                ip netns exec "$left" "$pliant" send --for "$((seconds - 2))s" 10.77.0.2:7410 --plain --testbed --quiet --json \
                    --transport $other >"$logs/other" 2>"$logs/error" || cat "$logs/error" >&2
                theirs=$(python3 -c 'import json,sys; print("%.1f" % (1000*json.load(open(sys.argv[1]))["gbit_per_s"]))' "$logs/other") ;;
        esac
        wait $mine || true
        printf '%-9s %-24s %-12s %s\n' "${buffer}ms" "$other" "$(rate "$logs/mine")" "$theirs"
        sleep 1
    done
done
