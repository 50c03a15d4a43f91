"""Checks that each feature of server-everything works through `mcpd connect` and over HTTP as it does directly, with an SDK of each
language.

What an agent sees on stdio directly is what it has to see with an instance of its own, and with a shared one, whatever leads
from mcpd to the server: of three copies behind one mcpd, one is on stdio and two are reached by URL. Another agent is connected
all the time, which may be told nothing but that lists have changed. Over HTTP, an agent uses the face of a copy.
"""

import asyncio
import json
import re
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

import results
import sdk
from copies import COPIES, SESSION, copies
from daemon import HTTP, LINES, LOOPBACK, Daemon, alone
from feature_agent import Agent, connect
from features import ALL, DIRECTLY, OWN, SHARED
from software import Software

# Copies that agents use over HTTP.
FACES = {"at_socket": HTTP, "at_loopback": LOOPBACK}
# One check, however it hangs.
TIMEOUT = 60


class Python:
    """Line 1."""

    name = f"mcp {sdk.VERSION}"

    @asynccontextmanager
    async def agent(self, address, prefix, declares):
        """A function that gives what an agent sees of a feature."""
        async with connect(address, prefix, declares) as agent:

            async def observe(check):
                agent.forget()
                return await check(agent)

            yield observe


class TypeScript:
    """Line 1. Its checks are in features.js, under the same names."""

    def __init__(self, modules):
        self._modules = str(modules)
        package = json.loads((modules / "@modelcontextprotocol/sdk/package.json").read_text())
        self.name = f"{package['name']} {package['version']}"

    @asynccontextmanager
    async def agent(self, address, prefix, declares):
        config = {"modules": self._modules, **address, "prefix": prefix, "declares": declares}
        script = Path(__file__).with_name("features.js")
        process = await asyncio.create_subprocess_exec("node", str(script), json.dumps(config), stdin=-1, stdout=-1, limit=1 << 24)

        async def observe(check):
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
            return outcome["value"]

        try:
            yield observe
        finally:
            process.stdin.close()
            with anyio.move_on_after(TIMEOUT, shield=True) as waiting:
                await process.wait()
            if waiting.cancelled_caught:
                process.kill()


@dataclass(frozen=True)
class Way:
    """What leads to a copy of the server."""

    name: str
    # One of those that features tell apart.
    kind: str
    address: dict
    # What is put before the server's names.
    prefix: str = ""
    # Does nothing.
    bystander: Agent | None = None


@asynccontextmanager
async def ways_to(mcpd, software):
    """The direct one; then those with an instance of its own; then those with a shared one."""
    ways = [[Way(DIRECTLY, DIRECTLY, {"command": software.node("everything").command})]]
    async with AsyncExitStack() as stack:
        for kind, sharing in ((OWN, "session"), (SHARED, "shared")):
            servers, settings = stack.enter_context(copies(software, sharing))
            daemon = stack.enter_context(Daemon(mcpd, servers, settings))
            bystander = await stack.enter_async_context(connect(daemon.address(LINES), ""))
            led = {name: {"command": daemon.connecting("--profile", alone(name))} for name in COPIES}
            ways.append([Way(f"{kind}{link}", kind, led[name], f"{name}__", bystander) for name, link in COPIES.items()])
            over_http = stack.enter_context(Daemon(mcpd, {name: servers["everything"] for name in FACES}, has_loopback=True))
            faces = {name: over_http.address(listener, name) for name, listener in FACES.items()}
            ways.append([Way(f"{kind} at a face, {FACES[name]}", kind, address) for name, address in faces.items()])
        yield ways


async def check_with(sdk, report, ways):
    expected = {}
    for together in ways:
        async with anyio.create_task_group() as going:
            for way in together:
                going.start_soon(check_way, sdk, report, way, expected)


async def check_way(sdk, report, way, expected):
    here = [feature for feature in ALL if way.kind in feature.ways]
    # One agent for those that need the same of it, in the order of the first of them.
    for declares in dict.fromkeys(feature.declares for feature in here):
        features = [feature for feature in here if feature.declares == declares]
        declaring = f" that declares {', '.join(declares)}" if declares else ""
        async with sdk.agent(way.address, way.prefix, declares) as observe:
            for feature in features:
                name = f"{sdk.name}, {way.name}: an agent{declaring} {feature.check.__doc__}"
                with report.check(name), anyio.fail_after(TIMEOUT):
                    observed = await observe(feature.check)
                    assert observed, "nothing"
                    observed = re.sub(SESSION, "", repr(observed))
                    assert observed == expected.setdefault(feature, observed), f"saw {observed}\nexpected {expected[feature]}"
                    received = way.bystander.received if way.bystander else []
                    config = [notification for notification in received if not notification[0].endswith("/list_changed")]
                    assert not config, config


async def check_all(arguments):
    report, software = results.Results(arguments.results), Software(arguments.installed)

    async def check(sdk):
        async with ways_to(arguments.mcpd, software) as ways:
            await check_with(sdk, report, ways)

    async with anyio.create_task_group() as sdks:
        for sdk_ in (Python(), TypeScript(arguments.installed / "node_modules")):
            sdks.start_soon(check, sdk_)


anyio.run(check_all, results.arguments(__doc__))
