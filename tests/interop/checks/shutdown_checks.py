"""Checks that nothing is left when the daemon ends."""

import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

import sdk
from daemon import Daemon, Server, eventually
from entry_points import Socket
from software import Software, memory_file, sandboxes
from testbed import HERE


def check(mcpd, installed, how, level):
    """Ends a daemon whose servers stand behind wrappers: npx and uvx, which leave orphans, and one with a daemon of its own."""
    software = Software(installed)
    with TemporaryDirectory() as directory:
        servers = {
            "npx": software.npx("memory", env=memory_file(Path(directory), "npx")),
            "uvx": software.uvx("time"),
            "forking": Server([str(HERE.parent / "forking.sh"), *software.node("everything").command]),
        }
        with Daemon(mcpd, servers, sandboxes(level, installed, directory)) as daemon:
            anyio.run(_use, daemon)
            commands = {Path(process.arguments()[0]).name for process in daemon.descendants()}
            assert "sleep" in commands, commands
            status = daemon.stop(how)
            assert status == (0 if how == signal.SIGTERM else -how), status
            eventually(lambda: not daemon.left(), "no process is left")


async def _use(daemon):
    async with sdk.connect(Socket(daemon).transport()) as agent:
        with anyio.fail_after(60):
            while {"npx", "uvx", "forking"} != {tool["name"].partition("__")[0] for tool in await agent.tools()}:
                await anyio.sleep(0.1)
        assert await agent.text("forking__echo", {"message": "hello"}) == "Echo: hello"
