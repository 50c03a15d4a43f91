"""Runs the conformance suite for servers of both eras against the fixture, without mcpd and through it, and compares.

Without mcpd, all passes that is scored. Through it, whatever way the server is shared, a scenario that passing.txt lists
passes the same checks; of each other one it is said how it differs, or that it could be listed.
"""

import argparse
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from daemon import Daemon, Server
from peers import Child, Socket
from sessions import SessionBridge
from stateless import StatelessBridge
from suite import EDITIONS, NOT_RUN, Suite, listed, stop

HERE = Path(__file__).parent
BRIDGES = {"legacy": SessionBridge, "modern": StatelessBridge}
# The scenarios call bare names.
SETTINGS = '[daemon]\nnaming = "{tool}"\n'


@dataclass(frozen=True)
class Way:
    """How the suite comes to the fixture, which speaks `era`: by mcpd if it is shared somehow."""

    era: str
    sharing: str | None = None

    def __str__(self):
        return f"{self.sharing or 'directly'} with {self.era}"


# mcpd does not speak the stateless era yet.
THROUGH = {"legacy": [Way("legacy", sharing) for sharing in ("shared", "session")], "modern": []}


def run(suite, edition, way, mcpd):
    """What one edition finds. Each run has a daemon of its own, so that none is another's neighbour."""
    name = f"{edition}-{way}".replace(" ", "-")
    bridge = BRIDGES[edition.era]
    fixture = [sys.executable, "-S", "-B", str(HERE / "fixture/server.py"), way.era]
    if not way.sharing:
        with bridge(lambda: Child(fixture)) as bridge:
            return suite.run(edition, bridge.url, name)
    servers = {"fixture": Server(fixture, sharing=way.sharing)}
    with Daemon(mcpd, servers, SETTINGS) as daemon, bridge(lambda: Socket(daemon.socket)) as bridge:
        return suite.run(edition, bridge.url, name)


def run_all(suite, mcpd):
    """The results by edition and way, printed as they come."""
    runs = [(edition, way) for edition in EDITIONS for way in (Way(edition.era), *THROUGH[edition.era])]
    with ThreadPoolExecutor(2) as pool:
        results = {}
        for one, result in zip(runs, pool.map(lambda one: run(suite, *one, mcpd), runs)):
            print(*one, result, sep=", ", flush=True)
            results[one] = result
    return results


def differences(results, edition, way):
    """For each scenario in which anything passes without mcpd: why it ends worse this way, or nothing."""
    found = {}
    for name, outcome in results[edition, Way(edition.era)].scenarios.items():
        if outcome.passed:
            there = results[edition, way].scenarios.get(name, NOT_RUN)
            missing = sorted(outcome.passed - there.passed)
            failures = [failure for failure in there.failures if failure not in outcome.failures]
            found[f"{edition.revision}/{name}"] = "; ".join(failures or missing) if missing or failures else None
    return found


def gathered(results):
    """By scenario, where it ends worse, and why."""
    found = {}
    for edition, way in results:
        if way.sharing:
            for name, why in differences(results, edition, way).items():
                where = found.setdefault(name, {})
                if why:
                    where[f"{edition}, {way}"] = why
    return found


def judge(passing, found):
    """Says a line of each scenario that differs or is not listed. How many of those listed pass, how many do not."""
    failed = 0
    for name in sorted(passing | found.keys()):
        where = found.get(name, {"the list": "there is no such scenario"})
        why = f"{name} ({'; '.join(where)}): {next(iter(where.values()), '')[:200]}"
        if where and name in passing:
            print(f"FAIL {why}")
            failed += 1
        elif where:
            print(f"differs {why}")
        elif name not in passing:
            print(f"new {name}: passes, so that passing.txt can list it")
    return len(passing) - failed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mcpd", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="the directory that run.sh installs in")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)

    results = run_all(Suite(arguments.installed), arguments.mcpd)
    counts = [judge(listed(HERE / "passing.txt"), gathered(results))]
    for edition in EDITIONS:
        result = results[edition, Way(edition.era)]
        counts.append((1, 0) if result.is_fine else (0, 1))
        if not result.is_fine:
            print(f"FAIL {edition} finds fault with the fixture itself: {result.log}")
    passed, failed = map(sum, zip(*counts))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
