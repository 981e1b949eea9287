#!/usr/bin/env bash
# The demo: one scenario under four queue plans, then a real file through the same transport machines over UDP loopback.
set -euo pipefail
pliant=$1
out=target/demo
mkdir -p "$out"

echo "== A leaf-spine of 32 hosts: web search beside 20 MB copies, four ways to let the copies give way"
"$pliant" compare experiments/demo.toml --out "$out/compare" --force
echo "   the report: $out/compare/report.html"

work=$(mktemp -d "${TMPDIR:-/tmp}/pliant-demo.XXXXXX")
receiver=
trap '[[ -z $receiver ]] || kill "$receiver" 2>/dev/null || true; rm -rf "$work"' EXIT
head -c 256000000 /dev/urandom >"$work/file.bin"
"$pliant" keygen "$work/key"

# transfer NAME: the file through a transport, its hash checked by the receiver, and both files compared.
transfer() {
    echo
    echo "== 256 MB through the same $1 machine, encrypted, over UDP on this host"
    # Port 0 takes any free port; the receiver says which on stderr.
    "$pliant" recv "$work/copy.bin" --key "$work/key" --listen 127.0.0.1:0 2>"$work/log" >"$work/received" &
    receiver=$!
    for _ in $(seq 100); do
        address=$(grep -oE '127\.0\.0\.1:[0-9]+' "$work/log" | head -1) && break
        sleep 0.05
    done
    "$pliant" send "$work/file.bin" "$address" --key "$work/key" --transport "$1"
    wait "$receiver"
    receiver=
    cat "$work/received"
    cmp "$work/file.bin" "$work/copy.bin"
    echo "both files are the same, byte for byte"
    rm "$work/copy.bin"
}

transfer dctcp
transfer cubic
