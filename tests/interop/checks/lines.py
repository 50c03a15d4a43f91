"""A peer used in raw lines without a library: a server on its pipes, or the daemon on its socket."""

import json
import socket
import subprocess
from contextlib import contextmanager

TIMEOUT = 60
# Notifications that a server may send at any time.
NOTIFICATIONS = [f"notifications/{what}" for what in ("message", "tools/list_changed", "prompts/list_changed", "resources/list_changed")]


class Peer:
    def __init__(self, read, write):
        self._read, self._write = read, write

    def send(self, line):
        self._write.write(line + b"\n")
        self._write.flush()

    def receive(self):
        """The next line without its end."""
        line = self._read.readline()
        assert line.endswith(b"\n"), f"the stream ended with {line!r}"
        return line[:-1]

    def ask(self, method, params, id, skipped=NOTIFICATIONS):
        """Sends a request; all lines up to the one that answers it, but for notifications that are skipped."""
        self.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
        lines = []
        while True:
            line = self.receive()
            message = json.loads(line)
            if message.get("method") not in skipped:
                lines.append(line)
            if message.get("id") == id and "method" not in message:
                return lines

    def shake_hands(self):
        # As mcpd declares them to a server that several agents share: some servers list more for it.
        able = {"sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}}
        info = {"name": "lines", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": able, "clientInfo": info}, 0)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return self


@contextmanager
def server(command):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield Peer(process.stdout, process.stdin).shake_hands()
        finally:
            process.kill()


@contextmanager
def daemon(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT)
        connection.connect(path)
        with connection.makefile("rwb") as stream:
            yield Peer(stream, stream).shake_hands()
