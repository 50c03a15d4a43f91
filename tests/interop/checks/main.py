"""Checks mcpd with real servers and the installed line of the Python SDK.

Prints a line for each check and appends it to the results file, which `run.sh` counts.
"""

import argparse
import signal
import traceback
from pathlib import Path

import anyio

import agents
import ending
import sdk
from doors import Connect, Socket
from world import World

# One check, however it hangs.
PATIENCE = 60


class Results:
    def __init__(self, path):
        self._path = path

    def passed(self, name):
        self._say(f"ok   {name}")

    def failed(self, name):
        traceback.print_exc()
        self._say(f"FAIL {name}")

    def _say(self, line):
        print(line, flush=True)
        with self._path.open("a") as results:
            print(line, file=results)


async def check_agents(arguments, results):
    async with World(arguments.mcpd, arguments.modules) as world:
        for door in (Socket, Connect):
            for check in agents.ALL:
                name = f"mcp {sdk.VERSION}, {door.__name__.lower()}: an agent {check.__doc__}"
                try:
                    with anyio.fail_after(PATIENCE):
                        await check(world, door)
                    results.passed(name)
                except Exception:
                    results.failed(name)
                    print(world.daemon.log()[-4000:])
        check_what_was_heard(world, results)


def check_what_was_heard(world, results):
    name = f"mcp {sdk.VERSION}: the filesystem server never hears of a denied tool"
    try:
        called = {message["params"]["name"] for message in world.heard("filesystem") if message["method"] == "tools/call"}
        assert called == {"read_text_file"}, called
        results.passed(name)
    except Exception:
        results.failed(name)


def check_endings(arguments, results):
    for how in (signal.SIGTERM, signal.SIGKILL):
        name = f"mcp {sdk.VERSION}: {how.name} leaves no process"
        try:
            ending.check(arguments.mcpd, arguments.modules, how)
            results.passed(name)
        except Exception:
            results.failed(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mcpd", type=Path, required=True)
    parser.add_argument("--modules", type=Path, required=True, help="the node_modules with the servers")
    parser.add_argument("--results", type=Path, required=True)
    arguments = parser.parse_args()
    results = Results(arguments.results)
    anyio.run(check_agents, arguments, results)
    check_endings(arguments, results)


main()
