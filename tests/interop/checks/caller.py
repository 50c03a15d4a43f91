"""An agent that calls one server behind mcpd, without a library."""

import json

import lines


class Caller:
    """Calls a server by its own tool names, in raw lines."""

    def __init__(self, peer, server):
        self._peer, self._prefix = peer, f"{server}__"
        self._last = 0

    def tools(self):
        answer = json.loads(self._peer.ask("tools/list", {}, "list")[-1])
        return [tool["name"].removeprefix(self._prefix) for tool in answer["result"]["tools"]]

    def start(self, tool, **arguments):
        """Sends a call; its id, which is the token of its progress too."""
        self._last += 1
        params = {"name": self._prefix + tool, "arguments": arguments, "_meta": {"progressToken": self._last}}
        call = {"jsonrpc": "2.0", "id": self._last, "method": "tools/call", "params": params}
        self._peer.send(json.dumps(call).encode())
        return self._last

    def cancel(self, id):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        self._peer.send(json.dumps(cancelled).encode())

    def hear(self):
        """The next message that is no news of lists or logs."""
        while True:
            message = json.loads(self._peer.receive())
            if message.get("method") not in lines.NOTIFICATIONS:
                return message

    def call(self, tool, **arguments):
        """The answer, and the progress up to it."""
        id, progress = self.start(tool, **arguments), []
        while (message := self.hear()).get("id") != id:
            assert message["params"]["progressToken"] == id, message
            progress.append(message["params"]["progress"])
        return message, progress

    def text(self, tool, **arguments):
        message, _ = self.call(tool, **arguments)
        return text(message)


def text(message):
    return message["result"]["content"][0]["text"]
