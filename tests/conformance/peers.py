"""The peers behind the bridge: a server's pipes, or a socket of mcpd."""

import json
import socket
import subprocess
from contextlib import suppress


class Child:
    """A server started for one session, which ends when its stdin does."""

    def __init__(self, command):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def lines(self):
        return iter(self._process.stdout.readline, b"")

    def write(self, line):
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def close(self):
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Socket:
    """An agent's connection to the daemon, to the face of a server if one is named."""

    def __init__(self, path, server=None):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._stream = self._socket.makefile("rb")
        if server:
            face = {"jsonrpc": "2.0", "method": "notifications/mcpd/server", "params": {"server": server}}
            self.write(json.dumps(face).encode() + b"\n")

    def lines(self):
        return iter(self._stream.readline, b"")

    def write(self, line):
        self._socket.sendall(line)

    def close(self):
        # Only ends writing, since the reader is still active.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
