"""Runs the conformance suite for servers of both eras against the fixture, without mcpd and through it, and compares.

Without mcpd, every scored scenario passes. Through it, on each of the `WAYS`, a scenario that passing.txt lists passes the same
checks, but for those that cannot.txt lists for that way with the reason. For each other scenario it prints how it differs, or
that passing.txt can list it.
"""

import argparse
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from daemon import Daemon, Server
from forwarder import Forwarder, tcp, unix, with_token
from peers import Child, Socket
from sessions import SessionBridge
from stateless import StatelessBridge
from suite import EDITIONS, NOT_RUN, Suite, exit_on_signal, listed

HERE = Path(__file__).parent
BRIDGES = {"legacy": SessionBridge, "modern": StatelessBridge}
# The scenarios use bare tool names.
SETTINGS = '[daemon]\nnaming = "{tool}"\n'
# How the suite reaches mcpd: lines on its Unix socket behind a bridge, or HTTP at one of its listeners with no bridge.
LINES, SOCKET, LOOPBACK = ("lines", "Unix socket", "loopback")
# The era of the fixture: that of the edition, the other one, or that of the first request.
OWN, CROSSED, DUAL = ("own", "crossed", "dual")
SHARED, SESSION = ("shared", "session")


@dataclass(frozen=True)
class Way:
    """A path of the suite to the fixture: through mcpd if it has a `listener`, to the aggregate or to the face of the fixture."""

    listener: str | None
    era: str
    sharing: str = SHARED
    is_face: bool = False

    def __str__(self):
        if not self.listener:
            return "directly"
        return ", ".join([self.listener, self.sharing, f"{self.era} fixture"] + ["face"] * self.is_face)

    def kind(self):
        """The word for it in cannot.txt."""
        return CROSSED if self.era == CROSSED else self.sharing


DIRECTLY = Way(None, OWN)
# Each listener meets both eras, both kinds of sharing, the aggregate and the face.
WAYS = (
    Way(LINES, OWN, SHARED),
    Way(LINES, OWN, SESSION, is_face=True),
    Way(LINES, CROSSED),
    Way(LINES, DUAL, SESSION),
    Way(SOCKET, OWN, SHARED),
    Way(SOCKET, OWN, SESSION, is_face=True),
    Way(SOCKET, CROSSED),
    Way(LOOPBACK, OWN, SHARED, is_face=True),
    Way(LOOPBACK, OWN, SESSION),
    Way(LOOPBACK, CROSSED, is_face=True),
)


def fixture_era(edition, way):
    """The era that the fixture is started with."""
    crossed = next(era for era in BRIDGES if era != edition.era)
    return {OWN: edition.era, CROSSED: crossed, DUAL: DUAL}[way.era]


def run(suite, edition, way, mcpd):
    """The results of one edition. Each run has a separate daemon."""
    bridge = BRIDGES[edition.era]
    fixture = [sys.executable, "-S", "-B", str(HERE / "fixture/server.py"), fixture_era(edition, way)]
    face = "fixture" if way.is_face else None
    path = f"/servers/{face}" if face else "/mcp"
    servers = {"fixture": Server(fixture, sharing=way.sharing)}
    with ExitStack() as stack:
        start = lambda settings="": stack.enter_context(Daemon(mcpd, servers, SETTINGS + settings))
        match way.listener:
            case None:
                reached = bridge(lambda: Child(fixture))
            case "lines":
                daemon = start()
                reached = bridge(lambda: Socket(daemon.socket, face))
            case "Unix socket":
                reached = Forwarder(unix(start().socket), path)
            case "loopback":
                port = stack.enter_context(reserved_port())
                daemon = start(f'[profiles.default]\nhttp = "127.0.0.1:{port}"\n')
                reached = Forwarder(tcp(("127.0.0.1", port)), path, with_token(daemon.token()))
        name = f"{edition}-{way}".replace(",", "").replace(" ", "-")
        return suite.run(edition, stack.enter_context(reached).url, name)


@contextmanager
def reserved_port():
    """A port that nobody else is given. mcpd can listen on it, since neither excludes the other."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


class Comparison:
    """The results of the suite on each way, and where they are worse than the direct ones."""

    def __init__(self, suite, mcpd):
        self._suite = suite
        self._mcpd = mcpd
        self._results = {}

    def run(self):
        """Runs everything and prints progress."""
        runs = [(edition, way) for edition in EDITIONS for way in (DIRECTLY, *WAYS)]
        with ThreadPoolExecutor(2) as pool:
            for one, result in zip(runs, pool.map(lambda one: run(self._suite, *one, self._mcpd), runs)):
                print(*one, result, sep=", ", flush=True)
                self._results[one] = result

    def found(self):
        """For each scenario that passes directly: what fails on each way, by edition and way, with reasons by check."""
        found = {}
        for (edition, way), result in self._results.items():
            for name, outcome in self._clean(edition).items():
                there = result.scenarios.get(name, NOT_RUN)
                missing = dict.fromkeys(sorted(outcome.passed - there.passed), "does not pass")
                found.setdefault(f"{edition.revision}/{name}", {})[edition, way] = missing | there.failures
        return found

    def faults(self):
        """The editions in which the fixture itself fails, with messages."""
        direct = ((edition, self._results[edition, DIRECTLY]) for edition in EDITIONS)
        return {edition: result.log for edition, result in direct if not result.is_fine}

    def _clean(self, edition):
        """The scenarios that check something and pass directly."""
        scenarios = self._results[edition, DIRECTLY].scenarios
        return {name: outcome for name, outcome in scenarios.items() if outcome.passed and not outcome.failures}


def without(found, cannot):
    """The failures that are not in cannot.txt, where there are any. Prints the entries of cannot.txt that pass."""
    met = set()
    left = {}
    for name, ways in found.items():
        left[name] = {}
        for (edition, way), worse in ways.items():
            explained = {check for check in worse if f"{way.kind()} {name}/{check}" in cannot}
            met.update(f"{way.kind()} {name}/{check}" for check in explained)
            if unexplained := {check: why for check, why in worse.items() if check not in explained}:
                left[name][f"{edition}, {way}"] = unexplained
    for entry in sorted(cannot - met):
        print(f"new {entry}: passes, so remove it from cannot.txt")
    return left


def judge(passing, found):
    """Prints each scenario that differs or is not listed. Returns the numbers of listed scenarios that pass and fail."""
    failed = 0
    for name in sorted(passing | found.keys()):
        where = found.get(name, {"the list": {"": "there is no such scenario"}})
        for way, worse in where.items():
            why = "; ".join(f"{check}: {why}" for check, why in worse.items())
            print(f"{'FAIL' if name in passing else 'differs'} {name} ({way}): {why[:400]}")
        if where:
            failed += name in passing
        elif name not in passing:
            print(f"new {name}: passes, so that passing.txt can list it")
    return len(passing) - failed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mcpd", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="the directory that run.sh installs in")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, exit_on_signal)

    comparison = Comparison(Suite(arguments.installed), arguments.mcpd)
    comparison.run()
    passing = listed(HERE / "passing.txt")
    cannot = {line.partition(": ")[0] for line in listed(HERE / "cannot.txt")}
    faults = comparison.faults()
    for edition, log in faults.items():
        print(f"FAIL {edition} finds fault with the fixture itself: {log}")
    passed, failed = judge(passing, without(comparison.found(), cannot))
    print(f"{len(EDITIONS) - len(faults) + passed} passed, {len(faults) + failed} failed")
    sys.exit(failed + len(faults) > 0)


if __name__ == "__main__":
    main()
