"""Runs the conformance suite for servers of both eras against the fixture, without mcpd and through it, and compares.

Without mcpd, all passes that is scored. Through it, whatever way the server is shared, and both in the aggregate and at the face of
the server, a scenario that passing.txt lists passes the same checks, but for those that cannot.txt has for that way with the reason;
of each other one it is said how it differs, or that it could be listed. So it is where the fixture speaks the other era, and where
it speaks both: then each agent with an instance of its own has its era, and a shared instance has the legacy one.
"""

import argparse
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import forwarder
from daemon import Daemon, Server
from peers import Child, Socket
from sessions import SessionBridge
from stateless import StatelessBridge
from suite import EDITIONS, NOT_RUN, Suite, listed, stop

HERE = Path(__file__).parent
BRIDGES = {"legacy": SessionBridge, "modern": StatelessBridge}
# The scenarios use bare tool names.
SETTINGS = '[daemon]\nnaming = "{tool}"\n'
# The HTTP listeners of mcpd itself, with no bridge.
SOCKET, LOOPBACK = LISTENERS = ("Unix socket", "loopback")
# A fixture in the era of its first request.
DUAL = "dual"
# The names of the paths through mcpd in cannot.txt.
SHARED, SESSION, CROSSED = KINDS = ("shared", "session", "crossed")

# Sharing, whether at the face, and the listener.
BY_HTTP = (
    (SHARED, False, SOCKET),
    (SHARED, True, LOOPBACK),
    (SESSION, False, LOOPBACK),
    (SESSION, True, SOCKET),
)


@dataclass(frozen=True)
class Way:
    """A path of the suite to the fixture of this era: through mcpd if it has a `sharing`, to the face of the fixture or to the
    aggregate; by a bridge, or by HTTP at a listener of mcpd."""

    era: str
    sharing: str | None = None
    is_face: bool = False
    listener: str | None = None

    def __str__(self):
        parts = [self.sharing or "directly", f"{self.era} fixture"]
        return ", ".join(parts + ["face"] * self.is_face + [f"HTTP on {self.listener}"] * bool(self.listener))


def directly(edition):
    return Way(edition.era)


def ways(edition):
    """All of them, the direct one first."""
    crossed = next(era for era in BRIDGES if era != edition.era)
    dual = [Way(DUAL, sharing) for sharing in (SHARED, SESSION) if (edition.era, sharing) != ("modern", SHARED)]
    of_era = [Way(edition.era, sharing, is_face) for sharing in (SHARED, SESSION) for is_face in (False, True)]
    http = [Way(edition.era, sharing, is_face, listener) for sharing, is_face, listener in BY_HTTP]
    return [directly(edition), *of_era, Way(crossed, SHARED), *dual, *http, Way(crossed, SHARED, False, SOCKET)]


def run(suite, edition, way, mcpd):
    """The results of one edition. Each run has a separate daemon."""
    name = f"{edition}-{way}".replace(",", "").replace(" ", "-")
    bridge = BRIDGES[edition.era]
    fixture = [sys.executable, "-S", "-B", str(HERE / "fixture/server.py"), way.era]
    if not way.sharing:
        with bridge(lambda: Child(fixture)) as bridge:
            return suite.run(edition, bridge.url, name)
    servers = {"fixture": Server(fixture, sharing=way.sharing)}
    if way.listener:
        return run_by_http(suite, edition, way, mcpd, servers, name)
    face = "fixture" if way.is_face else None
    with Daemon(mcpd, servers, SETTINGS) as daemon, bridge(lambda: Socket(daemon.socket, face)) as bridge:
        return suite.run(edition, bridge.url, name)


def run_by_http(suite, edition, way, mcpd, servers, name):
    """As `run`, at a listener of mcpd. On loopback, each request gets the token."""
    path = "/servers/fixture" if way.is_face else "/mcp"
    port = free_port()
    settings = SETTINGS + (f'[profiles.default]\nhttp = "127.0.0.1:{port}"\n' if way.listener == LOOPBACK else "")
    with Daemon(mcpd, servers, settings) as daemon:
        if way.listener == LOOPBACK:
            to_mcpd = forwarder.Forwarder(forwarder.tcp(("127.0.0.1", port)), path, forwarder.with_token(daemon.token()))
        else:
            to_mcpd = forwarder.Forwarder(forwarder.unix(daemon.socket), path)
        with to_mcpd:
            return suite.run(edition, to_mcpd.url, name)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Comparison:
    """The results of the suite on each path, and where they are worse than the direct ones."""

    def __init__(self, suite, mcpd):
        self._suite = suite
        self._mcpd = mcpd
        self._results = {}

    def run(self):
        """Runs everything and prints progress."""
        runs = [(edition, way) for edition in EDITIONS for way in ways(edition)]
        with ThreadPoolExecutor(2) as pool:
            for one, result in zip(runs, pool.map(lambda one: run(self._suite, *one, self._mcpd), runs)):
                print(*one, result, sep=", ", flush=True)
                self._results[one] = result

    def found(self, kind):
        """For each scenario that passes directly: the paths where it fails through mcpd, with checks and reasons."""
        found = {}
        for edition, way in self._results:
            if kind_of(edition, way) == kind:
                for name, worse in self._worse((edition, way)):
                    where = found.setdefault(f"{edition.revision}/{name}", {})
                    if worse:
                        where[f"{edition}, {way}"] = worse
        return found

    def faults(self):
        """The editions in which the fixture itself fails, with messages."""
        direct = ((edition, self._results[edition, directly(edition)]) for edition in EDITIONS)
        return {edition: result.log for edition, result in direct if not result.is_fine}

    def _clean(self, edition):
        """The scenarios that check something and pass directly."""
        scenarios = self._results[edition, directly(edition)].scenarios
        return {name: outcome for name, outcome in scenarios.items() if outcome.passed and not outcome.failures}

    def _worse(self, one):
        for name, outcome in self._clean(one[0]).items():
            there = self._results[one].scenarios.get(name, NOT_RUN)
            missing = dict.fromkeys(sorted(outcome.passed - there.passed), "does not pass")
            yield name, missing | there.failures


def kind_of(edition, way):
    """One of the kinds; `None` for the direct way."""
    return CROSSED if way.era not in (edition.era, DUAL) else way.sharing


def without(found, cannot):
    """The results without the checks in cannot.txt; prints those that pass."""
    met = {f"{name}/{check}" for name, where in found.items() for worse in where.values() for check in worse}
    for check in sorted(cannot - met):
        print(f"new {check}: passes, so that cannot.txt need not have it")
    left = {}
    for name, where in found.items():
        for worse in where.values():
            for check in [check for check in worse if f"{name}/{check}" in cannot]:
                del worse[check]
        left[name] = {place: worse for place, worse in where.items() if worse}
    return left


def listed_for(kind, cannot):
    """The checks of one path in cannot.txt."""
    return {line.removeprefix(f"{kind} ") for line in cannot if line.startswith(f"{kind} ")}


def judge(passing, found):
    """Prints each scenario that differs or is not listed. Returns the numbers of listed scenarios that pass and fail."""
    failed = 0
    for name in sorted(passing | found.keys()):
        where = found.get(name, {"the list": {"": "there is no such scenario"}})
        why = "; ".join(f"{check}: {why}" for check, why in next(iter(where.values()), {}).items())
        line = f"{name} ({'; '.join(where)}): {why[:400]}"
        if where and name in passing:
            print(f"FAIL {line}")
            failed += 1
        elif where:
            print(f"differs {line}")
        elif name not in passing:
            print(f"new {name}: passes, so that passing.txt can list it")
    return len(passing) - failed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mcpd", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="the directory that run.sh installs in")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)

    comparison = Comparison(Suite(arguments.installed), arguments.mcpd)
    comparison.run()
    passing = listed(HERE / "passing.txt")
    cannot = {line.partition(": ")[0] for line in listed(HERE / "cannot.txt")}
    faults = comparison.faults()
    for edition, log in faults.items():
        print(f"FAIL {edition} finds fault with the fixture itself: {log}")
    counts = [(len(EDITIONS) - len(faults), len(faults))]
    for kind in KINDS:
        counts.append(judge(passing, without(comparison.found(kind), listed_for(kind, cannot))))
    passed, failed = map(sum, zip(*counts))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
