"""An agent on line 1 of the Python SDK that has tools called as tasks of 2025-11-25, and says as JSON what became of them.

usage: task_agent.py JSON, which holds
  command   what leads to the servers on stdio
  servers   what stands before the names of each, by its own name
"""

import json
import sys

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, ElicitResult

from observation import observe


async def elicited(_, params):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def make(client, tool):
    return (await client.experimental.call_tool_as_task(tool, {})).task.taskId


async def result(client, tool):
    """`isError` of the result, and its text."""
    id = await make(client, tool)
    async for state in client.experimental.poll_task(id):
        if state.status == "input_required":
            # The agent must wait for the result to receive input requests.
            break
    ended = await client.experimental.get_task_result(id, CallToolResult)
    return [bool(ended.isError), ended.content[0].text]


async def cancels(client, tool):
    id = await make(client, tool)
    await client.experimental.cancel_task(id)
    async for state in client.experimental.poll_task(id):
        pass
    listed = [task.status for task in (await client.experimental.list_tasks()).tasks if task.taskId == id]
    return state.status if listed == [state.status] else listed


CHECKS = [("runs", result, "build"), ("errors", result, "fail"), ("asks", result, "ask"), ("cancels", cancels, "wait")]


async def main():
    config = json.loads(sys.argv[1])
    parameters = StdioServerParameters(command=config["command"][0], args=config["command"][1:])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write, elicitation_callback=elicited) as client:
        await client.initialize()
        offered = {tool.name: tool.execution for tool in (await client.list_tools()).tools}
        observed = {}
        for server, prefix in config["servers"].items():
            observed[server] = {what: await observe(check, client, f"{prefix}{tool}") for what, check, tool in CHECKS}
            execution = offered[f"{prefix}build"]
            observed[server]["offers"] = execution is not None and execution.taskSupport in ("optional", "required")
        print(json.dumps(observed))


anyio.run(main)
