"""FastMCP's client, with the method names of line 2 of the Python SDK."""

from contextlib import asynccontextmanager

import fastmcp
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

import transport

LEVEL = "io.modelcontextprotocol/logLevel"


class FastMcpClient:
    def __init__(self, client):
        self._client = client
        self.protocol_version = client.protocol_version
        self.list_tools = client.list_tools_mcp
        self.list_resources = client.list_resources_mcp
        self.set_logging_level = client.set_logging_level
        self.subscribe_resource = client.session.subscribe_resource
        self.unsubscribe_resource = client.session.unsubscribe_resource

    async def call_tool(self, name, arguments, progress_callback=None):
        return await self._client.call_tool_mcp(name, arguments, progress_callback, meta={LEVEL: "info"})


@asynccontextmanager
async def connected(config, elicitation_callback, logging_callback, message_handler):
    async def elicited(_message, _type, params, context):
        return await elicitation_callback(context, params)

    handlers = {"elicitation_handler": elicited, "log_handler": logging_callback, "message_handler": message_handler}
    async with fastmcp.Client(_transport(config), mode=config["mode"], **handlers) as client:
        yield FastMcpClient(client)


def _transport(config):
    if command := config.get("command"):
        return StdioTransport(command=command[0], args=command[1:])
    if "socket" in config:
        return StreamableHttpTransport(config["url"], httpx_client_factory=lambda **_: transport.http_client(config))
    return StreamableHttpTransport(config["url"], auth=config["token"])
