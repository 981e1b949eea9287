#!/bin/sh
# What a kernel CUBIC flow, `pliant send --transport cubic` and `pliant fetch` from one source reach on a long path, one after the
# other, between two network namespaces with `pliant switch` between them.
#
# Usage: long_path.sh PLIANT   (as root; needs iperf3, ip)
#
# In the environment RATE is the rate of the path ("200Mbit/s") and DELAY that of one direction ("50ms"). The queue holds 2 MB. The flows
# run for 10 s with their start; fetch takes a file of 100 MB. Prints Mbit/s. What the kernel grants a socket (net.core.rmem_max)
# matters, and is printed.
set -eu

pliant=${1:?"usage: long_path.sh PLIANT"}
. "$(dirname "$0")/three_hosts.sh"
attach() { # NAMESPACE NUMBER
    ip link add "port$2" netns "$middle" type veth peer name veth0 netns "$1"
    ip -n "$1" address add "10.79.0.$2/24" dev veth0
    ip -n "$1" link set veth0 gso_max_segs 1 up
    ip -n "$middle" link set "port$2" up
    cat >>"$logs/plan.toml" <<PORT
[[port]]
interface = "port$2"
addresses = ["10.79.0.$2", "$(ip netns exec "$1" cat /sys/class/net/veth0/address)"]
delay = "${DELAY:-50ms}"
PORT
}
printf 'rate = "%s"\nqueues = { plan = "drop-tail", limit = "2MB" }\n' "${RATE:-200Mbit/s}" >"$logs/plan.toml"
attach "$left" 1
attach "$right" 2
ip netns exec "$middle" "$pliant" switch "$logs/plan.toml" >/dev/null 2>&1 &
sleep 1
from() { ip netns exec "$left" "$@"; }
to() { ip netns exec "$right" "$@"; }
json() { python3 -c "import json, sys; print('%.1f' % ($1))"; }

echo "net.core.rmem_max: $(cat /proc/sys/net/core/rmem_max)"
to iperf3 --server --one-off >/dev/null 2>&1 &
sleep 1
echo "kernel CUBIC: $(from iperf3 --client 10.79.0.2 --congestion cubic --time 10 --json |
    json 'json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e6')"
to "$pliant" recv --discard --plain --testbed --quiet --listen 10.79.0.2:7410 >/dev/null 2>&1 &
sleep 1
echo "send: $(from "$pliant" send --for 10s 10.79.0.2:7410 --plain --testbed --quiet --json --transport cubic |
    json '1000 * json.load(sys.stdin)["gbit_per_s"]')"
head -c 100000000 /dev/urandom >"$logs/file"
from "$pliant" offer "$logs/file" --listen 10.79.0.1:7420 --plain --testbed >/dev/null 2>&1 &
sleep 2
echo "fetch: $(to "$pliant" fetch 10.79.0.1:7420 --plain --testbed --quiet --discard --json |
    json '1000 * json.load(sys.stdin)["gbit_per_s"]')"
