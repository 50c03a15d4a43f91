"""An agent on either line of the Python SDK, which prints as JSON what it observed of each server.

usage: matrix_agent.py JSON, with the members
            those of an address of `Daemon.address`
  servers   the prefix of the exposed names of each server, by its name
  checks    the names of the checks for each server
  mode      of line 2 and FastMCP: auto, legacy or a version
  sdk       fastmcp for that client
"""

import json
import sys
from contextlib import asynccontextmanager, suppress

import anyio
import mcp

import transport
from observation import observe

IS_1 = not hasattr(mcp, "Client")
if IS_1:
    from mcp import types
else:
    import mcp_types as types


def make_client(config, answers):
    """A client of line 2, or of FastMCP with the same methods."""
    if config.get("sdk") == "fastmcp":
        import fastmcp_client

        return fastmcp_client.connected(config, **answers)
    return mcp.Client(transport.connecting(config), cache=None, mode=config["mode"], log_level="info", **answers)


class Agent:
    """A connected agent with its received messages. It answers elicitations as Ada."""

    def __init__(self):
        self.received = []
        self.logged = []
        self.is_modern = False
        self.client = None
        # The one that is looked at.
        self.server = None

    @asynccontextmanager
    async def connected(self, config):
        answers = {
            "elicitation_callback": self._elicited,
            "logging_callback": self._log,
            "message_handler": self._message,
        }
        if IS_1:
            async with transport.connecting(config) as (read, write), mcp.ClientSession(read, write, **answers) as self.client:
                await self.client.initialize()
                await self._set_level()
                yield self
            return
        async with make_client(config, answers) as self.client:
            self.is_modern = self.client.protocol_version >= "2026-07-28"
            if not self.is_modern:
                await self._set_level()
            yield self

    async def _set_level(self):
        # Servers without a settable level log everything.
        with suppress(Exception):
            await self.client.set_logging_level("info")

    async def _elicited(self, _, params):
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def _log(self, params):
        self.logged.append(params.data)

    async def _message(self, message):
        fields = json.loads(message.model_dump_json(by_alias=True)) if hasattr(message, "model_dump_json") else {}
        self.received.append((fields.get("method"), (fields.get("params") or {}).get("uri")))

    async def names(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def resources(self):
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def call(self, tool, **more):
        arguments = more.pop("arguments", {})
        return await self.client.call_tool(tool, arguments, **more)

    async def text(self, tool, **more):
        return (await self.call(tool, **more)).content[0].text

    @asynccontextmanager
    async def listening(self, uri=None):
        """Subscribes to tool changes and the resource, as the era requires."""
        if not self.is_modern:
            if uri:
                await self.client.subscribe_resource(uri)
            yield
            if uri:
                await self.client.unsubscribe_resource(uri)
            return
        async with self.client.listen(tools_list_changed=True, resource_subscriptions=[uri] if uri else []) as events:
            async with anyio.create_task_group() as hearing:
                hearing.start_soon(self._hear, events)
                yield
                hearing.cancel_scope.cancel()

    async def _hear(self, events):
        async for event in events:
            if uri := getattr(event, "uri", None):
                self.received.append(("notifications/resources/updated", uri))
            else:
                self.received.append(("notifications/tools/list_changed", None))

    async def hear(self, method, uri=None):
        while (method, uri) not in self.received:
            await anyio.sleep(0.01)


async def lists(agent, prefix):
    names = [name.removeprefix(prefix) for name in await agent.names() if name.startswith(prefix)]
    return sorted(name for name in names if name != "changed")


async def calls(agent, prefix):
    return await agent.text(f"{prefix}echo", arguments={"text": "ä\n"})


async def errors(agent, prefix):
    failed = await agent.call(f"{prefix}fail")
    is_error = failed.isError if IS_1 else failed.is_error
    return [is_error, "on purpose" in failed.content[0].text]


async def progress(agent, prefix):
    received = []

    async def on_progress(progress, total, message):
        received.append([progress, total])

    text = await agent.text(f"{prefix}count", arguments={"to": 3}, progress_callback=on_progress)
    return [received, text]


async def cancels(agent, prefix):
    under_way = anyio.Event()
    name = f"{mcp.__name__}-{anyio.current_time()}"

    async def on_progress(*_):
        under_way.set()

    async def wait():
        await agent.call(f"{prefix}wait", arguments={"name": name}, progress_callback=on_progress)

    async with anyio.create_task_group() as calls:
        id = agent.client._request_id if IS_1 else None
        calls.start_soon(wait)
        await under_way.wait()
        if IS_1:
            # This SDK line does not send a cancellation by itself.
            cancelled = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=id))
            await agent.client.send_notification(types.ClientNotification(cancelled))
        calls.cancel_scope.cancel()
    while (await agent.text(f"{prefix}was_cancelled", arguments={"name": name})).lower() != "true":
        await anyio.sleep(0.01)
    return "given up"


async def asks(agent, prefix):
    return await agent.text(f"{prefix}ask")


async def logs(agent, prefix):
    agent.logged.clear()
    text = await agent.text(f"{prefix}log", arguments={"text": "for the log"})
    while not agent.logged:
        await anyio.sleep(0.01)
    return [text, list(agent.logged)]


async def changes(agent, prefix):
    before = f"{prefix}changed" in await agent.names()
    async with agent.listening():
        agent.received.clear()
        await agent.text(f"{prefix}change")
        await agent.hear("notifications/tools/list_changed")
    while (f"{prefix}changed" in await agent.names()) == before:
        await anyio.sleep(0.01)
    return "changed"


async def updates(agent, prefix):
    (uri,) = [uri for uri in await agent.resources() if uri == f"matrix://{agent.server}/watched"]
    async with agent.listening(uri):
        agent.received.clear()
        await agent.text(f"{prefix}touch")
        await agent.hear("notifications/resources/updated", uri)
    return "updated"


# Last, since the server may still work on a cancelled call.
CHECKS = [lists, calls, errors, progress, asks, logs, changes, updates, cancels]


async def main():
    config = json.loads(sys.argv[1])
    agent = Agent()
    async with agent.connected(config):
        observed = {"modern": agent.is_modern}
        for agent.server, prefix in config["servers"].items():
            checks = [check for check in CHECKS if check.__name__ in config["checks"][agent.server]]
            observed[agent.server] = {check.__name__: await observe(check, agent, prefix) for check in checks}
        print(json.dumps(observed))


anyio.run(main)
