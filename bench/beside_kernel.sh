#!/bin/sh
# What a kernel CUBIC flow, or a redis client, keeps beside one flow of `pliant send`, through a token bucket in network
# namespaces.
#
# Usage: beside_kernel.sh [--same-host] [--redis] PLIANT [SECONDS] [TRANSPORT]...   (as root; needs iperf3, tc, ip)
#
# The token bucket stands in a router between two hosts: 50 Mbit/s beside a kernel flow, 100 Mbit/s beside redis.
# --same-host puts it on the sending host's own interface. There the kernel's TCP counts its own bytes in the queue and holds
# back (TCP Small Queues), so that each other flow wins for a reason that no real path has.
#
# Prints a table: buffer in ms, the other flow, the foreground (Mbit/s, or requests per second and p99 in ms) and the other's
# goodput in Mbit/s. In the environment BUFFERS names the buffers ("10 40 160"), RATE the rate, BUCKET the bucket of tokens ("15kb"), SEGMENTS
# how many packets the kernel may hand on as one ("1"). The foreground is measured from the third second of the other on. The path without queue takes next to
# no time. `kernel` in place of a transport is a second kernel CUBIC flow, and `none` nobody. Flags may follow a transport's
# name: "ledbat --target 5ms".
set -eu

usage="usage: beside_kernel.sh [--same-host] [--redis] PLIANT [SECONDS] [TRANSPORT]..."
where=router
foreground=flow
while :; do
    case ${1:-} in
        --same-host) where=host; shift ;;
        --redis) foreground=redis; shift ;;
        -*) echo "$usage" >&2; exit 2 ;;
        *) break ;;
    esac
done
pliant=${1:?"$usage"}
seconds=${2:-20}
if [ $# -gt 2 ]; then shift 2; else
    set -- none kernel cubic ledbat "ledbat --target 5ms" ledbat++ "ledbat++ --target 5ms" tcp-lp
fi
rate=${RATE:-50mbit}
[ $foreground = redis ] && rate=${RATE:-100mbit}
# At 1 Gbit/s the bucket must hold what passes between two of the kernel's timers, and packets that leave one by one cost a
# kernel flow more processor than it has.
bucket=${BUCKET:-15kb}
segments=${SEGMENTS:-1}
# The other flow is two seconds old when the foreground's measurement begins, and outlasts it.
others=$((seconds + 4))
. "$(dirname "$0")/three_hosts.sh"
ip link add veth0 netns "$left" type veth peer name left netns "$middle"
ip link add veth0 netns "$right" type veth peer name right netns "$middle"
ip -n "$left" address add 10.77.0.2/24 dev veth0
ip -n "$middle" address add 10.77.0.1/24 dev left
ip -n "$middle" address add 10.78.0.1/24 dev right
ip -n "$right" address add 10.78.0.2/24 dev veth0
for end in "$left veth0" "$middle left" "$middle right" "$right veth0"; do
    set_link() { ip -n "$1" link set "$2" up gso_max_segs $segments; }
    # One packet at a time, as on a wire: a token bucket drops what is larger than its bucket.
    set_link $end
done
ip netns exec "$middle" sysctl -qw net.ipv4.ip_forward=1
ip -n "$left" route add default via 10.77.0.1
ip -n "$right" route add default via 10.78.0.1
there=10.78.0.2

bottleneck() { # BUFFER in ms
    if [ $where = host ]; then
        ip netns exec "$left" tc qdisc replace dev veth0 root tbf rate $rate burst $bucket latency "$1ms"
    else
        ip netns exec "$middle" tc qdisc replace dev right root tbf rate $rate burst $bucket latency "$1ms"
    fi
}

iperf_rate() { # FILE: goodput in Mbit/s as iperf3's JSON tells it
    python3 -c 'import json,sys; print("%.1f" % (json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"]/1e6))' "$1"
}

start_other() { # NAME AND FLAGS: a flow from left to right
    case $1 in
        none) return ;;
        kernel)
            ip netns exec "$right" iperf3 --server --one-off --port 5202 >/dev/null 2>&1 &
            sleep 1
            ip netns exec "$left" iperf3 --client $there --port 5202 --congestion cubic --time $others \
                --json >"$logs/other" 2>&1 & ;;
        *)
            ip netns exec "$right" "$pliant" recv --discard --plain --testbed --quiet --listen $there:7410 >/dev/null 2>&1 &
            sleep 1
            # Flags follow the name.
            ip netns exec "$left" "$pliant" send --for "${others}s" $there:7410 --plain --testbed --quiet --json \
                --transport $1 >"$logs/other" 2>"$logs/error" & ;;
    esac
    other_process=$!
}

end_other() { # NAME AND FLAGS: waits, and prints its goodput in Mbit/s
    [ "$1" = none ] && { echo -; return; }
    wait $other_process || cat "$logs/error" >&2
    case $1 in
        kernel) iperf_rate "$logs/other" ;;
        *) python3 -c 'import json,sys; print("%.1f" % (1000*json.load(open(sys.argv[1]))["gbit_per_s"]))' "$logs/other" ;;
    esac
}

beside_flow() { # NAME AND FLAGS
    ip netns exec "$right" iperf3 --server --one-off --port 5201 >/dev/null 2>&1 &
    sleep 1
    # The other comes second, as in the middle of a transfer.
    ip netns exec "$left" iperf3 --client $there --port 5201 --congestion cubic --time "$seconds" --omit 5 \
        --json >"$logs/mine" 2>&1 &
    mine=$!
    sleep 2
    start_other "$1"
    wait $mine || true
    end_other "$1" >"$logs/theirs"
    echo "$(iperf_rate "$logs/mine") $(cat "$logs/theirs")"
}

# Four clients that ask again once they have their answer of 10 kB.
beside_redis() { # NAME AND FLAGS
    start_other "$1"
    sleep 2
    ip netns exec "$right" python3 - "$seconds" >"$logs/mine" <<'CLIENTS'
import socket, sys, threading, time

KEY, ANSWER = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 10000 + len("$10000\r\n") + 2
end = time.monotonic() + float(sys.argv[1])
times = []

def ask():
    link = socket.create_connection(("10.77.0.2", 6390))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while (start := time.monotonic()) < end:
        link.sendall(KEY)
        left = ANSWER
        while left:
            left -= len(link.recv(left))
        times.append(time.monotonic() - start)

clients = [threading.Thread(target=ask) for _ in range(4)]
[client.start() for client in clients]
[client.join() for client in clients]
times.sort()
print("%.0f/s %.1fms" % (len(times) / float(sys.argv[1]), 1000 * times[len(times) * 99 // 100]))
CLIENTS
    end_other "$1" >"$logs/theirs"
    echo "$(cat "$logs/mine") $(cat "$logs/theirs")"
}

if [ $foreground = redis ]; then
    ip netns exec "$left" redis-server --port 6390 --bind 10.77.0.2 --protected-mode no --save "" --dir "$logs" >/dev/null &
    sleep 1
    ip netns exec "$left" redis-cli -h 10.77.0.2 -p 6390 set k "$(printf '%010000d' 0)" >/dev/null
fi

printf '%-9s %-24s %-18s %s\n' buffer beside "$foreground" other
for buffer in ${BUFFERS:-10 40 160}; do
    bottleneck "$buffer"
    for other in "$@"; do
        result=$(beside_$foreground "$other")
        printf '%-9s %-24s %-18s %s\n' "${buffer}ms" "$other" "${result% *}" "${result##* }"
        sleep 1
    done
done
