"""Checks byte for byte, without an SDK, that mcpd does not alter messages."""

import os
import random
import re
import sys
import time
from pathlib import Path

import everything
import lines
import results
from daemon import Daemon, Server
from json_texts import Texts
from raw_echo import ANSWERS
from software import Software

# Ends the generated messages, whichever comes first.
MESSAGES, SECONDS = 2000, 8


def check_generated(mcpd, seed):
    """Requests and responses pass unchanged in any spelling."""
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
    report = results.Results(arguments.results)
    everything.check(arguments.mcpd, Software(arguments.installed), report)
    seed = int(os.environ.get("INTEROP_SEED", random.randrange(1 << 32)))
    print(f"INTEROP_SEED={seed}", flush=True)
    with report.check("what is generated arrives byte for byte, calls, results and errors"):
        check_generated(arguments.mcpd, seed)


main()
