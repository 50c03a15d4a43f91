"""HTTP on loopback, which the conformance suite speaks, as far as it is the same in both eras."""

import functools
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

# For each line of an answer, in seconds. The suite would wait for a minute.
PATIENCE = 10
# The last of a stream.
END = None
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_answer(message):
    return "method" not in message


def silence(id):
    """The answer to a request that its peer has not answered."""
    error = {"code": -32000, "message": f"the peer said nothing for {PATIENCE} s, or is gone"}
    return {"jsonrpc": "2.0", "id": id, "error": error}


class Bridge(ThreadingHTTPServer):
    """Listening between `with` and its end; then no peer is left."""

    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"

    def __enter__(self):
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """The suite hangs up amid streams, and is right to."""


def local(method):
    """Refuses what a page from elsewhere sends, whose own name was made to lead here."""

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
        # A body that was not read would be taken for the next request.
        self.send_header("Connection", "close")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """The suite says enough."""
