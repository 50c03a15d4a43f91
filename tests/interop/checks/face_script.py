"""What a client does with server-everything: a function for each feature, in this order. Its docstring is the feature's name."""

import json

DOCUMENT = "demo://resource/static/document/features.md"
TEXT = "demo://resource/dynamic/text/7"
TEMPLATE = "demo://resource/dynamic/text/{resourceId}"
LONG = "trigger-long-running-operation"
PROMPT = {"type": "ref/prompt", "name": "completable-prompt"}
ABLE = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "experimental": {"x": {"y": 1.0}},
}
ROOTS = [{"uri": "file:///one", "name": "one"}, {"uri": "file:///two", "name": "ä", "_meta": {"x": 1.10}}]
SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "sämpled"}, "model": "none", "x": 1.50}
FORM = {"action": "accept", "content": {"name": "Ada", "integer": 7}}


class Agent:
    """What a client knows and answers. Lists are asked for until they are the expected ones, if there are any: those of an
    instance that is starting may be incomplete."""

    def __init__(self, expected=()):
        self.roots = 1
        self.lists = []
        self._expected = iter(expected)

    def list(self, client, method, params={}):
        self.lists.append(client.ask_until(next(self._expected, None), method, params))

    def answers(self):
        """By the method of the request."""
        return {
            "roots/list": lambda _: {"result": {"roots": ROOTS[: self.roots]}},
            "sampling/createMessage": lambda request: self._sample(request["params"]),
            "elicitation/create": lambda request: self._elicit(request["params"]),
        }

    def _sample(self, params):
        if "refuse" in json.dumps(params["messages"]):
            return {"error": {"code": -1, "message": "User rejected", "data": {"x": 1.10}}}
        return {"result": SAMPLE}

    def _elicit(self, params):
        return {"result": {"action": "decline"} if params.get("mode") == "url" else FORM}



def settle(client, feature):
    """Returns once everything has arrived that a server sent for this feature."""
    # A server must not be called before `initialized`.
    if feature != initialize:
        client.call("echo", {"message": "over"})


def initialize(client, _):
    """initialize: serverInfo, capabilities, instructions"""
    info = {"name": "script", "version": "1", "title": "ä"}
    client.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": ABLE, "clientInfo": info})


def roots(client, _):
    """roots"""
    client.notify("notifications/initialized")
    client.hear("notifications/message", data="Roots updated: 1 root(s) received from client")
    client.call("get-roots-list")


def changed_roots(client, agent):
    """roots: list_changed"""
    agent.roots = 2
    client.notify("notifications/roots/list_changed")
    client.hear("notifications/message", data="Roots updated: 2 root(s) received from client")
    client.call("get-roots-list")


def tool_list(client, agent):
    """tools: list"""
    agent.list(client, "tools/list")


def prompt_list(client, agent):
    """prompts: list"""
    agent.list(client, "prompts/list")


def resource_list(client, agent):
    """resources: list"""
    agent.list(client, "resources/list")


def template_list(client, agent):
    """resource templates: list"""
    agent.list(client, "resources/templates/list")


def echo(client, _):
    """tools: text"""
    client.call("echo", {"message": "ä\"\\\n😀\u2028\ud83d\ude00"})
    client.call("get-sum", {"a": 0.1, "b": 1e300})
    client.call("get-env")


def images(client, _):
    """tools: images and annotations"""
    client.call("get-tiny-image")
    client.call("get-annotated-message", {"messageType": "error", "includeImage": True})


def links(client, _):
    """tools: resource links and embedded resources"""
    client.call("get-resource-links", {"count": 10})
    for kind in ("Text", "Blob"):
        client.call("get-resource-reference", {"resourceType": kind, "resourceId": 7})


def structured(client, _):
    """tools: structured content"""
    client.call("get-structured-content", {"location": "New York"})


def tool_errors(client, _):
    """tools: errors of arguments"""
    client.call("echo")
    client.call("get-sum", {"a": "no number", "b": 1})
    client.call("get-structured-content", {"location": "nowhere"})
    client.ask("tools/call", {"name": "echo", "arguments": [1]})
    client.call("simulate-research-query", {"topic": "asked for without a task"})


def unknown_tool(client, _):
    """tools: unknown"""
    client.call("none")


def nameless_tool(client, _):
    """tools: no name"""
    client.ask("tools/call", {})


def prompts(client, _):
    """prompts"""
    client.ask("prompts/get", {"name": "simple-prompt", "x": 1.10})
    client.ask("prompts/get", {"name": "args-prompt", "arguments": {"city": "Köln", "state": "\u2028"}})
    client.ask("prompts/get", {"name": "completable-prompt", "arguments": {"department": "Sales", "name": "Eve"}})
    for kind in ("Text", "Blob"):
        client.ask("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": kind, "resourceId": "7"}})


def prompt_errors(client, _):
    """prompts: errors of arguments"""
    client.ask("prompts/get", {"name": "args-prompt"})
    client.ask("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "None", "resourceId": "7"}})


def unknown_prompt(client, _):
    """prompts: unknown"""
    client.ask("prompts/get", {"name": "none"})


def resources(client, _):
    """resources: read, listed ones and those of templates"""
    for uri in (DOCUMENT, TEXT, "demo://resource/dynamic/blob/7"):
        client.ask("resources/read", {"uri": uri})
    client.ask("resources/read", {"uri": "demo://resource/dynamic/text/0"})


def unknown_resource(client, _):
    """resources: unknown"""
    client.ask("resources/read", {"uri": "demo://none"})


def list_changes(client, agent):
    """lists: a change is announced, and what is new can be read"""
    client.call("echo", {"message": "over"})
    client.changed.clear()
    arguments = {"name": "new.gz", "data": "data:text/plain,new"}
    client.call("gzip-file-as-resource", arguments)
    client.call("gzip-file-as-resource", {**arguments, "name": "inline.gz", "outputType": "resource"})
    client.wait_changed("resources")
    agent.list(client, "resources/list")
    client.ask("resources/read", {"uri": "demo://resource/session/new.gz"})


def subscriptions(client, _):
    """resources: subscriptions and updates"""
    for uri in (DOCUMENT, TEXT):
        client.ask("resources/subscribe", {"uri": uri})
    client.call("toggle-subscriber-updates")
    for uri in (DOCUMENT, TEXT):
        client.hear("notifications/resources/updated", uri=uri)
    client.call("toggle-subscriber-updates")
    client.ask("resources/unsubscribe", {"uri": DOCUMENT})
    client.call("toggle-subscriber-updates")
    client.hear("notifications/resources/updated", uri=TEXT)
    client.call("toggle-subscriber-updates")
    client.ask("resources/unsubscribe", {"uri": TEXT})


def unlisted_subscriptions(client, _):
    """resources: subscriptions to unlisted ones"""
    client.ask("resources/subscribe", {"uri": "demo://none"})
    client.ask("resources/unsubscribe", {"uri": "demo://none"})


def completion(client, _):
    """completion"""

    def complete(reference, name, value, **more):
        client.ask("completion/complete", {"ref": reference, "argument": {"name": name, "value": value}, **more})

    complete(PROMPT, "department", "S")
    complete(PROMPT, "name", "", context={"arguments": {"department": "Sales"}})
    complete({"type": "ref/prompt", "name": "simple-prompt"}, "none", "")
    complete({"type": "ref/resource", "uri": TEMPLATE}, "resourceId", "12")
    complete({"type": "ref/resource", "uri": TEMPLATE}, "resourceId", "x")
    complete({"type": "ref/resource", "uri": DOCUMENT}, "x", "")


def unknown_completion(client, _):
    """completion: unknown"""
    for reference in ({"type": "ref/prompt", "name": "none"}, {"type": "ref/resource", "uri": "demo://none/{x}"}):
        client.ask("completion/complete", {"ref": reference, "argument": {"name": "x", "value": ""}})


def logging(client, _):
    """logging: messages and levels"""
    client.ask("logging/setLevel", {"level": "debug"})
    client.ask("resources/subscribe", {"uri": TEXT})
    for _ in range(6):
        # Logs a message of a random level.
        client.call("toggle-simulated-logging")
        client.wait(lambda message: message.get("method") == "notifications/message" and "level" in message["params"]["data"])
        client.call("toggle-simulated-logging")
    client.ask("logging/setLevel", {"level": "error"})
    # Which the server would log on a lower level.
    client.ask("resources/unsubscribe", {"uri": TEXT})
    client.ask("logging/setLevel", {"level": "info"})


def unknown_level(client, _):
    """logging: unknown level"""
    client.ask("logging/setLevel", {"level": "none"})


def progress(client, _):
    """progress"""
    for token in ("token", 0, -7, "ä\n", ""):
        client.call(LONG, {"duration": 0.1, "steps": 2}, _meta={"progressToken": token, "x": 1})
    client.call("echo", {"message": "no progress"}, _meta={"progressToken": "unused"})
    client.ask("prompts/get", {"name": "simple-prompt", "_meta": {"progressToken": 1}})


def cancellation(client, _):
    """cancellation"""
    id = client.send("tools/call", {"name": LONG, "arguments": {"duration": 0.2, "steps": 1}})
    # Once this is answered, the other has reached the server.
    client.call("echo", {"message": "x"})
    client.cancel(id)
    client.call(LONG, {"duration": 0.4, "steps": 1})
    # Of no request, and of one that is over.
    client.cancel('"none"')
    client.cancel(id)


def late_progress(client, _):
    """cancellation: progress after it"""
    arguments, token = {"duration": 0.3, "steps": 3}, {"progressToken": "given up"}
    id = client.send("tools/call", {"name": LONG, "arguments": arguments, "_meta": token})
    client.hear("notifications/progress", **token)
    client.cancel(id)
    client.call(LONG, {"duration": 0.5, "steps": 1})


def sampling(client, _):
    """sampling"""
    client.call("trigger-sampling-request", {"prompt": "ä\n", "maxTokens": 7})
    client.call("trigger-sampling-request", {"prompt": "refuse", "maxTokens": 7})


def elicitation(client, _):
    """elicitation: forms"""
    client.call("trigger-elicitation-request")


def url_elicitation(client, _):
    """elicitation: URLs, by request and by error"""
    arguments = {"url": "https://example.org/x", "elicitationId": "e-1"}
    client.call("trigger-url-elicitation", arguments)
    client.call("trigger-url-elicitation", {**arguments, "errorPath": True})
    client.call("trigger-url-elicitation", {**arguments, "errorPath": True})


def tasks(client, _):
    """tasks: made, read, waited for"""
    made = client.call("simulate-research-query", {"topic": "mark"}, task={"ttl": 60000})
    task = {"taskId": made["result"]["task"]["taskId"]}
    client.ask("tasks/get", task)
    client.ask("tasks/result", task)
    client.ask("tasks/get", task)


def task_list(client, _):
    """tasks: list"""
    client.ask("tasks/list")


def task_questions(client, _):
    """tasks: questions of a task"""
    made = client.call("simulate-research-query", {"topic": "python", "ambiguous": True}, task={})
    client.ask("tasks/result", {"taskId": made["result"]["task"]["taskId"]})


def cancelled_tasks(client, _):
    """tasks: cancelled"""
    made = client.call("simulate-research-query", {"topic": "other"}, task={"ttl": 60000})
    task = {"taskId": made["result"]["task"]["taskId"]}
    for method in ("tasks/cancel", "tasks/get", "tasks/cancel"):
        client.ask(method, task)


def unknown_tasks(client, _):
    """tasks: unknown"""
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        client.ask(method, {"taskId": "none"})


def tasks_of_plain_tools(client, _):
    """tasks: of a tool that makes none"""
    client.call("echo", {"message": "x"}, task={"ttl": 1})


def ping(client, _):
    """ping"""
    client.ask("ping")
    client.ask("ping", {"_meta": {"progressToken": 1}})


def unknown_methods(client, _):
    """unknown methods and notifications"""
    client.ask("none")
    client.ask("none/none", {"x": 1})
    client.ask("skills/list", {})
    client.notify("notifications/none", x=1)


def other_era(client, _):
    """methods of the other era"""
    client.ask("server/discover", {})


def malformed_params(client, _):
    """malformed params"""
    client.ask("prompts/get", {"name": 7})
    client.ask("resources/read")
    client.ask("resources/read", {"uri": 7})
    client.ask("resources/subscribe", {})
    client.ask("completion/complete", {"ref": {"type": "none"}, "argument": {}})
    client.ask("logging/setLevel")
    client.ask("tasks/get", {})


def malformed_lines(client, _):
    """malformed lines"""
    lines = [
        "{",
        "[]",
        "7",
        '"x"',
        "{}",
        '{"jsonrpc":"1.0","id":1,"method":"ping"}',
        '{"jsonrpc":"2.0","id":{},"method":"ping"}',
        '{"jsonrpc":"2.0","id":"x"}',
        '{"jsonrpc":"2.0","id":1,"method":7}',
        '{"jsonrpc":"2.0","id":"never asked","result":{}}',
    ]
    for line in lines:
        client.write(line)


def pagination(client, _):
    """pagination: cursors"""
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "tasks/list"):
        client.ask(method, {"cursor": "none"})


def second_handshake(client, _):
    """a second initialize"""
    client.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "again", "version": "1"}})


FEATURES = [
    initialize,
    roots,
    changed_roots,
    tool_list,
    prompt_list,
    resource_list,
    template_list,
    echo,
    images,
    links,
    structured,
    tool_errors,
    unknown_tool,
    nameless_tool,
    prompts,
    prompt_errors,
    unknown_prompt,
    resources,
    unknown_resource,
    list_changes,
    subscriptions,
    unlisted_subscriptions,
    completion,
    unknown_completion,
    logging,
    unknown_level,
    progress,
    cancellation,
    late_progress,
    sampling,
    elicitation,
    url_elicitation,
    tasks,
    task_list,
    task_questions,
    cancelled_tasks,
    unknown_tasks,
    tasks_of_plain_tools,
    ping,
    unknown_methods,
    other_era,
    malformed_params,
    malformed_lines,
    pagination,
    second_handshake,
]
