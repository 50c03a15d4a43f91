"""Three real servers behind one daemon, and what each of them looks like without it."""

import json
from contextlib import ExitStack
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from mcp import StdioServerParameters, stdio_client

import sdk
from daemon import Daemon, Server

HERE = Path(__file__).parent
DENY = ["write_*", "move_file"]
NOTE = "from the disk\n"


class World:
    """Set up by `async with`; the daemon has the servers as `everything`, `filesystem` and `memory`."""

    def __init__(self, mcpd, modules):
        self._cleanup = ExitStack()
        self._directory = Path(self._cleanup.enter_context(TemporaryDirectory(prefix="mcpd-world-"))).resolve()
        self.note = self._directory / "notes" / "note"
        self.note.parent.mkdir()
        self.note.write_text(NOTE)
        self._servers = {
            "everything": Server(script(modules, "everything")),
            "filesystem": Server([*script(modules, "filesystem"), str(self.note.parent)], deny=DENY),
            "memory": Server(script(modules, "memory"), env=memory_file(self._directory)),
        }
        self._daemon = Daemon(mcpd, {name: self._overheard(name) for name in self._servers})
        self.daemon = None
        self.expected = []

    async def __aenter__(self):
        self.daemon = self._cleanup.enter_context(self._daemon)
        for name, server in self._servers.items():
            tools = await self._direct_tools(server)
            allowed = [tool for tool in tools if not any(fnmatch(tool["name"], glob) for glob in server.deny)]
            assert bool(server.deny) == (len(allowed) < len(tools)), f"{name} has nothing to deny"
            self.expected += [{**tool, "name": f"{name}__{tool['name']}"} for tool in allowed]
        return self

    async def __aexit__(self, *_):
        self._cleanup.close()

    def copies(self):
        """How many processes of each server the daemon has."""
        running = [process.arguments()[:2] for process in self.daemon.descendants()]
        return {name: running.count(server.command[:2]) for name, server in self._servers.items()}

    def heard(self, server):
        """The messages that a server was sent."""
        lines = self._log(server).read_text().splitlines()
        return [json.loads(line) for line in lines]

    async def _direct_tools(self, server):
        """The list of a client that is alone with the server; servers may add to it when the handshake is over."""
        command, *args = server.command
        with (self._directory / "direct.log").open("w") as log:
            parameters = StdioServerParameters(command=command, args=args, env=server.env)
            async with sdk.connect(stdio_client(parameters, errlog=log)) as agent:
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


def script(modules, server):
    return ["node", str(modules / f"@modelcontextprotocol/server-{server}/dist/index.js")]


def memory_file(directory):
    return {"MEMORY_FILE_PATH": str(directory / "memory.jsonl")}
