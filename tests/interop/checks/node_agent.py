"""An agent on a line of the TypeScript SDK."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def agent(modules, sdk, way, calls):
    """The observations of one agent, while it is still connected."""
    calls = [{"name": name, "arguments": arguments} for name, arguments in calls]
    config = {"modules": str(modules), "sdk": sdk, "calls": calls, **way}
    command = ["node", str(Path(__file__).with_name("agent.js")), json.dumps(config)]
    process = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, limit=1 << 24)
    try:
        line = await process.stdout.readline()
        assert line, "the agent ended without a word"
        yield json.loads(line)
    finally:
        process.stdin.close()
        await process.wait()
