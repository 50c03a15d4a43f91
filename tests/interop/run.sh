#!/usr/bin/env bash
# Real servers and real clients, none of them written here: installs them as pinned by the lock files, builds mcpd, and runs the
# checks with both lines of the Python and of the TypeScript SDK, each to each and to rmcp, by lines and over HTTP, and in raw bytes,
# with agent frameworks, with the agents of examples/agents, with clients that `mcpd link` has linked, behind a gateway, by ssh and as a
# sidecar; then what mcpd saves, and its Debian package. Needs Node 20, Python 3.11, git, dpkg-dev for the package and, to install,
# package registries; leaves no process.
#
# usage: run.sh [SCRATCH]   (default: interop in cargo's target directory)
set -euo pipefail

# Built quickly rather than well, beside the installation of everything else.
readonly cargo_deb=3.8.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
target=${CARGO_TARGET_DIR:-target}
scratch=${1:-$target/interop}
mkdir -p "$target" "$scratch"
# Absolute, since servers run in directories of their own.
target=$(cd "$target" && pwd)
scratch=$(cd "$scratch" && pwd)
results=$scratch/results
: >"$results"

# The environment and the script of each, the longest first.
readonly checks=(
    'mcp-2 message_sizes.py'
    'mcp-1 python_clients.py'
    'mcp-2 python_clients.py'
    'mcp-2 proposals.py'
    'mcp-2 locked_versions.py'
    'mcp-2 kept_servers.py'
    'mcp-2 node_clients.py'
    'mcp-1 feature_checks.py'
    'mcp-2 transparency.py'
    'mcp-1 tap_checks.py'
    'mcp-2 tap_checks.py'
    'mcp-2 definitions.py'
    'mcp-2 face_checks.py'
    'mcp-2 extension_checks.py'
    'mcp-2 http_checks.py'
    'mcp-2 metrics_checks.py'
    'mcp-2 matrix_checks.py'
    'mcp-2 task_checks.py'
    'mcp-2 traces.py'
    'mcp-2 documentation.py'
    'mcp-2 example_agents.py'
    'mcp-1 framework_checks.py'
    'mcp-2 framework_checks.py'
    'mcp-2 linked_clients.py'
    'mcp-2 dashboard.py'
    'scale gateway_checks.py'
    'scale ssh_checks.py'
    'scale sidecar_checks.py'
)

install_node_packages() {
    cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$scratch/"
    (cd "$scratch" && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error)
}

# The clients that `mcpd link` links. Two of them put their program in place by a script of their package. One that cannot be installed
# is skipped. Not `npm ci`, which refuses the lock file because it lacks the packages for other systems.
install_clients() {
    mkdir -p "$scratch/clients"
    cp "$here/clients/package.json" "$here/clients/package-lock.json" "$here/.npmrc" "$scratch/clients/"
    (cd "$scratch/clients" &&
        npm install --ignore-scripts --no-fund --no-audit --loglevel=error &&
        npm rebuild --loglevel=error @anthropic-ai/claude-code opencode-ai) || true
}

# make_venv NAME REQUIREMENTS [PIP-OPTION...]
#
# Each file lists every package with its version, so pip must not resolve dependencies: for a dependency with an extra it would pick the
# newest release instead of the pinned one. `pip check` fails if the file lacks a package.
make_venv() {
    local pip=$scratch/$1/bin/pip requirements=$here/$2
    python3 -m venv "$scratch/$1"
    "$pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement "$requirements" "${@:3}"
    "$pip" check --disable-pip-version-check
}

# Other systems than Debian need not have it.
has_dpkg() {
    command -v dpkg-shlibdeps >/dev/null
}

install_packager() {
    has_dpkg || return 0
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --no-default-features \
        --version "$cargo_deb" --root "$target/tools" cargo-deb
}

# By way of a directory of wheels, from which uvx then installs too: it checks no hashes, and runs without network.
install_python_servers() {
    # uvx takes the newest that it finds.
    rm -rf "$scratch/wheels"
    "$scratch/mcp-2/bin/pip" download --quiet --disable-pip-version-check --no-deps --require-hashes \
        --requirement "$here/requirements-servers.txt" --dest "$scratch/wheels"
    make_venv servers requirements-servers.txt --no-index --find-links "$scratch/wheels"
}

install_software() {
    install_node_packages
    install_clients
    make_venv mcp-1 requirements.txt
    make_venv mcp-2 requirements-2.txt
    install_python_servers
    make_venv fastmcp requirements-fastmcp.txt
    make_venv go requirements-go.txt
    make_venv scale requirements-scale.txt
    if [[ $EUID -eq 0 ]] && ! type socat jq &>/dev/null; then
        # Without them the check says what it leaves out.
        apt-get update -qq && apt-get install -qq --no-install-recommends socat jq || true
    fi
    if [[ $EUID -eq 0 ]] && ! type chromium &>/dev/null; then
        apt-get update -qq && apt-get install -qq --no-install-recommends chromium || true
    fi
    # Not where it would be started as a service.
    if [[ $EUID -eq 0 && ! -d /run/systemd/system ]] && ! type sshd &>/dev/null; then
        apt-get update -qq && apt-get install -qq --no-install-recommends openssh-client openssh-server || true
    fi
} >/dev/null

build_rmcp_peers() {
    cargo build --quiet --locked --manifest-path "$here/rmcp/Cargo.toml" --target-dir "$target/rmcp"
    mkdir -p "$scratch/agents"
    cp "$target/rmcp/debug/agent" "$scratch/agents/agent-rs"
    cp "$target"/rmcp/debug/{definition-validator,rmcp-http-server,matrix-agent,matrix-server,task-agent,task-server} "$scratch"
}

# Those of the agents in examples/agents that have to be built, into one directory. `build_rmcp_peers` builds the one in Rust.
build_agents() {
    mkdir -p "$scratch/agents"
    cp examples/agents/*.mts "$scratch/agents"
    "$scratch/node_modules/.bin/tsc" --strict --skipLibCheck --target es2022 --module nodenext --typeRoots "$scratch/node_modules/@types" --types node "$scratch"/agents/*.mts
    GOENV=off GOTOOLCHAIN=local GOCACHE=$scratch/go-cache \
        "$scratch/go/bin/go" build -o "$scratch/agents/agent-go" examples/agents/agent.go
}

# check_with VENV SCRIPT; one that crashes has checks that it never came to. Its lines are printed at its end, since another runs beside it.
check_with() {
    local printed
    printed=$(PYTHONDONTWRITEBYTECODE=1 timeout --kill-after=10 900 "$scratch/$1/bin/python" "$here/checks/$2" \
        --mcpd "$target/installed/release/mcpd" --installed "$scratch" --results "$results" 2>&1 ||
        echo "FAIL $2 with $1 ended with status $?" | tee -a "$results")
    printf '%s\n' "$printed"
}

# Two at a time: a check waits for much of its time.
run_checks() {
    local check
    for check in "${checks[@]}"; do
        (($(jobs -pr | wc -l) < 2)) || wait -n
        # shellcheck disable=SC2086 # two words
        check_with $check &
    done
    wait
}

# A small run of what the README's numbers come from.
check_savings() {
    PYTHONDONTWRITEBYTECODE=1 timeout --kill-after=10 200 python3 benches/savings.py --agents 3 \
        --mcpd "$target/installed/release/mcpd" --installed "$scratch" --results "$results" ||
        echo "FAIL savings.py ended with status $?" | tee -a "$results"
}

check_package() {
    local package
    if ! has_dpkg; then
        echo "skipped: the Debian package is not built without dpkg-dev"
        return
    fi
    package=$(PATH=$target/tools/bin:$PATH debian/build.sh) &&
        PYTHONDONTWRITEBYTECODE=1 timeout --kill-after=10 120 python3 "$here/checks/package.py" --results "$results" "$package" ||
        echo "FAIL the Debian package: status $?" | tee -a "$results"
}

install_packager &
packager=$!
install_software &
software=$!
cargo build --release --locked --bin mcpd --bin mcpd-init --target-dir "$target/installed"
wait "$software"
build_agents
build_rmcp_peers
wait "$packager"
echo "installed in $SECONDS s"
SECONDS=0

run_checks
check_savings
check_package

echo "checked in $SECONDS s"
passed=$(grep -c '^ok' "$results" || true)
failed=$(grep -c '^FAIL' "$results" || true)
echo "$passed passed, $failed failed"
[[ $passed -gt 0 && $failed -eq 0 ]]
