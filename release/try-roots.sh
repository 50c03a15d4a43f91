#!/usr/bin/env bash
# Installs each artefact of a release in a Debian that has nothing of it, uses it as people do, removes it, and compares the files of the
# system before and after. Prints one line for each step, and fails at the first that is wrong.
#
#   archive  by install.sh, for one user            deb    for two users, whose daemons run while the package is upgraded
#   cargo    by `cargo install --path`, for a user  image  built from Dockerfile by buildah
#
# The first three run in a system that systemd has booted, in a container of systemd-nspawn. Each runs the demo, and serves a server of
# Python's registry. Needs root, debootstrap and a mirror, systemd-nspawn, Python 3 with pip and its registry; buildah for the image.
#
# usage: try-roots.sh DIR [ARTEFACT...]    DIR as build.sh has made it
#        ROOT=DIR: a system to copy, as debootstrap has made it here before
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
release=$(cd "${1:?usage: try-roots.sh DIR [ARTEFACT...]}" && pwd)
shift
[[ $# -gt 0 ]] || set -- archive deb cargo image
suite=bookworm
mirror=${MIRROR:-http://deb.debian.org/debian}
scratch=$(mktemp -d)
builder=()

leave() {
    [[ ${#builder[@]} -eq 0 ]] || "${builder[@]}" umount --all &>/dev/null || true
    rm -rf --one-file-system "$scratch"
}
trap leave EXIT

fail() {
    echo "FAIL $*"
    exit 1
}

prepare() {
    if [[ -z ${ROOT:-} ]]; then
        ROOT=$scratch/base
        debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,python3,gcc,libc6-dev \
            "$suite" "$ROOT" "$mirror" &>"$scratch/log" || { tail "$scratch/log"; exit 1; }
    fi
    mkdir -p "$scratch/trial"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$scratch/server" --only-binary :all: \
        --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
        mcp-server-time==2026.10.19 2>/dev/null
    cp "$here/try-root.sh" "$scratch/trial/run"
}

# Boots a copy of the system. The copy runs try-root.sh as a service, then powers off. Prints the output of try-root.sh.
boot() {
    local artefact=$1 root=$scratch/root
    shift
    cp -a --reflink=auto "$ROOT" "$root"
    cp -r "$scratch/trial" "$root/trial"
    cat >"$root/etc/systemd/system/trial.service" <<UNIT
[Unit]
After=multi-user.target dbus.service systemd-logind.service
[Service]
Type=oneshot
ExecStart=/bin/bash /trial/run $artefact
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/trial/output
StandardError=inherit
UNIT
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
    ln -s ../trial.service "$root/etc/systemd/system/multi-user.target.wants/trial.service"
    # mcpd takes over systemd's sockets by pidfd_getfd(2), which systemd-nspawn refuses by default.
    timeout --kill-after=30 3000 systemd-nspawn --quiet --boot --system-call-filter=pidfd_getfd --register=no --keep-unit --console=pipe --directory="$root" \
        --bind-ro="$release:/release" --bind-ro="$scratch/server:/server" "$@" &>"$scratch/log" </dev/null || true
    [[ -f $root/trial/output ]] || { tail -n 20 "$scratch/log"; fail "$artefact: systemd has not booted"; }
    sed "s/^/$artefact: /" "$root/trial/output"
    grep -qx 'nothing is left' "$root/trial/output" || fail "$artefact"
    rm -rf --one-file-system "$root"
}

# The sources of all crates beside those of mcpd, and this machine's compiler.
boot_with_cargo() {
    local toolchain
    toolchain=$(rustc --print sysroot)
    git clone --quiet --no-local "$here/.." "$scratch/source"
    (cd "$scratch/source" && cargo vendor --quiet --locked "$scratch/crates" >/dev/null)
    # Some crates have files that only their owner may read.
    chmod -R a+rX "$scratch/crates"
    boot cargo --bind-ro="$toolchain:/toolchain" --bind-ro="$scratch/source:/source" --bind-ro="$scratch/crates:/crates"
}

# The image with the same Debian as its base instead of one from a registry, and a container of it.
run_image() {
    local container root
    if ! command -v buildah >/dev/null; then
        echo 'skipped: image: there is no buildah'
        return
    fi
    builder=(buildah --root "$scratch/storage" --runroot "$scratch/storage.run" --storage-driver vfs)
    container=$("${builder[@]}" from scratch)
    "${builder[@]}" add --quiet "$container" "$ROOT" / >/dev/null
    "${builder[@]}" commit --quiet --rm "$container" localhost/debian >/dev/null
    "${builder[@]}" build --quiet --format docker --isolation chroot --pull-never --build-arg BASE=localhost/debian --build-arg UNPACKER=localhost/debian \
        --file "$here/../Dockerfile" --tag localhost/mcpd "$release" >/dev/null
    echo "image: built: $("${builder[@]}" inspect --type image --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' localhost/mcpd)"
    container=$("${builder[@]}" from localhost/mcpd)
    root=$("${builder[@]}" mount "$container")
    cp -r "$scratch/trial" "$root/trial"
    systemd-nspawn --quiet --register=no --keep-unit --console=pipe --directory="$root" --bind-ro="$scratch/server:/server" \
        /usr/bin/setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs /usr/bin/env -i HOME=/home/mcpd PATH=/usr/bin:/bin \
        LANG=C.UTF-8 /bin/bash /trial/run image </dev/null 2>&1 | grep -v 'Attempted to remove disk file system' | sed 's/^/image: /' | tee "$scratch/output"
    grep -qx 'image: nothing is left' "$scratch/output" || fail image
    "${builder[@]}" rm "$container" >/dev/null
    "${builder[@]}" rmi localhost/mcpd >/dev/null
    ! "${builder[@]}" images --quiet localhost/mcpd 2>/dev/null | grep -q . || fail 'image: it is still there'
}

prepare
for artefact in "$@"; do
    case $artefact in
        archive | deb) boot "$artefact" ;;
        cargo) boot_with_cargo ;;
        image) run_image ;;
        *) fail "unknown artefact $artefact" ;;
    esac
done
echo "all of it was installed, used and removed: $*"
