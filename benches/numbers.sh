#!/usr/bin/env bash
# Measures all figures of docs/internals/numbers.md: savings, and cost over pipes, between eras and at a URL. Needs a quiet machine with
# two cores, Node 20, Python 3.11 and, the first time, package registries.
#
# usage: numbers.sh [cargo bench's arguments, such as --quick]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
installed=$target/interop
if [[ ! -d $installed/node_modules ]]; then
    mkdir -p "$installed"
    cp tests/interop/{package.json,package-lock.json,.npmrc} "$installed/"
    (cd "$installed" && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error)
fi
cargo build --release --locked --bin mcpd --bin mcpd-init --target-dir "$target/installed"
cargo bench --locked --no-run
PYTHONDONTWRITEBYTECODE=1 python3 benches/savings.py --mcpd "$target/installed/release/mcpd" --installed "$installed"
cargo bench --locked -- "$@"
