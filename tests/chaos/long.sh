#!/usr/bin/env bash
# Storms with many seeds, and the daemon killed 150 times as it starts, against a release build.
#
#   tests/chaos/long.sh [STORMS] [SECONDS]     10 storms of 300 seconds each, if nothing is said
#
# Ends at the first failure, with the seed that repeats it: CHAOS_SEED=… CHAOS_SECONDS=… cargo test --release --test chaos
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

storms=${1:-10}
seconds=${2:-300}

chaos() {
    cargo test --release --locked --test chaos -- --nocapture --test-threads 1 "$@"
}

CHAOS_SEED=$RANDOM CHAOS_ROUNDS=150 chaos kill_9
for ((storm = 1; storm <= storms; storm++)); do
    printf '\n=== storm %d of %d\n' "$storm" "$storms"
    CHAOS_SEED=$((RANDOM << 15 | RANDOM)) CHAOS_SECONDS=$seconds chaos storm
done
