"""The servers under test, started in every usual way."""

import json
import os
import subprocess
import sys
from pathlib import Path

from daemon import Server
from listening import Listening

WRITING = ["write_*", "move_file"]
COMMITTING = ["git_commit", "git_reset"]
# Paths of HTTP servers, by transport name.
PATHS = {"http": "/mcp", "streamableHttp": "/mcp", "sse": "/sse"}


class Software:
    """Software that `run.sh` has installed in one directory."""

    def __init__(self, installed):
        self._installed = Path(installed)

    def node(self, name, *args, **more):
        """An npm package, run by its script."""
        script = self._installed / f"node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
        return Server(["node", str(script), *args], script=str(script), **more)

    def everything_over(self, transport):
        """server-everything, reached over `streamableHttp` or `sse`."""
        preload = str(Path(__file__).with_name("loopback.js"))
        node, script = self.node("everything").command
        return Listening([node, "--require", preload, script, transport], PATHS[transport])

    def python_over(self, environment, package, transport):
        """A server of FastMCP or of the SDK of a virtual environment, over `http` or `sse`."""
        python, script = self._installed / environment / "bin/python", Path(__file__).with_name("http_server.py")
        return Listening([str(python), str(script), package, transport], PATHS[transport])

    def rmcp(self):
        return Listening([str(self._installed / "rmcp-http-server")], "/mcp")

    def npx(self, name, *args, **more):
        command = ["npx", "--no-install", f"@modelcontextprotocol/server-{name}", *args]
        script = self._installed / f"node_modules/.bin/mcp-server-{name}"
        return Server(command, script=str(script), cwd=str(self._installed), **more)

    def python(self, name, *args, **more):
        """A PyPI package, run by the script of its virtual environment."""
        script = self._installed / f"servers/bin/mcp-server-{name}"
        return Server([str(script), *args], script=str(script), **more)

    def uvx(self, name, *args, **more):
        """Without network, from the wheels that were checked."""
        cache = self._installed / "uv-cache"
        env = {"UV_CACHE_DIR": str(cache), "UV_FIND_LINKS": str(self._installed / "wheels"), "UV_NO_INDEX": "1"}
        command = [str(self._installed / "servers/bin/uvx"), "--offline", f"mcp-server-{name}", *args]
        return Server(command, script=f"{cache}/*/mcp-server-{name}", env=env, **more)


def all_servers(software, directory):
    """Each under the name that the daemon knows it by. `directory` gets their data."""
    notes, repository = new_data(directory)
    return {
        "everything": software.node("everything"),
        "filesystem": software.node("filesystem", str(notes), deny=WRITING),
        "memory": software.node("memory", env=memory_file(directory, "memory")),
        "time": software.python("time"),
        "git": software.python("git", "--repository", str(repository), deny=COMMITTING),
        "npx": software.npx("memory", env=memory_file(directory, "npx")),
        "uvx": software.uvx("time"),
    }


def new_data(directory):
    """The directory of notes and the repository of Git that servers work on."""
    notes, repository = directory / "notes", directory / "repository"
    notes.mkdir()
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    return notes, repository


def sandboxes(level, installed, directory):
    """The settings that start servers in sandboxes of this level. `directory` has their data."""
    members = {"level": level}
    if level == "files":
        # mcpd finds the program that a command starts, but not programs that a wrapper has as arguments. Git does not start if it
        # cannot read its configuration.
        git = Path.home() / ".gitconfig"
        paths = [Path(installed).resolve(), Path(sys.base_prefix), *([git] if git.exists() else [])]
        members |= {"read": [str(path) for path in paths], "write": [str(directory)]}
    pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in members.items())
    return f"[defaults]\nsandbox = {{ {pairs} }}\n"


def ordinary_calls(directory):
    """One call of each server: the exposed name, the arguments, a part of the text that answers."""
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return [
        ("everything__echo", {"message": "ä\"\\\n"}, "Echo: ä\"\\\n"),
        ("filesystem__list_directory", {"path": str(directory / "notes")}, "[FILE] note"),
        ("memory__read_graph", {}, '"entities"'),
        ("time__convert_time", noon, "T21:00:00+09:00"),
        ("git__git_status", {"repo_path": str(directory / "repository")}, "No commits yet"),
        ("npx__read_graph", {}, '"entities"'),
        ("uvx__convert_time", noon, "T21:00:00+09:00"),
    ]


def memory_file(directory, name):
    return {"MEMORY_FILE_PATH": os.fspath(directory / f"{name}.jsonl")}
