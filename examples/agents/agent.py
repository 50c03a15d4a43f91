"""An agent in Python: lists the tools, calls one, prints its answer.

    pip install 'mcp>=2'
    python agent.py [TOOL [ARGUMENTS-AS-JSON]]

`mcpd connect` is launched as any server on stdio is. How to open the socket itself, with nothing but the standard
library, is in docs/connect.md.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters, stdio_client

MCPD = StdioServerParameters(command="mcpd", args=["connect"])


async def agent(tool="demo__echo", arguments='{"text": "hello"}'):
    async with Client(stdio_client(MCPD)) as client:
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
