"""The transport of either line of the Python SDK to an address of `Daemon.address`."""

from contextlib import asynccontextmanager

import mcp
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

if hasattr(mcp, "Client"):
    import httpx2 as httpx
else:
    import httpx


def connecting(address, **of_stdio):
    if command := address.get("command"):
        return stdio_client(StdioServerParameters(command=command[0], args=command[1:]), **of_stdio)
    return _http(address)


@asynccontextmanager
async def _http(address):
    async with http_client(address) as client, streamable_http_client(address["url"], http_client=client) as streams:
        # Line 1 also returns a function.
        yield streams[:2]


def http_client(address):
    """Makes the client as the SDK does, which has no option for a socket."""
    token, at = address.get("token"), httpx.AsyncHTTPTransport(uds=address.get("socket"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(30, read=300), transport=at)
