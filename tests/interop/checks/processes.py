"""The daemon and its descendants in /proc."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A unique process: a pid may be reused, but not together with its start time."""

    pid: int
    started: int

    def is_running(self):
        return _stat(self.pid) == self

    def arguments(self):
        try:
            return Path(f"/proc/{self.pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
        except OSError:
            return []


def children(pid):
    return {process for process, parent in _all() if parent == pid}


def descendants(pid):
    """Children, their children, and so on."""
    everything = _all()
    found, parents = set(), {pid}
    while parents:
        children = {process for process, parent in everything if parent in parents} - found
        found |= children
        parents = {process.pid for process in children}
    return found


def running_with_environment(entry):
    """Processes with an environment variable NAME=VALUE, anywhere in the process tree."""
    return {process for process, _ in _all() if entry in _environment(process.pid)}


def _all():
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [both for both in map(_stat_and_parent, pids) if both]


def _environment(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def _stat(pid):
    both = _stat_and_parent(pid)
    return both and both[0]


def _stat_and_parent(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold any character, so the fields are counted from the last one.
    fields = text.rpartition(") ")[2].split()
    if fields[0] == "Z":
        return None
    return Process(pid, int(fields[19])), int(fields[1])
