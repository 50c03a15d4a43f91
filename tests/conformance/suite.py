"""The conformance suite: its versions, their scenarios by revision, and their results."""

import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread

# Time limit of a whole run, in seconds.
TIMEOUT = 60


@dataclass(frozen=True)
class Edition:
    """The scenarios of an installed suite version for a protocol revision and its era."""

    version: str
    revision: str
    era: str
    # For a server, and for a client.
    options: tuple = ()
    client_options: tuple = ()
    # Scenarios of extensions, which no revision requires. Each is run alone.
    extensions: tuple = ()

    def __str__(self):
        return f"{self.revision} of {self.version}"


SKILLS = ("sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest")
# In the words of the era of initialize a client plays scenarios that were written for a later one, too: what they check of
# a login holds in any.
EDITIONS = (
    Edition("0.1", "2025-11-25", "legacy"),
    Edition(
        "0.2",
        "2025-11-25",
        "legacy",
        ("--requirements", "2025-11-25"),
        ("--spec-version", "2025-11-25", "--force"),
        SKILLS,
    ),
    Edition(
        "0.2",
        "2026-07-28",
        "modern",
        ("--requirements", "2026-07-28"),
        ("--spec-version", "2026-07-28"),
        SKILLS,
    ),
)


@dataclass(frozen=True)
class Outcome:
    """The result of one scenario: ids of passed checks, and messages of failed checks."""

    passed: frozenset
    failures: dict


NOT_RUN = Outcome(frozenset(), {"the end": "it was not run to its end"})


@dataclass(frozen=True)
class Result:
    """The results of all scenarios. `is_fine` if no scored scenario failed."""

    scenarios: dict
    is_fine: bool
    log: Path

    def __str__(self):
        passed = sum(len(outcome.passed) for outcome in self.scenarios.values())
        failed = sum(len(outcome.failures) for outcome in self.scenarios.values())
        return f"{passed} checks passed, {failed} failed, in {len(self.scenarios)} scenarios"


class Runs:
    """The processes of the suites. `stop` ends them, so that no thread waits for one."""

    def __init__(self):
        self._lock = Lock()
        self._running = set()
        self._is_stopped = False

    def conduct(self, command, output):
        """Its exit status, if it ends in time."""
        with self._lock:
            if self._is_stopped:
                return None
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            self._running.add(process)
        try:
            return process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None
        finally:
            with self._lock:
                self._running.remove(process)

    def stop(self):
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.terminate()


RUNS = Runs()


class Suite:
    """A suite installed in a directory, which also stores its results."""

    def __init__(self, installed):
        self._modules = installed / "node_modules"
        self._results = installed / "results"
        [self._node] = self._modules.glob("node-linux-*/bin/node")

    def run(self, edition, url, name):
        """Runs all scenarios of an edition against a server. Results are stored under `name`."""
        directory = self._empty(name)
        extensions = [("--scenario", name, "--spec-version", edition.revision, "--force") for name in edition.extensions]
        conduct = lambda options: self._conduct(edition.version, directory, "server", "--url", url, *options)
        statuses = [conduct(options) for options in (edition.options, *extensions)]
        return Result(dict(map(_server_outcome, directory.glob("server-*"))), set(statuses) == {0}, directory / "log")

    def client_scenarios(self, edition):
        """The names of its client scenarios."""
        of = () if "--force" in edition.client_options else edition.client_options
        command = [*self._command(edition.version), "list", "--client", *of]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT).stdout
        return re.findall(r"^  - (\S+)", listed, re.MULTILINE)

    def play(self, scenario, edition, client):
        """Runs one scenario with a client: a shell command that gets the URL of the suite's server."""
        directory = self._empty(f"client-{edition}-{scenario}".replace("/", "-").replace(" ", "-"))
        options = ["--scenario", scenario, "--command", client, *edition.client_options]
        status = self._conduct(edition.version, directory, "client", *options)
        # Below a directory named after the time.
        checks = next(directory.rglob("checks.json"), directory / "checks.json")
        outcome = _outcome(checks, {"FAILURE", "WARNING"})
        if status != 0 and not outcome.failures:
            lines = (directory / "log").read_text().strip().splitlines()
            return Outcome(outcome.passed, {"the end": "; ".join(lines[-3:]) or f"it ended with {status}"})
        return outcome

    def _empty(self, name):
        directory = self._results / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def _conduct(self, version, directory, *arguments):
        """Its exit status, if it ends in time. Its output is in `log`."""
        with (directory / "log").open("a") as output:
            command = [*self._command(version), *arguments, "--output-dir", directory]
            return RUNS.conduct(command, output)

    def _command(self, version):
        return [self._node, self._modules / f"conformance-{version}/dist/index.js"]


def _server_outcome(directory):
    """The results by name, from the directory that the suite creates for a scenario: server-NAME-DATE."""
    name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", directory.name)[1]
    return name, _outcome(directory / "checks.json", {"FAILURE"})


def _outcome(checks, failing):
    """The result in the file that the suite writes for a scenario. `failing`: messages of failed checks."""
    if not checks.exists():
        return NOT_RUN
    checks = json.loads(checks.read_text())
    passed = (check["id"] for check in checks if check["status"] == "SUCCESS")
    failures = {check["id"]: check.get("errorMessage", check["id"]) for check in checks if check["status"] in failing}
    return Outcome(frozenset(passed), failures)


def listed(file):
    """The lines of a list without comments."""
    return {line for line in file.read_text().splitlines() if line and not line.startswith("#")}


def exit_on_signal(*_):
    """Ends the suites and exits once their daemons have ended, even if `timeout` sends a second signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # In another thread, since this one may hold the lock.
    Thread(target=RUNS.stop).start()
    sys.exit(1)
