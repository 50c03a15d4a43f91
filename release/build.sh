#!/usr/bin/env bash
# Makes the files of a release for this kind of machine, x86_64 or aarch64, below target/releases/vVERSION: the archive that install.sh
# installs, the Debian package, the bill of materials (CycloneDX), install.sh itself, and SHA256SUMS. Needs Rust, Python 3.11 with venv,
# dpkg-dev, git, and the registries of crates and of Python.
#
# The same commit gives the same bytes wherever it is built with the same Rust and the same Debian: reproduce.sh shows it.
#
# usage: build.sh VERSION    in a clean checkout of the tag vVERSION
#        MCPD_RELEASE_TOOLS=DIR: keeps the tools there, for several builds
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The oldest that Rust's own standard library supports. mcpd needs nothing newer, so a newer one would only exclude systems.
readonly glibc=2.17
readonly cargo_deb=3.8.0 cargo_about=0.9.3 cargo_cyclonedx=0.5.9
version=${1:?usage: build.sh VERSION}
mkdir -p "${CARGO_TARGET_DIR:-target}"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
tools=${MCPD_RELEASE_TOOLS:-$target/tools}
release=$target/releases/v$version
machine=$(uname -m)
triple=$machine-unknown-linux-gnu
name=mcpd-$version-$machine-linux
# Directories are packaged with the mode that they are made with, and files are sorted as the locale says.
umask 022
export LC_ALL=C TZ=UTC

fail() {
    echo "error: $*" >&2
    exit 1
}

check_source() {
    local declared
    declared=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
    [[ $declared == "$version" ]] || fail "Cargo.toml has version $declared, not $version"
    grep -qx "VERSION=$version" install.sh || fail "install.sh has another VERSION than $version"
    [[ -z $(git status --porcelain) ]] || fail "the working tree has changes, or files that git does not know"
    [[ $(git rev-parse --quiet --verify "refs/tags/v$version^{commit}") == "$(git rev-parse HEAD)" ]] ||
        fail "HEAD is not the tag v$version"
    ! grep '^source = ' Cargo.lock | grep -vx 'source = "registry+https://github.com/rust-lang/crates.io-index"' ||
        fail "Cargo.lock has crates that are not from the registry"
}

# install_tool NAME VERSION [OPTION...]
install_tool() {
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --root "$tools" --target-dir "$tools/build" "$1" --version "$2" "${@:3}"
}

# cargo-about compares each file of 250 packages with every known licence: 13 minutes if it is not optimised.
install_tools() {
    python3 -m venv "$tools/zig"
    "$tools/zig/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
        --requirement release/requirements.txt
    install_tool cargo-deb "$cargo_deb" --debug --no-default-features
    install_tool cargo-cyclonedx "$cargo_cyclonedx" --debug
    CARGO_PROFILE_RELEASE_LTO=off install_tool cargo-about "$cargo_about" --features cli
    PATH=$tools/bin:$tools/zig/bin:$PATH
}

# Replaces the paths of the crates, of this checkout and of generated files. rustc applies the last prefix that matches.
build_program() {
    local newest
    program=$target/portable/$triple/release/mcpd
    RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$PWD=mcpd --remap-path-prefix=$target=target" \
        cargo-zigbuild zigbuild --release --locked --bin mcpd --bin mcpd-init --target "$triple.$glibc" --target-dir "$target/portable"
    newest=$(grep -ahoE 'GLIBC_[0-9.]+' "$program" "$program-init" | sort -uV | tail -n 1)
    [[ $(printf '%s\n' "$newest" "GLIBC_$glibc" | sort -V | tail -n 1) == "GLIBC_$glibc" ]] ||
        fail "the program needs $newest, which is newer than $glibc"
    ! grep -aqF -e "$PWD/" -e "$HOME/" "$program" "$program-init" || fail "the program contains a path of this machine"
}

# What the program is made of. Its references to this package contain the path of the checkout.
list_materials() {
    cargo-cyclonedx cyclonedx --quiet --format json --spec-version 1.5 --target "$triple" --no-build-deps --override-filename materials
    sed "s|path+file://$PWD|mcpd|g" materials.json >"$release/$name.cdx.json"
    rm materials.json
}

# The tree that install.sh copies to ~/.local. Manual pages and completions are those of the Debian package.
make_archive() {
    local package=$target/installed/release/package tree=$target/releases/tree shared
    shared=$tree/share
    rm -rf "$tree"
    install -D -m 755 "$program" "$tree/bin/mcpd"
    install -D -m 755 "$program-init" "$tree/bin/mcpd-init"
    install -D -m 644 -t "$shared/man/man1" "$package"/man/*.1.gz
    install -D -m 644 "$package/mcpd.bash" "$shared/bash-completion/completions/mcpd"
    install -D -m 644 "$package/mcpd.zsh" "$shared/zsh/site-functions/_mcpd"
    install -D -m 644 "$package/mcpd.fish" "$shared/fish/vendor_completions.d/mcpd.fish"
    install -D -m 644 -t "$shared/doc/mcpd" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT debian/copyright "$package/NOTICES.txt"
    install -D -m 644 -t "$shared/doc/mcpd/examples" config/mcpd.toml systemd/*.conf
    for unit in systemd/*.service systemd/*.socket; do
        sed 's|%h/\.cargo/bin/mcpd|%h/.local/bin/mcpd|' "$unit" | install -D -m 644 /dev/stdin "$shared/doc/mcpd/examples/${unit##*/}"
    done
    # The same bytes from the same commit.
    tar --create --directory "$tree" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" bin share |
        gzip -9n >"$release/$name.tar.gz"
    rm -rf "$tree"
}

check_source
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
install_tools
build_program
rm -rf "$release"
mkdir -p "$release"
cp "$(debian/build.sh "$program")" "$release/"
make_archive
list_materials
install -m 755 install.sh "$release/"
(cd "$release" && sha256sum -- *.deb *.tar.gz *.cdx.json install.sh >SHA256SUMS)
echo "$release"
