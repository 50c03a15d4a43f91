"""A daemon with two servers, in a home directory set up as in docs/connect.md, with mcpd in PATH."""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import lines
from daemon import Daemon, Server
from software import WRITING, Software

NOTE = "ä\"\\\n😀 from the disk"


class ConfiguredHome:
    """There between `with` and its end."""

    def __init__(self, mcpd, installed):
        self._cleanup = ExitStack()
        # Short, since the path of a socket in it may have 108 bytes.
        self.home = Path(self._cleanup.enter_context(TemporaryDirectory(prefix="mcpd-home-"))).resolve()
        note = self.home / "notes/note"
        note.parent.mkdir()
        note.write_text(NOTE)
        # What answers with the text of the note.
        self.call = "filesystem__read_text_file", {"path": str(note)}
        self._daemon = Daemon(
            mcpd,
            {
                "demo": Server([str(mcpd), "demo-server"], deny=["delete_*"]),
                "filesystem": Software(installed).node("filesystem", str(note.parent), deny=WRITING),
            },
        )

    def __enter__(self):
        self._cleanup.enter_context(self._daemon)
        for link, target in {".local/state/mcpd/run": self._daemon.runtime, "bin/mcpd": self._daemon.mcpd}.items():
            (self.home / link).parent.mkdir(parents=True)
            (self.home / link).symlink_to(target)
        return self

    def __exit__(self, *_):
        self._cleanup.close()

    def environment(self):
        """All that a process needs that lives here."""
        return {"HOME": str(self.home), "PATH": f"{self.home}/bin:{os.environ['PATH']}"}

    def tools(self):
        """What every agent is to see, in order."""
        with lines.daemon(self._daemon.socket) as peer:
            return [tool["name"] for tool in json.loads(peer.ask("tools/list", {}, 1)[-1])["result"]["tools"]]
