"""A client on line 1 of the Python SDK that records notifications and answers the server requests that it supports."""

import os
from contextlib import asynccontextmanager

import anyio
from mcp import ClientSession, McpError, types

import transport

# The second root appears once the client has announced a change of its roots.
ROOTS = [types.Root(uri="file:///one", name="one"), types.Root(uri="file:///two", name="two")]


class Agent:
    """Names are the server's own; what leads to it under another has that put before."""

    def __init__(self, prefix):
        self.session = None
        self.prefix = prefix
        # Method and params of every notification.
        self.received = []
        # The params of every request.
        self.requests = []
        self._roots = 1

    def callbacks(self, declares):
        """The handlers of server requests, which declare its capabilities."""
        every = {
            "sampling": ("sampling_callback", self._sample),
            "elicitation": ("elicitation_callback", self._elicit),
            "roots": ("list_roots_callback", self._list_roots),
        }
        return dict(every[capability] for capability in declares)

    async def call(self, tool, arguments=None, **more):
        return _json(await self.session.call_tool(self.prefix + tool, arguments or {}, **more))

    async def text(self, tool, arguments=None, **more):
        """The texts that a tool answers with."""
        content = (await self.call(tool, arguments, **more))["content"]
        return "\n".join(part["text"] for part in content)

    async def refusal(self, ask):
        """The error that a request is answered with, as code and message."""
        try:
            result = await ask
        except McpError as error:
            return [error.error.code, error.error.message]
        raise AssertionError(f"not refused: {result}")

    async def lists(self):
        """What is listed, each under the server's own name."""
        tools, prompts, resources, templates = [
            _json(await ask())
            for ask in (
                self.session.list_tools,
                self.session.list_prompts,
                self.session.list_resources,
                self.session.list_resource_templates,
            )
        ]
        named = [{**item, "name": item["name"].removeprefix(self.prefix)} for item in tools["tools"] + prompts["prompts"]]
        return named + resources["resources"] + templates["resourceTemplates"]

    async def hear(self, condition):
        """Waits for a notification for which the condition holds."""
        while not (found := [params for method, params in self.received if condition(method, params)]):
            await anyio.sleep(0.01)
        return found[0]

    def notifications(self, method):
        """The params of all notifications of this method, in order."""
        return [params for other, params in self.received if other == f"notifications/{method}"]

    def forget(self):
        """The notifications and requests so far."""
        self.received, self.requests = [], []

    async def change_roots(self):
        self._roots += 1
        await self.session.send_roots_list_changed()

    async def on_message(self, message):
        if isinstance(message, types.ServerNotification):
            fields = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
            self.received.append((fields["method"], fields.get("params", {})))
        elif isinstance(message, Exception):
            self.received.append(("exception", repr(message)))

    async def _sample(self, _context, params):
        self.requests.append(params)
        content = types.TextContent(type="text", text=f"sampled: {params.messages[0].content.text}")
        return types.CreateMessageResult(role="assistant", model="none", content=content)

    async def _elicit(self, _context, params):
        self.requests.append(params)
        content = {"name": "Ada", "integer": 7} if params.mode == "form" else None
        return types.ElicitResult(action="accept", content=content)

    async def _list_roots(self, _context):
        return types.ListRootsResult(roots=ROOTS[: self._roots])


@asynccontextmanager
async def connect(address, prefix, declares=()):
    """Connects to what leads to the server, and shakes hands with it."""
    agent, is_done = Agent(prefix), False
    try:
        with open(os.devnull, "w") as log:
            async with transport.connecting(address, errlog=log) as (read, write):
                async with ClientSession(read, write, message_handler=agent.on_message, **agent.callbacks(declares)) as session:
                    agent.session = session
                    await session.initialize()
                    yield agent
                    is_done = True
    except* anyio.BrokenResourceError:
        # What a server says while an agent leaves, the SDK has no place for.
        if not is_done:
            raise


def _json(result):
    return result.model_dump(mode="json", by_alias=True, exclude_unset=True)
