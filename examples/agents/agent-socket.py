"""An agent in Python that opens the socket itself: lists the tools, calls one, prints its answer.

    pip install 'mcp>=2'
    python agent-socket.py [TOOL [ARGUMENTS-AS-JSON]]

Copy `mcpd_socket`: it is a transport for the SDK. It needs a daemon that runs, and no mcpd on the PATH.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

# More than any message of mcpd: `max_message` is 10 MiB by default.
LONGEST_LINE = 64 << 20


def socket_path():
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    login = Path(f"/run/user/{os.getuid()}")
    if runtime:
        return Path(runtime) / "mcpd/mcp.sock"
    if login.is_dir() and login.stat().st_uid == os.getuid():
        return login / "mcpd/mcp.sock"
    return Path.home() / ".local/state/mcpd/run/mcp.sock"


@asynccontextmanager
async def mcpd_socket(path):
    """The SDK's streams of messages over lines of JSON."""
    try:
        stream = await anyio.connect_unix(path)
    except OSError as error:
        raise ConnectionError(f"no mcpd serves {path}: {error}") from error
    to_session, from_mcpd = anyio.create_memory_object_stream(0)
    to_mcpd, from_session = anyio.create_memory_object_stream(0)

    async def read():
        lines = BufferedByteReceiveStream(stream)
        async with to_session:
            try:
                while True:
                    line = await lines.receive_until(b"\n", LONGEST_LINE)
                    try:
                        message = SessionMessage(jsonrpc_message_adapter.validate_json(line))
                    except ValueError as error:
                        message = error
                    await to_session.send(message)
            except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return

    async def write():
        async with from_session:
            try:
                async for message in from_session:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stream.send(line.encode() + b"\n")
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return

    async with stream, anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        async with from_mcpd, to_mcpd:
            yield from_mcpd, to_mcpd
        tasks.cancel_scope.cancel()


async def agent(tool="demo__echo", arguments='{"text": "hello"}'):
    async with Client(mcpd_socket(socket_path())) as client:
        print("tools:", *[tool.name for tool in await all_tools(client)], flush=True)
        result = await client.call_tool(tool, json.loads(arguments))
    texts = [block.text if block.type == "text" else block.model_dump_json() for block in result.content]
    if result.is_error:
        sys.exit(f"agent: {tool} failed: " + "\n".join(texts))
    print(*texts, sep="\n")


async def all_tools(client):
    tools, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools


try:
    asyncio.run(agent(*sys.argv[1:]))
except Exception as error:
    # Groups, since several things go on at once.
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    sys.exit(f"agent: {error}")
