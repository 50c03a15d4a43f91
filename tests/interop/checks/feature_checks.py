"""Checks that each feature of server-everything works through `mcpd connect` as it does directly, with an SDK of each language.

What an agent sees directly is what it has to see with an instance of its own, and with a shared one. There another agent is
connected all the time, which may be told nothing but that lists have changed.
"""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio

import results
import sdk
from daemon import Daemon
from feature_agent import connect
from features import ALL, DIRECTLY, OWN, SHARED
from software import Software

NAME = "everything"
# One check, however it hangs.
PATIENCE = 20


class Python:
    """Line 1."""

    name = f"mcp {sdk.VERSION}"

    @asynccontextmanager
    async def agent(self, command, prefix, declares):
        """A function that gives what an agent sees of a feature."""
        async with connect(command, prefix, declares) as agent:

            async def see(check):
                agent.forget()
                return await check(agent)

            yield see


class TypeScript:
    """Line 1. Its checks are in features.js, under the same names."""

    def __init__(self, modules):
        self._modules = str(modules)
        package = json.loads((modules / "@modelcontextprotocol/sdk/package.json").read_text())
        self.name = f"{package['name']} {package['version']}"

    @asynccontextmanager
    async def agent(self, command, prefix, declares):
        told = {"modules": self._modules, "command": command, "prefix": prefix, "declares": declares}
        script = Path(__file__).with_name("features.js")
        process = await asyncio.create_subprocess_exec("node", str(script), json.dumps(told), stdin=-1, stdout=-1, limit=1 << 24)

        async def see(check):
            process.stdin.write(f"{check.__name__}\n".encode())
            try:
                line = await process.stdout.readline()
            except asyncio.CancelledError:
                # It does one after the other, and would have every other wait too.
                process.kill()
                raise
            assert line, "the agent has ended"
            outcome = json.loads(line)
            assert "error" not in outcome, outcome["error"]
            return outcome["seen"]

        try:
            yield see
        finally:
            process.stdin.close()
            with anyio.move_on_after(PATIENCE, shield=True) as waiting:
                await process.wait()
            if waiting.cancelled_caught:
                process.kill()


@asynccontextmanager
async def ways_to(mcpd, server):
    """For each way a command, what it puts before the server's names, and an agent that does nothing."""

    def connecting(daemon):
        return [daemon.mcpd, "connect", "--runtime-dir", str(daemon.runtime)], f"{NAME}__"

    own, shared = ({NAME: replace(server, sharing=sharing)} for sharing in ("session", "shared"))
    with Daemon(mcpd, own) as own, Daemon(mcpd, shared) as shared:
        async with connect(*connecting(own)) as idle, connect(*connecting(shared)) as other:
            yield {DIRECTLY: (server.command, "", None), OWN: (*connecting(own), idle), SHARED: (*connecting(shared), other)}


async def check_with(sdk, kept, ways):
    expected = {}
    for way, (command, prefix, bystander) in ways.items():
        here = [feature for feature in ALL if way in feature.ways]
        # One agent for those that need the same of it, in the order of the first of them.
        for declares in dict.fromkeys(feature.declares for feature in here):
            features = [feature for feature in here if feature.declares == declares]
            async with sdk.agent(command, prefix, declares) as see:
                for feature in features:
                    declaring = f" that declares {', '.join(declares)}" if declares else ""
                    with kept.check(f"{sdk.name}, {way}: an agent{declaring} {feature.check.__doc__}"), anyio.fail_after(PATIENCE):
                        seen = await see(feature.check)
                        assert seen and seen == expected.setdefault(feature, seen), f"saw {seen}\nexpected {expected[feature]}"
                        told = [said for said in bystander.heard if not said[0].endswith("/list_changed")] if bystander else []
                        assert not told, told


async def check_all(arguments):
    kept, software = results.Results(arguments.results), Software(arguments.installed)

    async def check(sdk):
        async with ways_to(arguments.mcpd, software.node(NAME)) as ways:
            await check_with(sdk, kept, ways)

    async with anyio.create_task_group() as sdks:
        for sdk_ in (Python(), TypeScript(arguments.installed / "node_modules")):
            sdks.start_soon(check, sdk_)


anyio.run(check_all, results.arguments(__doc__))
