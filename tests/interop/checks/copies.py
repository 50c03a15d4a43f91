"""Copies of server-everything behind one mcpd, which differ only in their transport."""

from contextlib import ExitStack, contextmanager
from dataclasses import replace

from daemon import alone_each

# What each is called, and how to speak of what leads to it.
COPIES = {"everything": "", "everything_http": " over HTTP", "everything_sse": " over HTTP+SSE"}
# A pattern for what the server says of the session, which it has over HTTP alone.
SESSION = r"(?:from|for) session [\w-]+"


@contextmanager
def copies(software, sharing="shared"):
    """The servers by name, and the settings that give each a profile in which it is alone: they have the same URIs."""
    with ExitStack() as stack:
        listening = [stack.enter_context(software.everything_over(transport)) for transport in ("streamableHttp", "sse")]
        servers = [replace(software.node("everything"), sharing=sharing), *(one.remote(sharing=sharing) for one in listening)]
        yield dict(zip(COPIES, servers)), alone_each(COPIES)
