"""The entry points: the socket by lines and over HTTP, a loopback address, and `mcpd connect` for clients that launch a command."""

import os
import signal
import sys
from contextlib import asynccontextmanager

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import StdioServerParameters, stdio_client
from mcp.shared.message import SessionMessage

import processes
import sdk
import transport
from daemon import HTTP, LOOPBACK

MESSAGE_CAP = 16 << 20


class Socket:
    """A connection to the daemon's socket."""

    def __init__(self, daemon):
        self._path = daemon.socket
        self._stream = None

    @asynccontextmanager
    async def transport(self):
        """The SDK's streams over lines of JSON."""
        self._stream = await anyio.connect_unix(self._path)
        to_session, from_agent = anyio.create_memory_object_stream(0)
        to_agent, from_session = anyio.create_memory_object_stream(0)
        async with self._stream, anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, to_session)
            tasks.start_soon(self._write, from_session)
            async with from_agent, to_agent:
                yield from_agent, to_agent
            tasks.cancel_scope.cancel()

    async def cut(self):
        """Ends the connection without a word to the SDK, as a crash of the client would."""
        await self._stream.aclose()

    async def _read(self, to_session):
        lines = BufferedByteReceiveStream(self._stream)
        async with to_session:
            try:
                while True:
                    line = await lines.receive_until(b"\n", MESSAGE_CAP)
                    await to_session.send(SessionMessage(sdk.parse(line)))
            except (anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return

    async def _write(self, from_session):
        async with from_session:
            try:
                async for message in from_session:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._stream.send(line.encode() + b"\n")
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


class Connect:
    """An `mcpd connect` of one's own, started in the directory that its agent works in."""

    def __init__(self, daemon, directory=None):
        self._command = StdioServerParameters(
            command=daemon.mcpd, args=["connect", "--runtime-dir", str(daemon.runtime)], cwd=directory
        )
        self._pid = None

    @asynccontextmanager
    async def transport(self):
        before = processes.children(os.getpid())
        async with stdio_client(self._command, errlog=sys.stderr) as streams:
            self._pid = (processes.children(os.getpid()) - before).pop().pid
            yield streams

    async def cut(self):
        """What several clients do to a server that they no longer need."""
        os.kill(self._pid, signal.SIGTERM)


class Http:
    """The socket over HTTP."""

    listener = HTTP

    def __init__(self, daemon):
        self._address = daemon.address(self.listener)

    def transport(self):
        return transport.connecting(self._address)


class Loopback(Http):
    """The address of the default profile."""

    listener = LOOPBACK
