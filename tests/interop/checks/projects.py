"""Agents in different directories, with one server instance per directory."""

import fnmatch
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import sdk
from daemon import Daemon
from entry_points import Connect
from software import Software


async def check(mcpd, installed):
    """Two agents in two directories, and a third in the first one's."""
    software = Software(installed)
    servers = {
        "git": software.python("git", "--repository", "${agent:cwd}", sharing="workspace"),
        "filesystem": software.node("filesystem", "${agent:cwd}", sharing="workspace"),
    }
    with TemporaryDirectory(prefix="mcpd-projects-") as directory, Daemon(mcpd, servers) as daemon:
        one, other = (_project(Path(directory).resolve() / name) for name in ("one", "other"))
        async with AsyncExitStack() as stack:
            agents = [
                await stack.enter_async_context(sdk.connect(Connect(daemon, project).transport()))
                for project in (one, other, one)
            ]
            for agent, own, foreign in zip(agents, (one, other, one), (other, one, other)):
                await _sees_only(agent, own, foreign)
            copies = [_copies(daemon, server, project) for server in servers.values() for project in (one, other)]
            assert copies == [1, 1, 1, 1], copies


async def _sees_only(agent, own, foreign):
    log = await agent.text("git__git_log", {"repo_path": str(own)})
    assert own.name in log and foreign.name not in log, log
    listed = await agent.text("filesystem__list_allowed_directories", {})
    assert str(own) in listed and str(foreign) not in listed, listed
    for tool, arguments in (
        ("git__git_log", {"repo_path": str(foreign)}),
        ("filesystem__read_text_file", {"path": str(foreign / "note")}),
    ):
        answer = await agent.call(tool, arguments)
        assert answer.get("isError"), answer
    assert await agent.text("filesystem__read_text_file", {"path": str(own / "note")}) == own.name


def _project(directory):
    """A repository with one file and one commit that contain its name."""
    directory.mkdir()
    (directory / "note").write_text(directory.name)
    author = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    for command in (["init", "--quiet"], ["add", "note"], [*author, "commit", "--quiet", "-m", f"Begin {directory.name}"]):
        subprocess.run(["git", *command], cwd=directory, check=True)
    return directory


def _copies(daemon, server, project):
    """Processes of the server for a project, which is the last argument."""
    running = [process.arguments() for process in daemon.descendants()]
    return sum(fnmatch.fnmatch("".join(line[1:2]), server.script) and line[-1] == str(project) for line in running)
