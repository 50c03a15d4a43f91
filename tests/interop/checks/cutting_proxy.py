"""A proxy between client and server that cuts connections."""

import re
import socket
import threading
from contextlib import suppress
from dataclasses import replace


class CuttingProxy:
    """A listening server behind another port, or another Unix socket if `paths` names both, inside `with`.

    It cuts connections on request. `after` are patterns of what the server sends: when the first data with one of them has been passed
    on, the proxy cuts that connection and forgets the pattern.
    """

    def __init__(self, listening, era="auto", after=(), paths=None):
        self._server = listening
        self._era = era
        self._paths = paths
        self.after = list(after)
        self._socket = None
        self._ends = []

    def __enter__(self):
        self._server.__enter__()
        front = self._paths[0] if self._paths else ("127.0.0.1", 0)
        self._socket = _socket(front)
        self._socket.bind(front)
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.cut()
        self._server.__exit__()

    @property
    def port(self):
        return self._socket.getsockname()[1]

    def remote(self):
        """As mcpd is told of it."""
        return replace(self._server.remote(port=self.port), era=self._era)

    def cut(self):
        """Ends every connection there is; others can be made at once."""
        ends, self._ends = self._ends, []
        for end in ends:
            _close(end)

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                behind = self._paths[1] if self._paths else ("127.0.0.1", self._server.port)
                server = _socket(behind)
                server.connect(behind)
                self._ends += [client, server]
                for ends in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, one, other, may_cut):
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
                if may_cut and self._is_last(data):
                    _close(other)
                    _close(one)
                    return
            other.shutdown(socket.SHUT_WR)

    def _is_last(self, data):
        found = [pattern for pattern in self.after if re.search(pattern, data)]
        for pattern in found:
            self.after.remove(pattern)
        return bool(found)


def _socket(address):
    return socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)


def _close(end):
    # Which wakes the thread that reads from it; it may have ended already.
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
