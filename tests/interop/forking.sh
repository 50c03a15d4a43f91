#!/usr/bin/env bash
# Runs a server that has a daemon of its own: in another session, without a parent, deaf to the end of its stdin.
set -euo pipefail
(setsid sleep 600 </dev/null >/dev/null 2>&1 &)
exec "$@"
