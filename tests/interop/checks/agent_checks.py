"""Checks of an agent's view, once at each entry point."""

import json
import time

import anyio

import sdk
from testbed import NOTE, TASK_ONLY

LONG = "everything__trigger-long-running-operation"


async def handshake(testbed, door):
    """connects at once, whichever way it opens"""
    # A peer that leaves `server/discover` unanswered holds line 2 of the SDK up for ten seconds.
    with anyio.fail_after(9):
        async with sdk.connect(door(testbed.daemon).transport()):
            pass


def _listed(testbed):
    return [tool for tool in testbed.expected if sdk.IS_1 or tool["name"] not in TASK_ONLY]


async def lists(testbed, door):
    """lists what direct clients see, prefixed and without what is denied"""
    async with sdk.connect(door(testbed.daemon).transport()) as agent:
        deadline = time.monotonic() + 20
        while (tools := await agent.tools()) != _listed(testbed):
            assert time.monotonic() < deadline, _difference(tools, _listed(testbed))
            await anyio.sleep(0.1)


async def denials(testbed, door):
    """is told the same of a denied tool as of an unknown one, under any name"""
    target = testbed.note.with_name("never")
    arguments = {"path": str(target), "content": "", "source": str(testbed.note), "destination": str(target)}
    async with sdk.connect(door(testbed.daemon).transport()) as agent:
        unknown = await agent.refusal("filesystem__unknown", arguments)
        assert unknown[0] == -32602, unknown
        for tool in ("write_file", "move_file"):
            for name in _spellings(tool):
                code, message = await agent.refusal(name, arguments)
                assert (code, message.replace(name, "filesystem__unknown")) == unknown, (name, code, message)
    assert not target.exists()


async def calls(testbed, door):
    """calls the right tool of the right server"""
    entity = f"{door.__name__} {sdk.VERSION}"
    async with sdk.connect(door(testbed.daemon).transport()) as agent:
        for tool, arguments, part in testbed.calls:
            answer = await agent.text(tool, arguments)
            assert part in answer, (tool, answer)
        await _remember(agent, entity)
        assert entity in await _remembered(agent)


async def ten_at_once(testbed, door):
    """shares one copy of each server with nine others"""

    async def one(number):
        async with sdk.connect(door(testbed.daemon).transport()) as agent:
            assert await agent.tools() == _listed(testbed)
            assert await agent.text("everything__echo", {"message": f"{number}"}) == f"Echo: {number}"
            assert await agent.text("filesystem__read_text_file", {"path": str(testbed.note)}) == NOTE
            # Only read: the memory server loses entities when two are created at once.
            await _remembered(agent)
            copies = testbed.copies()
            assert set(copies.values()) == {1}, copies

    async with anyio.create_task_group() as agents:
        for number in range(10):
            agents.start_soon(one, number)


async def progress(testbed, door):
    """hears of the progress of its own call and of no other"""

    async def one(steps):
        received = []

        async def on_progress(progress, total, _message):
            received.append((progress, total))

        async with sdk.connect(door(testbed.daemon).transport()) as agent:
            await agent.call(LONG, {"duration": 0.2 * steps, "steps": steps}, on_progress)
        assert received == [(step, steps) for step in range(1, steps + 1)], received

    # Both are the first call of their agent, so that both choose the same progress token.
    async with anyio.create_task_group() as agents:
        agents.start_soon(one, 3)
        agents.start_soon(one, 5)


async def leaving(testbed, door):
    """has its call cancelled when it leaves, and nobody else notices"""
    leaver = door(testbed.daemon)
    under_way = anyio.Event()

    async def on_progress(*_):
        under_way.set()

    async def call(agent):
        _, message = await agent.refusal(LONG, {"duration": 20, "steps": 200}, on_progress)
        assert message == "Connection closed", message

    async with sdk.connect(door(testbed.daemon).transport()) as other:
        async with sdk.connect(leaver.transport()) as agent, anyio.create_task_group() as tasks:
            tasks.start_soon(call, agent)
            await under_way.wait()
            await leaver.cut()
        with anyio.fail_after(15):
            while not _was_cancelled(testbed.received("everything")):
                await anyio.sleep(0.05)
        assert await other.text("everything__echo", {"message": "still here"}) == "Echo: still here"


async def ending(testbed, door):
    """has its call cancelled when its session ends, and nobody else notices"""
    under_way = anyio.Event()

    async def on_progress(*_):
        under_way.set()

    async with sdk.connect(door(testbed.daemon).transport()) as other:
        async with sdk.connect(door(testbed.daemon).transport()) as agent, anyio.create_task_group() as tasks:
            tasks.start_soon(agent.call, LONG, {"duration": 20, "steps": 200}, on_progress)
            await under_way.wait()
            tasks.cancel_scope.cancel()
        while not _was_cancelled(testbed.received("everything")):
            await anyio.sleep(0.05)
        assert await other.text("everything__echo", {"message": "still here"}) == "Echo: still here"


ALL = [handshake, lists, denials, calls, ten_at_once, progress, leaving]
# Over HTTP an agent whose connection breaks off may return to its session.
OVER_HTTP = [handshake, lists, denials, calls, ten_at_once, progress, ending]


def _spellings(tool):
    prefixes = ["filesystem__", "", "filesystem/", "filesystem_", "mcp__filesystem__", "filesystem__filesystem__"]
    return [prefix + tool for prefix in prefixes] + [f"FILESYSTEM__{tool}", f"filesystem__{tool} ", f"memory__{tool}"]


async def _remember(agent, name):
    entity = {"name": name, "entityType": "agent", "observations": []}
    await agent.call("memory__create_entities", {"entities": [entity]})


async def _remembered(agent):
    graph = json.loads(await agent.text("memory__read_graph", {}))
    return [entity["name"] for entity in graph["entities"]]


def _was_cancelled(messages):
    """Whether the last long call was cancelled by the id it was sent with."""
    ids = [message["id"] for message in messages if message.get("params", {}).get("name") == "trigger-long-running-operation"]
    cancelled = [message["params"]["requestId"] for message in messages if message["method"] == "notifications/cancelled"]
    return ids[-1] in cancelled


def _difference(tools, expected):
    names, expected_names = ([tool["name"] for tool in some] for some in (tools, expected))
    if names != expected_names:
        return f"listed {names}\nexpected {expected_names}"
    return "\n".join(f"{tool}\nexpected {other}" for tool, other in zip(tools, expected) if tool != other)
