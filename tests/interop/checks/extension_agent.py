"""An agent of FastMCP that uses skills and apps of servers, and prints as JSON what it observed of each.

usage: extension_agent.py JSON, with the members of extension_agent.js but for `modules`
"""

import asyncio
import base64
import hashlib
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.skills import SkillsClientExtension
from mcp.shared.exceptions import MCPError


def content(part):
    text = getattr(part, "text", None)
    return base64.b64decode(part.blob) if text is None else text.encode()


def digest(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def outcome(request):
    try:
        return {"result": plain(await request)}
    except MCPError as error:
        return {"code": error.error.code}


async def skills(client, server):
    observed = []
    for entry in [entry for entry in await client.list_skills() if f"/{server}-" in entry.uri]:
        files = []
        for file in entry.resources:
            [part] = await client.read_resource(file.uri)
            files.append({"uri": file.uri, "mimeType": part.mime_type, "isSame": digest(content(part)) == file.digest})
        isSame = plain(await client.get_skill(entry.uri)) == plain(entry)
        observed.append({"entry": plain(entry), "isSame": isSame, "files": files})
    return {"observed": observed, "unknown": await outcome(client.get_skill(f"skill://{server}-none/SKILL.md"))}


async def app(client, prefix):
    [tool] = [tool for tool in await client.list_tools() if tool.name == f"{prefix}show"]
    [part] = await client.read_resource(tool.meta["ui"]["resourceUri"])
    called = await client.call_tool(f"{prefix}show", {"text": "ä"})
    return {"meta": tool.meta, "view": plain(part), "called": called.content[0].text}


async def main():
    config = json.loads(sys.argv[1])
    transport = StdioTransport(command=config["command"][0], args=config["command"][1:])
    async with Client(transport, extensions=[SkillsClientExtension()]) as client:
        observed = {}
        for server, prefix in config["servers"].items():
            observed[server] = {"skills": await skills(client, server), "app": await app(client, prefix)}
        print(json.dumps(observed))


asyncio.run(main())
