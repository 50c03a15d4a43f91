"""Checks mcpd with both lines of the TypeScript SDK, at each entry point; an agent on the Python SDK uses the same servers on loopback."""

import json

import anyio

import results
import sdk as python_sdk
import transport
from daemon import HTTP, LINES, LOOPBACK
from node_agent import agent
from testbed import TASK_ONLY, Testbed

SDKS = {"@modelcontextprotocol/sdk": "sdk", "@modelcontextprotocol/client": "client"}
DENIED = ["filesystem__write_file", "git__git_reset", "filesystem__unknown"]
TIMEOUT = 60


def ways_in(testbed):
    address = testbed.daemon.address
    return {"socket": {"socket": testbed.daemon.socket}, "connect": address(LINES), "http": address(HTTP), "loopback": address(LOOPBACK)}


def known_to(sdk, tools):
    """Tools as the SDK shows them. Line 2 uses the modern era, where tools do not declare task support, and where those that run only as a
    task are not listed."""
    unknown = {"execution"} if sdk == "client" else set()
    tools = [tool for tool in tools if sdk != "client" or tool["name"] not in TASK_ONLY]
    return [{key: value for key, value in tool.items() if key not in unknown} for tool in tools]


async def check(testbed, modules, sdk, way):
    calls = [(name, arguments) for name, arguments, _ in testbed.calls]
    refused = [(name, {}) for name in DENIED]
    on_loopback = transport.connecting(testbed.daemon.address(LOOPBACK))
    async with (
        agent(modules, sdk, way, calls + refused) as one,
        agent(modules, sdk, way, calls) as other,
        python_sdk.connect(on_loopback) as python,
    ):
        for observed in (one, other):
            # If a peer does not answer `server/discover`, line 2 waits for a minute.
            assert observed["seconds"] < 3, observed["seconds"]
            assert observed["tools"] == known_to(sdk, testbed.expected), [tool["name"] for tool in observed["tools"]]
            for (name, _, part), outcome in zip(testbed.calls, observed["outcomes"]):
                assert part in outcome["result"]["content"][0]["text"], (name, outcome)
        refusals = [outcome["error"] for outcome in one["outcomes"][len(calls) :]]
        messages = {refusal["message"].replace(name, "TOOL") for name, refusal in zip(DENIED, refusals)}
        assert {refusal["code"] for refusal in refusals} == {-32602} and len(messages) == 1, refusals
        for name, arguments, part in testbed.calls:
            assert part in await python.text(name, arguments), name
        assert set(testbed.copies().values()) == {1}, testbed.copies()


async def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    modules = arguments.installed / "node_modules"
    async with Testbed(arguments.mcpd, arguments.installed) as testbed:
        for package, sdk in SDKS.items():
            version = json.loads((modules / package / "package.json").read_text())["version"]
            for name, way in ways_in(testbed).items():
                what = "lists and calls what direct clients do, but nothing denied, on one shared copy of each server"
                with report.check(f"{package} {version}, {name}: an agent {what}"), testbed.log_shown():
                    with anyio.fail_after(TIMEOUT):
                        await check(testbed, modules, sdk, way)


anyio.run(main)
