#!/usr/bin/env bash
# Runs two versions of the official conformance suite against a fixture server, directly and through mcpd, and with mcpd
# as the client of the suite's servers. Installs the suite pinned by the lock file with the Node that it needs, builds
# mcpd, and compares. Needs Node 20 for npm, Python 3.11 and, for installation, a package registry. Leaves no process.
#
# usage: run.sh [SCRATCH]   (default: conformance in cargo's target directory)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
target=${CARGO_TARGET_DIR:-target}
scratch=${1:-$target/conformance}
mkdir -p "$scratch"

cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$scratch/"
(cd "$scratch" && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error)
echo "installed in $SECONDS s"
cargo build --release --locked --bin mcpd --bin mcpd-init --target-dir "$target/installed"
SECONDS=0

# Their means to run a daemon are those of the interop checks.
status=0
for part in compare.py client_suite.py; do
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../interop/checks timeout --kill-after=10 900 \
        python3 "$here/$part" --mcpd "$target/installed/release/mcpd" --installed "$scratch" || status=$?
done
echo "checked in $SECONDS s"
exit "$status"
