#!/usr/bin/env bash
# All figures of docs/numbers.md: what mcpd saves, and what it costs over pipes, between the eras and at a URL. For a quiet machine with
# two cores; needs Node 20, Python 3.11 and, the first time, package registries.
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
cargo build --profile dist --locked --bin mcpd --target-dir "$target/installed"
cargo bench --locked --no-run
PYTHONDONTWRITEBYTECODE=1 python3 benches/savings.py --mcpd "$target/installed/dist/mcpd" --installed "$installed"
cargo bench --locked -- "$@"
