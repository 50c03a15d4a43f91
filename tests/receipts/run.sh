#!/bin/bash
# Makes a receipt of each server in servers.txt by `mcpd try --keep`, calls a tool of each kept server through a daemon, and writes the
# table of docs/receipts.md. Needs strace, npx, uvx, git and the package registries. Usage: run.sh MCPD [OUTPUT [NAME…]]
set -u
here=$(cd "$(dirname "$0")" && pwd)
mcpd=$(realpath "$1")
output=${2:-$here/../../docs/receipts.md}
shift $(($# < 2 ? $# : 2))
place=$(mktemp -d)
export HOME=$place/home XDG_RUNTIME_DIR=$place/run
unset XDG_CONFIG_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_DATA_HOME
mkdir -p "$HOME/notes" "$place/receipts" "$place/calls" && mkdir -m 700 "$XDG_RUNTIME_DIR"
echo "a note" > "$HOME/notes/note.txt"
git init -q "$HOME/repo" && git -C "$HOME/repo" -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m first
daemon=
trap '[ -n "$daemon" ] && kill "$daemon" && wait "$daemon"; rm -rf "$place"' EXIT

words() { # Fills the places of directories in.
    local text=${1//REPO/$HOME/repo}
    read -r -a words <<< "${text//DIR/$HOME/notes}"
}

# Every server has a configuration of its own first, so that trials can run at once.
tried() {
    local name=$1 variables=$2 line=$3 options=()
    for variable in $variables; do options+=(--env "$variable"); done
    words "$line"
    timeout 600 "$mcpd" try --json --yes --timeout 2m --no-reload --config "$place/$name.toml" --keep "$name" "${options[@]}" "${words[@]}" \
        > "$place/receipts/$name.json" 2> "$place/receipts/$name.err"
    echo "tried $name: $?"
}

called() {
    local name=$1 call=$2 code=1
    words "$call"
    # npm packages are installed one after another at their first start.
    for _ in $(seq 40); do
        timeout 200 "$mcpd" call --json "${name}__${words[0]}" "${words[@]:1}" > "$place/calls/$name.json" 2> "$place/calls/$name.err"
        code=$?
        grep -q 'not sent' "$place/calls/$name.err" || break
        sleep 10
    done
    echo "called $name: $code"
}

selected() { [ $# -eq 1 ] || [[ " ${*:2} " == *" $1 "* ]]; }

each() { # Runs a function for each selected server, several at once.
    local run=$1; shift
    while IFS='|' read -r name variables line call _; do
        name=$(echo $name)
        [[ -z $name || $name == \#* ]] && continue
        selected "$name" "$@" || continue
        while [ "$(jobs -rp | wc -l)" -gt "${JOBS:-3}" ]; do wait -n; done
        if [ "$run" = tried ]; then tried "$name" "$variables" "$line" & else called "$name" "$call" & fi
    done < "$here/servers.txt"
    for job in $(jobs -rp); do [ "$job" = "$daemon" ] || wait "$job"; done
}

each tried "$@"
mkdir -p "$HOME/.config/mcpd"
cat "$place"/*.toml > "$HOME/.config/mcpd/config.toml"
sed -i 's/^sandbox = /handshake_timeout = "3m"\nsandbox = /' "$HOME/.config/mcpd/config.toml"
# The definitions were approved for each configuration by itself.
(umask 077; mkdir -p "$HOME/.local/state/mcpd/pins/default")
find "$HOME/.local/state/mcpd/pins" -name '*.json' ! -path '*/default/*' -exec cp -p {} "$HOME/.local/state/mcpd/pins/default" \;
"$mcpd" serve > "$place/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 60); do "$mcpd" status > /dev/null 2>&1 && break; sleep 1; done
each called "$@"
python3 "$here/table.py" "$here/servers.txt" "$place" > "$output"
[ -n "${KEEP:-}" ] && cp -r "$place/receipts" "$place/calls" "$place/daemon.log" "$HOME/.config/mcpd/config.toml" "$KEEP"
grep -o '^[0-9]* of [0-9]*.*' "$output"
