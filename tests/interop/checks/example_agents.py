"""Checks each agent in examples/agents with real servers, and with a daemon that uses every freedom of the protocol."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import results
from configured_home import NOTE, ConfiguredHome
from paging_daemon import TOOLS, PagingDaemon

EXAMPLES = Path(__file__).parents[3] / "examples/agents"
TIMEOUT = 60


@dataclass(frozen=True)
class Example:
    file: str
    command: list[str]
    # Or else it launches `mcpd connect`.
    opens_socket: bool
    # The SDK picks the era, which the daemon of the oddities does not.
    is_by_sdk: bool = False

    def run(self, environment, *words):
        command = [*self.command, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)


def examples(built):
    """Those that can be run here, of what `run.sh` has built in one directory."""
    yield Example("agent.py", [sys.executable, str(EXAMPLES / "agent.py")], opens_socket=False)
    yield Example("agent-socket.py", [sys.executable, str(EXAMPLES / "agent-socket.py")], opens_socket=True, is_by_sdk=True)
    for name in ("agent", "agent-sdk-1"):
        yield Example(f"{name}.mts", ["node", str(built / f"{name}.mjs")], opens_socket=False)
    yield Example("agent.rs", [str(built / "agent-rs")], opens_socket=True)
    yield Example("agent.go", [str(built / "agent-go")], opens_socket=True)
    if missing := [program for program in ("socat", "jq") if not shutil.which(program)]:
        print(f"skipped: agent.sh: there is no {' and no '.join(missing)}")
    else:
        yield Example("agent.sh", ["bash", str(EXAMPLES / "agent.sh")], opens_socket=True)


def answers(configured_home, example):
    tool, arguments = configured_home.call
    by_default = example.run(configured_home.environment())
    with_call = example.run(configured_home.environment(), tool, json.dumps(arguments))
    listed = f"tools: {' '.join(configured_home.tools())}\n"
    assert (by_default.stdout, by_default.returncode) == (listed + "hello\n", 0), by_default
    assert (with_call.stdout, with_call.returncode) == (f"{listed}{NOTE}\n", 0), with_call


def failures(configured_home, example):
    nowhere = {**configured_home.environment(), "HOME": "/nowhere"}
    if not example.opens_socket:
        nowhere["PATH"] = nowhere["PATH"].split(":", 1)[1]
    for environment, words, reason in [
        (configured_home.environment(), ["demo__echo", "{}"], "demo__echo failed: An argument is missing"),
        (configured_home.environment(), ["demo__delete_everything", "{}"], "Unknown tool: demo__delete_everything"),
        (nowhere, [], "mcp"),
    ]:
        ran = example.run(environment, *words)
        [line] = ran.stderr.splitlines()
        assert line.startswith("agent: ") and reason in line and ran.returncode == 1, ran


def oddities(configured_home, example):
    with PagingDaemon() as daemon:
        ran = example.run({**configured_home.environment(), **daemon.environment()})
        assert (ran.stdout, ran.returncode) == (f"tools: {' '.join(TOOLS)}\nhello\n", 0), ran


def check(report, configured_home, example):
    with report.check(f"examples/agents/{example.file} lists, calls and prints what it is answered"):
        answers(configured_home, example)
    with report.check(f"examples/agents/{example.file} exits 1 with one line if its call fails or nobody serves"):
        failures(configured_home, example)
    if example.opens_socket and not example.is_by_sdk:
        with report.check(f"examples/agents/{example.file} follows pages, and takes for an answer only what is one"):
            oddities(configured_home, example)


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    with ConfiguredHome(arguments.mcpd, arguments.installed) as configured_home:
        with report.check("examples/agents/demo.toml is a configuration"):
            checked = [str(arguments.mcpd), "check", str(EXAMPLES / "demo.toml")]
            subprocess.run(checked, env=configured_home.environment(), capture_output=True, check=True)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda example: check(report, configured_home, example), examples(arguments.installed / "agents")))


main()
