"""A server on line 1 of the Python SDK whose tools have to be called as tasks of 2025-11-25, which its SDK makes."""

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, TextContent, Tool, ToolExecution

WHO = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
server = Server("tasks")
server.experimental.enable_tasks()


def text_result(text, is_error=False):
    return CallToolResult(content=[TextContent(type="text", text=text)], isError=is_error)


async def build(_):
    return text_result("built")


async def fail(_):
    return text_result("on purpose", is_error=True)


async def ask(task):
    answer = await task.elicit(message="Who are you?", requestedSchema=WHO)
    return text_result(f"Hello, {answer.content['name']}!")


async def wait(_):
    await anyio.sleep(30)
    return text_result("nobody gave it up")


WORK = {work.__name__: work for work in [ask, build, fail, wait]}


@server.list_tools()
async def list_tools():
    execution = ToolExecution(taskSupport="required")
    return [Tool(name=name, inputSchema={"type": "object"}, execution=execution) for name in WORK]


@server.call_tool()
async def call_tool(name, _):
    async def work(task):
        await anyio.sleep(0.1)
        return await WORK[name](task)

    experimental = server.request_context.experimental
    experimental.validate_task_mode("required")
    return await experimental.run_task(work)


async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
