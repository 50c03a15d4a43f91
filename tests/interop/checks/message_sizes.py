"""Checks that every SDK reads messages of mcpd's default `max_message`, as agent and as server, however much else it reads with the end of
a line. Prints the largest size of a few that each SDK reads."""

import json
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from threading import Thread

import results
from matrix_checks import agents, servers

HERE = Path(__file__).parent
SCHEMA = HERE.parents[2] / "config/mcpd.schema.json"
MIB = 1 << 20
LARGER = [10 * MIB, 16 * MIB, 64 * MIB]
# Time limit of one program.
TIMEOUT = 60
# What a peer may read at a time.
READ = 64 << 10
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"x"}}\n'


def default():
    """The default of `max_message`, in bytes."""
    schema = json.loads(SCHEMA.read_text())
    return int(re.fullmatch(r"(\d+)KiB", schema["properties"]["daemon"]["properties"]["max_message"]["default"])[1]) << 10


def padded(message, size):
    """A line of this size, where `message` has the text PAD, and one read of notifications after it."""
    line = json.dumps(message, separators=(",", ":")).encode()
    filler = b"x" * (size + len(b"PAD") - len(line))
    return line.replace(b"PAD", filler) + b"\n" + NOTIFICATION * (READ // len(NOTIFICATION))


def serve(size):
    """A server whose tool `fail` answers with a line of this size."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" not in request:
            continue
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        known = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": "sized", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "fail", "inputSchema": {"type": "object"}}]},
            "tools/call": {"isError": True, "content": [{"type": "text", "text": text} for text in ("on purpose", "PAD")]},
            "logging/setLevel": {},
            "ping": {},
        }
        result = known.get(request.get("method"))
        answer |= {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
        if request.get("method") == "tools/call":
            sys.stdout.buffer.write(padded(answer, size))
        else:
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def agent_reads(agent, size):
    config = {
        **agent.config,
        "command": [sys.executable, __file__, "--serve", str(size)],
        "servers": {"sized": ""},
        "checks": {"sized": ["errors"]},
    }
    try:
        ended = subprocess.run([*agent.command, json.dumps(config)], capture_output=True, text=True, timeout=TIMEOUT)
        return json.loads(ended.stdout)["sized"]["errors"] == [True, True]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return False


def server_reads(server, size):
    process = subprocess.Popen(server.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    initialize = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "sized", "version": "1"},
    }
    call = {"name": "echo", "arguments": {"text": "PAD"}}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}).encode() + b"\n",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
        padded({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, size),
    ]

    def send():
        try:
            process.stdin.write(lines[0])
            process.stdin.flush()
            initialized.join()
            process.stdin.write(lines[1] + lines[2])
            process.stdin.flush()
        except OSError:
            # A server that does not read the line may end.
            pass

    answers = {}

    def receive(id):
        for line in process.stdout:
            message = json.loads(line)
            if message.get("id") == id:
                answers[id] = message
                return

    initialized = Thread(target=receive, args=(1,), daemon=True)
    initialized.start()
    Thread(target=send, daemon=True).start()
    initialized.join(TIMEOUT)
    answered = Thread(target=receive, args=(2,), daemon=True)
    answered.start()
    answered.join(TIMEOUT)
    process.kill()
    process.wait()
    return len(answers.get(2, {}).get("result", {}).get("content", [{}])[0].get("text", "")) > size // 2


def check(report, name, reads):
    """`reads` is whether the peer reads a message of a size."""
    largest = 0
    with report.check(f"message sizes: {name} reads messages of {default()} bytes, the default `max_message`"):
        largest = max(takewhile(reads, [default(), *LARGER]), default=0)
        assert largest
    print(f"     {name} reads messages of {largest} bytes", flush=True)


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(int(sys.argv[2]))
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    for name, agent in agents(arguments.installed).items():
        # The server of this check is a legacy one.
        if agent.config.get("mode") not in ({"pin": "2026-07-28"}, "modern"):
            check(report, f"{name} as agent", lambda size, agent=agent: agent_reads(agent, size))
    for name, server in servers(arguments.installed).items():
        check(report, f"{name} as server", lambda size, server=server: server_reads(server, size))


main()
