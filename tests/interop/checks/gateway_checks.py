"""Checks mcpd with a gateway as one of its servers: Envoy, as in examples/scale, in front of a server in Node and one in Python."""

import json
import re
import subprocess
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import lines
import results
from caller import Caller, text
from daemon import Daemon, Remote, eventually, free_port
from software import Software

CONFIGURATION = Path(__file__).parents[3] / "examples/scale/envoy.yaml"
# The server has ended before it answered.
ENDED = -31001
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Envoy:
    """Listens between `with` and its end, except between `stop` and `start`."""

    def __init__(self, program, everything, notes):
        self._program = program
        self.port = free_port()
        ports = {8080: self.port, 8081: everything.port, 8082: notes.port}
        self._directory = tempfile.TemporaryDirectory(prefix="mcpd-envoy-")
        self._configuration = Path(self._directory.name) / "envoy.yaml"
        changed = re.sub(r"(?<=port_value: )\d+", lambda port: str(ports[int(port[0])]), CONFIGURATION.read_text())
        self._configuration.write_text(changed)
        self._log = Path(self._directory.name) / "log"
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self._directory.cleanup()

    def start(self):
        command = [self._program, "--disable-hot-restart", "--concurrency", "1", "-c", self._configuration]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self._is_listening, "Envoy listens")

    def stop(self):
        self._process.kill()
        self._process.wait()

    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    def _is_listening(self):
        assert self._process.poll() is None, self._log.read_text()[-4000:]
        return "starting main dispatch loop" in self._log.read_text()


class Direct:
    """A client of the gateway without mcpd between."""

    def __init__(self, url):
        self._url, self._session = url, {}
        able, info = {"elicitation": {"url": {}}}, {"name": "direct", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": able, "clientInfo": info})
        self._send({"method": "notifications/initialized"})

    def request(self, method, params):
        received = self._send({"id": 1, "method": method, "params": params})
        return json.loads(re.sub(r"(?s)^.*^data: ", "", received, flags=re.MULTILINE))

    def _send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        request = urllib.request.Request(self._url, body, HEADERS | self._session)
        with urllib.request.urlopen(request, timeout=lines.TIMEOUT) as response:
            self._session = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
            return response.read().decode()


def lists_and_calls(client, *_):
    """lists and calls the tools of two servers"""
    eventually(lambda: {"everything__echo", "notes__echo"} <= set(client.tools()), "tools of both")
    assert client.text("everything__echo", message="ä\u2028😀") == "Echo: ä\u2028😀"
    counted, progress = client.call("notes__count", to=5)
    assert (text(counted), progress) == ("counted to 5", [1, 2, 3, 4, 5]), (counted, progress)


def passes_errors(client, gateway, *_):
    """passes failed results and errors of the protocol unchanged"""
    direct = Direct(gateway.url())
    # The last one is an error, which has an id of its own each time.
    for tool, arguments in [
        ("notes__fail", {}),
        ("everything__echo", {"message": 1}),
        ("everything__trigger-url-elicitation", {"url": "https://example.org/", "errorPath": True}),
    ]:
        expected = direct.request("tools/call", {"name": tool, "arguments": arguments})
        answer, _ = client.call(tool, **arguments)
        for message in (answer, expected):
            message["id"] = 1
            if "error" in message:
                message["error"]["data"]["elicitations"][0]["elicitationId"] = "1"
        assert answer == expected and answer.get("result", {"isError": True})["isError"], (answer, expected)
    assert expected["error"]["code"] == -32042, expected


def survives_gateway(client, gateway, *_):
    """serves again after the gateway has restarted, and a call under way ends once"""
    under_way = client.start("notes__wait", name="lost")
    assert client.hear()["params"]["progressToken"] == under_way
    gateway.stop()
    ended = client.hear()
    assert (ended["id"], ended["error"]["code"], ended["error"]["data"]["outcome"]) == (under_way, ENDED, "unknown"), ended
    refused, _ = client.call("notes__echo", text="x")
    assert refused["error"]["data"]["outcome"] == "not_sent", refused
    gateway.start()
    eventually(lambda: "error" not in client.call("notes__echo", text="x")[0], "the gateway is back")
    lists_and_calls(client)


def survives_server(client, gateway, servers, daemon):
    """serves again after a server behind the gateway has restarted, and `mcpd restart`"""
    for server in servers.values():
        server.restart()
    # Envoy answers HTTP 500 to a session that the server has forgotten, so no client sees that it needs a new one.
    refused, _ = client.call("notes__echo", text="x")
    assert "HTTP 500" in refused["error"]["message"] and refused["error"]["data"]["outcome"] == "unknown", refused
    restart = [daemon.mcpd, "restart", "team", "--runtime-dir", daemon.runtime]
    subprocess.run(restart, check=True, timeout=lines.TIMEOUT, capture_output=True)
    lists_and_calls(client)


def main():
    arguments = results.arguments(__doc__)
    report, software = results.Results(arguments.results), Software(arguments.installed)
    with ExitStack() as stack:
        servers = {
            "everything": stack.enter_context(software.everything_over("streamableHttp")),
            "notes": stack.enter_context(software.python_over("fastmcp", "fastmcp", "http")),
        }
        gateway = stack.enter_context(Envoy(arguments.installed / "scale/bin/envoy", **servers))
        daemon = stack.enter_context(Daemon(arguments.mcpd, {"team": Remote(gateway.url())}))
        client = Caller(stack.enter_context(lines.daemon(daemon.socket)), "team")
        for check in (lists_and_calls, passes_errors, survives_gateway, survives_server):
            with report.check(f"a gateway as a server: mcpd {check.__doc__}"):
                check(client, gateway, servers, daemon)


if __name__ == "__main__":
    main()
