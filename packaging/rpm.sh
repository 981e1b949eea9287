#!/usr/bin/env bash
# Makes an RPM package of what `make install` writes. Usage: packaging/rpm.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
command -v rpmbuild > /dev/null || { echo "rpmbuild is not here: it comes with rpm-build (Fedora) or rpm (Debian)" >&2; exit 1; }
version=$("$1" --version | cut -d ' ' -f 2)
top="$PWD/target/rpm"
rm -rf "$top"
mkdir -p "$top"
packaging/root.sh "$1" target/rpm/root
install -D -m 644 -t "$top/root/usr/share/licenses/pliant" LICENSE-MIT LICENSE-APACHE
# What is there is packed as it is: the program is built, and rpm finds the libraries that it needs.
cat > "$top/pliant.spec" << SPEC
Name: pliant
# A version's hyphen would divide it from the release.
Version: ${version//-/\~}
Release: 1
Summary: Transports for traffic that can give way
License: MIT OR Apache-2.0
URL: https://github.com/pliant-net/pliant

%description
A packet-level simulator of datacenter transports and queues, and programs
that run the same transports on real networks: send, recv, offer, fetch, a
software switch, and a daemon for unmodified programs.

%install
mkdir -p %{buildroot}
cp -a "$top/root/." %{buildroot}

# The unit is not enabled: it has no configuration yet.
%post
if command -v systemd-sysusers > /dev/null; then systemd-sysusers pliant.conf; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

%files
/usr/bin/pliant
/usr/lib/pliant
/usr/lib/systemd/system/pliant.service
/usr/lib/sysusers.d/pliant.conf
/usr/share/man/man1/*
/usr/share/bash-completion/completions/pliant
/usr/share/zsh/site-functions/_pliant
/usr/share/fish/vendor_completions.d/pliant.fish
%license /usr/share/licenses/pliant/*
SPEC
rpmbuild -bb --quiet --define "_topdir $top" --define "_rpmdir $top" --define "debug_package %{nil}" \
    --define "__os_install_post %{nil}" --define "_build_id_links none" "$top/pliant.spec"
find "$top" -name '*.rpm'
