#!/usr/bin/env bash
# Builds a release twice and compares the files byte for byte. The two builds have nothing in common but the compiler and the tools: the
# checkout, the directory of the build, Cargo's home, the user's home, umask, time zone and language differ. Takes 30 minutes on two cores.
#
# usage: reproduce.sh [DIR]    of the commit that is checked out, tagged only in the two clones. DIR keeps them, so that a second run in it
#                              compiles only what has changed (default: a temporary directory).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
scratch=${1:-$(mktemp -d)}
mkdir -p "$scratch"
scratch=$(realpath "$scratch")
[[ $# -gt 0 ]] || trap 'rm -rf "$scratch"' EXIT
export MCPD_RELEASE_TOOLS=${MCPD_RELEASE_TOOLS:-$scratch/tools} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}

commit=$(git rev-parse HEAD)

# build CHECKOUT: prints where the files of the release are.
build() {
    [[ -d $1 ]] || git clone --quiet --no-local . "$1"
    git -C "$1" fetch --quiet "$PWD" HEAD
    git -C "$1" checkout --quiet --detach "$commit"
    git -C "$1" tag --force "v$version" >/dev/null
    "$1/release/build.sh" "$version" | tail -n 1
}

first=$(build "$scratch/first")
mkdir -p "$scratch/elsewhere/home"
second=$(
    umask 077
    export HOME=$scratch/elsewhere/home CARGO_HOME=$scratch/elsewhere/cargo CARGO_TARGET_DIR=$scratch/elsewhere/build
    export TZ=Pacific/Auckland LANG=C.UTF-8
    build "$scratch/elsewhere/second"
)
diff <(cd "$first" && ls) <(cd "$second" && ls)
(cd "$first" && cat SHA256SUMS)
for file in "$first"/*; do
    cmp "$file" "$second/${file##*/}"
done
echo "two builds of v$version are the same, byte for byte: $(find "$first" -type f | wc -l) files"
