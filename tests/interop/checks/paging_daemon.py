"""A daemon for one agent that pages its list, and sends every permitted message before each response."""

import json
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

TOOLS = ["first", "second", "third"]


class PagingDaemon:
    """Serves inside `with`."""

    def __init__(self):
        self._directory = TemporaryDirectory(prefix="mcpd-odd-")
        self._socket = socket.socket(socket.AF_UNIX)
        self._said = []

    def __enter__(self):
        path = Path(self._directory.name) / "mcpd/mcp.sock"
        path.parent.mkdir()
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._socket.close()
        self._directory.cleanup()

    def environment(self):
        """The environment with which an agent finds it."""
        return {"XDG_RUNTIME_DIR": self._directory.name}

    def _serve(self):
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rw") as stream:
            for message in map(json.loads, stream):
                if "method" in message:
                    self._said.append(message["method"])
                if "method" in message and "id" in message:
                    for line in self._answer(**message):
                        print(json.dumps({"jsonrpc": "2.0", **line}), file=stream, flush=True)

    def _answer(self, id, method, params, **_):
        if method != "initialize":
            assert self._said[:2] == ["initialize", "notifications/initialized"], self._said
            yield {"method": "notifications/tools/list_changed"}
            # Each side counts separately, so this may equal the id of a request of the other side.
            yield {"id": id, "method": "ping"}
        yield {"id": id, "result": _result(method, params)}


def _result(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        }
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    # A cursor is opaque.
    page = int((params or {}).get("cursor", "0"))
    more = {"nextCursor": str(page + 1)} if page + 1 < len(TOOLS) else {}
    return {"tools": [{"name": TOOLS[page], "inputSchema": {"type": "object"}}], **more}
