#!/usr/bin/env bash
# The C library as a C programmer has it: installed, found by pkg-config, linked shared and static. `make test-c` runs it.
set -euo pipefail
top=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

make --no-print-directory -C "$top" install-c PREFIX="$work/prefix" DESTDIR=
description=$(find "$work/prefix" -name pliant.pc)
[ -n "$description" ] || fail "no pkg-config file was installed"
PKG_CONFIG_PATH=$(dirname "$description")
export PKG_CONFIG_PATH
libraries=$(pkg-config --variable=libdir pliant)
export LD_LIBRARY_PATH=$libraries

# The command of the example's own comment, as it stands there.
command=$(sed -n 's/^ \*   \(cc .*\)/\1/p' "$top/crates/ffi/examples/echo.c")
[ -n "$command" ] || fail "the example's comment has no command"
ln -s "$top/crates" "$work/crates"
cd "$work"
eval "$command"
needed=$(readelf --dynamic echo | sed -n 's/.*NEEDED.*\[\(libpliant.*\)\]/\1/p')
[ "$needed" = "$(readelf --dynamic "$libraries/libpliant.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" ] || fail "linked against '$needed'"
[ -e "$libraries/$needed" ] || fail "$needed is not installed"
[ "$(./echo)" = "2000000 bytes there and back" ] || fail "the shared example does not run"
other=$(nm --dynamic --defined-only "$libraries/libpliant.so" | awk '$3 !~ /^pliant_/ { print $3 }')
[ -z "$other" ] || fail "exported: $other"

# Static, as docs/c.md says.
cc crates/ffi/examples/echo.c $(pkg-config --cflags pliant) \
	-Wl,-Bstatic -L"$libraries" -lpliant -Wl,-Bdynamic $(pkg-config --static --libs-only-l pliant | sed 's/-lpliant//') \
	-pthread -o static
readelf --dynamic static | grep -q libpliant && fail "the static example needs the shared library"
[ "$(LD_LIBRARY_PATH='' ./static)" = "2000000 bytes there and back" ] || fail "the static example does not run"
echo "installed, linked and run: shared ($needed) and static"
