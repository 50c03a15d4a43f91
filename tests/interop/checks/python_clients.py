"""Checks mcpd with real servers and the installed line of the Python SDK."""

import signal
from itertools import product

import anyio

import shutdown_checks
import projects
import results
import sdk
import agent_checks
from entry_points import Connect, Http, Loopback, Socket
from testbed import Testbed

# Time limit of one check.
TIMEOUT = 60


async def check_agents(arguments, results, level, checks):
    async with Testbed(arguments.mcpd, arguments.installed, level) as testbed:
        for door, check in checks:
            title = f"mcp {sdk.VERSION}, {door.__name__.lower()}, sandbox level {level}: an agent {check.__doc__}"
            with results.check(title), testbed.log_shown():
                with anyio.fail_after(TIMEOUT):
                    await check(testbed, door)
        with results.check(f"mcp {sdk.VERSION}, sandbox level {level}: the filesystem server never hears of a denied tool"):
            called = {message["params"]["name"] for message in testbed.received("filesystem") if message["method"] == "tools/call"}
            assert called == {"list_directory", "read_text_file"}, called


async def check_projects(arguments, results):
    with results.check(f"mcp {sdk.VERSION}: agents in two directories each see their own project, and share a copy of each server where they are in one"):
        with anyio.fail_after(TIMEOUT):
            await projects.check(arguments.mcpd, arguments.installed)


def check_endings(arguments, results):
    for how, level in product((signal.SIGTERM, signal.SIGKILL), ("scope", "files")):
        with results.check(f"mcp {sdk.VERSION}, sandbox level {level}: {how.name} leaves no process"):
            shutdown_checks.check(arguments.mcpd, arguments.installed, how, level)


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    by_lines, over_http = product((Socket, Connect), agent_checks.ALL), product((Http, Loopback), agent_checks.OVER_HTTP)
    anyio.run(check_agents, arguments, report, "scope", (*by_lines, *over_http))
    anyio.run(check_agents, arguments, report, "files", product((Socket,), agent_checks.ALL))
    anyio.run(check_projects, arguments, report)
    check_endings(arguments, report)


main()
