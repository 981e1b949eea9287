#!/bin/sh
# Speed of the software switch at 1500 bytes with a two-queue plan, in packets per CPU-second, on interfaces (needs
# root) and as a relay. Beside it stands the sender's own speed, 44 datagrams per system call: how fast the machine is at
# this moment; and a repeater in software, which does nothing but pass frames on one by one: the kernel's part of the
# switch's cost. The receiver's side of the kernel runs in the time of both.
# Usage: [WRAP="chrt --rr 5"] [SINK="chrt --rr 6"] bench/switch.sh [SECONDS]; WRAP is put before the switch and the
# sender, SINK before the receiver, for machines that have other work.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-5}
profile=${PROFILE:-release}
cargo build --quiet --package pliant-net --example switch_speed --profile "$profile"
program=target/$profile/examples/switch_speed

echo "relay:"
${WRAP:-} "$program" relay "$seconds" &
${SINK:-} "$program" sink 127.77.0.2:7700 "$((seconds + 1))" &
sleep 0.3
${WRAP:-} "$program" blast 127.77.0.1:7700 127.77.1.2:7700 "$seconds"
wait

echo "interfaces:"
if ! unshare --net true 2>/dev/null; then
    echo "skipped: network namespaces need root"
    exit 0
fi
# Namespaces without names: they vanish with the processes in them.
unshare --net sleep "$((4 * seconds + 60))" & a=$!
unshare --net sleep "$((4 * seconds + 60))" & b=$!
unshare --net sleep "$((4 * seconds + 60))" & s=$!
trap 'kill $a $b $s 2>/dev/null' EXIT
sleep 0.3
in_switch() { nsenter --target "$s" --net "$@"; }
for host in "1 $a" "2 $b"; do
    set -- $host
    in_switch ip link add name "p$1" type veth peer name eth0 netns "$2"
    in_switch ip link set dev "p$1" up
    nsenter --target "$2" --net ip address add "10.9.0.$1/24" dev eth0
    nsenter --target "$2" --net ip link set dev eth0 gso_max_segs 1 up
done
# The kernel's part alone, the switch, and once more: what the machine has left changes from one to the next.
for kind in repeater ethernet repeater ethernet; do
    in_switch ${WRAP:-} "$program" $kind p1 p2 "$seconds" & switch=$!
    sleep 0.3
    nsenter --target "$b" --net ${SINK:-} "$program" sink 10.9.0.2:7700 "$((seconds + 1))" & sink=$!
    nsenter --target "$a" --net ${WRAP:-} "$program" blast 10.9.0.1:7700 10.9.0.2:7700 "$seconds"
    wait "$switch" "$sink"
done
