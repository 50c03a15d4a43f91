"""Checks skills (SEP-2640) and MCP Apps with SDKs on both ends: through mcpd an agent sees what it sees at the server itself, in the
aggregate and at the face of each server, in both eras."""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import results
from daemon import Daemon, Server

HERE = Path(__file__).parent
TIMEOUT = 120
SKILL = "---\nname: {name}\ndescription: Greets ä.\n---\n\nSay hello as in references/HELLO.md.\n"
# Bytes that a text would not survive, and line ends.
FILES = {"references/HELLO.md": "Hello ä\r\n\n".encode(), "references/data.bin": bytes(range(256))}


def write_skills(directory, server):
    """A skill whose name begins with that of its server."""
    name = f"{server}-greet"
    for path, content in {"SKILL.md": SKILL.format(name=name).encode(), **FILES}.items():
        file = directory / server / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return str(directory / server)


def servers(installed, directory):
    python, modules = str(installed / "fastmcp/bin/python"), str(installed / "node_modules")
    commands = {
        "fastmcp": [python, str(HERE / "extension_server.py"), "fastmcp"],
        "typescript": ["node", str(HERE / "extension_server.js"), modules, "typescript"],
    }
    # Those with both eras would be used in the legacy one, which has no skills in FastMCP.
    return {name: Server([*command, write_skills(directory, name)], era="modern") for name, command in commands.items()}


def agents(installed):
    """The command of each, with the members of its configuration."""
    node, modules = ["node", str(HERE / "extension_agent.js")], {"modules": str(installed / "node_modules")}
    python = [str(installed / "fastmcp/bin/python"), str(HERE / "extension_agent.py")]
    return {
        "the TypeScript SDK": (node, {**modules, "mode": {"pin": "2026-07-28"}}),
        "the TypeScript SDK, in the legacy era,": (node, {**modules, "mode": "legacy"}),
        "FastMCP": (python, {}),
    }


def look(agent, command, prefixes):
    """What an agent observes of the servers at a command."""
    program, config = agent
    config = json.dumps({**config, "command": command, "servers": prefixes})
    ended = subprocess.run([*program, config], capture_output=True, text=True, timeout=TIMEOUT)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout)


def check(report, name, agent, known, daemon, expected):
    with report.check(f"extensions: {name} uses skills and apps of all servers in the aggregate"):
        prefixes = {server: f"{server}__" for server in known}
        observed = look(agent, daemon.connecting(), prefixes)
        for server in known:
            compare(observed[server], expected[server][server], is_face=False)
    for server in known:
        with report.check(f"extensions: {name} uses skills and apps of a server of {server} at its face"):
            observed = look(agent, daemon.connecting("--server", server), {server: ""})
            compare(observed[server], expected[server][server], is_face=True)
            assert observed.get("extensions") == expected[server].get("extensions"), observed


def compare(observed, expected, is_face):
    app = {**expected["app"]}
    if not is_face and "byOwnName" in app:
        # Neither the SDK of apps nor the client states which app calls.
        del app["byOwnName"]
        assert "--server" in observed["app"].pop("byOwnName"), observed
    assert observed["skills"] == expected["skills"], f"{observed['skills']}\ninstead of\n{expected['skills']}"
    assert observed["app"] == app, f"{observed['app']}\ninstead of\n{app}"


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    with TemporaryDirectory(prefix="mcpd-extensions-") as directory:
        known, looking = servers(arguments.installed, Path(directory)), agents(arguments.installed)
        with Daemon(arguments.mcpd, known) as daemon:
            for name, agent in looking.items():
                # In the era that each server has skills in.
                direct = looking["the TypeScript SDK"] if "TypeScript" in name else agent
                expected = {server: look(direct, one.command, {server: ""}) for server, one in known.items()}
                check(report, name, agent, known, daemon, expected)


main()
