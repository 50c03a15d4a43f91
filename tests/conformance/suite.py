"""The conformance suite: the versions of it that there are, what they have of which revision, and what they find."""

import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# For a whole run, in seconds.
PATIENCE = 60


@dataclass(frozen=True)
class Edition:
    """What a version of the suite, as installed, has of a revision of the protocol, which is of an era."""

    version: str
    revision: str
    era: str
    # For a server, and for a client.
    options: tuple = ()
    client_options: tuple = ()

    def __str__(self):
        return f"{self.revision} of {self.version}"


# In the words of the era of initialize a client plays scenarios that were written for a later one, too: what they check of
# a login holds in any.
EDITIONS = (
    Edition("0.1", "2025-11-25", "legacy"),
    Edition(
        "0.2", "2025-11-25", "legacy", ("--requirements", "2025-11-25"), ("--spec-version", "2025-11-25", "--force")
    ),
    Edition("0.2", "2026-07-28", "modern", ("--requirements", "2026-07-28"), ("--spec-version", "2026-07-28")),
)


@dataclass(frozen=True)
class Outcome:
    """What became of one scenario, by the ids of its checks: those that passed, and what is said of those that failed."""

    passed: frozenset
    failures: dict


NOT_RUN = Outcome(frozenset(), {"the end": "it was not run to its end"})


@dataclass(frozen=True)
class Result:
    """What became of all scenarios. `is_fine` if none failed that is scored."""

    scenarios: dict
    is_fine: bool
    log: Path

    def __str__(self):
        passed = sum(len(outcome.passed) for outcome in self.scenarios.values())
        failed = sum(len(outcome.failures) for outcome in self.scenarios.values())
        return f"{passed} checks passed, {failed} failed, in {len(self.scenarios)} scenarios"


class Suite:
    """Installed in a directory, where what it finds is kept too."""

    def __init__(self, installed):
        self._modules = installed / "node_modules"
        self._results = installed / "results"
        [self._node] = self._modules.glob("node-linux-*/bin/node")

    def run(self, edition, url, name):
        """Runs all scenarios of an edition against a server. Results are stored under `name`."""
        directory = self._empty(name)
        status = self._conduct(edition.version, directory, "server", "--url", url, *edition.options)
        return Result(dict(map(_server_outcome, directory.glob("server-*"))), status == 0, directory / "log")

    def client_scenarios(self, edition):
        """The names of what it has for clients."""
        of = () if "--force" in edition.client_options else edition.client_options
        command = [*self._command(edition.version), "list", "--client", *of]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        return re.findall(r"^  - (\S+)", listed, re.MULTILINE)

    def play(self, scenario, edition, client):
        """Runs one scenario with a client, a shell's command that is given the URL of the suite's server."""
        directory = self._empty(f"client-{edition}-{scenario}".replace("/", "-").replace(" ", "-"))
        options = ["--scenario", scenario, "--command", client, *edition.client_options]
        status = self._conduct(edition.version, directory, "client", *options)
        # Below a directory that is named after the time.
        checks = next(directory.rglob("checks.json"), directory / "checks.json")
        outcome = _outcome(checks, {"FAILURE", "WARNING"})
        if status != 0 and not outcome.failures:
            said = (directory / "log").read_text().strip().splitlines()
            return Outcome(outcome.passed, {"the end": "; ".join(said[-3:]) or f"it ended with {status}"})
        return outcome

    def _empty(self, name):
        directory = self._results / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def _conduct(self, version, directory, *arguments):
        """Its exit status, if it ends in time. What it says is in a `log` then."""
        with (directory / "log").open("w") as output:
            command = [*self._command(version), *arguments, "--output-dir", directory]
            try:
                return subprocess.run(command, stdout=output, stderr=output, timeout=PATIENCE).returncode
            except subprocess.TimeoutExpired:
                return None

    def _command(self, version):
        return [self._node, self._modules / f"conformance-{version}/dist/index.js"]


def _server_outcome(directory):
    """By name, from the directory that the suite makes as a scenario begins: server-NAME-DATE."""
    name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", directory.name)[1]
    return name, _outcome(directory / "checks.json", {"FAILURE"})


def _outcome(checks, failing):
    """From the file that the suite writes as a scenario ends. `failing`: what it says of checks that failed."""
    if not checks.exists():
        return NOT_RUN
    checks = json.loads(checks.read_text())
    passed = (check["id"] for check in checks if check["status"] == "SUCCESS")
    failures = {check["id"]: check.get("errorMessage", check["id"]) for check in checks if check["status"] in failing}
    return Outcome(frozenset(passed), failures)


def listed(file):
    """The lines of a list, without what is said of it."""
    return {line for line in file.read_text().splitlines() if line and not line.startswith("#")}


def stop(*_):
    """Ends with what was begun cleared away, which another signal does not disturb: `timeout` sends two."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)
