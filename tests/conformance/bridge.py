"""HTTP on loopback for the conformance suite: the part that both eras share."""

import functools
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

# Time limit for each line of a response, in seconds. The suite would wait for a minute.
TIMEOUT = 10
# Marks the end of a stream.
END = None
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_answer(message):
    return "method" not in message


def silence(id):
    """The error response for a request that its peer did not answer."""
    error = {"code": -32000, "message": f"the peer said nothing for {TIMEOUT} s, or is gone"}
    return {"jsonrpc": "2.0", "id": id, "error": error}


class Listening:
    """A server that listens inside `with`."""

    daemon_threads = True

    def __enter__(self):
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """Ignores disconnects of the suite."""


class Bridge(Listening, ThreadingHTTPServer):
    """Ends every peer after `with`."""

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"


def local(method):
    """Refuses requests of foreign pages (DNS rebinding)."""

    @functools.wraps(method)
    def guarded(handler):
        origins = [f"http://{handler.headers['Host']}", handler.headers.get("Origin", "http://localhost")]
        if all(urlsplit(origin).hostname in LOOPBACK for origin in origins):
            method(handler)
        else:
            handler.status(403)

    return guarded


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"]))

    def stream(self, lines, headers={}):
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", "Connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for line in lines:
            self.wfile.write(b"data: " + line + b"\n\n")

    def status(self, status):
        self.send_response(status)
        # An unread body would be parsed as the next request.
        self.send_header("Connection", "close")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Logs nothing, since the suite logs enough."""
