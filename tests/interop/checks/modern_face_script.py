"""What a client of the stateless era does with the server of modern_everything.js: a function for each feature, in this order. Its
docstring is the feature's name."""

RESERVED = "io.modelcontextprotocol/"
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
META = {
    f"{RESERVED}protocolVersion": "2026-07-28",
    f"{RESERVED}clientInfo": {"name": "script", "version": "1", "title": "ä"},
    f"{RESERVED}clientCapabilities": CAPABILITIES,
}
WATCHED = "demo://watched"
CITY = {"type": "ref/prompt", "name": "city"}
ANSWERS = {
    "form": {"action": "accept", "content": {"name": "Ada"}},
    "link": {"action": "decline"},
    "sample": {"role": "assistant", "content": {"type": "text", "text": "sämpled"}, "model": "none"},
    "roots": {"roots": [{"uri": "file:///one", "name": "one"}]},
}


def ask(client, method, _meta={}, **params):
    return client.ask(method, {"_meta": {**META, **_meta}, **params})


def call(client, tool, arguments={}, **more):
    return ask(client, "tools/call", name=tool, arguments=arguments, **more)


def listen(client, **notifications):
    """Subscribes, and returns the id once it is acknowledged."""
    id = client.send("subscriptions/listen", {"_meta": META, "notifications": notifications})
    client.hear("notifications/subscriptions/acknowledged")
    return id


def settle(client, _feature):
    """Returns once everything has arrived that a server sent before."""
    call(client, "echo", {"text": "over"})


def discover(client, _):
    """server/discover: serverInfo, capabilities, instructions"""
    ask(client, "server/discover")


def lists(client, agent):
    """lists: tools, prompts, resources, templates"""
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        agent.list(client, method, {"_meta": META})


def echo(client, _):
    """tools: text, with metadata for tracing"""
    call(client, "echo", {"text": "ä\"\\\n😀\u2028"}, _meta={"traceparent": "00-1-2-01", "example.org/x": 1.10})


def structured(client, _):
    """tools: structured content, images, links, embedded resources"""
    for tool in ("structured", "image", "links"):
        call(client, tool)


def tool_errors(client, _):
    """tools: errors"""
    call(client, "fail")
    call(client, "echo")
    ask(client, "tools/call", name="echo", arguments=[1])


def unknown_tool(client, _):
    """tools: unknown"""
    call(client, "none")


def prompts(client, _):
    """prompts"""
    ask(client, "prompts/get", name="city", arguments={"city": "Köln"})
    ask(client, "prompts/get", name="city", arguments={})


def unknown_prompt(client, _):
    """prompts: unknown"""
    ask(client, "prompts/get", name="none")


def resources(client, _):
    """resources: read, a listed one and one of a template"""
    ask(client, "resources/read", uri=WATCHED)
    ask(client, "resources/read", uri="demo://item/7")


def unknown_resource(client, _):
    """resources: unknown"""
    ask(client, "resources/read", uri="demo://none/7")


def completion(client, _):
    """completion"""
    ask(client, "completion/complete", ref=CITY, argument={"name": "city", "value": "Kö"})
    template = {"type": "ref/resource", "uri": "demo://item/{id}"}
    ask(client, "completion/complete", ref=template, argument={"name": "id", "value": "x"})


def progress(client, _):
    """progress"""
    for token in ("token", 0, -7, "ä\n"):
        call(client, "count", {"to": 2}, _meta={"progressToken": token})


def logging(client, _):
    """logging: from the level of the request on"""
    call(client, "log")
    for level in ("debug", "warning"):
        call(client, "log", _meta={f"{RESERVED}logLevel": level})


def questions(client, _):
    """input_required: elicitation by form and URL, sampling, roots"""
    asked = call(client, "ask")["result"]
    call(client, "ask", inputResponses=ANSWERS, requestState=asked["requestState"])


def undeclared_questions(client, _):
    """input_required: of a client that declares nothing"""
    call(client, "ask", _meta={f"{RESERVED}clientCapabilities": {}})


def subscriptions(client, _):
    """subscriptions: updates of resources"""
    id = listen(client, resourceSubscriptions=[WATCHED])
    call(client, "touch")
    client.hear("notifications/resources/updated", uri=WATCHED)
    client.cancel(id)


def list_changes(client, agent):
    """subscriptions: changes of lists"""
    id = listen(client, toolsListChanged=True)
    client.changed.clear()
    call(client, "change")
    client.wait_changed("tools")
    agent.list(client, "tools/list", {"_meta": META})
    client.cancel(id)


def cancellation(client, _):
    """cancellation"""
    id = client.send("tools/call", {"_meta": META, "name": "count", "arguments": {"to": 5}})
    call(client, "echo", {"text": "x"})
    client.cancel(id)
    call(client, "count", {"to": 8})


def unknown_methods(client, _):
    """unknown methods and notifications"""
    ask(client, "none")
    ask(client, "none/none", x=1)
    client.notify("notifications/none", x=1)


def vendor(client, _):
    """methods of an extension that the server declares"""
    ask(client, "example.org/vendor/x", x=1.5)
    ask(client, "vendor/x", x=1.5)


def other_era(client, _):
    """methods of the other era"""
    for method in ("ping", "logging/setLevel", "resources/subscribe", "tasks/list"):
        ask(client, method, level="info", uri=WATCHED)


def bad_metadata(client, _):
    """metadata: of another version, incomplete"""
    ask(client, "tools/list", _meta={f"{RESERVED}protocolVersion": "2099-01-01"})
    client.ask("tools/list", {"_meta": {f"{RESERVED}protocolVersion": "2026-07-28"}})


def pagination(client, _):
    """pagination: cursors"""
    ask(client, "tools/list", cursor="none")


FEATURES = [
    discover,
    lists,
    echo,
    structured,
    tool_errors,
    unknown_tool,
    prompts,
    unknown_prompt,
    resources,
    unknown_resource,
    completion,
    progress,
    logging,
    questions,
    undeclared_questions,
    subscriptions,
    list_changes,
    cancellation,
    unknown_methods,
    vendor,
    other_era,
    bad_metadata,
    pagination,
]
