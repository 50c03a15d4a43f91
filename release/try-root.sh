#!/usr/bin/env bash
# What try-roots.sh does with one artefact, inside of the system that it has made. Ends with `nothing is left`.
set -euo pipefail

readonly users=(ada ben)
output=$(mktemp)
before=$(mktemp)

# step NAME COMMAND [ARGUMENT...]
step() {
    local name=$1 start=$EPOCHREALTIME
    shift
    "$@" >"$output" 2>&1 </dev/null || { cat "$output"; echo "FAIL $name"; exit 1; }
    awk -v name="$name" -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { printf "ok %s, %.1f s\n", name, end - start }'
}

# as USER COMMAND [ARGUMENT...]: as in a fresh terminal of this user.
as() {
    local user=$1 home=/home/$1
    shift
    (cd "$home" && runuser -u "$user" -- env -i HOME="$home" USER="$user" LANG=C.UTF-8 XDG_RUNTIME_DIR="/run/user/$(id -u "$user")" \
        PATH="$home/.cargo/bin:$home/.local/bin:/toolchain/bin:/usr/bin:/bin" "$@")
}

# Lists the files that an installation could leave behind, without those that change by themselves and those of this trial.
list_files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/log -o -path /var/cache \
        -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /trial -o -path '/home/*/.cargo' \) -prune -o -printf '%y %m %u %p %l\n' | LC_ALL=C sort
}

add_users() {
    local user
    for user in "${users[@]}"; do
        useradd --create-home --shell /bin/bash "$user"
        # What every desktop has.
        as "$user" mkdir -p .cache .config .local/bin .local/share .local/state
        loginctl enable-linger "$user"
    done
    for user in "${users[@]}"; do
        until [[ -S /run/user/$(id -u "$user")/bus ]]; do sleep 0.2; done
        as "$user" systemctl --user is-system-running --wait >/dev/null || true
    done
}

configure() {
    mkdir -p ~/.config/mcpd
    cat >~/.config/mcpd/config.toml <<'CONFIG'
[servers.time]
command = "python3"
args = ["-m", "mcp_server_time", "--local-timezone", "UTC"]
env = { PYTHONPATH = "/server", PYTHONDONTWRITEBYTECODE = "1" }
CONFIG
}

calls() {
    mcpd call --timeout 300s time__get_current_time timezone=Pacific/Auckland | grep -q Pacific/Auckland
}

# serve USER COMMAND...: the demo, and a daemon that this command starts.
serve() {
    local user=$1
    shift
    step "$user: demo" as "$user" mcpd demo
    grep -q '^processes left: none$' "$output" || { cat "$output"; echo "FAIL $user: demo"; exit 1; }
    as "$user" bash -c "$(declare -f configure); configure"
    step "$user: $*" as "$user" "$@"
    step "$user: a call of mcp-server-time" as "$user" bash -c "$(declare -f calls); calls"
}

# The steps of "To remove mcpd" in docs/first-hour.md.
forget() {
    rm -rf "/home/$1/.config/mcpd" "/home/$1/.local/state/mcpd" "/home/$1/.cache/mcpd"
    rmdir --ignore-fail-on-non-empty "/home/$1"/.config/systemd/user/*.wants "/home/$1/.config/systemd/user" "/home/$1/.config/systemd" 2>/dev/null || true
}

# The program that a user's daemon runs.
program_of_daemon() {
    local pid
    pid=$(as "$1" mcpd status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')
    readlink "/proc/$pid/exe"
}

runs_the_new_program() {
    local program
    program=$(program_of_daemon "$1")
    echo "$program"
    [[ $program == /usr/bin/mcpd ]]
}

# The same package with another version, and a program with other bytes.
repack() {
    local tree
    tree=$(mktemp -d)
    dpkg-deb -R "$1" "$tree/new"
    sed -i 's/^Version: .*/&.1/' "$tree/new/DEBIAN/control"
    printf '\0' >>"$tree/new/usr/bin/mcpd"
    dpkg-deb -Zgzip -z1 -b "$tree/new" "$2"
}

# An agent that calls without pause until its file is gone, through `mcpd connect`, and fails if a call is not answered with a result.
cat >/tmp/agent.py <<'PYTHON'
import json, os, subprocess, sys, time

alive = sys.argv[1]
process = subprocess.Popen(["mcpd", "connect"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send(message):
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def ask(number, method, params):
    send({"id": number, "method": method, "params": params})
    for line in process.stdout:
        answer = json.loads(line)
        if answer.get("id") == number:
            return answer
    sys.exit("mcpd connect has ended")


ask(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}})
send({"method": "notifications/initialized"})
count, longest = 0, 0.0
while os.path.exists(alive):
    count += 1
    start = time.monotonic()
    answer = ask(count, "tools/call", {"name": "time__get_current_time", "arguments": {"timezone": "UTC"}})
    longest = max(longest, time.monotonic() - start)
    if "result" not in answer:
        sys.exit(f"call {count}: {answer}")
print(f"{count} calls, the longest {longest:.2f} s")
PYTHON

end_agents() {
    local user status=0
    for user in "${users[@]}"; do
        rm "/tmp/agent-of-$user"
        wait "${agents[$user]}" || status=$?
        sed "s/^/$user: agent: /" "/tmp/agent-of-$user.output"
    done
    return "$status"
}

try_deb() {
    local user package=/tmp/new.deb
    declare -gA agents
    step 'install the package' dpkg -i /release/*.deb
    serve ada mcpd service install
    serve ben mcpd start
    for user in "${users[@]}"; do
        touch "/tmp/agent-of-$user"
        as "$user" python3 /tmp/agent.py "/tmp/agent-of-$user" >"/tmp/agent-of-$user.output" 2>&1 &
        agents[$user]=$!
    done
    step 'make a package of another version' repack /release/*.deb "$package"
    step 'upgrade the package' dpkg -i "$package"
    cat "$output"
    for user in "${users[@]}"; do
        step "$user: the daemon runs the new program" runs_the_new_program "$user"
        step "$user: a call after the upgrade" as "$user" bash -c "$(declare -f calls); calls"
    done
    step 'agents that called meanwhile' end_agents
    cat "$output"
    step 'ada: mcpd service uninstall' as ada mcpd service uninstall
    step 'ben: mcpd stop' as ben mcpd stop
    step 'remove the package' dpkg -r mcpd
    step 'purge the package' dpkg -P mcpd
    ! dpkg-query --status mcpd &>/dev/null && ! ls /var/lib/dpkg/info/mcpd.* &>/dev/null
}

try_archive() {
    step 'install the archive' as ada sh /release/install.sh --from /release
    serve ada mcpd service install
    step 'ada: mcpd service uninstall' as ada mcpd service uninstall
    step 'remove the archive' as ada sh /release/install.sh --uninstall
}

# Not optimised: the installation is tried, not the program.
try_cargo() {
    step 'cargo install' as ben env CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        cargo install --quiet --locked --offline --path /source --target-dir /var/tmp/target \
        --config 'source.crates-io.replace-with="crates"' --config 'source.crates.directory="/crates"'
    serve ben mcpd start
    step 'ben: mcpd stop' as ben mcpd stop
    step 'cargo uninstall' as ben cargo uninstall --quiet mcpd
    ! ls /home/ben/.cargo/bin/* 2>/dev/null
}

# As the user of the image, without systemd.
try_image() {
    local daemon
    step demo mcpd demo
    configure
    mcpd serve &>/tmp/serve.log &
    daemon=$!
    until mcpd metrics &>/dev/null; do sleep 0.2; done
    step 'a call of mcp-server-time' calls
    step stop mcpd stop
    wait "$daemon"
    rm -rf ~/.config ~/.local ~/.cache
    [[ -z $(ls -A ~) ]] || { ls -lA ~; echo 'FAIL files are left'; exit 1; }
}

processes() {
    local process
    for process in /proc/[0-9]*; do
        if [[ $(readlink "$process/exe" 2>/dev/null) == */mcpd* ]]; then
            echo "${process#/proc/}: $(tr '\0' ' ' <"$process/cmdline")"
        fi
    done
}

if [[ $1 == image ]]; then
    try_image
else
    add_users
    list_files >"$before"
    "try_$1"
    for user in "${users[@]}"; do forget "$user"; done
    list_files | diff "$before" - || { echo 'FAIL files are left'; exit 1; }
fi
left=$(processes)
[[ -z $left ]] || { echo "FAIL processes are left: $left"; exit 1; }
echo 'nothing is left'
