"""Checks that `mcpd tap` has every message of a session of the Python SDK with server-everything, byte for byte, on both sides."""

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import anyio
from mcp import StdioServerParameters, stdio_client

import results
import sdk
from daemon import Daemon, Server, eventually
from software import Software

TIMEOUT = 60
RECORDER = [sys.executable, str(Path(__file__).with_name("recorder.py"))]
CALLS = [
    ("echo", {"message": "ä\"\\\n😀\u2028"}),
    ("get-structured-content", {"location": "New York"}),
    ("get-tiny-image", {}),
    ("get-sum", {"a": 0.1, "b": 1e300}),
    ("trigger-long-running-operation", {"duration": 0.1, "steps": 4}),
]


@contextmanager
def tapped(daemon, file):
    """Runs `mcpd tap` while this lasts. Its lines are in `file` then."""
    command = [daemon.mcpd, "tap", "--runtime-dir", str(daemon.runtime), "-o", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as tap:
        try:
            assert b"watching" in tap.stderr.readline()
            yield
        finally:
            tap.send_signal(signal.SIGINT)
        assert tap.wait(TIMEOUT) == 0


def messages(file, peer, direction):
    """Those of an agent, or those of the last connection to a server, as they stand in the lines."""
    lines = [(line, json.loads(line)) for line in file.read_text().split("\n")[:-1]]
    assert not any("missed" in record for _, record in lines), "messages are missing"
    of_peer = [(line, record) for line, record in lines if peer in record["peer"]]
    last = max(record["peer"].get("connection", 0) for _, record in of_peer)
    wanted = lambda record: record["direction"] == direction and record["peer"].get("connection", 0) == last
    # The message is the last member.
    return [line.split('"message":', 1)[1][:-1] for line, record in of_peer if wanted(record)]


def recorded(log, direction):
    """What passed at the recorder that was started last."""
    newest = max(log.parent.glob(f"{log.name}.*.{direction}"), key=lambda file: file.stat().st_ctime)
    return newest.read_text().split("\n")[:-1]


async def use(daemon, log):
    """A session that lists, calls, reads and is told of progress."""
    command = [*RECORDER, str(log), daemon.socket]
    progress = []

    async def on_progress(*news):
        progress.append(news)

    async with sdk.connect(stdio_client(StdioServerParameters(command=command[0], args=command[1:]))) as agent:
        assert "everything__echo" in [tool["name"] for tool in await agent.tools()]
        for tool, arguments in CALLS:
            await agent.call(f"everything__{tool}", arguments, on_progress)
        # An error of the protocol, or one in the result.
        await agent.call("everything__echo", {"message": 1}) if sdk.IS_1 else await agent.tools()
    assert progress, "no progress"


def check(mcpd, software):
    with tempfile.TemporaryDirectory(prefix="mcpd-interop-") as directory:
        agent, server, file = (Path(directory) / name for name in ("agent", "server", "tap.jsonl"))
        everything = software.node("everything")
        recording = Server([*RECORDER, str(server), *everything.command], script=everything.script)
        with Daemon(mcpd, {"everything": recording}) as daemon:
            # The file grows as messages pass, so that what is missing can be waited for.
            with tapped(daemon, file):
                # From its first message on.
                subprocess.run([daemon.mcpd, "restart", "everything", "--runtime-dir", str(daemon.runtime)], check=True)
                anyio.run(use, daemon, agent)
                # For the recorder at an agent, mcpd is the other peer.
                ends = [(agent, "agent", {"to": "from", "from": "to"}), (server, "server", {"to": "to", "from": "from"})]
                for log, peer, directions in ends:
                    for ours, theirs in directions.items():
                        same = lambda: messages(file, peer, theirs) == recorded(log, ours)
                        try:
                            eventually(same, f"all that passed {theirs} the {peer}")
                        except AssertionError:
                            print(*messages(file, peer, theirs), "--", *recorded(log, ours), sep="\n", file=sys.stderr)
                            raise
                    print(f"{peer}: {len(recorded(log, 'to'))} and {len(recorded(log, 'from'))} messages", flush=True)
                methods = {json.loads(line).get("method") for line in messages(file, "server", "from")}
                assert "notifications/progress" in methods, methods


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    with report.check(f"mcp {sdk.VERSION}: a tap has every message of a session with server-everything, byte for byte, on both sides"):
        check(arguments.mcpd, Software(arguments.installed))


main()
