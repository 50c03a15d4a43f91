"""The HTTP of the era that opens with `initialize`, in front of peers that speak lines of JSON.

Each HTTP session has a peer of its own. A line of the peer goes to the POST that it belongs to: an answer by its id,
progress by its token, everything else to the only POST in flight; what belongs to none goes to the GET stream of its
session. Nothing is altered in passing.
"""

import json
import uuid
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from bridge import END, TIMEOUT, Bridge, Handler, is_answer, local, silence


class Session:
    """A peer, and the streams for its lines."""

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
        """Sends a request and yields its lines, the response last."""
        id = json.dumps(message["id"])
        token = json.dumps(message.get("params", {}).get("_meta", {}).get("progressToken"))
        stream = SimpleQueue()
        with self._lock:
            self._by_id[id] = self._by_token[token] = stream
        try:
            self.send(line)
            while (part := stream.get(timeout=TIMEOUT)) is not END:
                yield part
        except (Empty, OSError):
            yield json.dumps(silence(message["id"])).encode()
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


class SessionBridge(Bridge):
    """`connect` creates the peer of a session."""

    def __init__(self, connect):
        super().__init__(SessionHandler)
        self.connect = connect
        self.sessions = {}

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        for session in self.sessions.values():
            session.close()


class SessionHandler(Handler):
    @local
    def do_POST(self):
        # A newline in JSON is white space between tokens.
        line = self.body().replace(b"\n", b" ")
        message = json.loads(line)
        if message.get("method") == "initialize":
            self._initialize(line, message)
        elif session := self._session():
            if "id" in message and not is_answer(message):
                self.stream(session.request(line, message))
            else:
                session.send(line)
                self.status(202)

    @local
    def do_GET(self):
        if session := self._session():
            self.stream(iter(session.unasked.get, END))

    @local
    def do_DELETE(self):
        if session := self._session():
            del self.server.sessions[self.headers["Mcp-Session-Id"]]
            session.close()
            self.status(204)

    def _initialize(self, line, message):
        id = uuid.uuid4().hex
        self.server.sessions[id] = session = Session(self.server.connect())
        self.stream(session.request(line, message), {"Mcp-Session-Id": id})

    def _session(self):
        """The session of the request, or an error response."""
        session = self.server.sessions.get(self.headers["Mcp-Session-Id"])
        if not session:
            self.status(404 if "Mcp-Session-Id" in self.headers else 400)
        return session
