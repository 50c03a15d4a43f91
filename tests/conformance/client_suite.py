"""Runs the client scenarios of the conformance suite in both eras with mcpd as the client, and compares what passes with
what has to.

client-passing.txt lists the scenarios that pass in each edition that has them; client-cannot.txt the others, with the
reason. Each scenario is in one of the two.
"""

import argparse
import shlex
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite import EDITIONS, Suite, exit_on_signal, listed

HERE = Path(__file__).parent
# Scenarios about modern requests, which the suite also runs with an earlier revision. For a legacy agent mcpd would
# probe the legacy era, with a request that lacks these headers.
OF_MODERN_AGENTS = {"http-standard-headers", "request-metadata"}


def play_all(suite, mcpd):
    """The outcome of each scenario, by name and edition."""

    def client(name, edition):
        era = "modern" if name in OF_MODERN_AGENTS else edition.era
        return shlex.join([sys.executable, "-B", str(HERE / "client.py"), str(mcpd), era])

    plays = [(name, edition) for edition in EDITIONS for name in suite.client_scenarios(edition)]
    with ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda play: suite.play(*play, client(*play)), plays)
        return dict(zip(plays, outcomes))


def failures(outcomes):
    """For each scenario its failures by edition; empty if it passes in all editions that have it."""
    found = {}
    for (name, edition), outcome in outcomes.items():
        where = found.setdefault(name, [])
        if outcome.failures or not outcome.passed:
            why = "; ".join(outcome.failures.values()) or "nothing was checked"
            where.append(f"{edition}: {why[:300]}")
    return found


def judge(passing, cannot, found):
    """Prints each scenario whose outcome differs from the list. Returns the numbers of listed scenarios that pass and fail."""
    wrong = set()
    for name in sorted(passing | cannot | found.keys()):
        if name not in found:
            problem = "there is no such scenario"
        elif (name in passing) == (name in cannot):
            problem = "is to be in one of the two lists"
        elif name in passing:
            problem = " / ".join(found[name])
        else:
            problem = ""
            if not found[name]:
                print(f"new {name}: passes, so that client-passing.txt can list it")
        if problem:
            print(f"FAIL {name}: {problem}")
            wrong.add(name)
    return len(passing - wrong), len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mcpd", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="the directory that run.sh installs in")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, exit_on_signal)

    outcomes = play_all(Suite(arguments.installed), arguments.mcpd.resolve())
    passing = listed(HERE / "client-passing.txt")
    cannot = {line.partition(": ")[0] for line in listed(HERE / "client-cannot.txt")}
    passed, failed = judge(passing, cannot, failures(outcomes))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
