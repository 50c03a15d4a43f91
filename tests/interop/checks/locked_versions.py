"""Checks that `mcpd lock` writes the version that a real runner starts, with other versions in its cache, and that the locked command line starts
it without a network. Runners that are not installed are skipped."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import results

# Small programs that print their version, with an old version of each.
NPM = ("semver", "7.5.4", ["--help"], r"SemVer (\S+)")
PYPI = ("pyflakes", "3.1.0", ["--version"], r"^(\S+)")
# Each runner with its words before the package, how it names a version, and what makes it work without a network.
RUNNERS = {
    "npx": (["-y"], "@", NPM, {"npm_config_offline": "true"}),
    "pnpm": (["dlx"], "@", NPM, {}),
    "bunx": ([], "@", NPM, {}),
    "uvx": ([], "@", PYPI, {"UV_OFFLINE": "1"}),
    "pipx": (["run"], "==", PYPI, {}),
}
# Time limit of a run, which may download.
TIMEOUT = 180


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    extra = [str(directory) for directory in Path(arguments.installed).resolve().glob("*/bin")]
    path = os.pathsep.join([*extra, os.environ["PATH"]])
    for runner in RUNNERS:
        if shutil.which(runner, path=path):
            with report.check(f"mcpd lock: the version that {runner} starts is written"):
                check(arguments.mcpd.resolve(), runner, path)
        else:
            print(f"skipped: there is no {runner}")


def check(mcpd, runner, path):
    words, sign, (package, old, version_options, pattern), offline = RUNNERS[runner]
    with TemporaryDirectory(prefix="mcpd-lock-") as name:
        home = Path(name).resolve()
        # Certificates and proxies stay.
        kept = {key: value for key, value in os.environ.items() if not re.match(r"XDG_|UV_C|UV_T|npm_config_(cache|prefix)|BUN_|PIPX_", key)}
        environment = kept | {"HOME": name, "PATH": path, "XDG_RUNTIME_DIR": name, "TMPDIR": name}

        def version(word, more={}):
            line = [runner, *words, word, *version_options]
            ran = subprocess.run(line, env=environment | more, cwd=home, check=True, capture_output=True, text=True, timeout=TIMEOUT)
            return re.search(pattern, ran.stdout, re.MULTILINE)[1]

        assert version(f"{package}{sign}{old}") == old
        newest = version(package)
        assert newest != old, newest
        # The old version is the last one that was used.
        assert version(f"{package}{sign}{old}") == old
        config = home / "config.toml"
        args = json.dumps([*words, package])
        config.write_text(f'[servers.s]\ncommand = "{runner}"\nargs = {args}\n')
        lock = [str(mcpd), "lock", "--yes", "--json", "--config", str(config)]
        report = subprocess.run(lock, env=environment, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout
        entry = json.loads(report)["packages"][0]
        assert (entry["state"], entry["version"]) == ("written", newest), entry
        written = re.search(r'"([^"]*)"\]$', config.read_text(), re.MULTILINE)[1]
        assert version(written, offline) == newest, written


main()
