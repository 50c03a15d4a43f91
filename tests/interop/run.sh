#!/usr/bin/env bash
# Real servers and real clients, none of them written here: installs them as pinned by the lock files, builds mcpd, and runs the
# checks with both lines of the Python SDK. Needs Node 20, Python 3.11 and a package registry; leaves no process.
#
# usage: run.sh [SCRATCH]   (default: interop in cargo's target directory)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
target=${CARGO_TARGET_DIR:-target}
scratch=${1:-$target/interop}
mkdir -p "$target" "$scratch"
# Absolute, since servers run in directories of their own.
target=$(cd "$target" && pwd)
scratch=$(cd "$scratch" && pwd)
results=$scratch/results
: >"$results"

install_servers() {
    cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$scratch/"
    (cd "$scratch" && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error)
}

# venv NAME REQUIREMENTS
install_sdk() {
    python3 -m venv "$scratch/$1"
    "$scratch/$1/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement "$here/$2"
}

# A run that crashes has checks that it never came to.
check_with() {
    PYTHONDONTWRITEBYTECODE=1 timeout --kill-after=10 400 "$scratch/$1/bin/python" "$here/checks/main.py" \
        --mcpd "$target/release/mcpd" --modules "$scratch/node_modules" --results "$results" ||
        echo "FAIL the checks of $1 ended with status $?" | tee -a "$results"
}

install_servers
install_sdk mcp-1 requirements.txt
install_sdk mcp-2 requirements-2.txt
cargo build --release --locked --bin mcpd

check_with mcp-1
check_with mcp-2

passed=$(grep -c '^ok' "$results" || true)
failed=$(grep -c '^FAIL' "$results" || true)
echo "$passed passed, $failed failed"
[[ $passed -gt 0 && $failed -eq 0 ]]
