#!/usr/bin/env bash
# Bulk transfer over loopback by Pliant and its peers: kernel TCP (iperf3) and QUIC (quinn). One JSON line per run on
# stdout: Gbit/s of application bytes and CPU seconds per GB (10^9 bytes) on each side.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: run.sh [PLIANT] [--bytes N] [SYSTEM]...
PLIANT: path of the pliant binary; built if not given
SYSTEM: pliant, pliant-mtu9000, pliant-mtu65535, iperf3, iperf3-mss1460 or quinn (default: all, in this order)
  --bytes N  bytes to send (default: 2000000000, 1000000000 for quinn)
USAGE
}

here=$(cd "$(dirname "$0")" && pwd)
build="$here/../../target/peers"
port=47001
pliant=
file=
bytes=
systems=()

if [[ ${1:-} == */* ]]; then
    pliant=$1 && shift
fi

while (($#)); do
    case $1 in
        --bytes) bytes=${2:?--bytes needs a value} && shift 2 ;;
        -h | --help) usage && exit 0 ;;
        pliant | pliant-mtu9000 | pliant-mtu65535 | iperf3 | iperf3-mss1460 | quinn) systems+=("$1") && shift ;;
        *) echo "run.sh: unknown argument $1; see --help" >&2 && exit 2 ;;
    esac
done
((${#systems[@]})) || systems=(pliant pliant-mtu9000 pliant-mtu65535 iperf3 iperf3-mss1460 quinn)
mkdir -p "$build"

# Installs Debian packages unless the first argument, a command, is there.
ensure_command() {
    command -v "$1" >/dev/null && return
    echo "run.sh: installing Debian package $1" >&2
    apt-get install -y "$1" >"$build/apt-$1.log" 2>&1
}

# A file of random bytes in memory, which the sender reads and both sides hash; the receiver discards it.
run_pliant() {
    local system=$1 mtu=$2 version receiver output line
    ensure_command jq || return
    if [[ -z $pliant ]]; then
        cargo build --release --locked --quiet --manifest-path "$here/../../Cargo.toml" --package pliant-cli || return
        pliant=$here/../../target/release/pliant
    fi
    if [[ -z $file ]]; then
        file=$(mktemp /dev/shm/pliant-bench.XXXXXX)
        trap 'rm -f "$file"' EXIT
        head --bytes "${bytes:-2000000000}" /dev/urandom >"$file"
    fi
    version=$("$pliant" --version | awk '{ print $2 }')
    exec {output}< <(exec timeout 120 "$pliant" recv --discard --json --listen "127.0.0.1:$port" 2>&1)
    receiver=$!
    read -r line <&"$output" && [[ $line == "listening on"* ]] || return
    timeout 60 "$pliant" send "$file" "127.0.0.1:$port" --mtu "$mtu" --json --quiet >"$build/pliant-send.json" || return
    cat <&"$output" >"$build/pliant-recv.json"
    wait "$receiver" || return
    exec {output}<&-
    jq -c --arg system "$system" --arg version "$version" --slurpfile receiver "$build/pliant-recv.json" '
        if .blake3 != $receiver[0].blake3 then error("what arrived is not what was sent") else . end |
        {scenario: "loopback", system: $system, version: $version, bytes, gbit_per_s,
         sender_cpu_s_per_gb: .cpu_s_per_gb, receiver_cpu_s_per_gb: $receiver[0].cpu_s_per_gb}
        ' "$build/pliant-send.json"
}

# iperf3's CPU is a percentage of the elapsed time, of its own process on either side. One stream, no pacing.
run_iperf3() {
    local system=$1 server version output line
    shift
    ensure_command iperf3 && ensure_command jq || return
    version=$(iperf3 --version | awk 'NR == 1 { print $2 }')
    exec {output}< <(exec timeout 120 iperf3 --server --one-off --port "$port" --forceflush 2>&1)
    server=$!
    while read -r line <&"$output" && [[ $line != *"Server listening"* ]]; do :; done
    timeout 60 iperf3 --client 127.0.0.1 --port "$port" --bytes "${bytes:-2000000000}" --json "$@" >"$build/iperf3.json"
    wait "$server"
    exec {output}<&-
    # iperf3 reports a failure in its JSON, not by its exit status.
    if jq -er '.error // empty' "$build/iperf3.json" >&2; then
        return 1
    fi
    jq -c --arg system "$system" --arg version "$version" '
        .end | (.sum_received.bytes / 1e9) as $gb |
        {scenario: "loopback", system: $system, version: $version, bytes: .sum_received.bytes,
         gbit_per_s: (.sum_received.bits_per_second / 1e9),
         sender_cpu_s_per_gb: (.cpu_utilization_percent.host_total / 100 * .sum_sent.seconds / $gb),
         receiver_cpu_s_per_gb: (.cpu_utilization_percent.remote_total / 100 * .sum_received.seconds / $gb)}
        ' "$build/iperf3.json"
}

run_quinn() {
    cargo build --release --locked --quiet --manifest-path "$here/../quinn/Cargo.toml" --target-dir "$build/quinn" || return
    "$build/quinn/release/quinn-loopback" "${bytes:-1000000000}"
}

for system in "${systems[@]}"; do
    case $system in
        pliant) run_pliant "pliant, MTU 1500" 1500 ;;
        pliant-mtu9000) run_pliant "pliant, MTU 9000" 9000 ;;
        # As large as packets get, like loopback's own.
        pliant-mtu65535) run_pliant "pliant, MTU 65535" 65535 ;;
        iperf3) run_iperf3 "kernel TCP" ;;
        # Loopback's 64 kB packets flatter TCP; this is the segment of an Ethernet path, segmentation offload still on.
        iperf3-mss1460) run_iperf3 "kernel TCP, MSS 1460" --set-mss 1460 ;;
        quinn) run_quinn ;;
    esac || echo "run.sh: $system skipped: it failed or could not be installed (logs in target/peers)" >&2
done
