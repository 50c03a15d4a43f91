"""Checks mcpd with real servers and the installed line of the Python SDK."""

import signal

import anyio

import ending
import projects
import results
import sdk
import seen_by_agents
from entry_points import Connect, Socket
from world import World

# Time limit of one check.
TIMEOUT = 60


async def check_agents(arguments, results):
    async with World(arguments.mcpd, arguments.installed) as world:
        for door in (Socket, Connect):
            for check in seen_by_agents.ALL:
                with results.check(f"mcp {sdk.VERSION}, {door.__name__.lower()}: an agent {check.__doc__}"), world.log_shown():
                    with anyio.fail_after(TIMEOUT):
                        await check(world, door)
        with results.check(f"mcp {sdk.VERSION}: the filesystem server never hears of a denied tool"):
            called = {message["params"]["name"] for message in world.heard("filesystem") if message["method"] == "tools/call"}
            assert called == {"list_directory", "read_text_file"}, called


async def check_projects(arguments, results):
    with results.check(f"mcp {sdk.VERSION}: agents in two directories each see their own project, and share a copy of each server where they are in one"):
        with anyio.fail_after(TIMEOUT):
            await projects.check(arguments.mcpd, arguments.installed)


def check_endings(arguments, results):
    for how in (signal.SIGTERM, signal.SIGKILL):
        with results.check(f"mcp {sdk.VERSION}: {how.name} leaves no process"):
            ending.check(arguments.mcpd, arguments.installed, how)


def main():
    arguments = results.arguments(__doc__)
    kept = results.Results(arguments.results)
    anyio.run(check_agents, arguments, kept)
    anyio.run(check_projects, arguments, kept)
    check_endings(arguments, kept)


main()
