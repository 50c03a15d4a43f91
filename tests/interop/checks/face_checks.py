"""Checks that a face of server-everything is like the direct connection: a script for each, and its transcripts compared byte for
byte. Only the envelope of a message is compared as JSON: the order of its members and the spelling of its id.

The direct connection is there twice, which shows what differs without mcpd: `RANDOM`, and nothing else.
"""

import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import results
from daemon import Daemon, Server
from face_script import FEATURES, LONG, Agent
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
# What mcpd refuses itself, with the code of each error, and why.
LISTED_ONLY = "what is not listed is answered like what is denied"
CHECKED = "mcpd reads what it needs for policy and routing"
REFUSED = {
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
    "methods of the other era": ([-32601], "mcpd speaks both eras"),
    "pagination: cursors": ([-32602] * 5, "a list has one page"),
    "a second initialize": ([-32600], "a connection has one handshake"),
}
# What an agent loses at a server that several share.
SHARED_TASKS = "a shared server does not learn that an agent runs tasks"
LOST = {
    "roots": "a shared server has no roots of an agent",
    "roots: list_changed": "a shared server has no roots of an agent",
    "tools: list": "a server may list tools that depend on what an agent declares, such as roots and tasks",
    "tasks of the client: sampling": SHARED_TASKS,
    "tasks of the client: elicitation": SHARED_TASKS,
}
LOST_TOOLS = {"get-roots-list", "trigger-sampling-request-async", "trigger-elicitation-request-async"}
# A list of tasks is mcpd's own, since it has those of one agent; only the tasks in it are the server's.
TASK_LIST_META = re.compile(r'(\{"tasks":\[.*\]),"_meta":\{\}\}')
INITIALIZE = FEATURES[0]


def run(command, expected=(), lost=()):
    """The transcript of each feature, and the lists in it."""
    agent, transcripts = Agent(expected), {}
    with connected(command, agent.answers(), TIMEOUT) as client:
        for number, feature in enumerate(FEATURES, 1):
            client.begin(number)
            client.timeout = BRIEF if feature.__doc__ in lost else TIMEOUT
            try:
                feature(client, agent)
                # Once it is answered, everything before it has arrived. Before `initialized` no server may be called.
                if feature != INITIALIZE:
                    client.call("echo", {"message": "over"})
            except Exception as error:
                client.transcript.append((RECEIVED, f"{type(error).__name__}: {error}"))
            transcripts[feature.__doc__] = client.transcript
    return transcripts, agent.lists


def comparable(transcript):
    """The messages with their envelopes as JSON, and without what is random."""
    return [(direction, _comparable(line)) for direction, line in transcript]


def _comparable(line):
    for name, pattern in RANDOM.items():
        line = pattern.sub(name, line)
    line = TASK_LIST_META.sub(r"\1}", line)
    try:
        return sorted((name, json.loads(value) if name == "id" else value) for name, value in members(line))
    except (IndexError, ValueError):
        return line


def expect_same(direct, found):
    expected, found = comparable(direct), comparable(found)
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


def expect_introduced(direct, found):
    """The same `initialize`, but for what mcpd says of itself."""
    results = [dict(members(dict(members(transcript[-1][1]))["result"])) for transcript in (direct, found)]
    expected, found = [{**result, "serverInfo": json.loads(result["serverInfo"])} for result in results]
    assert all(name.startswith("mcpd/") for name in found["serverInfo"].pop("_meta")), found
    for name in {*expected, *found}:
        assert found.get(name) == expected.get(name), f"{name}: {found.get(name)} instead of {expected.get(name)}"


def expect_twice(first, second):
    """Both differ in each of `RANDOM`, and in nothing else."""
    for name in first:
        expect_same(first[name], second[name])
    for name, pattern in RANDOM.items():
        one, other = [pattern.findall(str(transcripts)) for transcripts in (first, second)]
        assert one != other, f"these do not differ: {name}"


def check_face(report, sharing, direct, face, lost):
    for name in direct:
        if name in lost:
            with report.check(f"face of a {sharing} server: {name}: lost, {lost[name]}"):
                assert comparable(direct[name]) != comparable(face[name]), "it is not lost"
            continue
        codes, why = REFUSED.get(name, (None, None))
        with report.check(f"face of a {sharing} server: {name}: " + ("as directly" if codes is None else f"differs, {why}")):
            if name == INITIALIZE.__doc__:
                expect_introduced(direct[name], face[name])
            elif codes is None:
                expect_same(direct[name], face[name])
            else:
                expect_refused(direct[name], face[name], codes)


def check_question(report, daemon, sharing):
    """A request of the server while another agent has a call."""
    outcome = "lost, since the server does not say which call a request belongs to" if sharing == "shared" else "as directly"
    with report.check(f"face of a {sharing} server: questions while another agent has a call: {outcome}"):
        agent, command = Agent(), daemon.connecting("--server", sharing)
        with connected(command, {}, TIMEOUT) as other, connected(command, agent.answers(), TIMEOUT) as asked:
            for client in (other, asked):
                INITIALIZE(client, agent)
                client.notify("notifications/initialized")
            other.send("tools/call", {"name": LONG, "arguments": {"duration": 600, "steps": 6000}, "_meta": {"progressToken": "under way"}})
            other.hear("notifications/progress", progressToken="under way")
            result = asked.call("trigger-sampling-request", {"prompt": "x", "maxTokens": 7})["result"]
            text = result["content"][0]["text"]
            if sharing == "shared":
                assert result["isError"] and text.startswith("MCP error -31004"), result
            else:
                assert "isError" not in result and "sämpled" in text, result


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    # In the same environment everywhere, since it has a tool that shows it.
    command = [shutil.which("env"), "-i", f"PATH={os.environ['PATH']}", *Software(arguments.installed).node("everything").command]
    direct, lists = run(command)
    losses = {"session": {}, "shared": LOST}
    servers = {sharing: Server(command, sharing=sharing) for sharing in losses}
    with Daemon(arguments.mcpd, servers) as daemon, ThreadPoolExecutor(3) as pool:
        again = pool.submit(run, command, lists)
        faces = {sharing: pool.submit(run, daemon.connecting("--server", sharing), lists, lost) for sharing, lost in losses.items()}
        with report.check(f"server-everything directly: two connections differ in {', '.join(RANDOM)}, and in nothing else"):
            expect_twice(direct, again.result()[0])
        for sharing, face in faces.items():
            check_face(report, sharing, direct, face.result()[0], losses[sharing])
            check_question(report, daemon, sharing)
        tools = [{tool["name"] for tool in lists[0]["tools"]} for lists in (lists, faces["shared"].result()[1])]
        with report.check("face of a shared server: the tools that are lost are known"):
            assert tools[0] - tools[1] == LOST_TOOLS and tools[1] < tools[0], tools


main()
