#!/usr/bin/env bash
# An agent in a shell, with socat and jq: lists the tools, calls one, prints its answer.
#
#     agent.sh [TOOL [ARGUMENTS-AS-JSON]]
set -euo pipefail

tool=${1-demo__echo} arguments=${2-'{"text": "hello"}'}
id=0

fail() {
    echo "agent: $*" >&2
    exit 1
}

# One JSON message a line, either way.
send() {
    jq --null-input --compact-output "$@" >&"${mcpd[1]}"
}

# ask METHOD PARAMS leaves the result of a request in `result`. What has a method is no answer, whatever its id.
ask() {
    local answer
    send --arg method "$1" --argjson params "$2" --argjson id $((++id)) '{jsonrpc: "2.0", $id, $method, $params}'
    while read -r answer <&"${mcpd[0]}"; do
        jq --exit-status --argjson id "$id" '.id == $id and (has("method") | not)' <<<"$answer" >/dev/null || continue
        result=$(jq --compact-output .result <<<"$answer")
        [[ $result != null ]] || fail "$1: $(jq --raw-output .error.message <<<"$answer")"
        return
    done
    fail "nothing answers on $socket"
}

session=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
socket=$([[ -O $session ]] && echo "$session/mcpd" || echo "$HOME/.local/state/mcpd/run")/mcp.sock
# Stays after socat, since bash forgets the pipes of a coprocess that has ended.
coproc mcpd { socat - "UNIX-CONNECT:$socket" 2>/dev/null || true; exec >&-; cat >/dev/null; }

ask initialize '{"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}'
send '{jsonrpc: "2.0", method: "notifications/initialized"}'

names=() params={}
while [[ $params != null ]]; do
    ask tools/list "$params"
    mapfile -t -O "${#names[@]}" names < <(jq --raw-output '.tools[].name' <<<"$result")
    params=$(jq --compact-output 'if .nextCursor then {cursor: .nextCursor} else null end' <<<"$result")
done
echo "tools: ${names[*]}"

ask tools/call "$(jq --null-input --compact-output --arg name "$tool" --argjson arguments "$arguments" '$ARGS.named')"
text=$(jq --raw-output '.content[] | if .type == "text" then .text else tojson end' <<<"$result")
jq --exit-status .isError <<<"$result" >/dev/null && fail "$tool failed: $text"
echo "$text"
