"""Checks that agent frameworks list and call through `mcpd connect`, set up as in docs/agents.md. Uses no model."""

import asyncio
import importlib.util
import os
import re
from importlib.metadata import version
from pathlib import Path

import results
from configured_home import NOTE, ConfiguredHome

PAGE = Path(__file__).parents[3] / "docs/agents.md"
TIMEOUT = 60


async def langchain(mcpd, tool, arguments):
    tools = {tool.name: tool for tool in await mcpd.get_tools()}
    [block] = await tools[tool].ainvoke(arguments)
    return list(tools), block["text"]


async def openai_agents(mcpd, tool, arguments):
    async with mcpd:
        tools = await mcpd.list_tools()
        result = await mcpd.call_tool(tool, arguments)
        return [tool.name for tool in tools], result.content[0].text


async def pydantic_ai(mcpd, tool, arguments):
    from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    received = []

    def model(messages, info):
        """Calls the tool, then is done."""
        if len(messages) == 1:
            received.append([tool.name for tool in info.function_tools])
            return ModelResponse(parts=[ToolCallPart(tool, arguments)])
        # It gets the structured content where there is one.
        received.append(messages[-1].parts[0].content["content"])
        return ModelResponse(parts=[TextPart("done")])

    await Agent(FunctionModel(model), toolsets=[mcpd]).run("go")
    return received


# The title on the page: the package, its module, what is done with it.
FRAMEWORKS = {
    "LangChain, LangGraph": ("langchain-mcp-adapters", "langchain_mcp_adapters", langchain),
    "OpenAI Agents SDK": ("openai-agents", "agents", openai_agents),
    "pydantic-ai": ("pydantic-ai-slim", "pydantic_ai", pydantic_ai),
}


def shown(title):
    """What the lines of the page make of mcpd."""
    section = PAGE.read_text().split(f"### {title}\n")[1]
    names = {}
    exec(re.search("```python\n(.*?)```", section, re.DOTALL)[1], names)
    return names["mcpd"]


async def check(title, use, configured_home):
    async with asyncio.timeout(TIMEOUT):
        tools, answer = await use(shown(title), *configured_home.call)
    assert sorted(tools) == sorted(configured_home.tools()), tools
    assert answer == NOTE, answer


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    with ConfiguredHome(arguments.mcpd, arguments.installed) as configured_home:
        os.environ.pop("XDG_RUNTIME_DIR", None)
        os.environ.update(configured_home.environment())
        for title, (package, module, use) in FRAMEWORKS.items():
            if importlib.util.find_spec(module):
                with report.check(f"{package} {version(package)}, set up as docs/agents.md shows, lists and calls what others do"):
                    asyncio.run(check(title, use, configured_home))


main()
