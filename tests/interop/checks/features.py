"""One check for each feature of server-everything. A check returns its observations, which must be equal on every path."""

from dataclasses import dataclass
from typing import Callable

import anyio
from mcp import types

DOCUMENT = "demo://resource/static/document/features.md"
OTHER = "demo://resource/dynamic/text/7"
LONG = "trigger-long-running-operation"

DIRECTLY, OWN, SHARED = "directly", "an instance of its own", "a shared instance"
EVERY_WAY = (DIRECTLY, OWN, SHARED)
# What depends on what the agent itself declares: an instance of its own is told that, a shared one what mcpd can do for any.
NOT_SHARED = (DIRECTLY, OWN)
AS_IF_SHARED = (DIRECTLY, SHARED)


# What an agent may declare, and what the daemon is to declare to a shared instance, whoever uses it.
ALL_CAPABILITIES = ("sampling", "elicitation", "roots")
SHARED_CAPABILITIES = ("sampling", "elicitation")


@dataclass(frozen=True)
class Feature:
    check: Callable
    ways: tuple = EVERY_WAY
    declares: tuple = ()


async def lists(agent):
    """lists tools, prompts, resources and templates"""
    # Until an instance of the agent's own is up, lists are what the server is known to offer. A call waits for it.
    await agent.call("echo", {"message": "up"})
    # This server adds the last of its tools when the handshake is over.
    before, now = None, await agent.lists()
    while now != before:
        await anyio.sleep(0.3)
        before, now = now, await agent.lists()
    return now


async def tools(agent):
    """calls tools"""
    return [
        await agent.call("echo", {"message": "ä"}),
        await agent.call("get-structured-content", {"location": "Chicago"}),
        await agent.call("get-annotated-message", {"messageType": "error", "includeImage": True}),
        await agent.call("get-sum", {"a": "no number"}),
    ]


async def resources(agent):
    """reads resources, listed ones and those of templates"""
    document = await agent.session.read_resource(DOCUMENT)
    dynamic = await agent.session.read_resource(OTHER)
    refusal = await agent.refusal(agent.session.read_resource("demo://resource/dynamic/text/0"))
    return [document.contents[0].text, str(dynamic.contents[0].uri), dynamic.contents[0].mimeType, *refusal]


async def subscriptions(agent):
    """hears of the resources that it has subscribed to, for as long as it wants"""
    await agent.session.subscribe_resource(DOCUMENT)
    await agent.session.subscribe_resource(OTHER)
    await _have_updates(agent)
    await agent.hear(lambda _, params: params.get("uri") == OTHER)
    await agent.session.unsubscribe_resource(DOCUMENT)
    count = len(agent.notifications("resources/updated"))
    await _have_updates(agent)
    while len(agent.notifications("resources/updated")) == count:
        await anyio.sleep(0.01)
    await agent.session.unsubscribe_resource(OTHER)
    return [params["uri"] for params in agent.notifications("resources/updated")]


async def prompts(agent):
    """gets prompts"""

    async def get(name, arguments=None):
        return (await agent.session.get_prompt(agent.prefix + name, arguments)).messages[0].content.text

    return [
        await get("simple-prompt"),
        await get("args-prompt", {"city": "Köln"}),
        await get("resource-prompt", {"resourceType": "Text", "resourceId": "7"}),
        await agent.refusal(get("args-prompt")),
    ]


async def completion(agent):
    """completes arguments of prompts and of templates"""

    async def complete(ref, name, value, **context):
        return (await agent.session.complete(ref, {"name": name, "value": value}, **context)).completion.values

    prompt = types.PromptReference(type="ref/prompt", name=f"{agent.prefix}completable-prompt")
    template = types.ResourceTemplateReference(type="ref/resource", uri="demo://resource/dynamic/text/{resourceId}")
    return [
        await complete(prompt, "department", "S"),
        await complete(prompt, "name", "", context_arguments={"department": "Sales"}),
        await complete(template, "resourceId", "12"),
        await complete(template, "resourceId", "x"),
    ]


async def logging(agent):
    """hears log messages from the level on that it has set"""
    await agent.session.set_logging_level("debug")
    await agent.session.subscribe_resource(OTHER)
    await agent.hear(lambda method, _: method == "notifications/message")
    await agent.session.set_logging_level("warning")
    await agent.session.unsubscribe_resource(OTHER)
    await agent.session.send_ping()
    return agent.notifications("message")


async def progress(agent):
    """hears of the progress of each of its calls"""
    received = {2: [], 3: []}

    async def one(steps):
        async def on_progress(progress, total, _message):
            received[steps].append([progress, total])

        await agent.call(LONG, {"duration": 0.1 * steps, "steps": steps}, progress_callback=on_progress)

    async with anyio.create_task_group() as calls:
        for steps in received:
            calls.start_soon(one, steps)
    return received


async def cancellation(agent):
    """gets no answer to what it has cancelled"""
    under_way, answered = anyio.Event(), []

    async def on_progress(*_):
        under_way.set()

    async def call():
        answered.append(await agent.call(LONG, {"duration": 0.4, "steps": 4}, progress_callback=on_progress))

    async with anyio.create_task_group() as calls:
        # The SDK counts, and has no other word for it.
        id = agent.session._request_id
        calls.start_soon(call)
        await under_way.wait()
        cancelled = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=id))
        await agent.session.send_notification(types.ClientNotification(cancelled))
        # By the end of this one the other would have ended too.
        ended = await agent.text(LONG, {"duration": 0.4, "steps": 1})
        calls.cancel_scope.cancel()
    return [answered, ended]


async def list_changes(agent):
    """hears of a list that has changed, and then finds in it what is new"""
    before = await agent.lists()
    await agent.call("gzip-file-as-resource", {"name": "new.gz", "data": "data:text/plain,new"})
    await agent.hear(lambda method, _: method == "notifications/resources/list_changed")
    while not (new := [item for item in await agent.lists() if item not in before]):
        await anyio.sleep(0.01)
    return [new, (await agent.session.read_resource(new[0]["uri"])).contents[0].blob]


async def sampling(agent):
    """is asked for a sample by the server that it calls"""
    text = await agent.text("trigger-sampling-request", {"prompt": "mark", "maxTokens": 7})
    return [text, agent.requests[0].maxTokens, agent.requests[0].systemPrompt]


async def elicitation(agent):
    """is asked to fill in a form by the server that it calls"""
    text = await agent.text("trigger-elicitation-request")
    return [text, list(agent.requests[0].requestedSchema["properties"])]


async def url_elicitation(agent):
    """is asked to open a link by the server that it calls, and told in an error which to open"""
    arguments = {"url": "https://example.org/x", "elicitationId": "e-1"}
    text = await agent.text("trigger-url-elicitation", arguments)
    name = f"{agent.prefix}trigger-url-elicitation"
    refusal = await agent.refusal(agent.session.call_tool(name, {**arguments, "errorPath": True}))
    return [text, agent.requests[0].url, agent.requests[0].elicitationId, refusal]


async def roots(agent):
    """is asked for its roots, and again when they have changed"""
    one = await agent.text("get-roots-list")
    await agent.change_roots()
    # Which the server says unasked.
    await agent.hear(lambda _, params: str(params.get("data")).startswith("Roots updated: 2 "))
    return [one, await agent.text("get-roots-list")]


async def tasks(agent):
    """runs a tool as a task"""
    tool, ask = f"{agent.prefix}simulate-research-query", agent.session.experimental
    made = (await ask.call_tool_as_task(tool, {"topic": "mark"}, ttl=60000)).task
    states = [made.status, (await ask.get_task(made.taskId)).status]
    listed = [task.taskId for task in (await ask.list_tasks()).tasks]
    result = await ask.get_task_result(made.taskId, types.CallToolResult)
    states.append((await ask.get_task(made.taskId)).status)
    other = (await ask.call_tool_as_task(tool, {"topic": "other"}, ttl=60000)).task
    states.append((await ask.cancel_task(other.taskId)).status)
    return [states, listed == [made.taskId], result.content[0].text]


ALL = [
    Feature(lists, NOT_SHARED, declares=ALL_CAPABILITIES),
    Feature(roots, NOT_SHARED, declares=ALL_CAPABILITIES),
    Feature(sampling, declares=ALL_CAPABILITIES),
    Feature(elicitation, declares=ALL_CAPABILITIES),
    Feature(url_elicitation, declares=ALL_CAPABILITIES),
    Feature(lists, AS_IF_SHARED, declares=SHARED_CAPABILITIES),
    Feature(lists, NOT_SHARED),
    *map(Feature, [tools, resources, subscriptions, prompts, completion, logging, progress, list_changes, tasks]),
    # The last one: a server that was told of it never answers, so that for ever after it may be at this agent's call.
    Feature(cancellation),
]


async def _have_updates(agent):
    """Has the server tell once of everything that is subscribed to."""
    for _ in range(2):
        await agent.text("toggle-subscriber-updates")
