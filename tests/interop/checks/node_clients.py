"""Checks mcpd with both lines of the TypeScript SDK, at each entry point."""

import json

import anyio

import results
from node_agent import agent
from world import World

SDKS = {"@modelcontextprotocol/sdk": "sdk", "@modelcontextprotocol/client": "client"}
DENIED = ["filesystem__write_file", "git__git_reset", "filesystem__unknown"]
TIMEOUT = 60


def ways_in(world):
    connect = {"command": world.daemon.mcpd, "args": ["connect", "--runtime-dir", str(world.daemon.runtime)]}
    return {"socket": {"socket": world.daemon.socket}, "connect": {"launch": connect}}


def known_to(sdk, tools):
    """Tools as the SDK shows them. Line 2 uses the modern era, where tools do not declare task support."""
    unknown = {"execution"} if sdk == "client" else set()
    return [{key: value for key, value in tool.items() if key not in unknown} for tool in tools]


async def check(world, modules, sdk, way):
    calls = [(name, arguments) for name, arguments, _ in world.calls]
    refused = [(name, {}) for name in DENIED]
    async with agent(modules, sdk, way, calls + refused) as one, agent(modules, sdk, way, calls) as other:
        for seen in (one, other):
            # If a peer does not answer `server/discover`, line 2 waits for a minute.
            assert seen["seconds"] < 3, seen["seconds"]
            assert seen["tools"] == known_to(sdk, world.expected), [tool["name"] for tool in seen["tools"]]
            for (name, _, part), outcome in zip(world.calls, seen["outcomes"]):
                assert part in outcome["result"]["content"][0]["text"], (name, outcome)
        refusals = [outcome["error"] for outcome in one["outcomes"][len(calls) :]]
        messages = {refusal["message"].replace(name, "TOOL") for name, refusal in zip(DENIED, refusals)}
        assert {refusal["code"] for refusal in refusals} == {-32602} and len(messages) == 1, refusals
        assert set(world.copies().values()) == {1}, world.copies()


async def main():
    arguments = results.arguments(__doc__)
    kept = results.Results(arguments.results)
    modules = arguments.installed / "node_modules"
    async with World(arguments.mcpd, arguments.installed) as world:
        for package, sdk in SDKS.items():
            version = json.loads((modules / package / "package.json").read_text())["version"]
            for name, way in ways_in(world).items():
                what = "lists and calls what direct clients do, but nothing denied, on one shared copy of each server"
                with kept.check(f"{package} {version}, {name}: an agent {what}"), world.log_shown():
                    with anyio.fail_after(TIMEOUT):
                        await check(world, modules, sdk, way)


anyio.run(main)
