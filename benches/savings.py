#!/usr/bin/env python3
"""What mcpd saves: processes and memory of agents that each start their own servers, and of as many agents with one mcpd.

Prints a table in Markdown. Memory is the sum of what /proc calls PSS, in which a page that several processes share counts once.
The agents themselves are this script, and not counted. Servers are started by `npx`, as clients start them, with mcpd and
without; agents come one after another. Ends every process that it has started. Needs Python 3.11, Node 20, mcpd, and the
servers that tests/interop/run.sh installs; says how to get them.
"""

import argparse
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop/checks"))

import processes
from daemon import Daemon, Server, eventually
from results import Results

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
HOW_TO_INSTALL = """{missing} is not there. This installs mcpd and the servers:

    mkdir -p {installed}
    cp tests/interop/package.json tests/interop/package-lock.json tests/interop/.npmrc {installed}/
    (cd {installed} && npm ci --ignore-scripts)
    cargo build --release --locked --bin mcpd --bin mcpd-init --target-dir {target}/installed"""
# Capabilities of a client that supports no server requests.
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "savings", "version": "1"}}


class Peer:
    """A client for an MCP peer that uses lines."""

    def __init__(self, reading, writing):
        self._reading, self._writing, self._ids = reading, writing, itertools.count()

    def send(self, method, params, **id):
        self._writing.write(json.dumps({"jsonrpc": "2.0", **id, "method": method, "params": params}).encode() + b"\n")
        self._writing.flush()

    def ask(self, method, params):
        self.send(method, params, id=(id := next(self._ids)))
        return id

    def answer(self, id):
        for line in self._reading:
            message = json.loads(line)
            if message.get("id") == id and "method" not in message:
                return message["result"]
        raise EOFError("the connection ended before the answer")


class Agents:
    """Agents of one kind and their processes, which end with `with`."""

    def __init__(self):
        self._mark = ("MCPD_SAVINGS", uuid.uuid4().hex)
        self._started = []
        self._connections = []
        self._stderr = TemporaryFile()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self._end()
        if kind is EOFError:
            self._stderr.seek(0)
            print(self._stderr.read().decode(errors="replace")[-4000:], file=sys.stderr)
        self._stderr.close()

    def _end(self):
        for connection in self._connections:
            connection.close()
        for process in self._started:
            process.stdin.close()
        try:
            eventually(lambda: not self._left(), "whoever is left alone has gone", 5)
        except AssertionError:
            for process in self._left():
                os.kill(process.pid, signal.SIGKILL)
        for process in self._started:
            process.wait()

    def start(self, server):
        env = {**os.environ, **server.env, self._mark[0]: self._mark[1]}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._stderr}
        process = subprocess.Popen(server.command, cwd=server.cwd, env=env, **pipes)
        self._started.append(process)
        return Peer(process.stdout, process.stdin)

    def connect(self, path):
        connection = socket.socket(socket.AF_UNIX)
        self._connections.append(connection)
        connection.connect(path)
        return Peer(connection.makefile("rb"), connection.makefile("wb"))

    def _left(self):
        for process in self._started:
            process.poll()
        return processes.running_with_environment("=".join(self._mark))


@dataclass(frozen=True)
class Cost:
    """Figures of all agents of one kind, once the last has its tools."""

    processes: int
    pss: int
    # Seconds until an agent has every tool, for each agent in turn.
    waits: list[float]
    # The number of tools of the last agent.
    tools: int

    def row(self, kind):
        waits = [self.waits[0], statistics.median(self.waits[1:] or self.waits)]
        first, later = (f"{wait * 1000:.0f} ms" if wait < 1 else f"{wait:.1f} s" for wait in waits)
        return f"| {kind} | {self.processes} | {self.pss / 2**20:,.0f} MiB | {first} | {later} |"


def cost(agents, arrive, since, every_tool=1):
    """`arrive` has one agent come and returns whom it talks with; the first one began at `since`."""
    waits = []
    for _ in range(agents):
        peers = arrive()
        greet(peers)
        # Slow servers are missing in a first list.
        eventually(lambda: count_tools(peers) >= every_tool, "an agent has every tool", 60)
        now = time.monotonic()
        waits.append(now - since)
        since = now
    everything = processes.descendants(os.getpid())
    return Cost(len(everything), sum(map(pss, everything)), waits, count_tools(peers))


def greet(peers):
    """All at once, as a client greets the servers that it has just started."""
    hellos = [peer.ask("initialize", HELLO) for peer in peers]
    for peer, hello in zip(peers, hellos):
        peer.answer(hello)
        peer.send("notifications/initialized", {})


def count_tools(peers):
    lists = [peer.ask("tools/list", {}) for peer in peers]
    return sum(len(peer.answer(id)["tools"]) for peer, id in zip(peers, lists))


def pss(process):
    """Memory in bytes; 0 for a process that has just ended."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def node_servers(installed, data):
    """The servers, by their names in mcpd."""
    commands = {
        "everything": ["mcp-server-everything"],
        "filesystem": ["mcp-server-filesystem", data],
        "memory": ["mcp-server-memory"],
        "thinking": ["mcp-server-sequential-thinking"],
        "browser": ["playwright-mcp"],
    }
    env = {"MEMORY_FILE_PATH": f"{data}/memory.jsonl"}
    npx = ["npx", "--no-install"]
    return {name: Server([*npx, *command], cwd=str(installed), env=env) for name, command in commands.items()}


def without(servers, agents):
    with Agents() as started:
        return cost(agents, lambda: [started.start(server) for server in servers.values()], time.monotonic())


def by_connect(daemon, started):
    return started.start(Server([daemon.mcpd, "connect", "--runtime-dir", str(daemon.runtime)]))


def by_socket(daemon, started):
    return started.connect(daemon.socket)


def with_mcpd(mcpd, servers, agents, door, every_tool):
    since = time.monotonic()
    with Daemon(mcpd, servers) as daemon, Agents() as started:
        return cost(agents, lambda: [door(daemon, started)], since, every_tool)


def compare(mcpd, servers, agents):
    """The figures of each kind, in the order of the table."""
    own = without(servers, agents)
    return {
        "each agent starts its own servers": own,
        "one mcpd, agents by `mcpd connect`": with_mcpd(mcpd, servers, agents, by_connect, own.tools),
        "one mcpd, agents on its socket": with_mcpd(mcpd, servers, agents, by_socket, own.tools),
    }


def show(costs, agents, servers):
    print(f"| {agents} agents × {servers} servers | processes | memory (PSS) | tools of the first agent after | of a further one |")
    print("| --- | --- | --- | --- | --- |")
    for kind, each in costs.items():
        print(each.row(kind), flush=True)


def check_saving(costs):
    own, *shared = costs.values()
    for each in shared:
        assert each.processes < own.processes, (each, own)
        assert each.pss < own.pss, (each, own)
        assert statistics.median(each.waits[1:]) < statistics.median(own.waits[1:]), (each, own)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, choices=range(2, 33), default=10, metavar="2..32")
    parser.add_argument("--servers", type=int, choices=range(1, 6), default=5, metavar="1..5")
    parser.add_argument("--installed", type=Path, default=TARGET / "interop", help="where the servers are installed")
    parser.add_argument("--mcpd", type=Path, default=TARGET / "installed/release/mcpd")
    parser.add_argument("--results", type=Path, help="also check that mcpd saves anything, and add a line on that to this file")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    installed = arguments.installed.absolute()
    for needed in (arguments.mcpd, installed / "node_modules/.bin/playwright-mcp"):
        if not needed.exists():
            sys.exit(HOW_TO_INSTALL.format(missing=needed, installed=installed, target=TARGET))
    # A server that does not answer fails the run, which ends all servers.
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("not done within 5 minutes"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    signal.alarm(300)
    with TemporaryDirectory(prefix="mcpd-savings-") as data:
        servers = dict(itertools.islice(node_servers(installed, data).items(), arguments.servers))
        costs = compare(arguments.mcpd.absolute(), servers, arguments.agents)
    show(costs, arguments.agents, arguments.servers)
    if arguments.results:
        agents = f"{arguments.agents} agents × {arguments.servers} servers"
        with Results(arguments.results).check(f"{agents} need fewer processes, less memory and less time with one mcpd"):
            check_saving(costs)


main()
