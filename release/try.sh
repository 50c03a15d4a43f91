#!/usr/bin/env bash
# Installs a release into an empty home and does what a new user does: import, start, first call, stop, uninstall. Prints the time of
# each step. Fails if all of it takes 60 s, or if a process or a file of the installation is left.
#
# usage: try.sh DIR    the directory that build.sh has made
set -euo pipefail

release=$(cd "${1:?usage: try.sh DIR}" && pwd)
python=$(command -v python3)
scratch=$(mktemp -d)
home=$scratch/home
mkdir -p "$home/.cursor"
mkdir -m 700 "$scratch/run"

leave() {
    # Only if a step has failed: what runs of this installation, by its path.
    for pid in $(running); do kill -TERM "$pid" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap leave EXIT

# The processes that have been started from this home, or with a file of it.
running() {
    local process
    for process in /proc/[0-9]*; do
        if [[ $(readlink "$process/exe" 2>/dev/null) == "$scratch"/* ]] ||
            tr '\0' '\n' 2>/dev/null <"$process/cmdline" | grep -q "^$scratch/"; then
            echo "${process#/proc/}"
        fi
    done
}

# As in a fresh terminal.
user() {
    env -i HOME="$home" PATH="$home/.local/bin:/usr/local/bin:/usr/bin:/bin" XDG_RUNTIME_DIR="$scratch/run" LANG=C.UTF-8 "$@"
}

# step NAME COMMAND [ARGUMENT...]
step() {
    local name=$1 start=$EPOCHREALTIME
    shift
    "$@" >"$scratch/output" 2>&1 || { cat "$scratch/output"; echo "FAIL $name"; exit 1; }
    awk -v name="$name" -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { printf "%-12s %6.2f s\n", name, end - start }'
}

# A server, and the file in which another client has it.
cat >"$scratch/server.py" <<'SERVER'
import json
import sys

TOOL = {"name": "greet", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


def result_of(request):
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "greeter", "version": "1"}}
    if request["method"] == "tools/list":
        return {"tools": [TOOL]}
    if request["method"] == "tools/call":
        return {"content": [{"type": "text", "text": f"Hello, {request['params']['arguments']['name']}!"}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = result_of(request)
        answer = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
SERVER
printf '{"mcpServers": {"greeter": {"command": "%s", "args": ["%s"]}}}\n' "$python" "$scratch/server.py" >"$home/.cursor/mcp.json"

start=$SECONDS
step install user sh "$release/install.sh" --from "$release"
step import user mcpd import --yes
step start user mcpd start
step 'first call' user mcpd call greeter__greet name=Ada
grep -q 'Hello, Ada!' "$scratch/output" || { cat "$scratch/output"; echo 'FAIL first call'; exit 1; }
took=$((SECONDS - start))
step stop user mcpd stop
step uninstall user sh "$release/install.sh" --uninstall

left=$(running)
[[ -z $left ]] || { echo "FAIL processes are left: $left"; exit 1; }
[[ ! -e $home/.local/bin && ! -e $home/.local/share ]] || { find "$home/.local"; echo 'FAIL files are left'; exit 1; }
((took < 60)) || { echo "FAIL the first call came after $took s"; exit 1; }
echo "from nothing to the first call in $took s, and nothing is left"
