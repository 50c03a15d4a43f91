"""Real servers as people add them: each with its launcher, and one call. They run at sandbox level `files` as `mcpd add` writes it.

Left out, for their size or because a machine of CI lacks what they need, and tried by hand: `pipx run`, `bunx`, `uv run`, browsers,
@cyanheads/git-mcp-server, mcp-shrimp-task-manager, mcp-server-sqlite, mcp-server-calculator, cli-mcp-server, markitdown-mcp, mcp-cron.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

from daemon import Server
from software import memory_file

ECHO = ("echo", {"message": "hello"}, "hello")
NOON = ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "T21:00:00+09:00")
THOUGHT = {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
THINK = ("sequentialthinking", THOUGHT, "totalThoughts")
CLOCK = ("current_time", {"format": "YYYY-MM-DD"}, "time")
ENTITY = ("create_entities", {"entities": [{"name": "mcpd", "entityType": "daemon", "observations": []}]}, '"entityType"')


@dataclass
class Fenced:
    server: Server
    tool: str
    arguments: dict
    # A part of the answer.
    part: str
    # What `add` is to grant beside the installation.
    write: list = field(default_factory=list)


def servers(software, installed, notes, repository, directory):
    """The servers by name. `directory` gets their data."""
    modules, checks, cwd = installed / "node_modules", Path(__file__).parent, str(directory)

    def run(*command, **more):
        return Server([str(word) for word in command], cwd=cwd, **more)

    def binary(name, *args, **more):
        return run(modules / ".bin" / name, *args, **more)

    def npx(package):
        return Server(["npx", "--no-install", package], cwd=str(installed))

    def node(name, *args, **more):
        return run("node", modules / f"@modelcontextprotocol/server-{name}/dist/index.js", *args, **more)

    def python(environment, *args):
        return run(installed / environment / "bin/python", *args)

    def uvx(*words):
        # A server at level `files` reaches its working directory: there is what it would otherwise get from a package index.
        return replace(software.uvx(*words), cwd=str(installed / "wheels"))

    listing = ("list_directory", {"path": str(notes)}, "[FILE] note")
    status = ("git_status", {"repo_path": str(repository)}, "No commits yet")
    memory = {name: memory_file(directory, name) for name in ("npx", "bin", "node")}
    # The values of its variables.
    of_uv = [str(installed / "uv-cache"), str(installed / "wheels")]
    here, graph = [cwd], directory / "graph.jsonl"
    text = ("echo", {"text": "hello"}, "hello")
    return {
        "everything-npx": Fenced(software.npx("everything"), *ECHO),
        "filesystem-npx": Fenced(software.npx("filesystem", str(notes)), *listing, [str(notes)]),
        "memory-npx": Fenced(software.npx("memory", env=memory["npx"]), *ENTITY, here),
        "thinking-npx": Fenced(software.npx("sequential-thinking"), *THINK),
        "hello-npx": Fenced(npx("mcp-hello-world"), *ECHO),
        "clock-npx": Fenced(npx("time-mcp"), *CLOCK),
        "everything-bin": Fenced(binary("mcp-server-everything"), *ECHO),
        "filesystem-bin": Fenced(binary("mcp-server-filesystem", notes), *listing, [str(notes)]),
        "memory-bin": Fenced(binary("mcp-server-memory", env=memory["bin"]), *ENTITY, here),
        "thinking-bin": Fenced(binary("mcp-server-sequential-thinking"), *THINK),
        "hello-bin": Fenced(binary("mcp-hello-world"), *ECHO),
        "clock-bin": Fenced(binary("time-mcp"), *CLOCK),
        "tasks-bin": Fenced(binary("mcp-taskmanager"), "list_requests", {}, "requests"),
        "graph-bin": Fenced(binary("mcp-knowledge-graph", "--memory-path", graph), *ENTITY, here),
        "calendar-bin": Fenced(binary("bazi-mcp"), "getChineseCalendar", {}, "{"),
        "calculator-bin": Fenced(binary("calc-mcp"), "math", {"action": "eval", "expression": "40+2"}, "42"),
        "recipes-bin": Fenced(binary("howtocook-mcp"), "mcp_howtocook_getAllRecipes", {}, "name"),
        "everything-node": Fenced(node("everything"), *ECHO),
        "filesystem-node": Fenced(node("filesystem", notes), *listing, [str(notes)]),
        "memory-node": Fenced(node("memory", env=memory["node"]), *ENTITY, here),
        "thinking-node": Fenced(node("sequential-thinking"), *THINK),
        "time-venv": Fenced(replace(software.python("time"), cwd=cwd), *NOON),
        "git-venv": Fenced(replace(software.python("git", "--repository", str(repository)), cwd=cwd), *status, [str(repository)]),
        "time-module": Fenced(python("servers", "-m", "mcp_server_time"), *NOON),
        "git-module": Fenced(python("servers", "-m", "mcp_server_git", "-r", repository), *status, [str(repository)]),
        "time-uvx": Fenced(uvx("time"), *NOON, of_uv),
        "git-uvx": Fenced(uvx("git", "--repository", str(repository)), *status, [str(repository), *of_uv]),
        "script-python-1": Fenced(python("mcp-1", checks / "matrix_server.py", "fenced"), *text),
        "script-python-2": Fenced(python("mcp-2", checks / "matrix_server.py", "fenced"), *text),
        "matrix-rust": Fenced(run(installed / "matrix-server", "fenced"), *text),
        "clock-binary": Fenced(run(modules / "mcp-time-linux-x64/bin/mcp-time"), "current_time", {}, "T"),
    }
