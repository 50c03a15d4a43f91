"""Checks that a face of a server is like the direct connection, in both eras: a script that uses each feature of the server, and its
transcripts compared byte for byte. In the envelope of a message, and in what mcpd answers itself, only the order of members does not
count, nor does the spelling of ids.

The direct connection is there twice, which shows what differs without mcpd: `RANDOM`, and nothing else.
"""

import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import face_script
import modern_face_script
import results
from daemon import Daemon, Server
from face_script import LONG, Agent
from software import Software
from transcripts import RECEIVED, connected, members

# In seconds; the second one is for what cannot work.
TIMEOUT, BRIEF = 60, 3
# What the server makes anew.
RANDOM = {
    "times": re.compile(r"\d+:\d\d:\d\d [AP]M"),
    "times in base64": re.compile(r'(?<="blob":"UmVzb3VyY2UgNzogVGhpcyBpcyBhIGJhc2U2NCBibG9iIGNyZWF0ZWQgYXQg)[^"]*'),
    "dates": re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z"),
    "ids of tasks": re.compile(r"\b[0-9a-f]{32}\b"),
    "ids of elicitations": re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    "levels of simulated messages": re.compile(r'"level":"\w+","data":"\w+[- ]level[- ]message"'),
}
LISTED_ONLY = "what is not listed is answered like what is denied"
CHECKED = "mcpd reads what it needs for policy and routing"
BOTH_ERAS = "mcpd speaks both eras"
ONE_PAGE = "a list has one page"


@dataclass(frozen=True)
class Era:
    """The script of an era, with the features that may differ."""

    name: str
    script: ModuleType
    # Features whose messages mcpd composes: in their objects the order of members does not count.
    composed: tuple
    # What mcpd refuses itself, by feature: the code of each error, and why.
    refused: dict
    # By `sharing`, what an agent cannot have, and why.
    lost: dict


LEGACY = Era(
    "legacy",
    face_script,
    (face_script.initialize,),
    {
        "tools: unknown": ([-32602], LISTED_ONLY),
        "prompts: unknown": ([-32602], LISTED_ONLY),
        "resources: unknown": ([-32002], LISTED_ONLY),
        "resources: subscriptions to unlisted ones": ([-32002, -32002], LISTED_ONLY),
        "completion: unknown": ([-32602, -32002], LISTED_ONLY),
        "tasks: unknown": ([-32602] * 3, "a task belongs to the agent whose call made it"),
        "tools: no name": ([-32602], CHECKED),
        "logging: unknown level": ([-32602], CHECKED),
        "malformed params": ([-32602] * 7, CHECKED),
        "malformed lines": ([-32700] + [-32600] * 7, "mcpd forwards only messages that every parser reads alike, and answers others"),
        "cancellation: progress after it": ([], "a request has ended when it is cancelled"),
        "methods of the other era": ([-32601], BOTH_ERAS),
        "pagination: cursors": ([-32602] * 5, ONE_PAGE),
        "a second initialize": ([-32600], "a connection has one handshake"),
    },
    {
        "session": {},
        "shared": {
            "roots": "a shared server has no roots of an agent",
            "roots: list_changed": "a shared server has no roots of an agent",
            "tools: list": "a server may list tools that depend on what an agent declares, such as roots",
        },
    },
)
MODERN = Era(
    "modern",
    modern_face_script,
    (
        modern_face_script.discover,
        modern_face_script.lists,
        modern_face_script.subscriptions,
        modern_face_script.list_changes,
    ),
    {
        "tools: unknown": ([-32602], LISTED_ONLY),
        "prompts: unknown": ([-32602], LISTED_ONLY),
        "resources: unknown": ([-32602], LISTED_ONLY),
        "methods of the other era": ([-32601] * 4, BOTH_ERAS),
        "metadata: of another version, incomplete": ([-32022, -32602], CHECKED),
        "pagination: cursors": ([-32602], ONE_PAGE),
    },
    {
        "session": {"subscriptions: changes of lists": "a modern list must not depend on the connection"},
        "shared": {},
    },
)
# The tool that "tools: list" above is about.
LOST_TOOLS = {"get-roots-list"}
# A list of tasks is mcpd's own, since it has those of one agent; only the tasks in it are the server's.
TASK_LIST_META = re.compile(r'(\{"tasks":\[.*\]),"_meta":\{\}\}')
# What mcpd says of itself beside the server's name.
DAEMON = re.compile(r'"_meta":\{"mcpd/daemon":\{"name":"mcpd","version":"[^"]+"\}\},')
# Members whose spelling does not count.
IDS = {"id", "io.modelcontextprotocol/subscriptionId"}
# As deep as mcpd composes objects.
DEPTH = 5


def run(era, command, expected=(), lost=()):
    """The transcript of each feature, and the lists in it."""
    agent, transcripts = Agent(expected), {}
    with connected(command, agent.answers(), TIMEOUT) as client:
        for number, feature in enumerate(era.script.FEATURES, 1):
            client.begin(number)
            client.timeout = BRIEF if feature.__doc__ in lost else TIMEOUT
            try:
                feature(client, agent)
                era.script.settle(client, feature)
            except Exception as error:
                client.transcript.append((RECEIVED, f"{type(error).__name__}: {error}"))
            transcripts[feature] = client.transcript
    return transcripts, agent.lists


def comparable(transcript, depth=1):
    """The messages without what is random, and their objects down to this depth as JSON."""
    return [(direction, _comparable(line, depth)) for direction, line in transcript]


def _comparable(line, depth):
    for name, pattern in RANDOM.items():
        line = pattern.sub(name, line)
    line = TASK_LIST_META.sub(r"\1}", line)
    try:
        return _unordered(line, depth)
    except (IndexError, ValueError):
        return line


def _unordered(text, depth):
    if depth == 0 or not text.startswith("{"):
        return text
    parts = ((name, json.loads(value) if name in IDS else _unordered(value, depth - 1)) for name, value in members(text))
    return sorted(parts, key=lambda part: part[0])


def expect_same(direct, found, depth=1):
    expected, found = comparable(direct, depth), comparable(found, depth)
    for one, other in zip(expected, found):
        assert one == other, f"{str(other)[:4000]}\ninstead of\n{str(one)[:4000]}"
    assert len(expected) == len(found), f"{str(found[len(expected) :])[:4000]}\ninstead of\n{str(expected[len(found) :])[:4000]}"


def expect_refused(direct, found, codes):
    """All else that the client receives it receives directly, too."""
    expected, found = comparable(direct), comparable(found)
    refused = [dict(message) for direction, message in found if direction == RECEIVED and (direction, message) not in expected]
    assert all("error" in message for message in refused), refused
    assert [json.loads(message["error"])["code"] for message in refused] == codes, refused
    assert expected != found, "there is no difference"


def expect_twice(first, second):
    """Both differ in what is random, and in nothing else. Returns what is random."""
    for feature in first:
        expect_same(first[feature], second[feature])
    raw = [str([*transcripts.values()]) for transcripts in (first, second)]
    return [name for name, pattern in RANDOM.items() if pattern.findall(raw[0]) != pattern.findall(raw[1])]


def check_face(report, era, sharing, direct, face):
    lost = era.lost[sharing]
    for feature in era.script.FEATURES:
        name = feature.__doc__
        codes, why = era.refused.get(name, (None, lost.get(name)))
        how = f"lost, {why}" if name in lost else "as directly" if codes is None else f"differs, {why}"
        with report.check(f"face of a {sharing} server, {era.name}: {name}: {how}"):
            if name in lost:
                assert comparable(direct[feature], DEPTH) != comparable(face[feature], DEPTH), "it is not lost"
            elif codes is not None:
                expect_refused(direct[feature], face[feature], codes)
            elif feature in era.composed:
                expect_same(direct[feature], [(direction, DAEMON.sub("", line)) for direction, line in face[feature]], DEPTH)
            else:
                expect_same(direct[feature], face[feature])


def check_question(report, daemon, sharing):
    """A request of the server while another agent has a call."""
    outcome = "lost, since the server does not say which call a request belongs to" if sharing == "shared" else "as directly"
    with report.check(f"face of a {sharing} server, legacy: questions while another agent has a call: {outcome}"):
        agent, command = Agent(), daemon.connecting("--server", sharing)
        with connected(command, {}, TIMEOUT) as other, connected(command, agent.answers(), TIMEOUT) as asked:
            for client in (other, asked):
                face_script.initialize(client, agent)
                client.notify("notifications/initialized")
            arguments, token = {"duration": 600, "steps": 6000}, {"progressToken": "under way"}
            other.send("tools/call", {"name": LONG, "arguments": arguments, "_meta": token})
            other.hear("notifications/progress", **token)
            result = asked.call("trigger-sampling-request", {"prompt": "x", "maxTokens": 7})["result"]
            text = result["content"][0]["text"]
            if sharing == "shared":
                assert result["isError"] and text.startswith("MCP error -31004"), result
            else:
                assert "isError" not in result and "sämpled" in text, result


def check_era(report, arguments, era, command):
    direct, lists = run(era, command)
    # One with both eras would otherwise be used in the legacy one.
    servers = {sharing: Server(command, sharing=sharing, era="modern" if era is MODERN else "auto") for sharing in era.lost}
    with Daemon(arguments.mcpd, servers) as daemon, ThreadPoolExecutor(3) as pool:
        again = pool.submit(run, era, command, lists)
        faces = {
            sharing: pool.submit(run, era, daemon.connecting("--server", sharing), lists, lost)
            for sharing, lost in era.lost.items()
        }
        with report.check(f"directly, {era.name}: two connections differ in what is random, and in nothing else"):
            random = expect_twice(direct, again.result()[0])
            print(f"random: {', '.join(random) or 'nothing'}")
            assert random == (list(RANDOM) if era is LEGACY else []), random
        for sharing, face in faces.items():
            check_face(report, era, sharing, direct, face.result()[0])
            if era is LEGACY:
                check_question(report, daemon, sharing)
        if era is LEGACY:
            with report.check("face of a shared server, legacy: the tools that are lost are known"):
                tools = [{tool["name"] for tool in of[0]["tools"]} for of in (lists, faces["shared"].result()[1])]
                assert tools[0] - tools[1] == LOST_TOOLS and tools[1] < tools[0], tools


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    # In the same environment everywhere, since it has a tool that shows it.
    command = [shutil.which("env"), "-i", f"PATH={os.environ['PATH']}", *Software(arguments.installed).node("everything").command]
    check_era(report, arguments, LEGACY, command)
    modern = Path(__file__).with_name("modern_everything.js")
    check_era(report, arguments, MODERN, [shutil.which("node"), str(modern), str(arguments.installed / "node_modules")])


main()
