"""Checks every combination of an SDK as agent and an SDK as server: in either era, the agent gets the same from a server through
mcpd, by lines and over HTTP. Over HTTP a legacy agent gets the same, too, if its connections break off."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import results
from cutting_proxy import CuttingProxy
from daemon import HTTP, LINES, LOOPBACK, Daemon, Server

HERE = Path(__file__).parent
TEE = str(HERE.parent / "tee.sh")
# Time limit of one agent.
TIMEOUT = 120
TOOLS = ["ask", "change", "count", "echo", "fail", "log", "touch", "wait", "was_cancelled"]
# By what it is that an agent does with a server. It gives up a call last: for all that anybody knows, a server that was
# told of that may be at the call for ever after.
SEEN = {
    "lists": TOOLS,
    "calls": "ä\n",
    "errors": [True, True],
    "progress": [[[1, 3], [2, 3], [3, 3]], "counted to 3"],
    "asks": "Hello, Ada!",
    "logs": ["logged", ["for the log"]],
    "changes": "changed",
    "updates": "updated",
    "cancels": "given up",
}
BROKEN = " with broken connections"
# What an agent receives last on a connection, each once: the first of several notifications of a call; one that comes unasked.
LAST = (rb'"progress": ?1(\.0)?\b', rb"notifications/tools/list_changed")


@dataclass(frozen=True)
class Program:
    """An agent, or a server that is told its own name."""

    command: list
    is_modern: bool
    config: dict = field(default_factory=dict)
    # What an agent is checked at.
    listeners: tuple = (LINES, HTTP, LOOPBACK)
    # What the client of an agent cannot do.
    lacks: tuple = ()


def servers(installed):
    """By what the daemon calls them."""
    python = str(HERE / "matrix_server.py")
    node = ["node", str(HERE / "matrix_server.js"), str(installed / "node_modules")]
    return {
        "python-1": Program([str(installed / "mcp-1/bin/python"), python, "python-1"], False),
        "python-2": Program([str(installed / "mcp-2/bin/python"), python, "python-2"], True),
        "typescript-1": Program([*node, "sdk", "typescript-1"], False),
        "typescript-2": Program([*node, "server", "typescript-2"], True),
        "rmcp": Program([str(installed / "matrix-server"), "rmcp"], True),
    }


def agents(installed):
    """By what they are."""
    python, node = str(HERE / "matrix_agent.py"), ["node", str(HERE / "matrix_agent.js")]
    rmcp = [str(installed / "matrix-agent")]
    modules = {"modules": str(installed / "node_modules")}
    python_1, python_2, fastmcp = ([str(installed / name / "bin/python"), python] for name in ("mcp-1", "mcp-2", "fastmcp"))
    pinned, resuming = {"pin": "2026-07-28"}, (LINES, HTTP, LOOPBACK, LOOPBACK + BROKEN)
    # For URLs, rmcp needs another HTTP library.
    at_socket = (LINES, HTTP)
    return {
        "line 1 of Python": Program(python_1, False, {}, resuming),
        "line 2 of Python": Program(python_2, True, {"mode": "auto"}),
        "line 2 of Python, of the legacy era,": Program(python_2, False, {"mode": "legacy"}, resuming),
        "line 1 of TypeScript": Program(node, False, {**modules, "sdk": "sdk"}, resuming),
        "line 2 of TypeScript": Program(node, False, {**modules, "sdk": "client", "mode": "legacy"}, resuming),
        "line 2 of TypeScript, which probes,": Program(node, True, {**modules, "sdk": "client", "mode": "auto"}),
        "line 2 of TypeScript, which is pinned,": Program(node, True, {**modules, "sdk": "client", "mode": pinned}),
        "rmcp": Program(rmcp, False, {"mode": "legacy"}, (*at_socket, HTTP + BROKEN)),
        "rmcp, stateless,": Program(rmcp, True, {"mode": "modern"}, at_socket),
        "FastMCP": Program(fastmcp, True, {"sdk": "fastmcp", "mode": "auto"}, lacks=("changes", "updates")),
        "FastMCP, of the legacy era,": Program(fastmcp, False, {"sdk": "fastmcp", "mode": "legacy"}, resuming),
    }


def expected(server, agent):
    """What there is to see of it."""
    seen = {what: observed for what, observed in SEEN.items() if what not in agent.lacks}
    if server != "python-1":
        return seen
    # Its SDK declares no subscriptions.
    return {what: observed for what, observed in seen.items() if what != "updates"} | {"lists": [*filter("touch".__ne__, TOOLS)]}


@contextmanager
def address(mcpd, servers, listener):
    """Of a daemon with these servers."""
    whole = listener.removesuffix(BROKEN)
    daemon = Daemon(mcpd, servers, has_loopback=whole == LOOPBACK)
    if whole == listener:
        with daemon:
            yield daemon.address(listener)
        return
    paths = (f"{daemon.runtime}.cut", daemon.socket) if whole == HTTP else None
    with CuttingProxy(daemon, after=LAST, paths=paths) as proxy:
        front = {"socket": paths[0]} if paths else {"url": f"http://127.0.0.1:{proxy.port}/mcp"}
        yield daemon.address(whole) | front
        assert not proxy.after, f"never cut after {proxy.after}"


def look(mcpd, known, agent, listener):
    """How an agent ended that looks at all servers, and the eras that they were opened in. It has a daemon of its own: a
    server that another has left a call at asks nobody."""
    with TemporaryDirectory(prefix="mcpd-matrix-") as directory:
        logs = {name: Path(directory) / name for name in known}
        # Those that have both eras would be spoken to in the legacy one, as one instance serves agents of both.
        overheard = {
            name: Server([TEE, str(logs[name]), *server.command], era="modern" if server.is_modern else "auto")
            for name, server in known.items()
        }
        with address(mcpd, overheard, listener) as way:
            config = {
                **agent.config,
                **way,
                "servers": {name: f"{name}__" for name in known},
                "checks": {name: list(expected(name, agent)) for name in known},
            }
            command = [*agent.command, json.dumps(config)]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        received = {name: [json.loads(line).get("method") for line in log.open()] for name, log in logs.items()}
        return ended, {name: "notifications/initialized" not in methods for name, methods in received.items()}


def check(report, name, agent, look, known):
    observed = {}
    with report.check(f"matrix of eras: {name} speaks the era that it is to speak, and mcpd with each server the newest that it knows"):
        ended, was_modern = look.result()
        assert ended.returncode == 0, ended.stderr[-4000:]
        observed = json.loads(ended.stdout)
        assert observed["modern"] == agent.is_modern, observed
        assert was_modern == {name: server.is_modern for name, server in known.items()}, was_modern
    for server in known:
        with report.check(f"matrix of eras: {name} sees of a server on {server} what any agent sees of any"):
            actual, required = observed[server], expected(server, agent)
            wrong = [what for what in required if actual.get(what) != required[what]]
            assert not wrong, "; ".join(f"{what}: {actual.get(what)} instead of {required[what]}" for what in wrong)


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    known, looking = servers(arguments.installed), agents(arguments.installed)
    with ThreadPoolExecutor(2) as pool:
        looks = {
            (name, listener): pool.submit(look, arguments.mcpd, known, agent, listener)
            for name, agent in looking.items()
            for listener in agent.listeners
        }
        for (name, listener), one in looks.items():
            check(report, f"{listener}: {name}", looking[name], one, known)


if __name__ == "__main__":
    main()
