"""A client in raw lines on the pipes of a command, which keeps a transcript of all that it sends and receives.

A notification that a list has changed is in it where the client waits for it, and once. It belongs to no request, and a server sends
any number for one change.
"""

import json
import re
import subprocess
import time
from collections import deque
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread

LIST_CHANGED = re.compile(r"notifications/(\w+)/list_changed")
SENT, RECEIVED = ">", "<"
# As a client may write them.
IDS = ["%d", '"%d"', "-%d", '"\\u0061%d"', "%d.0", '"id %d"']


class Client:
    def __init__(self, process, answers, timeout):
        """`answers` has, by method, a function from a request of the server to the members of the response. `timeout` is that
        of one message, in seconds."""
        self.transcript = []
        # The last notification of each kind of list.
        self.changed = {}
        self._process = process
        self._answers = answers
        self.timeout = timeout
        self._count = 0
        self._lines = SimpleQueue()
        # Received, and awaited by nobody yet.
        self._waiting = deque()
        # The number of the server's requests.
        self._asked = 0
        Thread(target=self._read, daemon=True).start()

    def begin(self, number):
        """Begins a transcript. `number` makes its ids, and no other's."""
        self.transcript = []
        self._count = 100 * number
        self._waiting.clear()
        self._asked = 0

    def write(self, line):
        self.transcript.append((SENT, line))
        self._send(line)

    def notify(self, method, **params):
        self.write(_text({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}))

    def cancel(self, id):
        """Cancels the request with this raw id."""
        self.write(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"no need"}}}}')

    def send(self, method, params=None):
        """Sends a request and returns its raw id."""
        self._count += 1
        id = IDS[self._count % len(IDS)] % self._count
        members = "" if params is None else f',"params":{_text(params)}'
        self.write(f'{{"jsonrpc":"2.0","id":{id},"method":"{method}"{members}}}')
        return id

    def ask(self, method, params=None):
        """Returns the response to a request."""
        id = json.loads(self.send(method, params))
        return self.wait(lambda message: "method" not in message and message.get("id") == id)

    def call(self, tool, arguments=None, **more):
        return self.ask("tools/call", {"name": tool, "arguments": arguments or {}, **more})

    def ask_until(self, expected, method, params):
        """Repeats a request until the result is the expected one but for its `_meta`, and returns it. The transcript has only the
        last exchange."""
        start, count, deadline = len(self.transcript), self._count, time.monotonic() + self.timeout
        while True:
            result = self.ask(method, params).get("result", {})
            result.pop("_meta", None)
            if expected in (None, result) or time.monotonic() > deadline:
                return result
            time.sleep(0.05)
            del self.transcript[start:]
            self._count = count

    def wait(self, condition):
        """Returns the first message that meets the condition and was not returned yet, and answers requests meanwhile."""
        for message in [one for one in self._waiting if condition(one)][:1]:
            self._waiting.remove(message)
            return message
        while not condition(message := self._receive()):
            self._waiting.append(message)
        return message

    def hear(self, method, **params):
        """Waits for a notification with these params, among others."""
        return self.wait(lambda message: message.get("method") == method and params.items() <= message["params"].items())

    def wait_changed(self, what):
        while what not in self.changed:
            self._receive()
        self.transcript.append((RECEIVED, self.changed[what]))

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.decode())
        self._lines.put("")

    def _send(self, line):
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self):
        try:
            line = self._lines.get(timeout=self.timeout)
        except Empty:
            raise TimeoutError(f"nothing arrived within {self.timeout} s") from None
        assert line.endswith("\n"), f"the stream ended with {line!r}"
        line = line[:-1]
        message = json.loads(line)
        if changed := LIST_CHANGED.fullmatch(message.get("method", "")):
            self.changed[changed[1]] = line
        elif "method" in message and "id" in message:
            self._reply(line, message)
        else:
            self.transcript.append((RECEIVED, line))
        return message

    def _reply(self, line, message):
        """Answers a request. The transcript has its number instead of its id."""
        id = dict(members(line))["id"]
        self._asked += 1
        number = f'"number {self._asked}"'
        self.transcript.append((RECEIVED, line.replace(f'"id":{id}', f'"id":{number}', 1)))
        answer = _text(self._answers[message["method"]](message))[1:-1]
        self.transcript.append((SENT, f'{{"jsonrpc":"2.0","id":{number},{answer}}}'))
        self._send(f'{{"jsonrpc":"2.0","id":{id},{answer}}}')


@contextmanager
def connected(command, answers, timeout):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield Client(process, answers, timeout)
        finally:
            process.kill()


def members(text):
    """The members of a JSON object without white space, each with its value as it is written."""
    decoder, at = json.JSONDecoder(), 1
    while text[at] != "}":
        name, end = decoder.raw_decode(text, at + (text[at] == ","))
        start = end + 1
        _, at = decoder.raw_decode(text, start)
        yield name, text[start:at]


def _text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
