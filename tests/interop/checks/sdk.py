"""One interface for both lines of the Python SDK, which differ only in names."""

from contextlib import asynccontextmanager
from importlib.metadata import version

import mcp

VERSION = version("mcp")
IS_1 = VERSION.startswith("1.")

if IS_1:
    from mcp.types import JSONRPCMessage

    Error = mcp.McpError
    parse = JSONRPCMessage.model_validate_json
else:
    from mcp_types import jsonrpc_message_adapter

    Error = mcp.MCPError
    parse = jsonrpc_message_adapter.validate_json


class Agent:
    """A connected client with plain JSON values."""

    def __init__(self, client):
        self._client = client

    async def tools(self):
        return _json(await self._client.list_tools())["tools"]

    async def call(self, tool, arguments, on_progress=None):
        return _json(await self._client.call_tool(tool, arguments, progress_callback=on_progress))

    async def text(self, tool, arguments, on_progress=None):
        """The text result of a tool."""
        return (await self.call(tool, arguments, on_progress))["content"][0]["text"]

    async def refusal(self, tool, arguments, on_progress=None):
        """The error of a call, as code and message."""
        try:
            result = await self.call(tool, arguments, on_progress)
        except Error as error:
            return error.error.code, error.error.message
        raise AssertionError(f"{tool} was called: {result}")


async def _asked(*_):
    raise AssertionError("nothing here makes a server ask")


# Has an agent declare what mcpd declares to a server that several agents share: some servers list more for it.
ABLE = {"sampling_callback": _asked, "elicitation_callback": _asked}


@asynccontextmanager
async def connect(transport, **answers):
    """An initialised agent at the other end of `transport`, which declares what it has `answers` for.

    Line 1 opens with `initialize`, line 2 with `server/discover`.
    """
    if IS_1:
        async with transport as (read, write), mcp.ClientSession(read, write, **answers) as session:
            await session.initialize()
            yield Agent(session)
    else:
        # Without its cache, so that lists are current.
        async with mcp.Client(transport, cache=None, **answers) as client:
            yield Agent(client)


def _json(result):
    return result.model_dump(mode="json", by_alias=True, exclude_unset=True)
