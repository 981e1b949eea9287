#!/usr/bin/env bash
# Bulk transfer over loopback by Pliant and its peers: kernel TCP (iperf3) and QUIC (quinn). One JSON line per run on
# stdout, then a table of medians: Gbit/s of application bytes and CPU seconds per GB (10^9 bytes) on each side.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: run.sh [PLIANT] [--bytes N] [--rounds N] [SYSTEM]...
PLIANT: path of the pliant binary; built if not given
SYSTEM: encrypted, plain, file, iperf3, iperf3-mss1460 or quinn (default: all, in this order)
  --bytes N   bytes to send (default: 2000000000)
  --rounds N  rounds of all systems one after the other, whose medians make the table (default: 3)
USAGE
}

here=$(cd "$(dirname "$0")" && pwd)
build="$here/../../target/peers"
port=47001
pliant=
bytes=2000000000
rounds=3
systems=()

if [[ ${1:-} == */* ]]; then
    pliant=$1 && shift
fi

while (($#)); do
    case $1 in
        --bytes) bytes=${2:?--bytes needs a value} && shift 2 ;;
        --rounds) rounds=${2:?--rounds needs a value} && shift 2 ;;
        -h | --help) usage && exit 0 ;;
        encrypted | plain | file | iperf3 | iperf3-mss1460 | quinn) systems+=("$1") && shift ;;
        *) echo "run.sh: unknown argument $1; see --help" >&2 && exit 2 ;;
    esac
done
((${#systems[@]})) || systems=(encrypted plain file iperf3 iperf3-mss1460 quinn)
mkdir -p "$build"
scratch=$(mktemp --directory /dev/shm/pliant-bench.XXXXXX)
trap 'rm -rf "$scratch"' EXIT

# Installs Debian packages unless the first argument, a command, is there.
ensure_command() {
    command -v "$1" >/dev/null && return
    echo "run.sh: installing Debian package $1" >&2
    apt-get install -y "$1" >"$build/apt-$1.log" 2>&1
}

# The first argument is the system's name, the second how it is protected; the others are what is sent, and settings.
run_pliant() {
    local system=$1 protection=$2 version receiver output line protect=(--plain)
    shift 2
    ensure_command jq || return
    if [[ -z $pliant ]]; then
        cargo build --release --locked --quiet --manifest-path "$here/../../Cargo.toml" --package pliant-cli || return
        pliant=$here/../../target/release/pliant
    fi
    if [[ $protection == encrypted ]]; then
        [[ -e $scratch/key ]] || "$pliant" keygen "$scratch/key" || return
        protect=(--key "$scratch/key")
    fi
    version=$("$pliant" --version | awk '{ print $2 }')
    exec {output}< <(exec timeout 120 "$pliant" recv --discard --json --listen "127.0.0.1:$port" "${protect[@]}" 2>&1)
    receiver=$!
    read -r line <&"$output" && [[ $line == "listening on"* ]] || return
    timeout 60 "$pliant" send "$@" "127.0.0.1:$port" "${protect[@]}" --json --quiet >"$build/pliant-send.json" || return
    cat <&"$output" >"$build/pliant-recv.json"
    wait "$receiver" || return
    exec {output}<&-
    jq -c --arg system "$system" --arg version "$version" --slurpfile receiver "$build/pliant-recv.json" '
        if .blake3 != $receiver[0].blake3 or .bytes != $receiver[0].bytes
        then error("what arrived is not what was sent") else . end |
        {scenario: "loopback", system: $system, version: $version, bytes, gbit_per_s: $receiver[0].gbit_per_s,
         sender_cpu_s_per_gb: .cpu_s_per_gb, receiver_cpu_s_per_gb: $receiver[0].cpu_s_per_gb}
        ' "$build/pliant-send.json"
}

# A file of random bytes in memory, which the sender reads and both sides hash; the receiver discards it.
run_file() {
    [[ -e $scratch/file ]] || head --bytes "$bytes" /dev/urandom >"$scratch/file"
    run_pliant "pliant, encrypted, a file with its hash" encrypted "$scratch/file" --mtu 1480
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
    timeout 60 iperf3 --client 127.0.0.1 --port "$port" --bytes "$bytes" --json "$@" >"$build/iperf3.json"
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
    "$build/quinn/release/quinn-loopback" "$bytes"
}

# Packets of 1480 bytes are what quinn finds the path to allow, 1452 bytes of UDP payload; all but the file are bytes
# from memory, unhashed.
run_system() {
    case $1 in
        encrypted) run_pliant "pliant, encrypted" encrypted --bytes "${bytes}B" --mtu 1480 ;;
        plain) run_pliant "pliant, plain" plain --bytes "${bytes}B" --mtu 1480 ;;
        file) run_file ;;
        iperf3) run_iperf3 "kernel TCP" ;;
        # Loopback's 64 kB packets flatter TCP; this is the segment of an Ethernet path, segmentation offload still on.
        iperf3-mss1460) run_iperf3 "kernel TCP, MSS 1460" --set-mss 1460 ;;
        quinn) run_quinn ;;
    esac || echo "run.sh: $1 skipped: it failed or could not be installed (logs in target/peers)" >&2
}

: >"$scratch/lines"
for ((round = 0; round < rounds; round++)); do
    for system in "${systems[@]}"; do
        run_system "$system" | tee --append "$scratch/lines"
    done
done

# Medians over the rounds, in the order of the first.
jq --raw-output --slurp '
    def median: sort | .[length / 2 | floor];
    def two: . * 100 | round / 100;
    def of(field): map(field) | median | two;
    (map(.system) | reduce .[] as $s ([]; if index($s) then . else . + [$s] end)) as $order |
    "", "| | Gbit/s | sender CPU s/GB | receiver CPU s/GB |", "|---|---|---|---|",
    ($order[] as $s | map(select(.system == $s)) |
        "| \($s) | \(of(.gbit_per_s)) | \(of(.sender_cpu_s_per_gb)) | \(of(.receiver_cpu_s_per_gb)) |")
' "$scratch/lines"
