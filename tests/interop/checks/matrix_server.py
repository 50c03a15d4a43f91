"""A server on either line of the Python SDK, written as people write them there: line 1 speaks the era of `initialize`,
line 2 the stateless one as well.

usage: matrix_server.py NAME
"""

import asyncio
import sys
from typing import Annotated

import anyio
from pydantic import BaseModel

try:
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver import Context, Elicit, MCPServer as Server, Resolve

    IS_1 = False
except ImportError:
    from mcp.server.fastmcp.exceptions import ToolError
    from mcp.server.fastmcp import Context, FastMCP as Server
    from mcp.server.lowlevel import NotificationOptions
    from mcp.server.stdio import stdio_server

    IS_1 = True

WATCHED = f"matrix://{sys.argv[1]}/watched"
server = Server("matrix")
cancelled = []


class Person(BaseModel):
    name: str


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
def fail() -> str:
    raise ToolError("on purpose")


@server.tool()
async def count(to: int, context: Context) -> str:
    for number in range(1, to + 1):
        await context.report_progress(number, to)
        await asyncio.sleep(0.03)
    # Delay, so that slow agents receive the notification before the result.
    await asyncio.sleep(0.15)
    return f"counted to {to}"


@server.tool()
async def wait(name: str, context: Context) -> str:
    """Waits until the call is cancelled."""
    await context.report_progress(0, 1)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        cancelled.append(name)
        raise
    return "nobody gave it up"


@server.tool()
def was_cancelled(name: str) -> bool:
    return name in cancelled


@server.tool()
async def log(text: str, context: Context) -> str:
    await context.log("warning", text)
    return "logged"


@server.resource(WATCHED)
def watched() -> str:
    return "the same as ever"


def changed() -> str:
    return "here for now"


def toggle():
    try:
        server.remove_tool("changed")
    except Exception:
        server.add_tool(changed)


if IS_1:

    @server.tool()
    async def ask(context: Context) -> str:
        answer = await context.elicit("Who are you?", Person)
        return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action

    @server.tool()
    async def change(context: Context) -> str:
        toggle()
        await context.session.send_tool_list_changed()
        return "changed"

    async def serve():
        options = server._mcp_server.create_initialization_options(NotificationOptions(tools_changed=True))
        async with stdio_server() as (read, write):
            await server._mcp_server.run(read, write, options)

    anyio.run(serve)
else:

    def who():
        return Elicit("Who are you?", Person)

    @server.tool()
    async def ask(person: Annotated[Person, Resolve(who)]) -> str:
        return f"Hello, {person.name}!"

    @server.tool()
    async def change(context: Context) -> str:
        toggle()
        await context.notify_tools_changed()
        return "changed"

    @server.tool()
    async def touch(context: Context) -> str:
        await context.notify_resource_updated(WATCHED)
        return "touched"

    server.run("stdio")
