"""Checks every combination of an SDK as agent and an SDK as server: in either era, the agent gets the same from a server through
mcpd."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import results
from daemon import Daemon, Server

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


@dataclass(frozen=True)
class Program:
    """An agent, or a server that is told its own name."""

    command: list
    is_modern: bool
    config: dict = field(default_factory=dict)


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
    pinned = {"pin": "2026-07-28"}
    return {
        "line 1 of Python": Program([str(installed / "mcp-1/bin/python"), python], False),
        "line 2 of Python": Program([str(installed / "mcp-2/bin/python"), python], True, {"mode": "auto"}),
        "line 1 of TypeScript": Program(node, False, {**modules, "sdk": "sdk"}),
        "line 2 of TypeScript": Program(node, False, {**modules, "sdk": "client", "mode": "legacy"}),
        "line 2 of TypeScript, which probes,": Program(node, True, {**modules, "sdk": "client", "mode": "auto"}),
        "line 2 of TypeScript, which is pinned,": Program(node, True, {**modules, "sdk": "client", "mode": pinned}),
        "rmcp": Program(rmcp, False, {"mode": "legacy"}),
        "rmcp, stateless,": Program(rmcp, True, {"mode": "modern"}),
    }


def expected(server):
    """What there is to see of it."""
    if server != "python-1":
        return SEEN
    # Its SDK declares no subscriptions.
    return {what: observed for what, observed in SEEN.items() if what != "updates"} | {"lists": [*filter("touch".__ne__, TOOLS)]}


def look(mcpd, known, agent):
    """How an agent ended that looks at all servers, and the eras that they were opened in. It has a daemon of its own: a
    server that another has left a call at asks nobody."""
    with TemporaryDirectory(prefix="mcpd-matrix-") as directory:
        logs = {name: Path(directory) / name for name in known}
        # Those that have both eras would be spoken to in the legacy one, as one instance serves agents of both.
        overheard = {
            name: Server([TEE, str(logs[name]), *server.command], era="modern" if server.is_modern else "auto")
            for name, server in known.items()
        }
        with Daemon(mcpd, overheard) as daemon:
            config = {
                **agent.config,
                "command": daemon.connecting(),
                "servers": {name: f"{name}__" for name in known},
                "checks": {name: list(expected(name)) for name in known},
            }
            command = [*agent.command, json.dumps(config)]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        received = {name: [json.loads(line).get("method") for line in log.open()] for name, log in logs.items()}
        return ended, {name: "notifications/initialized" not in methods for name, methods in received.items()}


def check(report, name, agent, looked, known):
    ended, was_modern = looked
    observed = {}
    with report.check(f"matrix of eras: {name} speaks the era that it is to speak, and mcpd with each server the newest that it knows"):
        assert ended.returncode == 0, ended.stderr[-4000:]
        observed = json.loads(ended.stdout)
        assert observed["modern"] == agent.is_modern, observed
        assert was_modern == {name: server.is_modern for name, server in known.items()}, was_modern
    for server in known:
        with report.check(f"matrix of eras: {name} sees of a server on {server} what any agent sees of any"):
            actual, required = observed[server], expected(server)
            wrong = [what for what in required if actual.get(what) != required[what]]
            assert not wrong, "; ".join(f"{what}: {actual.get(what)} instead of {required[what]}" for what in wrong)


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    known, looking = servers(arguments.installed), agents(arguments.installed)
    with ThreadPoolExecutor(2) as pool:
        looks = {name: pool.submit(look, arguments.mcpd, known, agent) for name, agent in looking.items()}
        for name, one in looks.items():
            check(report, name, looking[name], one.result(), known)


if __name__ == "__main__":
    main()
