"""Tries real servers with `mcpd try`, keeps them with the proposed grants, and calls each through a daemon. Skipped without namespaces."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import results

# The command line of each server, a tool with its arguments, and a part of the result. `DIR` and `REPO` are directories.
SERVERS = {
    "files": ("npx -y @modelcontextprotocol/server-filesystem DIR", "read_text_file", {"path": "DIR/note.txt"}, "a note"),
    "git": ("uvx mcp-server-git --repository REPO", "git_log", {"repo_path": "REPO"}, "first"),
}
# Time limit of a command in seconds, which may download.
TIMEOUT = 600


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    extra = [str(directory) for directory in Path(arguments.installed).resolve().glob("*/bin")]
    path = os.pathsep.join([*extra, os.environ["PATH"]])
    with TemporaryDirectory(prefix="mcpd-kept-") as name:
        home = Path(name).resolve()
        kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        environment = kept | {"HOME": name, "PATH": path, "XDG_RUNTIME_DIR": name, "TMPDIR": "/tmp"}
        places = {"DIR": home / "notes", "REPO": home / "repo"}
        places["DIR"].mkdir()
        (places["DIR"] / "note.txt").write_text("a note\n")
        commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first"]
        subprocess.run(["git", "init", "-q", str(places["REPO"])], check=True)
        subprocess.run(["git", "-C", str(places["REPO"]), *commit], check=True)

        def run(*words):
            line = [str(arguments.mcpd.resolve()), *words]
            return subprocess.run(line, env=environment, cwd=home, capture_output=True, text=True, timeout=TIMEOUT)

        try:
            for server, (line, tool, values, part) in SERVERS.items():
                if not shutil.which(line.split()[0], path=path):
                    print(f"skipped: there is no {line.split()[0]}")
                    continue
                with report.check(f"mcpd try: `{line}` is kept, and works with its grants"):
                    check(run, server, filled(line, places).split(), tool, json.loads(filled(json.dumps(values), places)), part)
        finally:
            run("stop")


def filled(text, places):
    return re.sub("DIR|REPO", lambda name: str(places[name[0]]), text)


def check(run, server, line, tool, values, part):
    # How a package index is reached is no secret, and a server on trial has no other variable.
    passed = [word for key, value in os.environ.items() if re.match("UV_|SSL_CERT", key) for word in ("--env", f"{key}={value}")]
    tried = run("try", "--yes", "--json", "--no-reload", *passed, *line, "--keep", server)
    assert tried.returncode == 0, (tried.stdout, tried.stderr)
    receipt = json.loads(tried.stdout)
    assert receipt["kept"]["pinned"] and receipt["kept"]["approved"] > 0, receipt["kept"]
    run("start")
    applied = run("reload")
    assert applied.returncode == 0, applied.stderr
    # Its package is installed once more, in its own directory.
    deadline = time.monotonic() + TIMEOUT
    while True:
        called = run("call", f"{server}__{tool}", json.dumps(values))
        if "not sent" not in called.stderr or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert called.returncode == 0 and part in called.stdout, (called.stdout, called.stderr)
    state = next(one for one in json.loads(run("status", "--json").stdout)["servers"] if one["name"] == server)
    assert state["sandbox"]["level"] == "files" and "changes" not in state, state


main()
