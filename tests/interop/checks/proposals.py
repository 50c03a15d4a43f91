"""Checks that servers work at sandbox level `files` as `mcpd add --yes` writes them: with what it proposes, and with nothing else."""

import subprocess
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

import fenced_servers
import results
import sdk
from daemon import Daemon
from entry_points import Socket
from software import Software, new_data

# Time limit of the start of all servers, and of each call.
TIMEOUT = 180
# What git needs of the user.
OF_GIT = {"~/.gitconfig"}


def main():
    arguments = results.arguments(__doc__)
    check(arguments.mcpd, arguments.installed, results.Results(arguments.results))


def check(mcpd, installed, report):
    with TemporaryDirectory(prefix="mcpd-proposals-") as name:
        directory, installed = Path(name).resolve(), Path(installed).resolve()
        notes, repository = new_data(directory)
        (notes / "note").write_text("hello")
        servers = fenced_servers.servers(Software(installed), installed, notes, repository, directory)
        config = directory / "added.toml"
        for name, fenced in servers.items():
            _add(mcpd, config, name, fenced.server)
        tables = tomllib.loads(config.read_text())["servers"]
        with report.check(f"mcp {sdk.VERSION}, mcpd add --yes: {len(servers)} servers get sandbox level files, and only what they name"):
            for name, fenced in servers.items():
                sandbox = _table(tables[name].get("sandbox"))
                assert sandbox["level"] == "files" and sandbox.get("write", []) == fenced.write, (name, sandbox)
                assert set(sandbox.get("read", [])) <= (OF_GIT if name.startswith("git-") else set()), (name, sandbox)
        with Daemon(mcpd, {}, config.read_text()) as daemon:
            for name, fenced in servers.items():
                with report.check(f"mcp {sdk.VERSION}, mcpd add --yes: {name} works with the sandbox that was proposed"):
                    anyio.run(_call, daemon, f"{name}__{fenced.tool}", fenced.arguments, fenced.part)


def _add(mcpd, config, name, server):
    env = [f"--env={variable}={value}" for variable, value in server.env.items()]
    options = ["--yes", "--config", str(config), "--cwd", server.cwd, *env]
    subprocess.run([str(mcpd), "add", *options, name, "--", *server.command], check=True, stdout=subprocess.DEVNULL)


def _table(sandbox):
    return sandbox if isinstance(sandbox, dict) else {"level": sandbox}


async def _call(daemon, tool, arguments, part):
    async with sdk.connect(Socket(daemon).transport()) as agent:
        with anyio.fail_after(TIMEOUT):
            while tool not in {listed["name"] for listed in await agent.tools()}:
                await anyio.sleep(0.1)
            while (answer := await _answer(agent, tool, arguments)) is None:
                await anyio.sleep(0.1)
            assert part in answer, (tool, answer)


async def _answer(agent, tool, arguments):
    """The text that answers, or None while the server is starting: the call was not sent."""
    try:
        return await agent.text(tool, arguments)
    except Exception as error:
        if "is not available" not in str(error):
            raise


main()
