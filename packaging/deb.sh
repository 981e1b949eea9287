#!/usr/bin/env bash
# Makes a Debian package of what `make install` writes. Usage: packaging/deb.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
command -v dpkg-deb > /dev/null || { echo "dpkg-deb is not here: this target is for Debian and its kin" >&2; exit 1; }
version=$("$1" --version | cut -d ' ' -f 2)
architecture=$(dpkg --print-architecture)
root=target/debian/root
packaging/root.sh "$1" "$root"
install -D -m 644 LICENSE-MIT "$root/usr/share/doc/pliant/copyright"
# The oldest C library that has every symbol which the program takes from it.
libc=$(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -1 | cut -d _ -f 2)
mkdir -p "$root/DEBIAN"
cat > "$root/DEBIAN/control" << CONTROL
Package: pliant
Version: $version
Architecture: $architecture
Section: net
Priority: optional
Maintainer: The Pliant developers <pliant@pliant-net.invalid>
Homepage: https://github.com/pliant-net/pliant
Depends: libc6 (>= $libc), libgcc-s1
Installed-Size: $(du -sk "$root/usr" | cut -f 1)
Description: transports for traffic that can give way
 A packet-level simulator of datacenter transports and queues, and programs
 that run the same transports on real networks: send, recv, offer, fetch, a
 software switch, and a daemon for unmodified programs.
CONTROL
# The unit is not enabled: it has no configuration yet.
cat > "$root/DEBIAN/postinst" << 'POSTINST'
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v systemd-sysusers > /dev/null; then
    systemd-sysusers pliant.conf
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
POSTINST
chmod 755 "$root/DEBIAN/postinst"
dpkg-deb --root-owner-group --build "$root" "target/debian/pliant_${version}_$architecture.deb"
