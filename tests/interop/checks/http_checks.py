"""Checks mcpd in front of HTTP servers that people write in Python and Rust: what they answer, what becomes of calls that are given
up or cut, and that they may be started anew. Each is asked in raw lines, then by line 2 of both SDKs through `mcpd connect`.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import anyio

import lines
import node_agent
import results
import sdk
import transport
from caller import Caller, text
from cutting_proxy import CuttingProxy
from daemon import LINES, Daemon, alone, alone_each, eventually
from software import Software

TOOLS = ["echo", "fail", "count", "wait", "was_cancelled"]
AT_ONCE = 20
# The daemon's own errors, while a server is away.
AWAY = range(-31006, -31000)


def calls(client, _listening):
    """lists, answers, refuses and tells of progress"""
    eventually(lambda: client.tools() == TOOLS, "the whole list")
    assert client.text("echo", text="ä\u2028😀") == "ä\u2028😀"
    refused, _ = client.call("fail")
    assert refused["result"]["isError"], refused
    counted, progress = client.call("count", to=5)
    assert (text(counted), progress) == ("counted to 5", [1, 2, 3, 4, 5]), (counted, progress)
    unknown, _ = client.call("unknown")
    assert unknown["error"]["code"] == -32602, unknown


def cancels_call(client, _listening):
    """is told of calls that are given up, which are not answered"""
    id = client.start("wait", name="given up")
    assert client.hear()["params"]["progressToken"] == id
    client.cancel(id)
    # Nothing else may be heard of it, which `text` sees to.
    eventually(lambda: client.text("was_cancelled", name="given up") == "true", "the server is told")


def at_once(client, _listening):
    """answers many calls at once, each what it was asked and its progress in order"""
    counting = {client.start("count", to=number): number for number in range(1, AT_ONCE + 1)}
    echoing = {client.start("echo", text=f"{number}"): number for number in range(AT_ONCE)}
    received = {id: [] for id in counting}
    expected = {id: f"counted to {to}" for id, to in counting.items()} | {id: f"{number}" for id, number in echoing.items()}
    while expected:
        message = client.hear()
        if "method" in message:
            received[message["params"]["progressToken"]].append(message["params"]["progress"])
        else:
            assert text(message) == expected.pop(message["id"]), message
    assert received == {id: list(range(1, to + 1)) for id, to in counting.items()}, received


def starts_anew(client, listening):
    """may be started anew: what was under way ends once, and then it is asked as before"""
    answer = _after_restart(client, listening, ("wait", {"name": "lost"}), ("was_cancelled", {"name": "given up"}))
    assert answer == "false", "it has forgotten nothing"
    calls(client, listening)


def goes_on(client, proxy):
    """goes on with a call whose connection is cut"""
    # The server wants to be left alone for three seconds, and of what it says meanwhile it keeps the last.
    call, progress = _begun(client, to=250), [1]
    proxy.cut()
    while (message := client.hear()).get("id") != call:
        progress.append(message["params"]["progress"])
    assert text(message) == "counted to 250", message
    assert progress == sorted(set(progress)) and progress[-1] == 250, progress


def ends_it(client, proxy):
    """ends a call whose connection is cut, once, and then is asked as before"""
    call = _begun(client, to=500)
    proxy.cut()
    while (message := client.hear()).get("id") != call:
        pass
    assert message["error"]["code"] in AWAY and message["error"]["data"]["outcome"] == "unknown", message
    calls(client, proxy)


def _begun(client, to):
    """A call that counts so far, and has begun to."""
    eventually(lambda: client.tools() == TOOLS, "the whole list")
    call = client.start("count", to=to)
    assert client.hear()["params"]["progress"] == 1
    return call


ALIKE = (calls, cancels_call, at_once, starts_anew)


def everything_starts_anew(client, listening):
    """may be started anew, though it calls a request with an unknown session a bad one"""
    operation = ("trigger-long-running-operation", {"duration": 60, "steps": 1000})
    assert _after_restart(client, listening, operation, ("echo", {"message": "x"})) == "Echo: x"


def _after_restart(client, listening, long, quick):
    """Has the server started anew during a long call, and then makes a quick one."""
    tool, arguments = long
    eventually(lambda: tool in client.tools(), f"{tool} is listed")
    under_way = client.start(tool, **arguments)
    assert client.hear()["params"]["progressToken"] == under_way
    listening.restart()
    while (ended := client.hear()).get("id") != under_way:
        assert ended["params"]["progressToken"] == under_way, ended
    assert ended["error"]["code"] in AWAY and ended["error"]["data"]["outcome"] == "unknown", ended
    tool, arguments = quick

    def answer():
        answered, _ = client.call(tool, **arguments)
        return "error" not in answered and text(answered)

    return eventually(answer, "it is there again")


def all_alike(software):
    """Servers with the same tools, each under its name."""
    return {
        "fastmcp": software.python_over("fastmcp", "fastmcp", "http"),
        "fastmcp_sse": software.python_over("fastmcp", "fastmcp", "sse"),
        "line_1": software.python_over("mcp-1", "mcp", "http"),
        "line_2": software.python_over("mcp-2", "mcp", "http"),
        "rmcp": software.rmcp(),
    }


@contextmanager
def served(mcpd, servers):
    """A daemon that is told of servers, which listen."""
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        list(pool.map(stack.enter_context, servers.values()))
        remotes = {name: server.remote() for name, server in servers.items()}
        yield stack.enter_context(Daemon(mcpd, remotes, alone_each(servers)))


async def check_python(daemon, servers):
    async with sdk.connect(transport.connecting(daemon.address(LINES))) as agent:
        assert_exposed(await agent.tools(), servers)
        for name in servers:
            assert await agent.text(f"{name}__echo", {"text": name}) == name


async def check_node(daemon, servers, modules):
    echoes = [(f"{name}__echo", {"text": name}) for name in servers]
    async with node_agent.agent(modules, "client", daemon.address(LINES), echoes) as observed:
        assert_exposed(observed["tools"], servers)
        assert [outcome["result"]["content"][0]["text"] for outcome in observed["outcomes"]] == list(servers), observed


def assert_exposed(tools, servers):
    names = [tool["name"] for tool in tools if tool["name"].split("__")[0] in servers]
    assert names == [f"{server}__{tool}" for server in servers for tool in TOOLS], names


def main():
    arguments = results.arguments(__doc__)
    report, software = results.Results(arguments.results), Software(arguments.installed)
    alike = all_alike(software)
    # Each with what is checked of it.
    servers = {name: (server, ALIKE) for name, server in alike.items()} | {
        "everything_http": (software.everything_over("streamableHttp"), (everything_starts_anew,)),
        "everything_sse": (software.everything_over("sse"), (everything_starts_anew,)),
        # In the modern era a stream that breaks off is not gone on with.
        "rmcp_cut": (CuttingProxy(software.rmcp(), era="legacy"), (goes_on,)),
        "fastmcp_cut": (CuttingProxy(software.python_over("fastmcp", "fastmcp", "http")), (ends_it,)),
    }
    with served(arguments.mcpd, {name: server for name, (server, _) in servers.items()}) as daemon:

        def check_all(name):
            server, checks = servers[name]
            with lines.daemon(daemon.door(alone(name))) as peer:
                client = Caller(peer, name)
                for check in checks:
                    with report.check(f"{name} over HTTP {check.__doc__}"):
                        check(client, server)

        with ThreadPoolExecutor(len(servers)) as pool:
            list(pool.map(check_all, servers))
        with report.check(f"mcp {sdk.VERSION}: an agent is served what HTTP servers offer"):
            anyio.run(check_python, daemon, alike)
        with report.check("@modelcontextprotocol/client: an agent is served what HTTP servers offer"):
            anyio.run(check_node, daemon, alike, arguments.installed / "node_modules")


main()
