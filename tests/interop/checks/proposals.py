"""Checks that servers work at sandbox level `files` as `mcpd add --yes` writes them: with what it proposes, and with nothing else."""

import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

import sdk
from daemon import Daemon
from entry_points import Socket
from software import Software, memory_file, new_data, ordinary_calls

# Time limit of all calls, with the start of the servers.
TIMEOUT = 60


def check(mcpd, installed, report):
    with TemporaryDirectory(prefix="mcpd-proposals-") as name:
        directory = Path(name).resolve()
        servers = _as_users_start_them(Software(installed), Path(installed).resolve(), directory)
        config = directory / "added.toml"
        for name, server in servers.items():
            _add(mcpd, config, name, server)
        tables = tomllib.loads(config.read_text())["servers"]
        with report.check(f"mcp {sdk.VERSION}, mcpd add --yes: each server that is known to work at sandbox level files gets it"):
            assert {name: _level(table) for name, table in tables.items()} == dict.fromkeys(servers, "files"), tables
        with Daemon(mcpd, {}, config.read_text()) as daemon:
            for tool, arguments, part in _calls(directory):
                server = tool.partition("__")[0]
                if server in servers:
                    with report.check(f"mcp {sdk.VERSION}, mcpd add --yes: {server} works with the sandbox that was proposed"):
                        anyio.run(_call, daemon, tool, arguments, part)


def _as_users_start_them(software, installed, directory):
    notes, repository = new_data(directory)

    def uvx(*words):
        # A server at level `files` reaches its working directory: there is what it would otherwise get from a package index.
        return replace(software.uvx(*words), cwd=str(installed / "wheels"))

    return {
        "everything": software.npx("everything"),
        "filesystem": software.npx("filesystem", str(notes)),
        "memory": software.npx("memory", env=memory_file(directory, "memory")),
        "time": uvx("time"),
        "git": uvx("git", "--repository", str(repository)),
    }


def _calls(directory):
    """Those that change files come first, so that these files exist."""
    return [
        ("filesystem__write_file", {"path": str(directory / "notes/note"), "content": "hello"}, "wrote"),
        ("memory__create_entities", {"entities": [{"name": "mcpd", "entityType": "daemon", "observations": []}]}, '"entityType"'),
        *ordinary_calls(directory),
    ]


def _add(mcpd, config, name, server):
    env = [f"--env={variable}={value}" for variable, value in server.env.items()]
    options = ["--yes", "--config", str(config), "--cwd", server.cwd, *env]
    subprocess.run([str(mcpd), "add", *options, name, "--", *server.command], check=True, stdout=subprocess.DEVNULL)


def _level(table):
    sandbox = table.get("sandbox")
    return sandbox["level"] if isinstance(sandbox, dict) else sandbox


async def _call(daemon, tool, arguments, part):
    async with sdk.connect(Socket(daemon).transport()) as agent:
        with anyio.fail_after(TIMEOUT):
            while tool not in {listed["name"] for listed in await agent.tools()}:
                await anyio.sleep(0.1)
            answer = await agent.text(tool, arguments)
            assert part in answer, (tool, answer)
