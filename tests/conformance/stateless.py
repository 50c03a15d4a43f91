"""The HTTP of the stateless era, in front of one peer that speaks lines of JSON.

All requests share the peer, so ids, progress tokens and subscription ids are the bridge's own towards it. Whoever hangs
up cancels the request. What HTTP alone asks for is done here: that headers say what the body says, and which errors are a
status.

Source: MCP 2026-07-28, `basic/transports/streamable-http`.
"""

import itertools
import json
import select
import socket
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic

from bridge import END, TIMEOUT, Bridge, Handler, is_answer, local, silence
from headers import RESERVED, lacks_metadata, metadata, mismatch

SUBSCRIPTION = RESERVED + "subscriptionId"
LISTEN = "subscriptions/listen"
HEADER_MISMATCH = -32020
STATUS = {HEADER_MISMATCH: 400, -32021: 400, -32022: 400, -32600: 400, -32601: 404, -32700: 400}
# Interval of checks for a disconnected client, in seconds.
LOOK = 0.05


class Exchange:
    """A request of a client and its messages, the response last."""

    def __init__(self, request):
        self.is_listening = request["method"] == LISTEN
        self.stream = SimpleQueue()
        self.id = request["id"]
        self.token = metadata(request).get("progressToken")


class Exchanges:
    """A peer and its open requests, by the ids sent to it."""

    def __init__(self, peer):
        self._peer = peer
        self._lock = Lock()
        self._ids = itertools.count(1)
        self._open = {}
        Thread(target=self._sort, daemon=True).start()

    def begin(self, request):
        """Sends a request under a new id. Returns the id and the request's messages."""
        exchange = Exchange(request)
        with self._lock:
            id = next(self._ids)
            self._open[id] = exchange
            if exchange.token is not None:
                request["params"]["_meta"]["progressToken"] = id
            self._write({**request, "id": id})
        return id, exchange

    def send(self, notification):
        with self._lock:
            self._write(notification)

    def cancel(self, id):
        """Cancels a request of a disconnected client, unless it has ended."""
        with self._lock:
            if self._open.pop(id, None):
                self._write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    def close(self):
        self._peer.close()

    def _write(self, message):
        with suppress(OSError):
            self._peer.write(json.dumps(message).encode() + b"\n")

    def _sort(self):
        with suppress(OSError, ValueError):
            for line in self._peer.lines():
                with self._lock:
                    self._put(json.loads(line))

    def _put(self, message):
        params = message.get("params", {})
        meta = metadata(message)
        if is_answer(message):
            # One that ends a subscription would name it, too; nothing here looks at that.
            if exchange := self._open.pop(message["id"], None):
                exchange.stream.put({**message, "id": exchange.id})
                exchange.stream.put(END)
        elif message["method"] == "notifications/cancelled":
            # A server that ends a subscription. Over HTTP the end of its stream says so.
            if exchange := self._open.pop(params["requestId"], None):
                exchange.stream.put(END)
        elif exchange := self._open.get(params.get("progressToken")):
            exchange.stream.put({**message, "params": {**params, "progressToken": exchange.token}})
        elif exchange := self._open.get(meta.get(SUBSCRIPTION)):
            exchange.stream.put({**message, "params": {**params, "_meta": {**meta, SUBSCRIPTION: exchange.id}}})
        else:
            calls = [exchange for exchange in self._open.values() if not exchange.is_listening]
            if len(calls) == 1:
                calls[0].stream.put(message)


class StatelessBridge(Bridge):
    """`connect` creates the one peer."""

    def __init__(self, connect):
        super().__init__(StatelessHandler)
        self.exchanges = Exchanges(connect())

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        self.exchanges.close()


class StatelessHandler(Handler):
    @local
    def do_POST(self):
        message = json.loads(self.body())
        if why := mismatch(self.headers, message):
            self._answer({"id": message.get("id"), "error": {"code": HEADER_MISMATCH, "message": why}}, message)
        elif "id" in message:
            self._exchange(message)
        else:
            self.server.exchanges.send(message)
            self.status(202)

    @local
    def do_GET(self):
        self.status(405)

    @local
    def do_DELETE(self):
        self.status(405)

    def _exchange(self, message):
        id, exchange = self.server.exchanges.begin(message)
        try:
            first = self._next(exchange)
            if "error" in first:
                self._answer(first, message)
            else:
                rest = iter(lambda: self._next(exchange, patient=exchange.is_listening), END)
                self.stream(json.dumps(one).encode() for one in itertools.chain([first], rest))
        except ConnectionError:
            self.close_connection = True
        finally:
            self.server.exchanges.cancel(id)

    def _next(self, exchange, patient=False):
        """The next message of a stream, while its client is connected."""
        deadline = monotonic() + TIMEOUT
        while patient or monotonic() < deadline:
            with suppress(Empty):
                return exchange.stream.get(timeout=LOOK)
            if select.select([self.connection], [], [], 0)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionError
        exchange.stream.put(END)
        return silence(exchange.id)

    def _answer(self, answer, request):
        """Responds with the HTTP status for an error, where one is defined."""
        code = answer["error"]["code"]
        self.send_response(400 if code == -32602 and lacks_metadata(request) else STATUS.get(code, 200))
        body = json.dumps({"jsonrpc": "2.0", **answer}).encode()
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
