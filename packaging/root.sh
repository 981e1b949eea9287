#!/usr/bin/env bash
# Writes below ROOT what packages hold. Usage: packaging/root.sh PROGRAM ROOT
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf "$2"
make --no-print-directory install DESTDIR="$PWD/$2" PREFIX=/usr PLIANT="$1" > /dev/null
find "$2/usr/share/man" -name '*.1' -exec gzip --best --no-name {} +
install -D -m 644 packaging/pliant.service "$2/usr/lib/systemd/system/pliant.service"
install -D -m 644 packaging/pliant.sysusers "$2/usr/lib/sysusers.d/pliant.conf"
