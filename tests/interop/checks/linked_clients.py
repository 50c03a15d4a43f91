"""Checks that real clients, linked by `mcpd link` alone, call a tool of mcpd, and that `mcpd unlink` takes the entry back.

No client has an account: its model is on loopback, and asks for one call.
"""

import json
import os
import signal
import subprocess
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Callable

import processes
import results
from configured_home import NOTE, ConfiguredHome
from model_api import MODEL, Model

TIMEOUT = 150
ANSWER = NOTE.splitlines()[-1]


@dataclass(frozen=True)
class Client:
    """How to run a client that has a model at a URL and no account."""

    word: str
    package: str
    program: str
    # Its file, below the home directory, and what the user has in it.
    file: str
    text: Callable[[str], str]
    # Its variables, and the arguments with which it asks the model.
    environment: Callable[[str], dict]
    arguments: list[str]
    # What tells it of the model.
    login: Callable[[str], list[str]] | None = None


CODEX = """\
# mine
model = "{model}"
model_provider = "loopback"

[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
wire_api = "responses"
"""

OPENCODE = {
    "model": f"loopback/{MODEL}",
    "small_model": f"loopback/{MODEL}",
    "autoupdate": False,
    "share": "disabled",
}


def opencode_provider(url):
    options = {"baseURL": f"{url}/v1"}
    return {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {MODEL: {"tool_call": True}}}


CLIENTS = [
    Client(
        word="claude-code",
        package="@anthropic-ai/claude-code",
        program="claude",
        file=".claude.json",
        text=lambda _: '{\n  "numStartups": 1\n}\n',
        environment=lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # The model has to see all tools in its first request.
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_CONNECTION_NONBLOCKING": "0",
        },
        arguments=["-p", "go", "--model", "claude-haiku-4-5", "--allowedTools", "mcp__mcpd"],
    ),
    Client(
        word="cline",
        package="cline",
        program="cline",
        file=".cline/data/settings/cline_mcp_settings.json",
        text=lambda _: '{\n  "mcpServers": {}\n}\n',
        environment=lambda _: {"CLINE_TELEMETRY_DISABLED": "1"},
        arguments=["--json", "please go on"],
        login=lambda url: ["auth", "-p", "openai-compatible", "-k", "none", "-m", MODEL, "-b", f"{url}/v1"],
    ),
    Client(
        word="codex",
        package="@openai/codex",
        program="codex",
        file=".codex/config.toml",
        text=lambda url: CODEX.format(model=MODEL, url=url),
        environment=lambda _: {},
        arguments=["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"],
    ),
    Client(
        word="copilot",
        package="@github/copilot",
        program="copilot",
        file=".copilot/mcp-config.json",
        text=lambda _: '{\n  // mine\n  "mcpServers": {},\n}\n',
        environment=lambda url: {
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_OFFLINE": "true",
            "COPILOT_MODEL": MODEL,
            "COPILOT_AUTO_UPDATE": "false",
        },
        arguments=["-p", "go", "--allow-all-tools"],
    ),
    Client(
        word="gemini",
        package="@google/gemini-cli",
        program="gemini",
        file=".gemini/settings.json",
        text=lambda _: '// mine\n{\n  "security": { "auth": { "selectedType": "gemini-api-key" } }\n}\n',
        environment=lambda url: {
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        arguments=["-p", "go", "-m", "gemini-2.5-flash", "--yolo"],
    ),
    Client(
        word="opencode",
        package="opencode-ai",
        program="opencode",
        file=".config/opencode/opencode.json",
        text=lambda _: '{\n\t"$schema": "https://opencode.ai/config.json", // mine\n}\n',
        environment=lambda url: {
            "OPENCODE_CONFIG_CONTENT": json.dumps({**OPENCODE, "provider": {"loopback": opencode_provider(url)}}),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        },
        arguments=["run", "go", "--model", f"loopback/{MODEL}"],
    ),
]


class Session:
    """What one client and mcpd do in a home directory. Nothing that they started is left at its end."""

    def __init__(self, home, bin_directory, variables):
        self._mark = f"MCPD_INTEROP_CLIENT={uuid.uuid4()}"
        own = home.environment()
        name, value = self._mark.split("=")
        self._environment = {
            **own,
            "PATH": f"{bin_directory}:{own['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **variables,
            name: value,
        }
        self._work = home.home / "work"
        self._work.mkdir(exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in processes.running_with_environment(self._mark):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def run(self, *words):
        """Runs a command to its end, and gives its output."""
        with tempfile.TemporaryFile("w+") as output:
            # By file, since what stays in the background would keep a pipe open.
            status = subprocess.run(
                words,
                cwd=self._work,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=TIMEOUT,
            ).returncode
            output.seek(0)
            text = output.read()
        assert status == 0, f"{words} ended with {status}:\n{text[-4000:]}"
        return text


def check(client, mcpd, installed, bin_directory):
    with ConfiguredHome(mcpd, installed) as home, Model(*home.call) as model:
        file = home.home / client.file
        before = client.text(model.url).encode()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(before)
        with Session(home, bin_directory, client.environment(model.url)) as session:
            if client.login:
                session.run(client.program, *client.login(model.url))
            session.run("mcpd", "link", client.word, "--yes")
            linked = file.read_bytes()
            assert linked != before, linked
            output = session.run(client.program, *client.arguments)
            assert ANSWER in output, (output[-4000:], model.offered, model.unknown)
            # Some clients write their own state into the file.
            is_untouched = file.read_bytes() == linked
            session.run("mcpd", "unlink", client.word, "--yes")
            after = file.read_bytes()
            assert after == before if is_untouched else b"mcpd" not in after, after


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    modules = arguments.installed / "clients/node_modules"
    bin_directory = modules / ".bin"
    for client in CLIENTS:
        package = modules / client.package / "package.json"
        if not package.exists() or subprocess.run([bin_directory / client.program, "--version"], capture_output=True).returncode:
            print(f"skipped: {client.package} is not installed")
            continue
        version = json.loads(package.read_text())["version"]
        with report.check(f"{client.package} {version}, linked by `mcpd link`: calls a tool, and is unlinked again"):
            check(client, arguments.mcpd, arguments.installed, bin_directory)


main()
