"""The conformance suite: both versions of it, and what they find."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# As installed, with the options that have each run what counts for the initialize era.
VERSIONS = {"0.1": [], "0.2": ["--requirements", "2025-11-25"]}
# For a whole run, in seconds.
PATIENCE = 60


@dataclass(frozen=True)
class Outcome:
    """What became of one scenario: its checks that passed, by id, and what is said of those that failed."""

    passed: frozenset
    failures: tuple


NOT_RUN = Outcome(frozenset(), ("it was not run to its end",))


@dataclass(frozen=True)
class Result:
    """What became of all scenarios. `is_fine` if none failed that the version scores."""

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

    def run(self, version, url, name):
        """Runs it against a server; `name` tells what it finds from what it found elsewhere."""
        directory = self._results / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        script = self._modules / f"conformance-{version}/dist/index.js"
        command = [self._node, script, "server", "--url", url, *VERSIONS[version], "--output-dir", directory]
        log = directory / "log"
        with log.open("w") as output:
            try:
                status = subprocess.run(command, stdout=output, stderr=output, timeout=PATIENCE).returncode
            except subprocess.TimeoutExpired:
                status = None
        return Result(dict(map(_outcome, directory.glob("server-*"))), status == 0, log)


def _outcome(directory):
    """By name, from the directory that the suite makes as a scenario begins: server-NAME-DATE."""
    name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", directory.name)[1]
    checks = directory / "checks.json"
    if not checks.exists():
        return name, NOT_RUN
    checks = json.loads(checks.read_text())
    passed = (check["id"] for check in checks if check["status"] == "SUCCESS")
    failures = (check.get("errorMessage", check["id"]) for check in checks if check["status"] == "FAILURE")
    return name, Outcome(frozenset(passed), tuple(failures))
