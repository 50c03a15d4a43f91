"""An mcpd with a configuration and a runtime directory of its own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import processes

# What an agent connects to.
LINES, HTTP, LOOPBACK = "lines", "HTTP on the socket", "HTTP on loopback"


@dataclass(frozen=True)
class Server:
    """A server as both mcpd and a direct client start it."""

    command: list[str]
    # What its own process, and no wrapper, has as first argument; a glob.
    script: str = ""
    env: dict[str, str] = field(default_factory=dict)
    deny: list[str] = field(default_factory=list)
    cwd: str | None = None
    sharing: str = "shared"
    era: str = "auto"

    def keys(self, mark):
        """What the configuration says of it. `mark` is an entry of its environment."""
        variable, value = mark.split("=")
        env = {**self.env, variable: value}
        return [
            f"command = {json.dumps(self.command[0])}",
            f"args = {json.dumps(self.command[1:])}",
            f"deny = {json.dumps(self.deny)}",
            f"sharing = {json.dumps(self.sharing)}",
            f"era = {json.dumps(self.era)}",
            "env = {" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items()) + "}",
            *([f"cwd = {json.dumps(self.cwd)}"] if self.cwd else []),
        ]


@dataclass(frozen=True)
class Remote:
    """A server that is there already."""

    url: str
    sharing: str = "shared"
    era: str = "auto"

    def keys(self, _mark):
        return [f"{key} = {json.dumps(getattr(self, key))}" for key in ("url", "sharing", "era")]


class Daemon:
    """Running between `with` and its end, after which nothing of it is left."""

    def __init__(self, mcpd, servers, settings="", has_loopback=False):
        """`settings` are lines of the configuration that stand before the servers."""
        self.mcpd = str(mcpd)
        # On loopback, if it listens there.
        self.port = free_port() if has_loopback else None
        # A socket's path may have 108 bytes, and a checkout can lie deep.
        self._directory = Path(tempfile.mkdtemp(prefix="mcpd-interop-"))
        self.runtime = self._directory / "run"
        self.socket = str(self.runtime / "mcp.sock")
        # Descendants that lost every parent are found by this.
        self._mark = f"MCPD_INTEROP={uuid.uuid4()}"
        self._seen = set()
        self._config = self._directory / "mcpd.toml"
        tables = [self._table(name, server) for name, server in servers.items()]
        if has_loopback:
            tables.append(f'[profiles.default]\nhttp = "127.0.0.1:{self.port}"\n')
        self._config.write_text("\n".join([settings, *tables]))

    def __enter__(self):
        arguments = ["serve", "--config", self._config, "--runtime-dir", self.runtime]
        with (self._directory / "log").open("w") as log:
            self._process = subprocess.Popen(
                [self.mcpd, *arguments], stdin=subprocess.DEVNULL, stderr=log, env=self._environment()
            )
        try:
            eventually(self._is_accepting, "the socket accepts")
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        for process in self.left():
            if process.is_running():
                # It may have ended meanwhile.
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        shutil.rmtree(self._directory)

    def door(self, profile):
        """The socket of a profile."""
        return str(self.runtime / f"{profile}.sock")

    def connecting(self, *more):
        """The command of `mcpd connect`."""
        return [self.mcpd, "connect", "--runtime-dir", str(self.runtime), *more]

    def address(self, listener, face=None):
        """What leads an agent to all servers, or to one: `command`, or `url` with `socket` or `token`."""
        path = f"/servers/{face}" if face else "/mcp"
        return {
            LINES: lambda: {"command": self.connecting(*(["--server", face] if face else []))},
            HTTP: lambda: {"url": f"http://localhost{path}", "socket": self.socket},
            LOOPBACK: lambda: {"url": f"http://127.0.0.1:{self.port}{path}", "token": self.token()},
        }[listener]()

    def token(self, profile="default"):
        """What an agent sends to the address of a profile."""
        command = [self.mcpd, "token", "--runtime-dir", str(self.runtime), "--profile", profile]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=self._environment()).stdout.strip()

    def descendants(self):
        return processes.descendants(self._process.pid)

    def stop(self, how):
        """Sends a signal and returns the exit status; who was there is remembered for `left`."""
        self._seen = self.descendants()
        self._process.send_signal(how)
        return self._process.wait(20)

    def left(self):
        """Those of its descendants that outlived it."""
        return {one for one in self._seen if one.is_running()} | processes.running_with_environment(self._mark)

    def log(self):
        return (self._directory / "log").read_text()

    def _environment(self):
        """Its tokens are in a directory of its own."""
        return {**os.environ, "XDG_STATE_HOME": str(self._directory / "state")}

    def _is_accepting(self):
        if self._process.poll() is not None:
            raise AssertionError(f"mcpd ended with {self._process.returncode}:\n{self.log()}")
        with socket.socket(socket.AF_UNIX) as agent:
            return agent.connect_ex(self.socket) == 0

    def _table(self, name, server):
        return "\n".join([f"[servers.{name}]", *server.keys(self._mark)]) + "\n"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def alone(server):
    """The profile in which a server is alone."""
    return f"only-{server}"


def alone_each(servers):
    """Settings with such a profile for each."""
    return "\n".join(f'[profiles.{alone(server)}]\nservers = ["{server}"]' for server in servers)


def eventually(condition, what, seconds=60):
    """Waits for what another process does, and gives it; inside an event loop, only for what needs nothing of it."""
    deadline = time.monotonic() + seconds
    while not (met := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return met
