"""Plays one client scenario of the conformance suite as an agent of mcpd: the suite runs `client.py MCPD ERA URL`, where
ERA is that of the agent and URL leads to the suite's server, and says in the environment which scenario it is. Ends with 0 if
all of it was done.

It has a daemon of its own in a home of its own, and where the server wants a login it does what a person would:
`mcpd login`, with a browser in which everything is agreed to.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from daemon import Daemon, eventually
from peers import Socket

# In seconds. The suite ends this program after 30 s, which could leave a daemon behind.
TIMEOUT = 60
# One to be let in, one for what was refused after that. A third time the server will not be content either.
LOGINS = 2
SERVER = "suite"
# The client id metadata document that the suite expects.
CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"


class Refused(Exception):
    """An error response."""


def accepted(request):
    """The result that accepts an elicitation with its default values."""
    fields = request["params"]["requestedSchema"]["properties"].items()
    return {"action": "accept", "content": {name: field["default"] for name, field in fields if "default" in field}}


class Agent:
    """An agent of the daemon that accepts every server request with the default values."""

    _META = "io.modelcontextprotocol/"
    _CAPABILITIES = {"elicitation": {}}
    _SOFTWARE = {"name": "conformance", "version": "1"}

    def __init__(self, path, era):
        self._peer = Socket(path)
        self._lines = self._peer.lines()
        self._requests = 0
        self._is_modern = era == "modern"
        if not self._is_modern:
            version, capabilities, software = "2025-11-25", self._CAPABILITIES, self._SOFTWARE
            self._request("initialize", protocolVersion=version, capabilities=capabilities, clientInfo=software)
            self._send(method="notifications/initialized")

    def request(self, method, **params):
        """Returns the result, and answers server requests meanwhile."""
        if not self._is_modern:
            return self._request(method, **params)
        meta = {"protocolVersion": "2026-07-28", "clientCapabilities": self._CAPABILITIES, "clientInfo": self._SOFTWARE}
        params["_meta"] = {self._META + name: value for name, value in meta.items()}
        result = self._request(method, **params)
        while result.get("resultType") == "input_required":
            answers = {key: accepted(request) for key, request in result.get("inputRequests", {}).items()}
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            result = self._request(method, **params, inputResponses=answers, **state)
        return result

    def _request(self, method, **params):
        self._requests += 1
        self._send(id=self._requests, method=method, params=params)
        for message in map(json.loads, self._lines):
            if "method" in message:
                self._answer(message)
            elif message["id"] != self._requests:
                continue
            elif "error" in message:
                raise Refused(f"{method}: {message['error']}")
            else:
                return message["result"]
        raise Refused(f"{method}: the daemon hung up")

    def close(self):
        self._peer.close()

    def _answer(self, message):
        if message["method"] == "elicitation/create":
            self._send(id=message["id"], result=accepted(message))
        elif "id" in message:
            self._send(id=message["id"], error={"code": -32601, "message": "Method not found"})

    def _send(self, **message):
        self._peer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def configuration(url, scenario, context):
    """A face of one server, with its own tool names."""
    oauth = {name: context[name] for name in ("client_id", "client_secret") if name in context}
    if scenario == "auth/basic-cimd":
        oauth["client_id"] = CLIENT_DOCUMENT
    lines = ["[daemon]", 'naming = "{tool}"', f"[servers.{SERVER}]", f"url = {json.dumps(url)}"]
    if oauth:
        lines.append("oauth = { " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in oauth.items()) + " }")
    return "\n".join(lines) + "\n"


def calls(scenario, context, tools):
    """The tool calls that the scenario expects, with their arguments."""
    match scenario:
        case "http-custom-headers":
            return [(call["name"], call["arguments"]) for call in context["toolCalls"]]
        case "http-standard-headers" | "http-invalid-tool-headers" | "sep-2322-client-request-state":
            return [(name, {}) for name in tools]
        case "tools_call":
            return [("add_numbers", {"a": 5, "b": 3})]
        case "elicitation-sep1034-client-defaults":
            return [("test_client_elicitation_defaults", {})]
        case "sse-retry":
            return [("test_reconnection", {})]
        case "json-schema-2020-12-preservation":
            return [("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"]["inputSchema"]})]
        case _ if scenario.startswith("auth/"):
            return [("test-tool", {})]
        case _:
            return []


def load_skills(agent):
    """Loads each skill as a host has to: no further file after one that is not as its entry states."""
    for skill in agent.request("skills/list")["skills"]:
        for file in skill["resources"]:
            [content] = agent.request("resources/read", uri=file["uri"])["contents"]
            if not is_verified(skill, file, content["text"]):
                break


def is_verified(skill, file, text):
    content = text.encode()
    found = {"uri": file["uri"], "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
    if file["uri"] != skill["uri"]:
        return found == file
    header = text.split("---\n")[1]
    frontmatter = dict(line.split(": ", 1) for line in header.splitlines())
    return found == file and frontmatter == skill["frontmatter"]


def act(agent, scenario, context):
    """The agent's part of the scenario."""
    if scenario == "sep-2640-client-no-prefetch":
        agent.request("skills/list")
    elif scenario.startswith("sep-2640-"):
        load_skills(agent)
    tools = {tool["name"]: tool for tool in agent.request("tools/list")["tools"]}
    for name, arguments in calls(scenario, context, tools):
        agent.request("tools/call", name=name, arguments=arguments)
    if scenario == "http-standard-headers":
        for prompt in agent.request("prompts/list")["prompts"]:
            agent.request("prompts/get", name=prompt["name"])
        for resource in agent.request("resources/list")["resources"]:
            agent.request("resources/read", uri=resource["uri"])


def play(daemon, era, scenario, context):
    """Runs the scenario, with the necessary logins."""
    for _ in range(LOGINS):
        if not needs_login(daemon):
            with closing(Agent(daemon.socket, era)) as agent:
                try:
                    return act(agent, scenario, context)
                except Refused as refused:
                    print(refused)
                    if f"`mcpd login {SERVER}`" not in str(refused) and not comes_to_need_login(daemon):
                        raise
        # The server may refuse the new token at the first request.
        run(daemon, "login", SERVER, is_fine=(0, 1))
    with closing(Agent(daemon.socket, era)) as agent:
        act(agent, scenario, context)


def comes_to_need_login(daemon):
    """Waits until the daemon knows whether the server needs a login."""
    try:
        eventually(lambda: needs_login(daemon), "it needs a login", seconds=15)
    except AssertionError:
        return False
    return True


def needs_login(daemon):
    """Whether the server needs a login, once it was tried. Exits if the server is neither ready nor in need of a login."""
    state = None

    def was_tried():
        nonlocal state
        [server] = json.loads(run(daemon, "status", "--json", is_fine=(0, 1)))["servers"]
        state = server["state"]
        if state in ("backoff", "failed"):
            sys.exit(f"the server is in {state}: {server.get('reason')}")
        return state in ("ready", "needs_login")

    eventually(was_tried, "the server was tried")
    return state == "needs_login"


def run(daemon, *arguments, is_fine=(0,)):
    """The output of a command of mcpd. Exits on failure."""
    command = [daemon.mcpd, *arguments, "--runtime-dir", daemon.runtime]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
    if ended.returncode not in is_fine:
        sys.exit(f"mcpd {' '.join(arguments)} ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def exit_on_signal(number, _):
    sys.exit(f"ended by signal {number}")


def main():
    mcpd, era, url = sys.argv[1:]
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    signal.signal(signal.SIGTERM, exit_on_signal)
    signal.signal(signal.SIGALRM, exit_on_signal)
    signal.alarm(TIMEOUT)

    with tempfile.TemporaryDirectory() as home:
        for name in [name for name in os.environ if name.startswith("XDG_") or name.lower().endswith("_proxy")]:
            del os.environ[name]
        os.environ["HOME"] = home
        os.environ["BROWSER"] = str(Path(__file__).parent / "browser.py")
        with Daemon(mcpd, {}, configuration(url, scenario, context)) as daemon:
            try:
                play(daemon, era, scenario, context)
            finally:
                daemon.stop(signal.SIGTERM)
                print(daemon.log(), file=sys.stderr)


main()
