#!/usr/bin/env bash
# Builds the fuzz targets with the installed stable toolchain, and runs them in parallel for a number of seconds.
#
#   fuzz/run.sh [SECONDS] [TARGET...]      default: 40 seconds, every target
#
# A failing input is stored in fuzz/artifacts/TARGET. The printed program repeats it with that file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

seconds=${1:-40}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(eras events frames pins router)
build=${CARGO_TARGET_DIR:-$PWD/../target}/fuzz

# The crate compiles libFuzzer, which is C++.
if ! command -v "${CXX:-c++}" >/dev/null; then
    echo "skipped: fuzz targets: this machine has no C++ compiler"
    exit 0
fi

host=$(rustc --version --verbose | sed -n 's/^host: //p')
# The flags of `cargo fuzz`: coverage, and checks that a release build omits. No address sanitizer, which requires a
# nightly compiler: mcpd has no unsafe code for it to check.
flags=(
    --cfg fuzzing
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    -Cdebug-assertions
    -Coverflow-checks
)
RUSTFLAGS="${flags[*]}" cargo build --locked --release --target "$host" --target-dir "$build" --bins

# New inputs are not stored, so the corpus stays small.
found=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; rm -r "$found"' EXIT
for target in "${targets[@]}"; do
    mkdir -p "artifacts/$target" "$found/$target"
    "$build/$host/release/$target" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$PWD/artifacts/$target/" "$found/$target" "corpus/$target" \
        >"$found/$target.log" 2>&1 &
    running+=($!)
done
for at in "${!targets[@]}"; do
    target=${targets[at]} log=$found/${targets[at]}.log program=$build/$host/release/${targets[at]}
    if ! wait "${running[at]}"; then
        { grep -A6 'panicked at\|ERROR: libFuzzer\|Test unit written' "$log" || tail -n 40 "$log"; } >&2
        echo "fuzz target $target failed: $program FILE does it again" >&2
        exit 1
    fi
    # Fail if a fuzzer ran no input.
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ "${executed:-0}" -lt 1000 ]; then
        echo "fuzz target $target took ${executed:-no} inputs in $seconds s: that is no run" >&2
        exit 1
    fi
    echo "fuzz target $target: $executed inputs in $seconds s, and none that it fails on"
done
echo "${#targets[@]} passed, 0 failed"
