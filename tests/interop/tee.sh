#!/usr/bin/env bash
# Runs a server and keeps what it is told: tee.sh LOG COMMAND [ARGUMENT...]
set -euo pipefail
log=$1
shift
tee -a -- "$log" | "$@"
