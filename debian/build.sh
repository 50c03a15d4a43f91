#!/usr/bin/env bash
# Builds the Debian package and prints where it is. Needs cargo-deb (`cargo install --locked cargo-deb`) and dpkg-dev. A package to pass on
# also needs cargo-about (`cargo install --locked --features cli cargo-about`), for the notices of what the program contains.
#
# usage: build.sh [PROGRAM]    PROGRAM: an mcpd to package, with mcpd-init beside it, instead of what is built here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
# A directory of its own, so that what is packaged was built for nothing else.
CARGO_TARGET_DIR=$(cd "$target" && pwd)/installed
export CARGO_TARGET_DIR
program=$CARGO_TARGET_DIR/release/mcpd
package=$CARGO_TARGET_DIR/release/package

# What the binary and the tree do not have as it is installed.
make_assets() {
    rm -rf "$package"
    mkdir -p "$package"
    # Without the words on where to copy them.
    for unit in systemd/*.service systemd/*.socket; do
        sed -e '1,/^\[Unit\]$/{/^#/d}' -e 's|%h/\.cargo/bin/mcpd|/usr/bin/mcpd|' "$unit" >"$package/${unit##*/}"
    done
    for shell in bash fish zsh; do
        "$program" completions "$shell" >"$package/mcpd.$shell"
    done
    # Built where the tests are, and not optimised: it runs once.
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR%/installed} \
        cargo run --quiet --locked --features manual-pages --bin manual-pages -- "$package/man"
    gzip -9n "$package"/man/*.1
    notices
    changelog | gzip -9n >"$package/changelog.Debian.gz"
}

notices() {
    if command -v cargo-about >/dev/null; then
        # With the crates of all systems, which the list of notices is made from.
        cargo fetch --quiet --locked
        cargo-about generate --locked --offline --fail --config release/about.toml --output-file "$package/NOTICES.txt" release/about.hbs
    else
        echo 'This package is for trials: it was built without cargo-about, so the notices are missing.' >"$package/NOTICES.txt"
    fi
}

# Debian's form of a list of changes; ours is beside it.
changelog() {
    local version maintainer date
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
    maintainer=$(sed -n 's/^maintainer = "\(.*\)"$/\1/p' Cargo.toml)
    date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
    printf 'mcpd (%s-1) unstable; urgency=medium\n\n  * changelog.gz has what has changed.\n\n -- %s  %s\n' \
        "$version" "$maintainer" "$(LC_ALL=C date --utc --rfc-email --date="@$date")"
}

if [[ $# -gt 0 ]]; then
    install -D -m 755 "$1" "$program"
    install -D -m 755 "${1%/*}/mcpd-init" "$program-init"
else
    cargo build --release --locked --bin mcpd --bin mcpd-init
fi
make_assets
cargo-deb --no-build --locked --output "${CARGO_TARGET_DIR%/installed}/debian/"
