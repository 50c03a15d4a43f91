"""Checks tasks with SDKs on both ends: tasks of 2025-11-25, and of the extension. Tasks do not cross eras."""

import json
import subprocess
from pathlib import Path

import results
from daemon import Daemon, Server

HERE = Path(__file__).parent
TIMEOUT = 60
# By the outcome of a task.
SEEN = {"runs": [False, "built"], "errors": [True, "on purpose"], "asks": [False, "Hello, Ada!"], "cancels": "cancelled"}


def main():
    arguments = results.arguments(__doc__)
    report, installed = results.Results(arguments.results), arguments.installed
    python = str(installed / "mcp-1/bin/python")
    servers = {
        "python-1": Server([python, str(HERE / "task_server.py")]),
        "rmcp": Server([str(installed / "task-server")], era="modern"),
    }
    # By name: the command, the server of the same era, and what is observed. Of the extension no tool says beforehand that it
    # makes tasks.
    agents = {
        "line 1 of Python": ([python, str(HERE / "task_agent.py")], "python-1", SEEN | {"offers": True}),
        "rmcp": ([str(installed / "task-agent")], "rmcp", SEEN),
    }
    for name, (command, server, expected) in agents.items():
        observed = {}
        with Daemon(arguments.mcpd, servers) as daemon, report.check(f"tasks: {name} goes through its part"):
            config = {"command": daemon.connecting(), "servers": {server: f"{server}__"}}
            ended = subprocess.run([*command, json.dumps(config)], capture_output=True, text=True, timeout=TIMEOUT)
            assert ended.returncode == 0, ended.stderr[-4000:]
            observed = json.loads(ended.stdout)
        with report.check(f"tasks: {name} has those of a server on {server} end as any"):
            assert observed.get(server) == expected, observed.get(server)


main()
