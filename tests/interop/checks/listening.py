"""Servers at URLs, started on a free loopback port and ended by id."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from daemon import Remote, eventually


class Listening:
    """A server that listens inside `with`. PORT selects a port (0: a free one), and it prints "PORT n" once it listens."""

    def __init__(self, command, path):
        self._command, self._path = command, path
        # Known after the first start.
        self.port = 0
        self._log = None
        self._process = None

    def __enter__(self):
        self._log = tempfile.NamedTemporaryFile("w", prefix="mcpd-listening-")
        try:
            self._start()
        except AssertionError:
            print(self.log()[-4000:])
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._end()
        self._log.close()

    def remote(self, port=None, **more):
        """Its configuration for mcpd; at another port if a proxy leads to it."""
        return Remote(f"http://127.0.0.1:{port or self.port}{self._path}", **more)

    def restart(self):
        """Restarts it on the same port, so that it forgets everything."""
        self._end()
        # Which is where the next one writes, too.
        self._log.seek(0)
        self._log.truncate()
        self._start()

    def log(self):
        return Path(self._log.name).read_text(errors="replace")

    def _start(self):
        env = {**os.environ, "PORT": str(self.port)}
        self._process = subprocess.Popen(self._command, env=env, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        eventually(self._is_listening, f"{self._command} listens")

    def _is_listening(self):
        assert self._process.poll() is None, f"{self._command} ended with {self._process.returncode}"
        if match := re.search(r"^PORT (\d+)$", self.log(), re.MULTILINE):
            self.port = int(match[1])
        return bool(match)

    def _end(self):
        self._process.kill()
        self._process.wait()
