#!/usr/bin/env bash
# Makes README's pictures, from what mcpd really shows: docs/pictures/{status,top}.svg of a terminal, and dashboard-{light,dark}.png of the page.
# Runs a daemon with some servers in a temporary directory, calls their tools for a while, and takes the pictures. Needs Chromium, Node 20,
# Python 3 with venv, and the registries of npm and Python.
#
# usage: release/pictures.sh [MCPD [SECONDS]]   (default: the release build of this checkout, 300)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly size=1280,560
# As tests/interop has it.
playwright=$(python3 -c 'import json; print(json.load(open("tests/interop/package-lock.json"))["packages"]["node_modules/playwright-core"]["version"])')
readonly playwright
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
mcpd=${1:-}
seconds=${2:-300}
if [[ -z $mcpd ]]; then
    cargo build --quiet --release --locked --bin mcpd --bin mcpd-init
    mcpd=${CARGO_TARGET_DIR:-target}/release/mcpd
fi
mcpd=$(realpath "$mcpd")
scratch=$(mktemp -d)
export HOME=$scratch/home XDG_RUNTIME_DIR=$scratch XDG_CONFIG_HOME=$scratch/config XDG_STATE_HOME=$scratch/state XDG_CACHE_HOME=$scratch/cache
mkdir -p "$HOME" "$XDG_CONFIG_HOME/mcpd" docs/pictures
daemon=
agents=()

leave() {
    "$mcpd" dashboard --stop &>/dev/null || true
    [[ ${#agents[@]} -eq 0 ]] || kill "${agents[@]}" 2>/dev/null || true
    if [[ -n $daemon ]]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" || true
    fi
    rm -rf "$scratch"
}
trap leave EXIT

{
    for server in files github browser search memory; do
        printf "[servers.%s]\ncommand = '%s'\nargs = ['demo-server']\n" "$server" "$mcpd"
        if [[ $server == files ]]; then
            echo "deny = ['delete_*']"
        else
            printf "[servers.%s.resources]\ndeny = ['*']\n" "$server"
        fi
    done
    cat <<'CONFIG'
[servers.database]
command = "sh"
args = ["-c", "echo 'connect ECONNREFUSED 127.0.0.1:5432' >&2; exit 1"]
[profiles.reviewer]
servers = ["files", "search"]
CONFIG
} >"$XDG_CONFIG_HOME/mcpd/config.toml"

"$mcpd" serve 2>/dev/null &
daemon=$!
until "$mcpd" tools &>/dev/null; do sleep 0.2; done

# agent NAME VERSION PROFILE PAUSE: calls tools of its servers, some of them wrongly.
agent() {
    python3 - "$mcpd" "$@" <<'PYTHON' &
import itertools, json, random, subprocess, sys, time

mcpd, name, version, profile, pause = sys.argv[1:]
process = subprocess.Popen([mcpd, "connect", "--profile", profile], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
ids = itertools.count()


def send(message):
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def ask(method, params):
    number = next(ids)
    send({"id": number, "method": method, "params": params})
    for line in process.stdout:
        answer = json.loads(line)
        if answer.get("id") == number:
            return answer["result"] if "result" in answer else {}
    raise SystemExit


ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": version}})
send({"method": "notifications/initialized"})
tools = [tool["name"] for tool in ask("tools/list", {})["tools"] if tool["name"].endswith(("__echo", "__add"))]
chance = random.Random(name)
weights = [chance.random() ** 2 for _ in tools]
while True:
    for _ in range(chance.randrange(12)):
        tool = chance.choices(tools, weights)[0]
        second = "two" if chance.random() < 0.04 else 2
        ask("tools/call", {"name": tool, "arguments": {"text": "hello"} if tool.endswith("echo") else {"a": 1, "b": second}})
        time.sleep(chance.expovariate(1 / float(pause)))
    time.sleep(chance.random() * 20)
PYTHON
    agents+=($!)
}
agent claude-code 2.1.4 default 0.5
agent codex 0.61.0 default 0.8
agent review-bot 1.2.0 reviewer 1.5

# What a terminal of 100 columns shows, drawn by rich.
terminal() {
    python3 -m venv "$scratch/venv"
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check pyte==0.8.2 rich==15.0.0
    "$scratch/venv/bin/python" - "$mcpd" <<'PYTHON'
import fcntl, io, itertools, os, pty, re, select, struct, subprocess, sys, termios, time

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS, ROWS = 100, 24
COLOURS = {"brown": "yellow", "brightbrown": "bright_yellow"}


def screen_of(arguments, seconds):
    """The screen after a command has ended, or after this time, when a key ends it."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.set_blocking(main, False)
    command = subprocess.Popen(
        [sys.argv[1], *arguments], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env={**os.environ, "TERM": "xterm-256color"},
    )
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([main], [], [], 0.1)[0]:
            stream.feed(os.read(main, 65536))
        elif command.poll() is not None:
            break
    if command.poll() is None:
        os.write(main, b"q")
    command.wait(timeout=60)
    return screen


def style_of(cell):
    names = [COLOURS.get(name, re.sub("^bright", "bright_", name)) for name in (cell.fg, cell.bg)]
    names = [None if name == "default" else f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else name for name in names]
    return Style(color=names[0], bgcolor=names[1], bold=cell.bold, underline=cell.underscore, reverse=cell.reverse)


for name, seconds in [("status", 10), ("top", 5)]:
    screen = screen_of([name], seconds)
    lines = []
    for row in (screen.buffer[number] for number in range(ROWS)):
        runs = itertools.groupby((row[at] for at in range(COLUMNS)), style_of)
        lines.append(Text.assemble(*(("".join(cell.data for cell in cells), style) for style, cells in runs)))
    for line in lines:
        line.rstrip()
    while not lines[-1].plain:
        lines.pop()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False)
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop", highlight=False)
    console.save_svg(f"docs/pictures/{name}.svg", title=f"mcpd {name}", unique_id=name)
PYTHON
}

address=$("$mcpd" dashboard --no-open 2>/dev/null)
# The page collects its plots meanwhile.
for ((waited = 0; waited < seconds; waited += 30)); do
    "$mcpd" status >/dev/null || true
    sleep 30
done
npm install --prefix "$scratch" --no-save --ignore-scripts --no-fund --no-audit --loglevel=error "playwright-core@$playwright"
cat >"$scratch/pictures.mjs" <<'SCRIPT'
import { createRequire } from "node:module";

const [scratch, executablePath, address, width, height] = process.argv.slice(2);
const { chromium } = createRequire(`${scratch}/`)("playwright-core");
const browser = await chromium.launch({ executablePath });
for (const colorScheme of ["light", "dark"]) {
  const context = await browser.newContext({ colorScheme, viewport: { width: Number(width), height: Number(height) } });
  const page = await context.newPage();
  await page.goto(address);
  await page.locator(".state.good").first().waitFor();
  await page.waitForTimeout(1000);
  await page.screenshot({ path: `docs/pictures/dashboard-${colorScheme}.png` });
}
await browser.close();
SCRIPT
terminal
node "$scratch/pictures.mjs" "$scratch" "$chromium" "$address" "${size%,*}" "${size#*,}"
ls -l docs/pictures
