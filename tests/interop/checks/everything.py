"""server-everything, heard directly and through the daemon: the same requests are answered with the same lines, but for what the
daemon rewrites. What it answers itself (lists, levels) has the same result. It does not matter what leads to the server."""

import json
import re

import lines
from copies import COPIES, SESSION, copies
from daemon import Daemon, alone, eventually

DOCUMENT = "demo://resource/static/document/features.md"
TEMPLATE = "demo://resource/dynamic/text/{resourceId}"
NOTICE = re.compile(rb'"method":"notifications/(tools|resources|prompts)/list_changed"')
# Of a resource that is made when it is read.
TIME = re.compile(rb"created at [^\"]*")
# Of it what belongs to no call comes on a stream of its own, before or after the answer.
UNORDERED = "everything_http"


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


def check(mcpd, software, report):
    with copies(software) as (servers, settings), Daemon(mcpd, servers, settings) as process:
        with lines.server(servers["everything"].command) as direct:
            # This server adds the last of its tools when the handshake is over.
            needed = {params["name"] for method, params in EXCHANGES if method == "tools/call"}
            eventually(lambda: all(name.encode() in _list(direct, "tools/list") for name in needed), "the whole list")
            expected = [_ask(direct, method, params, id) for id, (method, params) in enumerate(EXCHANGES, 1)]
            # What is not said cannot differ.
            for what in ("updated", "message", "progress", "error"):
                assert any(b"%s\"" % what.encode() in line for answers in expected for line in answers), what
            for name, link in COPIES.items():
                with report.check(f"server-everything is heard in the same bytes directly and through mcpd{link}"):
                    with lines.daemon(process.door(alone(name))) as through:
                        _compare(direct, expected, through, name)


def _compare(direct, expected, through, name):
    for method, is_named in LISTS.items():
        same = lambda: _list(through, method) == _exposed(_list(direct, method), name if is_named else None)
        eventually(same, f"the same {method}")
    for id, ((method, params), answers) in enumerate(zip(EXCHANGES, expected), 1):
        answered = _ask(through, method, _rewritten(params, name), id, len(answers))
        if method in OWN:
            assert json.loads(answered[-1]) == json.loads(answers[-1]), (answered, answers)
            continue
        order = sorted if name == UNORDERED else list
        assert order(answered) == order(answers), f"{method} {params}\n{answered}\nexpected\n{answers}"


def _ask(peer, method, params, id, at_least=1):
    """All that is said up to the answer, and then more if it is too little; but no news of lists, which the daemon words itself."""
    received = [line for line in peer.ask(method, params, id, skipped=()) if not NOTICE.search(line)]
    while len(received) < at_least:
        received += [line for line in [peer.receive()] if not NOTICE.search(line)]
    return [re.sub(SESSION.encode(), b"", TIME.sub(b"created", line)) for line in received]


def _rewritten(params, server):
    """The same with exposed names."""
    reference = params.get("ref", {})
    named = reference if "name" in reference else params if "name" in params else None
    if named is None:
        return params
    renamed = {**named, "name": f"{server}__{named['name']}"}
    return {**params, "ref": renamed} if named is reference else renamed


def _list(peer, method):
    """The raw result."""
    answer = peer.ask(method, {}, method)[-1]
    enveloped = re.fullmatch(rb'(?:\{"result":(.*),"jsonrpc":"2\.0","id":"[a-z/]+"\}|\{"jsonrpc":"2\.0","id":"[a-z/]+","result":(.*)\})', answer)
    return enveloped[1] or enveloped[2]


def _exposed(result, server):
    """A list as the daemon has it, with the names of a server if it is one of named things."""
    for item in next(iter(json.loads(result).values())) if server else []:
        name = b'{"name":"%s"' % item["name"].encode()
        assert result.count(name) == 1, name
        result = result.replace(name, b'{"name":"%s__%s"' % (server.encode(), item["name"].encode()))
    return result
