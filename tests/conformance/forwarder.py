"""Forwards bytes from TCP on loopback to a listener of mcpd: its Unix socket, or its loopback address with a token.

The suite has no means to send a token or to open a Unix socket. All else that it sends and gets passes as it is.
"""

import socket
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

from bridge import Listening

PIECE = 65536


class Forwarder(Listening, ThreadingTCPServer):
    """`open` connects to mcpd; `head` changes the head of each request."""

    allow_reuse_address = True

    def __init__(self, open, path="/mcp", head=lambda head: head):
        super().__init__(("127.0.0.1", 0), Connection)
        self.open = open
        self.head = head
        self.url = f"http://127.0.0.1:{self.server_address[1]}{path}"


class Connection(BaseRequestHandler):
    def handle(self):
        with self.server.open() as mcpd:
            Thread(target=self._pass_responses, args=(mcpd,), daemon=True).start()
            with self.request.makefile("rb") as requests, suppress(OSError):
                while head := read_head(requests):
                    mcpd.sendall(self.server.head(head))
                    pass_body(requests, head, mcpd)
            # The responses end when mcpd has answered all.
            with suppress(OSError):
                mcpd.shutdown(socket.SHUT_RDWR)

    def _pass_responses(self, mcpd):
        with suppress(OSError):
            while piece := mcpd.recv(PIECE):
                self.request.sendall(piece)
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)


def read_head(requests):
    """The bytes up to the empty line, or none if the suite has closed the connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = requests.readline()
        if not line:
            return b""
        head += line
    return head


def header(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip()
    return None


def pass_body(requests, head, mcpd):
    if header(head, b"transfer-encoding"):
        while size := pass_line(requests, mcpd):
            count = int(size, 16)
            mcpd.sendall(requests.read(count + 2))
            if count == 0:
                return
    mcpd.sendall(requests.read(int(header(head, b"content-length") or 0)))


def pass_line(requests, mcpd):
    line = requests.readline()
    mcpd.sendall(line)
    return line.strip()


def unix(path):
    """Connects to a Unix socket."""

    def open():
        opened = socket.socket(socket.AF_UNIX)
        opened.connect(path)
        return opened

    return open


def tcp(address):
    """Connects to an address on loopback."""
    return lambda: socket.create_connection(address)


def with_token(token):
    """Adds the token to the head of a request."""

    def head(head):
        line, rest = head.split(b"\r\n", 1)
        return b"%s\r\nAuthorization: Bearer %s\r\n%s" % (line, token.encode(), rest)

    return head
