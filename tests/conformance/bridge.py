"""Streamable HTTP on loopback, which the conformance suite speaks, in front of peers that speak lines of JSON.

Each HTTP session has a peer of its own. A line of the peer goes to the POST that it belongs to: an answer by its id,
progress by its token, everything else to the only POST in flight; what belongs to none goes to the GET stream of its
session. Nothing is altered in passing.
"""

import functools
import json
import uuid
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from urllib.parse import urlsplit

# For each line of an answer, in seconds. The suite would wait for a minute.
PATIENCE = 10
# The last of a stream.
END = None
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Session:
    """A peer, and the streams that its lines are sorted into."""

    def __init__(self, peer):
        self.unasked = SimpleQueue()
        self._peer = peer
        self._lock = Lock()
        self._by_id = {}
        self._by_token = {}
        Thread(target=self._sort, daemon=True).start()

    def send(self, line):
        with self._lock:
            self._peer.write(line + b"\n")

    def request(self, line, message):
        """Sends a request; the lines that belong to it, its answer last."""
        id = json.dumps(message["id"])
        token = json.dumps(message.get("params", {}).get("_meta", {}).get("progressToken"))
        stream = SimpleQueue()
        with self._lock:
            self._by_id[id] = self._by_token[token] = stream
        try:
            self.send(line)
            while (part := stream.get(timeout=PATIENCE)) is not END:
                yield part
        except (Empty, OSError):
            error = {"code": -32000, "message": f"the peer said nothing for {PATIENCE} s, or is gone"}
            yield json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
        finally:
            with self._lock:
                self._by_id.pop(id, None)
                self._by_token.pop(token, None)

    def close(self):
        self._peer.close()

    def _sort(self):
        with suppress(OSError, ValueError):
            for line in self._peer.lines():
                with self._lock:
                    self._put(line.rstrip(b"\n"))
        self.unasked.put(END)

    def _put(self, line):
        message = json.loads(line)
        if is_answer(message):
            stream = self._by_id.pop(json.dumps(message["id"]), None)
        elif message["method"] == "notifications/progress":
            stream = self._by_token.get(json.dumps(message["params"]["progressToken"]))
        else:
            stream = next(iter(self._by_id.values())) if len(self._by_id) == 1 else None
        (stream or self.unasked).put(line)
        if stream and is_answer(message):
            stream.put(END)


def is_answer(message):
    return "method" not in message


class Bridge(ThreadingHTTPServer):
    """Listening between `with` and its end; then no peer is left. `connect` makes the peer of a session."""

    daemon_threads = True

    def __init__(self, connect):
        super().__init__(("127.0.0.1", 0), Handler)
        self.connect = connect
        self.sessions = {}
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"

    def __enter__(self):
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
        for session in self.sessions.values():
            session.close()

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

    @local
    def do_POST(self):
        # A newline in JSON stands between tokens, where a space does as well.
        line = self.rfile.read(int(self.headers["Content-Length"])).replace(b"\n", b" ")
        message = json.loads(line)
        if message.get("method") == "initialize":
            self._initialize(line, message)
        elif session := self._session():
            if "id" in message and not is_answer(message):
                self._stream(session.request(line, message))
            else:
                session.send(line)
                self.status(202)

    @local
    def do_GET(self):
        if session := self._session():
            self._stream(iter(session.unasked.get, END))

    @local
    def do_DELETE(self):
        if session := self._session():
            del self.server.sessions[self.headers["Mcp-Session-Id"]]
            session.close()
            self.status(204)

    def _initialize(self, line, message):
        id = uuid.uuid4().hex
        self.server.sessions[id] = session = Session(self.server.connect())
        self._stream(session.request(line, message), {"Mcp-Session-Id": id})

    def _session(self):
        """The session that the request names; a request that names none is answered with that."""
        session = self.server.sessions.get(self.headers["Mcp-Session-Id"])
        if not session:
            self.status(404 if "Mcp-Session-Id" in self.headers else 400)
        return session

    def _stream(self, lines, headers={}):
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
