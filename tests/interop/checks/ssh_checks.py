"""Checks servers and agents on another machine by ssh, as docs/scale.md has them, and what survives when the line breaks."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import lines
import results
import ssh_host
from caller import Caller, text
from daemon import Daemon, Server, eventually

HERE = Path(__file__).parent
SERVER = [sys.executable, str(HERE / "far_server.py")]
# Errors of calls whose server, or daemon, has gone.
ENDED, STOPPED = -31001, -31005


def status(daemon):
    command = [daemon.mcpd, "status", "--json", "--runtime-dir", str(daemon.runtime)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=lines.TIMEOUT).stdout)


def ssh_of(daemon, server):
    """The process id of the ssh that mcpd runs as a server."""
    return next(one["pid"] for one in status(daemon)["servers"] if one["name"] == server)


def process_at(host, pid):
    return next(process for process in host.processes() if process.pid == pid)


def wait_unanswered(client):
    """A call that the server has received and does not answer."""
    id = client.start("wait")
    assert client.hear()["params"]["progressToken"] == id
    return id


def assert_unknown(message, id, code):
    assert (message["id"], message["error"]["code"]) == (id, code), message
    assert message["error"]["data"]["outcome"] == "unknown", message


def calls(client):
    """The process that answers; it also refuses a call in its own words."""
    refused, _ = client.call("fail")
    assert refused["error"] == {"code": -32000, "message": "on purpose", "data": {"far": True}}, refused
    return int(client.text("pid"))


@contextmanager
def server_by_ssh(mcpd, command, server="far"):
    """A daemon whose server is on the other machine, and an agent that calls it."""
    with Daemon(mcpd, {server: Server(command)}) as daemon, lines.daemon(daemon.socket) as peer:
        client = Caller(peer, server)
        eventually(lambda: "pid" in client.tools(), "the server has listed")
        yield daemon, client


def line_is_cut(mcpd, host):
    """a server there is started again after ssh is killed: the call ends once, and nothing is left there"""
    with server_by_ssh(mcpd, host.running(SERVER)) as (daemon, client):
        first = process_at(host, calls(client))
        id = wait_unanswered(client)
        os.kill(ssh_of(daemon, "far"), signal.SIGKILL)
        assert_unknown(client.hear(), id, ENDED)
        eventually(lambda: not first.is_running(), "the server there has ended")
        assert calls(client) != first.pid


def line_is_silent(mcpd, host):
    """a server there is started again after the line has been silent for longer than ssh permits"""
    with server_by_ssh(mcpd, host.running(SERVER)) as (_, client):
        first = process_at(host, calls(client))
        id = wait_unanswered(client)
        with host.silence():
            assert_unknown(client.hear(), id, ENDED)
            assert first.is_running(), "it does not know yet"
        eventually(lambda: not first.is_running(), "the server there has ended")
        assert calls(client) != first.pid


def daemon_stops(mcpd, host):
    """a server there ends with the daemon here, and so does ssh"""
    with server_by_ssh(mcpd, host.running(SERVER)) as (daemon, client):
        first = process_at(host, calls(client))
        daemon.stop(signal.SIGTERM)
        eventually(lambda: not first.is_running() and not daemon.left(), "all have ended")


def ignores_end_of_input(mcpd, host):
    """a server there that ignores the end of its input is left, unless a daemon there runs it"""
    deaf = [*SERVER, "deaf"]
    with server_by_ssh(mcpd, host.running(deaf)) as (daemon, client):
        first = process_at(host, calls(client))
        id = wait_unanswered(client)
        os.kill(ssh_of(daemon, "far"), signal.SIGKILL)
        assert_unknown(client.hear(), id, ENDED)
        second = process_at(host, calls(client))
        daemon.stop(signal.SIGTERM)
        left = [process for process in (first, second) if process.is_running()]
        for process in left:
            os.kill(process.pid, signal.SIGKILL)
        assert left == [first, second], "docs/scale.md says that they are left"
    with Daemon(mcpd, {"deaf": Server(deaf)}) as there:
        with server_by_ssh(mcpd, host.running(there.connecting("--server", "deaf"))) as (daemon, client):
            first = calls(client)
            id = wait_unanswered(client)
            os.kill(ssh_of(daemon, "far"), signal.SIGKILL)
            assert_unknown(client.hear(), id, ENDED)
            assert calls(client) == first, "the daemon there has kept it"
        eventually(lambda: not status(there)["agents"], "`mcpd connect` there has ended")
        there.stop(signal.SIGTERM)
        assert not there.left()


def agent_by_command(mcpd, host):
    """an agent here uses a daemon there by `ssh far mcpd connect`, which ends there with the line, and its calls too"""
    with Daemon(mcpd, {"far": Server(SERVER)}) as there:
        with subprocess.Popen(host.running(there.connecting()), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ssh:
            client = Caller(lines.Peer(ssh.stdout, ssh.stdin).shake_hands(), "far")
            calls(client)
            connect = process_at(host, status(there)["agents"][0]["pid"])
            wait_unanswered(client)
            ssh.kill()
        eventually(lambda: not connect.is_running() and not status(there)["agents"], "nothing is left of it")


def agent_by_socket(mcpd, host):
    """an agent here uses the forwarded socket of a daemon there, and `mcpd connect` survives a broken line"""
    with ExitStack() as stack:
        there = stack.enter_context(Daemon(mcpd, {"far": Server(SERVER)}))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcpd-far-")))
        with host.forwarding(directory / "mcp.sock", there.socket), lines.daemon(str(directory / "mcp.sock")) as peer:
            pid = calls(Caller(peer, "far"))
        connect = [there.mcpd, "connect", "--runtime-dir", str(directory), "--daemon-uid", str(os.getuid())]
        with host.forwarding(directory / "mcp.sock", there.socket):
            agent = stack.enter_context(subprocess.Popen(connect, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            stack.callback(agent.kill)
            client = Caller(lines.Peer(agent.stdout, agent.stdin).shake_hands(), "far")
            assert calls(client) == pid
            id = wait_unanswered(client)
        assert_unknown(client.hear(), id, STOPPED)
        id = client.start("pid")
        with host.forwarding(directory / "mcp.sock", there.socket):
            answer = client.hear()
            assert (answer["id"], text(answer)) == (id, str(pid)), "it waited, and was sent once"


def main():
    arguments = results.arguments(__doc__)
    if missing := ssh_host.missing():
        print(f"skipped: nothing is reached by ssh: {missing}")
        return
    report = results.Results(arguments.results)
    checks = (line_is_cut, line_is_silent, daemon_stops, ignores_end_of_input, agent_by_command, agent_by_socket)

    def run(check):
        with report.check(f"ssh: {check.__doc__}"), ssh_host.Host() as host:
            check(arguments.mcpd, host)

    with ThreadPoolExecutor(len(checks)) as pool:
        list(pool.map(run, checks))


if __name__ == "__main__":
    main()
