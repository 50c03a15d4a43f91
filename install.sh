#!/bin/sh
# Installs mcpd for the current user, below ~/.local. Run it again to upgrade. It runs nothing of what it installs.
#
# usage: install.sh [--from DIR]    DIR has a release: mcpd-VERSION-MACHINE-linux.tar.gz and SHA256SUMS
#        install.sh --uninstall     removes what it installed; configuration, logs and state stay
#
# It never needs root. Needed: tar, gzip, sha256sum and, without --from, curl or wget.
set -eu

VERSION=0.2.0
# The directory with the releases, one directory vVERSION each. There is no public address yet: use --from.
ADDRESS=

# MACHINE is x86_64 or aarch64.
ARCHIVE=mcpd-$VERSION-$(uname -m)-linux.tar.gz
# Relative to ~/.local: one line for each installed file, and for each directory (with a final slash) that was created for them.
MANIFEST=share/mcpd/installed

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line; do printf '  %s\n' "$line" >&2; done
    exit 1
}

main() {
    from='' action=install
    while [ $# -gt 0 ]; do
        case $1 in
            --from)
                [ $# -ge 2 ] || fail '--from needs a directory'
                from=$2
                shift
                ;;
            --uninstall) action=uninstall ;;
            -h | --help)
                sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"
                exit 0
                ;;
            *) fail "unknown argument $1" 'usage: install.sh [--from DIR] | --uninstall' ;;
        esac
        shift
    done
    case ${HOME:-} in
        /*) ;;
        *) fail 'HOME is not set to an absolute path' ;;
    esac
    prefix=${HOME%/}/.local
    if [ "$(id -u)" -eq 0 ]; then
        echo "note: you are root. mcpd is a program of one user: this concerns only $prefix"
    fi
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 1' HUP INT TERM
    "$action"
}

install() {
    case $(uname -s)-$(uname -m) in
        Linux-x86_64 | Linux-aarch64) ;;
        *) fail "there is no binary for $(uname -s) on $(uname -m)" 'Build mcpd from its source: cargo install --locked --path .' ;;
    esac
    fetch "$ARCHIVE"
    fetch SHA256SUMS
    verify
    mkdir "$scratch/new"
    tar -xzf "$scratch/$ARCHIVE" -C "$scratch/new" --no-same-owner ||
        fail "$ARCHIVE cannot be unpacked"
    (cd "$scratch/new" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort) >"$scratch/files"
    ! grep -vE '^(bin|share)/[A-Za-z0-9_.@/-]+$' "$scratch/files" >&2 || fail "$ARCHIVE has a path that it must not have"
    grep -qx bin/mcpd "$scratch/files" || fail "$ARCHIVE has no bin/mcpd"
    read_manifest >"$scratch/old"
    refuse_to_overwrite
    copy_files
    remove_obsolete
    report
}

# fetch NAME: a file of the release, into the scratch directory.
fetch() {
    if [ -n "$from" ]; then
        [ -f "$from/$1" ] || fail "$from has no $1"
        cp "$from/$1" "$scratch/$1"
    elif [ -z "$ADDRESS" ]; then
        fail 'mcpd has no public download address yet' "Get the files of a release ($ARCHIVE and SHA256SUMS), then:" \
            'sh install.sh --from DIRECTORY-WITH-THESE-FILES'
    elif command -v curl >/dev/null; then
        curl -fsSL --proto '=https' -o "$scratch/$1" "$ADDRESS/v$VERSION/$1" || fail "cannot download $ADDRESS/v$VERSION/$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$scratch/$1" "$ADDRESS/v$VERSION/$1" || fail "cannot download $ADDRESS/v$VERSION/$1"
    else
        fail 'neither curl nor wget is installed'
    fi
}

verify() {
    expected=$(awk -v name="$ARCHIVE" '$2 == name || $2 == "*" name { print $1 }' "$scratch/SHA256SUMS")
    [ -n "$expected" ] || fail "SHA256SUMS has no line for $ARCHIVE"
    actual=$(sha256sum <"$scratch/$ARCHIVE" | cut -d ' ' -f 1)
    [ "$actual" = "$expected" ] ||
        fail "the checksum of $ARCHIVE is wrong. Nothing was changed" "expected: $expected" "actual:   $actual"
}

# The paths that were installed before. Others than this script's own kinds of paths are never touched.
read_manifest() {
    [ ! -f "$prefix/$MANIFEST" ] || grep -vF .. "$prefix/$MANIFEST" | grep -E '^(bin|share)/|^\./$' || true
}

refuse_to_overwrite() {
    while IFS= read -r file; do
        if [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ]; then
            grep -qxF "$file" "$scratch/old" ||
                fail "$prefix/$file exists, and this script did not install it. Nothing was changed" 'Move it away first.'
        fi
    done <"$scratch/files"
}

copy_files() {
    {
        cat "$scratch/old" "$scratch/files"
        missing_directories
    } | LC_ALL=C sort -u >"$scratch/manifest"
    # First of all, so that --uninstall also works after an interruption.
    mkdir -p "$prefix/${MANIFEST%/*}"
    cp "$scratch/manifest" "$prefix/$MANIFEST"
    while IFS= read -r file; do
        mkdir -p "$prefix/${file%/*}"
        # A running mcpd keeps its old file.
        cp "$scratch/new/$file" "$prefix/$file.new"
        mv -f "$prefix/$file.new" "$prefix/$file"
    done <"$scratch/files"
}

# The directories that the installation will create, `./` for ~/.local itself.
missing_directories() {
    [ -d "$prefix" ] || echo ./
    { cat "$scratch/files"; echo "$MANIFEST"; } | while IFS= read -r path; do
        while [ "$path" != "${path%/*}" ]; do
            path=${path%/*}
            [ -d "$prefix/$path" ] || echo "$path/"
        done
    done
}

# Files of an older version that this one does not have.
remove_obsolete() {
    grep -v '/$' "$scratch/old" | grep -vxF -f "$scratch/files" | while IFS= read -r file; do
        rm -f "$prefix/$file"
    done
    { grep '/$' "$scratch/manifest" || true; cat "$scratch/files"; } | LC_ALL=C sort >"$scratch/left"
    cp "$scratch/left" "$prefix/$MANIFEST"
}

report() {
    echo "mcpd $VERSION is installed:"
    echo "  $prefix/bin/mcpd"
    echo "  manual pages, completions for bash, fish and zsh, and documentation, below $prefix/share"
    case ":${PATH:-}:" in
        *":$prefix/bin:"*) echo "$prefix/bin is on your PATH." ;;
        *)
            echo "$prefix/bin is NOT on your PATH. Add this line to ~/.profile, and type it here, too:"
            echo "  export PATH=\"\$HOME/.local/bin:\$PATH\""
            ;;
    esac
    if grep -qx bin/mcpd "$scratch/old"; then
        echo 'Next: restart mcpd, if it runs: `mcpd service install` with systemd, else `mcpd stop` and `mcpd start`.'
    else
        echo 'Next:'
        echo '  mcpd demo      tries it without configuration'
        echo '  mcpd import    copies the servers of your other MCP clients'
        echo '  mcpd start     starts it'
    fi
    echo 'To remove it: sh install.sh --uninstall'
}

uninstall() {
    [ -f "$prefix/$MANIFEST" ] || fail "this script has installed nothing below $prefix"
    unit=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/mcpd.service
    if [ -f "$unit" ] && grep -qF "$prefix/bin/mcpd" "$unit"; then
        fail "systemd still starts $prefix/bin/mcpd" 'Run first: mcpd service uninstall'
    fi
    runtime=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
    if grep -q " $runtime/mcpd/admin\.sock\$" /proc/net/unix 2>/dev/null; then
        fail 'mcpd is running' 'Run first: mcpd stop'
    fi
    read_manifest >"$scratch/old"
    count=0
    while IFS= read -r file; do
        case $file in
            */) ;;
            *)
                rm -f "$prefix/$file" "$prefix/$file.new"
                count=$((count + 1))
                ;;
        esac
    done <"$scratch/old"
    rm -f "$prefix/$MANIFEST"
    # Deepest first. A directory with files of others stays.
    grep '/$' "$scratch/old" | LC_ALL=C sort -r | while IFS= read -r directory; do
        rmdir "$prefix/$directory" 2>/dev/null || true
    done
    # Last, and by its name: `rmdir .local/./` is refused.
    if grep -qx ./ "$scratch/old"; then
        rmdir "$prefix" 2>/dev/null || true
    fi
    echo "mcpd is removed: $count files below $prefix."
    echo 'Configuration (~/.config/mcpd), logs and state (~/.local/state/mcpd) are still there.'
}

main "$@"
