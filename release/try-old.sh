#!/usr/bin/env bash
# Installs a release in a root of the oldest Debian that the mirror has, and runs its demo there. Needs root, debootstrap and a mirror.
#
# usage: try-old.sh DIR [SUITE]    DIR as build.sh has made it; by default the first of buster, bullseye and bookworm that is there
set -euo pipefail

release=$(cd "${1:?usage: try-old.sh DIR [SUITE]}" && pwd)
mirror=${MIRROR:-http://deb.debian.org/debian}
suite=${2:-}
for one in buster bullseye bookworm; do
    [[ -z $suite ]] || break
    if curl -fsI --max-time 20 "$mirror/dists/$one/Release" >/dev/null; then suite=$one; fi
done
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT

debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
mkdir "$root/release"
cp "$release"/* "$root/release/"
# In namespaces of its own, which end with everything that runs in them.
unshare --mount --pid --fork --mount-proc="$root/proc" \
    chroot "$root" /usr/bin/env -i PATH=/root/.local/bin:/usr/bin:/bin HOME=/root LANG=C.UTF-8 sh -euc '
        cat /etc/debian_version
        ldd --version | head -n 1
        sh /release/install.sh --from /release
        mcpd --version
        mcpd demo
        sh /release/install.sh --uninstall
        test ! -e /root/.local/bin/mcpd
    '
echo "runs on Debian $suite"
