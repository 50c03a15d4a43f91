"""server-everything, heard directly and through the daemon: the same requests are answered with the same lines, but for what the
daemon rewrites. What it answers itself (lists, levels) has the same result."""

import json
import re

import lines
from daemon import Daemon, eventually

NAME = "everything"
DOCUMENT = "demo://resource/static/document/features.md"
TEMPLATE = "demo://resource/dynamic/text/{resourceId}"
NOTICE = re.compile(rb'"method":"notifications/(tools|resources|prompts)/list_changed"')
# Of a resource that is made when it is read.
TIME = re.compile(rb"created at [^\"]*")


def _call(name, arguments, token):
    return "tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": token, "x": 1}}


def _complete(reference, name, value, **more):
    return "completion/complete", {"ref": reference, "argument": {"name": name, "value": value}, **more}


def _prompt(name):
    return {"type": "ref/prompt", "name": name}


def _resource(uri):
    return {"type": "ref/resource", "uri": uri}


# What the server answers alike whenever it is asked so, in this order: method, params. Every feature has an error among them.
EXCHANGES = [
    _call("echo", {"message": "ä\"\\\n😀\u2028"}, "token"),
    _call("echo", {}, "token 2"),
    _call("echo", [1], 3),
    _call("get-annotated-message", {"messageType": "error", "includeImage": True}, "4"),
    _call("get-resource-links", {"count": 10}, 5),
    _call("get-structured-content", {"location": "New York"}, 6),
    _call("get-sum", {"a": 0.1, "b": 1e300}, 7),
    _call("get-tiny-image", None, 8),
    _call("simulate-research-query", {"topic": "asked for without a task"}, 9),
    _call("trigger-long-running-operation", {"duration": 0.1, "steps": 4}, "10"),
    _call("trigger-long-running-operation", {"duration": 0.05, "steps": 2}, 10),
    ("prompts/get", {"name": "simple-prompt", "x": 1.10}),
    ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Köln", "state": "\u2028"}}),
    ("prompts/get", {"name": "args-prompt"}),
    ("prompts/get", {"name": "completable-prompt", "arguments": {"department": "Sales", "name": "Eve"}, "_meta": {"progressToken": 1}}),
    ("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "7"}}),
    ("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "None", "resourceId": "7"}}),
    _complete(_prompt("completable-prompt"), "department", "S"),
    _complete(_prompt("completable-prompt"), "name", "", context={"arguments": {"department": "Sales"}}),
    _complete(_prompt("simple-prompt"), "none", ""),
    _complete(_resource(TEMPLATE), "resourceId", "12"),
    _complete(_resource(TEMPLATE), "resourceId", "x"),
    _complete(_resource(DOCUMENT), "x", ""),
    ("resources/read", {"uri": DOCUMENT, "_meta": {"progressToken": "r"}}),
    ("resources/read", {"uri": "demo://resource/dynamic/text/7"}),
    ("resources/read", {"uri": "demo://resource/dynamic/text/0"}),
    # With nothing subscribed to there is nothing to tell of. Each is logged before it is answered.
    ("resources/subscribe", {"uri": DOCUMENT}),
    ("resources/subscribe", {"uri": "demo://resource/dynamic/text/1"}),
    ("resources/unsubscribe", {"uri": "demo://resource/dynamic/text/1"}),
    # Tells of what is subscribed to, then every five seconds.
    _call("toggle-subscriber-updates", {}, 20),
    _call("toggle-subscriber-updates", {}, 21),
    ("resources/unsubscribe", {"uri": DOCUMENT}),
    _call("toggle-subscriber-updates", {}, 22),
    _call("toggle-subscriber-updates", {}, 23),
    # From here on the server logs less, which each log message above would now be missing for.
    ("logging/setLevel", {"level": "error"}),
    ("resources/subscribe", {"uri": DOCUMENT}),
    ("resources/unsubscribe", {"uri": DOCUMENT}),
]
# The daemon answers them itself, so that their envelope is its own.
OWN = {"logging/setLevel"}
# The list's method, and whether its names are rewritten.
LISTS = {"tools/list": True, "prompts/list": True, "resources/list": False, "resources/templates/list": False}


def check(mcpd, server):
    with Daemon(mcpd, {NAME: server}) as process, lines.server(server.command) as direct:
        with lines.daemon(process.socket) as through:
            # This server adds the last of its tools when the handshake is over.
            needed = {params["name"] for method, params in EXCHANGES if method == "tools/call"}
            eventually(lambda: all(name.encode() in _list(direct, "tools/list") for name in needed), "the whole list")
            for method, is_named in LISTS.items():
                eventually(lambda: _list(through, method) == _exposed(_list(direct, method), is_named), f"the same {method}")
            heard = {"updated": 0, "message": 0, "progress": 0, "error": 0}
            for id, (method, params) in enumerate(EXCHANGES, 1):
                expected, answered = _ask(direct, method, params, id), _ask(through, method, _rewritten(params), id)
                if method in OWN:
                    assert json.loads(answered[-1]) == json.loads(expected[-1]), (answered, expected)
                    expected[-1] = answered[-1]
                assert answered == expected, f"{method} {params}\n{answered}\nexpected\n{expected}"
                for what in heard:
                    heard[what] += sum(b"%s\"" % what.encode() in line for line in answered)
            # What is not said cannot differ.
            assert all(heard.values()), heard


def _ask(peer, method, params, id):
    """All that is said up to the answer, but for news of lists, which the daemon words itself."""
    said = peer.ask(method, params, id, skipped=())
    return [TIME.sub(b"created", line) for line in said if not NOTICE.search(line)]


def _rewritten(params):
    """The same with exposed names."""
    reference = params.get("ref", {})
    named = reference if "name" in reference else params if "name" in params else None
    if named is None:
        return params
    renamed = {**named, "name": f"{NAME}__{named['name']}"}
    return {**params, "ref": renamed} if named is reference else renamed


def _list(peer, method):
    """The raw result."""
    answer = peer.ask(method, {}, method)[-1]
    enveloped = re.fullmatch(rb'(?:\{"result":(.*),"jsonrpc":"2\.0","id":"[a-z/]+"\}|\{"jsonrpc":"2\.0","id":"[a-z/]+","result":(.*)\})', answer)
    return enveloped[1] or enveloped[2]


def _exposed(result, is_named):
    """A list as the daemon has it."""
    if is_named:
        for item in next(iter(json.loads(result).values())):
            name = b'{"name":"%s"' % item["name"].encode()
            assert result.count(name) == 1, name
            result = result.replace(name, b'{"name":"%s__%s"' % (NAME.encode(), item["name"].encode()))
    return result
