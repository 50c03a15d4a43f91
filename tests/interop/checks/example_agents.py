"""Checks each agent in examples/agents with real servers, and with a daemon that uses every freedom of the protocol."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import results
from household import NOTE, Household
from odd_daemon import TOOLS, OddDaemon

EXAMPLES = Path(__file__).parents[3] / "examples/agents"
TIMEOUT = 60


@dataclass(frozen=True)
class Example:
    file: str
    command: list[str]
    # Or else it launches `mcpd connect`.
    opens_socket: bool

    def run(self, environment, *words):
        command = [*self.command, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)


def examples(built):
    """Those that can be run here, of what `run.sh` has built in one directory."""
    yield Example("agent.py", [sys.executable, str(EXAMPLES / "agent.py")], opens_socket=False)
    for name in ("agent", "agent-sdk-1"):
        yield Example(f"{name}.mts", ["node", str(built / f"{name}.mjs")], opens_socket=False)
    yield Example("agent.rs", [str(built / "agent-rs")], opens_socket=True)
    yield Example("agent.go", [str(built / "agent-go")], opens_socket=True)
    if missing := [program for program in ("socat", "jq") if not shutil.which(program)]:
        print(f"skipped: agent.sh: there is no {' and no '.join(missing)}")
    else:
        yield Example("agent.sh", ["bash", str(EXAMPLES / "agent.sh")], opens_socket=True)


def answers(household, example):
    tool, arguments = household.call
    by_default = example.run(household.environment())
    told = example.run(household.environment(), tool, json.dumps(arguments))
    listed = f"tools: {' '.join(household.tools())}\n"
    assert (by_default.stdout, by_default.returncode) == (listed + "hello\n", 0), by_default
    assert (told.stdout, told.returncode) == (f"{listed}{NOTE}\n", 0), told


def failures(household, example):
    nowhere = {**household.environment(), "HOME": "/nowhere"}
    if not example.opens_socket:
        nowhere["PATH"] = nowhere["PATH"].split(":", 1)[1]
    for environment, words, reason in [
        (household.environment(), ["demo__echo", "{}"], "demo__echo failed: An argument is missing"),
        (household.environment(), ["demo__delete_everything", "{}"], "Unknown tool: demo__delete_everything"),
        (nowhere, [], "mcp"),
    ]:
        ran = example.run(environment, *words)
        [line] = ran.stderr.splitlines()
        assert line.startswith("agent: ") and reason in line and ran.returncode == 1, ran


def oddities(household, example):
    with OddDaemon() as daemon:
        ran = example.run({**household.environment(), **daemon.environment()})
        assert (ran.stdout, ran.returncode) == (f"tools: {' '.join(TOOLS)}\nhello\n", 0), ran


def check(kept, household, example):
    with kept.check(f"examples/agents/{example.file} lists, calls and prints what it is answered"):
        answers(household, example)
    with kept.check(f"examples/agents/{example.file} exits 1 with one line if its call fails or nobody serves"):
        failures(household, example)
    if example.opens_socket:
        with kept.check(f"examples/agents/{example.file} follows pages, and takes for an answer only what is one"):
            oddities(household, example)


def main():
    arguments = results.arguments(__doc__)
    kept = results.Results(arguments.results)
    with Household(arguments.mcpd, arguments.installed) as household:
        with kept.check("examples/agents/demo.toml is a configuration"):
            checked = [str(arguments.mcpd), "check", str(EXAMPLES / "demo.toml")]
            subprocess.run(checked, env=household.environment(), capture_output=True, check=True)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda example: check(kept, household, example), examples(arguments.installed / "agents")))


main()
