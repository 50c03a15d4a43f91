"""Checks the page of `mcpd dashboard` in a real browser: Chromium without a window."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import results
from daemon import Daemon, Server

HERE = Path(__file__).parent
CHROMIUM = ["chromium", "chromium-browser", "google-chrome"]
# Time limit of one command.
TIMEOUT = 60
SCRIPT = """echo '<img src=x onerror=alert(1)>' >&2; test -e "$1" || exit 3; exec "$0" demo-server"""


def mcpd(daemon, *arguments):
    command = [daemon.mcpd, *arguments, "--runtime-dir", str(daemon.runtime)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout


def crash(daemon, gate):
    gate.unlink()
    report = json.loads(mcpd(daemon, "status", "--json", "crashing"))
    os.kill(report["servers"][0]["pid"], signal.SIGKILL)


def look(arguments, checks, browser):
    with tempfile.TemporaryDirectory(prefix="mcpd-page-") as directory:
        gate = Path(directory) / "gate"
        gate.touch()
        path = str(arguments.mcpd)
        servers = {
            "steady": Server([path, "demo-server"], deny=["delete_*"]),
            "crashing": Server(["sh", "-c", SCRIPT, path, str(gate)]),
        }
        with Daemon(arguments.mcpd, servers) as daemon:
            mcpd(daemon, "tools")
            address = mcpd(daemon, "dashboard", "--no-open").strip()
            actions = {
                "crash": lambda: crash(daemon, gate),
                "recover": gate.touch,
                "call": lambda: mcpd(daemon, "call", "steady__echo", "text=hello"),
            }
            command = ["node", HERE / "dashboard.mjs", arguments.installed, browser, address]
            try:
                with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as looking:
                    for line in looking.stdout:
                        said = json.loads(line)
                        if "ask" in said:
                            actions[said["ask"]]()
                            looking.stdin.write("done\n")
                            looking.stdin.flush()
                            continue
                        with checks.check(f"page: {said['name']}"):
                            assert said["ok"], said["error"]
                with checks.check("page: the browser has finished"):
                    assert looking.returncode == 0
            finally:
                mcpd(daemon, "dashboard", "--stop")


def main():
    arguments = results.arguments(__doc__)
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if browser is None:
        print("skipped: the page is not looked at in a browser: this machine has no Chromium")
        return
    look(arguments, results.Results(arguments.results), browser)


if __name__ == "__main__":
    main()
