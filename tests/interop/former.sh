#!/usr/bin/env bash
# Builds a former release, and runs the tests of its `mcpd connect` with this daemon, and of its daemon with this `mcpd connect`.
# Takes as long as a whole build, so it is not part of run.sh.
#
# usage: former.sh COMMIT    a tag of the release, or the last commit of its version
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

former=$(mktemp -d)
trap 'rm -rf "$former"' EXIT
git archive "$1" | tar -x -C "$former"
CARGO_TARGET_DIR=$former/target cargo build --quiet --locked --manifest-path "$former/Cargo.toml" --bin mcpd
MCPD_FORMER=$former/target/debug/mcpd cargo test --locked --test it -- daemon_restart::former
