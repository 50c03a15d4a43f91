"""Runs both versions of the conformance suite against the fixture, without mcpd and through it, and compares.

Without mcpd, all passes that a version scores. Through it, whatever way the server is shared, a scenario that
passing.txt lists passes the same checks; of each other one it is said how it differs, or that it could be listed.
"""

import argparse
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bridge import Bridge
from daemon import Daemon, Server
from peers import Child, Socket
from suite import NOT_RUN, VERSIONS, Suite, listed, stop

HERE = Path(__file__).parent
FIXTURE = [sys.executable, "-S", "-B", str(HERE / "fixture/server.py")]
# The scenarios call bare names.
SETTINGS = '[daemon]\nnaming = "{tool}"\n'
DIRECTLY, SHARINGS = "directly", ("shared", "session")


def run(suite, version, way, mcpd):
    """What one version finds. Each run has a daemon of its own, so that none is another's neighbour."""
    name = f"{version}-{way}"
    if way == DIRECTLY:
        with Bridge(lambda: Child(FIXTURE)) as bridge:
            return suite.run(version, bridge.url, name)
    servers = {"fixture": Server(FIXTURE, sharing=way)}
    with Daemon(mcpd, servers, SETTINGS) as daemon, Bridge(lambda: Socket(daemon.socket)) as bridge:
        return suite.run(version, bridge.url, name)


def run_all(suite, mcpd):
    """The results by version and way, printed as they come."""
    runs = [(version, way) for version in VERSIONS for way in (DIRECTLY, *SHARINGS)]
    with ThreadPoolExecutor(2) as pool:
        results = {}
        for one, result in zip(runs, pool.map(lambda one: run(suite, *one, mcpd), runs)):
            print(*one, result, flush=True)
            results[one] = result
    return results


def differences(results):
    """For each scenario in which anything passes without mcpd: where it ends worse through mcpd, and why."""
    found = {}
    for (version, way), result in results.items():
        expected = results[version, DIRECTLY].scenarios.items()
        for name, outcome in ((name, outcome) for name, outcome in expected if outcome.passed):
            there = result.scenarios.get(name, NOT_RUN)
            missing = sorted(outcome.passed - there.passed)
            failures = [failure for failure in there.failures if failure not in outcome.failures]
            where = found.setdefault(name, {})
            if missing or failures:
                where[f"{version} {way}"] = "; ".join(failures or missing)
    return found


def judge(listed, found):
    """Says a line of each scenario that differs or is not listed. How many of those listed pass, how many do not."""
    failed = 0
    for name in sorted(listed | found.keys()):
        where = found.get(name, {"the list": "there is no such scenario"})
        why = f"{name} ({', '.join(where)}): {next(iter(where.values()), '')[:200]}"
        if where and name in listed:
            print(f"FAIL {why}")
            failed += 1
        elif where:
            print(f"differs {why}")
        elif name not in listed:
            print(f"new {name}: passes, so that passing.txt can list it")
    return len(listed) - failed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mcpd", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="the directory that run.sh installs in")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)

    results = run_all(Suite(arguments.installed), arguments.mcpd)
    passed, failed = judge(listed(HERE / "passing.txt"), differences(results))
    for version in VERSIONS:
        result = results[version, DIRECTLY]
        if result.is_fine:
            passed += 1
        else:
            print(f"FAIL {version} finds fault with the fixture itself: {result.log}")
            failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
