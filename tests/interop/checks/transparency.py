"""Checks that mcpd alters nothing in passing: byte for byte, without an SDK, which would not notice."""

import os
import random
import re
import sys
import time
from pathlib import Path

import lines
import results
from daemon import Daemon, Server, eventually
from json_texts import Texts
from raw_echo import ANSWERS
from software import Software

# What the server answers alike whenever it is asked; names, arguments.
ORDINARY = [
    ("echo", {"message": "ä\"\\\n😀\u2028"}),
    ("echo", {}),
    ("echo", [1]),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-resource-links", {"count": 10}),
    ("get-structured-content", {"location": "New York"}),
    ("get-sum", {"a": 0.1, "b": 1e300}),
    ("get-tiny-image", None),
    ("simulate-research-query", {"topic": "asked for without a task"}),
    ("trigger-long-running-operation", {"duration": 0.1, "steps": 4}),
]
# Ends the generated messages, whichever comes first.
MESSAGES, SECONDS = 2000, 8


def check_everything(mcpd, server):
    """The same requests, directly and through the daemon, are answered with the same lines."""
    with Daemon(mcpd, {"everything": server}) as process, lines.server(server.command) as direct:
        with lines.daemon(process.socket) as through:
            # This server adds the last of its tools when the handshake is over.
            eventually(lambda: all(name.encode() in _list(direct) for name, _ in ORDINARY), "the whole list")
            eventually(lambda: _list(through) == _prefixed(_list(direct)), "the same list")
            for id, (name, arguments) in enumerate(ORDINARY, 1):
                params = {"arguments": arguments, "_meta": {"progressToken": f"token {id}", "x": 1}}
                expected = direct.ask("tools/call", {"name": name, **params}, id)
                answered = through.ask("tools/call", {"name": f"everything__{name}", **params}, id)
                assert answered == expected, (name, answered, expected)


def _list(peer):
    return peer.ask("tools/list", {}, "list")[-1]


def _prefixed(answer):
    """A list as the daemon has it; its envelope is the daemon's own."""
    result = re.fullmatch(rb'\{"result":(.*),"jsonrpc":"2.0","id":"list"\}', answer)[1]
    prefixed = re.sub(rb'\{"name":"([a-z-]+)",', rb'{"name":"everything__\1",', result)
    return b'{"jsonrpc":"2.0","id":"list","result":%b}' % prefixed


def check_generated(mcpd, seed):
    """A server receives what was sent, and the agent what was answered, whatever it looks like."""
    texts = Texts(seed)
    with Daemon(mcpd, {"raw": Server([sys.executable, str(Path(__file__).with_name("raw_echo.py"))])}) as process:
        with lines.daemon(process.socket) as agent:
            end = time.monotonic() + SECONDS
            sent = 0
            while sent < MESSAGES and time.monotonic() < end:
                _check_call(agent, texts, ["echo", "fail"][sent % 2])
                sent += 1
            print(f"{sent} messages", flush=True)


def _check_call(agent, texts, tool):
    call, id = texts.call(f"raw__{tool}"), texts.id()
    agent.send(call(id))
    answered = agent.receive()
    # The number that the daemon gave to the request, in the line that came back.
    own = re.search(rb'"(?:result|error)".*?"id"\s*:\s*(\d+)', answered)[1].decode()
    received = call(own, name=f'"{tool}"', token=own)
    expected = ANSWERS[tool] % {b"id": id.encode(), b"line": received}
    assert answered == expected, f"sent {call(id)!r}\nanswered {answered!r}\nexpected {expected!r}"


def main():
    arguments = results.arguments(__doc__)
    kept = results.Results(arguments.results)
    with kept.check("server-everything is heard in the same bytes directly and through mcpd"):
        check_everything(arguments.mcpd, Software(arguments.installed).node("everything"))
    seed = int(os.environ.get("INTEROP_SEED", random.randrange(1 << 32)))
    print(f"INTEROP_SEED={seed}", flush=True)
    with kept.check("what is generated arrives byte for byte, calls, results and errors"):
        check_generated(arguments.mcpd, seed)


main()
