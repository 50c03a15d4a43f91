"""Definitions and results that some validators reject: what mcpd makes of them passes in all."""

import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import Daemon, Server
from results import Results, arguments

HERE = Path(__file__).parent
OBJECT = {"type": "object"}
META = "io.modelcontextprotocol/"
# The rest of a tool's definition.
TOOLS = [
    *({name: value} for name in ("title", "description") for value in (None, 7)),
    *({name: value} for name in ("icons", "annotations", "execution", "_meta", "outputSchema") for value in (None, [], {}, 7)),
    *({"icons": [icon]} for icon in (None, {}, {"src": 5}, {"src": "x", "sizes": "9x9"}, {"src": "x", "theme": "blue"})),
    *({"annotations": {"readOnlyHint": hint}} for hint in (None, "true", 1)),
    *({"execution": {"taskSupport": support}} for support in (None, "maybe")),
    *({"inputSchema": schema} for schema in (None, {}, True, {"type": "string"}, {"type": ["object"]}, {"anyOf": [OBJECT]})),
    *({"inputSchema": {**OBJECT, "properties": value}} for value in (None, [], {"p": True}, {"p": False}, {"p": None}, {"p": "x"})),
    *({"inputSchema": {**OBJECT, "required": value}} for value in (None, True, [1], "p")),
    *({"inputSchema": {**OBJECT, "$schema": value}} for value in (None, 5)),
    *({"outputSchema": schema} for schema in (True, {"type": "array"}, {"anyOf": [OBJECT]})),
    *(
        {"outputSchema": {**OBJECT, "properties": {"p": schema}}}
        for schema in (
            *({"type": name} for name in ("int", "any", None, [])),
            *({"$ref": reference} for reference in ("#/$defs/None", "#", "http://127.0.0.1:1/x")),
            *({"pattern": pattern} for pattern in ("(", "(?i)x", "^[a-z]+$", "\\Z")),
            *({name: value} for name in ("anyOf", "items", "required", "minimum", "additionalProperties") for value in (None, True)),
            *({"nullable": True, **more} for more in ({}, {"type": "string"})),
            {"enum": []},
            {"exclusiveMinimum": True},
        )
    ),
]
PROMPTS = [
    *({name: value} for name in ("title", "description", "icons", "_meta", "arguments") for value in (None, 7)),
    *({"arguments": [argument]} for argument in (None, {}, "a", {"name": "a", "required": None}, {"name": "a", "required": "yes"})),
]
ANNOTATIONS = [
    *({"audience": value} for value in (None, "user", ["system"])),
    *({"priority": value} for value in (None, 2, "1", 0.5)),
    *({"lastModified": value} for value in (None, "2025-01-12", "2025-01-12T15:00:58", "2025-01-12T15:00:58Z", "2025-01-12T15:00:58.1+01:00")),
]
RESOURCES = [
    *({name: value} for name in ("name", "title", "mimeType", "annotations", "_meta") for value in (None, 7)),
    *({"size": size} for size in (None, "5", 1.5, -1, 1e30)),
    *({"annotations": value} for value in ANNOTATIONS),
    *({"uri": uri} for uri in ("a/b", "", "no uri", "http://")),
]
TEXT = {"type": "text", "text": "a"}
RESULTS = [
    *({"content": [TEXT], name: value} for name in ("isError", "_meta", "structuredContent") for value in (None,)),
    {"content": None},
    {"structuredContent": {"a": None}},
    *({"content": [], "structuredContent": value} for value in ([1], "x", 7)),
    *({"content": [{**TEXT, name: None}]} for name in ("annotations", "_meta")),
    {"content": [{"type": "resource_link", "uri": "x://a", "name": "a", "size": None}]},
]


def named(key, rests, **base):
    return [{**base, key: f"x://{number}" if key != "name" else f"n{number}", **rest} for number, rest in enumerate(rests)]


LISTS = {
    "tools/list": {"tools": named("name", TOOLS, inputSchema=OBJECT)},
    "prompts/list": {"prompts": named("name", PROMPTS)},
    "resources/list": {"resources": named("uri", RESOURCES, name="r")},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "x://{a}"}, {"uriTemplate": "x://{b}/c", "name": None}]},
}


class Agent:
    """One that reads and writes raw lines."""

    def __init__(self, path, is_modern):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._lines = self._socket.makefile("r")
        self._is_modern = is_modern
        self._last = 0
        if not is_modern:
            client = {"name": "definitions", "version": "1"}
            self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
            self._send({"method": "notifications/initialized"})

    def _send(self, message):
        self._socket.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method, params):
        self._last += 1
        if self._is_modern:
            values = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "d", "version": "1"}, "clientCapabilities": {}}
            params = {**params, "_meta": {META + name: value for name, value in values.items()}}
        self._send({"id": self._last, "method": method, "params": params})
        while True:
            answer = json.loads(self._lines.readline())
            if answer.get("id") == self._last and "method" not in answer:
                return answer["result"]


def rejections(command, messages):
    """Why a validator rejects each message; `None` for those that it accepts."""
    lines = "".join(json.dumps({"method": method, "result": result}) + "\n" for method, result in messages)
    run = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == len(messages), run.stderr
    return found


def main():
    args = arguments(__doc__)
    results = Results(args.results)

    def python(name):
        return str(args.installed / name / "bin/python")

    script = str(HERE / "definition_validator.py")
    validators = [
        ("TypeScript 1.x", ["node", str(HERE / "definition_validator.mjs"), str(args.installed), "1"], False),
        ("TypeScript 2.x", ["node", str(HERE / "definition_validator.mjs"), str(args.installed), "2"], False),
        ("TypeScript 2.x, modern", ["node", str(HERE / "definition_validator.mjs"), str(args.installed), "2"], True),
        ("Python 1.x", [python("mcp-1"), script, ""], False),
        ("Python 2.x", [python("mcp-2"), script, "2025-11-25"], False),
        ("Python 2.x, modern", [python("mcp-2"), script, "2026-07-28"], True),
        ("rmcp", [str(args.installed / "definition-validator")], False),
        ("rmcp, modern", [str(args.installed / "definition-validator")], True),
    ]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "lists.json"
        file.write_text(json.dumps(LISTS))
        odd = Server([sys.executable, str(HERE / "odd_server.py"), str(file)])
        with Daemon(args.mcpd, {"odd": odd}) as daemon:
            for name, command, is_modern in validators:
                agent = Agent(daemon.socket, is_modern)
                seen = [(method, agent.request(method, {})) for method in LISTS]
                call = f"odd__{LISTS['tools/list']['tools'][0]['name']}"
                calls = [("tools/call", agent.request("tools/call", {"name": call, "arguments": {"result": raw}})) for raw in RESULTS]
                for (method, result), why in zip(seen + calls, rejections(command, seen + calls), strict=True):
                    with results.check(f"{name} accepts {method} {json.dumps(result)[:60]}"):
                        assert why is None, why
                # The table has what it is for: definitions that cost a client of this kind its whole list.
                alone = [("tools/list", {"tools": [tool]}) for tool in LISTS["tools/list"]["tools"]]
                with results.check(f"{name} rejects some of the server's own definitions"):
                    assert is_modern or any(rejections(command, alone))


if __name__ == "__main__":
    main()
