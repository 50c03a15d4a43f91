"""A typical Python server over HTTP on loopback: with FastMCP, or with either line of the SDK.

usage: PORT=N http_server.py fastmcp|mcp http|sse   (0: a free port; the line "PORT n" reports it)
"""

import asyncio
import os
import socket
import sys

import uvicorn

package, transport = sys.argv[1:]
if package == "fastmcp":
    from fastmcp import Context, FastMCP as Server
else:
    try:
        from mcp.server.mcpserver import Context, MCPServer as Server
    except ImportError:
        from mcp.server.fastmcp import Context, FastMCP as Server

server = Server("http")
cancelled = []


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
def fail() -> str:
    raise ValueError("on purpose")


@server.tool()
async def count(to: int, context: Context) -> str:
    for number in range(1, to + 1):
        await context.report_progress(number, to)
        await asyncio.sleep(0.02)
    return f"counted to {to}"


@server.tool()
async def wait(name: str, context: Context) -> str:
    """Until it is given up."""
    await context.report_progress(0, 1)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        cancelled.append(name)
        raise
    return "nobody gave it up"


@server.tool()
def was_cancelled(name: str) -> bool:
    return name in cancelled


def app():
    if package == "fastmcp":
        return server.http_app(transport=transport)
    return server.sse_app() if transport == "sse" else server.streamable_http_app()


def main():
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(os.environ["PORT"])))
    listening.listen(128)
    print(f"PORT {listening.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app(), log_level="warning")).run(sockets=[listening])


main()
