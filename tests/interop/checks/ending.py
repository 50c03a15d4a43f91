"""What is left when the daemon ends: nothing."""

import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

import sdk
from daemon import Daemon, Server, eventually
from doors import Socket
from world import HERE, memory_file, script


def check(mcpd, modules, how):
    """Ends a daemon whose servers stand behind wrappers: npx, which passes no signal on, and one with a daemon of its own."""
    with TemporaryDirectory() as directory:
        servers = {
            "npx": Server(
                ["npx", "--no-install", "mcp-server-memory"], env=memory_file(Path(directory)), cwd=str(modules.parent)
            ),
            "forking": Server([str(HERE.parent / "forking.sh"), *script(modules, "everything")]),
        }
        with Daemon(mcpd, servers) as daemon:
            anyio.run(_use, daemon)
            commands = {Path(process.arguments()[0]).name for process in daemon.descendants()}
            assert "sleep" in commands, commands
            status = daemon.stop(how)
            assert status == (0 if how == signal.SIGTERM else -how), status
            eventually(lambda: not daemon.left(), "no process is left", seconds=5)


async def _use(daemon):
    async with sdk.connect(Socket(daemon).transport()) as agent:
        with anyio.fail_after(30):
            while {"npx", "forking"} != {tool["name"].partition("__")[0] for tool in await agent.tools()}:
                await anyio.sleep(0.1)
        assert await agent.text("forking__echo", {"message": "hello"}) == "Echo: hello"
