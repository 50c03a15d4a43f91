"""Real servers behind one daemon, and their direct view."""

import fnmatch
import json
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from mcp import StdioServerParameters, stdio_client

import sdk
from daemon import Daemon
from software import Software, all_servers, ordinary_calls, sandboxes

HERE = Path(__file__).parent
NOTE = "from the disk\n"

# Legacy tools that run only as a task, which no modern agent can start.
TASK_ONLY = {"everything__simulate-research-query"}


class Testbed:
    """Set up by `async with`; the daemon has all servers, in sandboxes of one level."""

    def __init__(self, mcpd, installed, level="scope"):
        self._cleanup = ExitStack()
        self._directory = Path(self._cleanup.enter_context(TemporaryDirectory(prefix="mcpd-testbed-"))).resolve()
        self._servers = all_servers(Software(installed), self._directory)
        self.note = self._directory / "notes" / "note"
        self.note.write_text(NOTE)
        self.calls = ordinary_calls(self._directory)
        settings = sandboxes(level, installed, self._directory)
        self._daemon = Daemon(mcpd, {name: self._overheard(name) for name in self._servers}, settings, has_loopback=True)
        self.daemon = None
        self.expected = []

    async def __aenter__(self):
        self.daemon = self._cleanup.enter_context(self._daemon)
        observed = {}

        async def look(name, server):
            observed[name] = await self._direct_tools(server)

        async with anyio.create_task_group() as looks:
            for name, server in self._servers.items():
                looks.start_soon(look, name, server)
        for name, server in self._servers.items():
            tools = observed[name]
            allowed = [tool for tool in tools if not any(fnmatch.fnmatch(tool["name"], glob) for glob in server.deny)]
            assert bool(server.deny) == (len(allowed) < len(tools)), f"{name} has nothing to deny"
            self.expected += [{**tool, "name": f"{name}__{tool['name']}"} for tool in allowed]
        return self

    async def __aexit__(self, *_):
        self._cleanup.close()

    @contextmanager
    def log_shown(self):
        """Shows the end of the daemon's log if what is done within fails."""
        try:
            yield
        except Exception:
            print(self.daemon.log()[-4000:])
            raise

    def copies(self):
        """The number of processes of each server."""
        running = [argument for process in self.daemon.descendants() for argument in process.arguments()[1:2]]
        return {name: len(fnmatch.filter(running, server.script)) for name, server in self._servers.items()}

    def received(self, server):
        """The messages sent to a server."""
        lines = self._log(server).read_text().splitlines()
        return [json.loads(line) for line in lines]

    async def _direct_tools(self, server):
        """The list of a client that is alone with the server; servers may add to it when the handshake is over."""
        command, *args = server.command
        with (self._directory / "direct.log").open("w") as log:
            parameters = StdioServerParameters(command=command, args=args, env=server.env, cwd=server.cwd)
            async with sdk.connect(stdio_client(parameters, errlog=log), **sdk.ABLE) as agent:
                before, tools = None, await agent.tools()
                while tools != before:
                    await anyio.sleep(0.5)
                    before, tools = tools, await agent.tools()
                return tools

    def _overheard(self, name):
        server = self._servers[name]
        return replace(server, command=[str(HERE.parent / "tee.sh"), str(self._log(name)), *server.command])

    def _log(self, server):
        return self._directory / f"{server}.jsonl"
