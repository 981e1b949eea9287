#!/usr/bin/env bash
# Makes a Debian package of what `make install` writes. Usage: packaging/deb.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
command -v dpkg-deb > /dev/null || { echo "dpkg-deb is not here: this target is for Debian and its kin" >&2; exit 1; }
version=$("$1" --version | cut -d ' ' -f 2)
architecture=$(dpkg --print-architecture)
root=target/debian/root
rm -rf "$root"
make --no-print-directory install DESTDIR="$PWD/$root" PREFIX=/usr PLIANT="$1" > /dev/null
find "$root/usr/share/man" -name '*.1' -exec gzip --best --no-name {} +
install -D -m 644 packaging/pliant.service "$root/usr/lib/systemd/system/pliant.service"
install -D -m 644 packaging/pliant.sysusers "$root/usr/lib/sysusers.d/pliant.conf"
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
dpkg-deb --root-owner-group --build "$root" "target/debian/pliant_${version}_$architecture.deb"
