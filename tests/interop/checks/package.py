"""Checks the Debian package: installs it below a separate directory, runs its programs, and removes it."""

import argparse
import os
import shutil
import stat
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from daemon import Daemon, Server
from results import Results

SHELLS = {
    "bash": ("usr/share/bash-completion/completions/mcpd", ["-c", 'source "$0" && complete -p mcpd >/dev/null']),
    "zsh": ("usr/share/zsh/vendor-completions/_mcpd", ["-n"]),
    "fish": ("usr/share/fish/vendor_completions.d/mcpd.fish", ["--no-execute"]),
}


class Root:
    """A directory that dpkg uses as the root of the system."""

    def __init__(self, path):
        self.path = Path(path)
        (self.path / "var/lib/dpkg/info").mkdir(parents=True)
        (self.path / "var/lib/dpkg/status").touch()
        # As where AppArmor knows the rules of the profile.
        self.profiles = self.path / "etc/apparmor.d"
        (self.profiles / "abi").mkdir(parents=True)
        (self.profiles / "abi/4.0").touch()

    def dpkg(self, *arguments):
        # What it is not root for, it has to be root of something for.
        alone = [] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user"]
        options = [f"--root={self.path}", f"--log={self.path}/log", "--force-not-root"]
        # The C library and the shell are the machine's own: there is no record of the one here, and no file of the other.
        options += ["--force-depends", "--force-script-chrootless"]
        finished = subprocess.run([*alone, "dpkg", *options, *arguments], capture_output=True, text=True, timeout=60)
        assert finished.returncode == 0, finished.stdout + finished.stderr

    def files(self):
        """All but dpkg's own and AppArmor's, by their paths from here."""
        below = (path.relative_to(self.path) for path in self.path.rglob("*"))
        return {path for path in below if path.parts[0] not in ("var", "log", "etc")}


def quiet(*command, **more):
    """Runs a command that prints nothing on success."""
    finished = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, **more)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", ""), finished


def check_files(root):
    """has files below /usr, which only root can change"""
    everything = root.files()
    assert all(path.parts[0] == "usr" for path in everything), everything
    for path in everything:
        status = (root.path / path).lstat()
        assert status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID), path


def check_profile(root):
    """installs a profile for AppArmor, and runs no other script"""
    scripts = {path.suffix for path in (root.path / "var/lib/dpkg/info").glob("mcpd.*")} - {".list", ".md5sums"}
    assert scripts == {".postinst", ".postrm"}, scripts
    written = {path.name for path in root.profiles.rglob("*") if path.is_file()}
    assert written == {"mcpd", "4.0"}, written
    assert "profile mcpd /usr/bin/mcpd" in (root.profiles / "mcpd").read_text()


def check_serving(root):
    """serves, with what it is linked to here"""
    mcpd = root.path / "usr/bin/mcpd"
    with Daemon(mcpd, {"demo": Server([str(mcpd), "demo-server"])}) as daemon:
        finished = subprocess.check_output([mcpd, "tools", "--runtime-dir", daemon.runtime], text=True, timeout=60)
        assert "demo__" in finished, finished


def check_units(root):
    """has units that systemd has nothing to say about"""
    program = "/usr/bin/mcpd"
    units = sorted((root.path / "usr/lib/systemd/user").iterdir())
    assert {"mcpd.service", "mcpd.socket"} <= {unit.name for unit in units}, units
    with TemporaryDirectory() as directory:
        copies = [Path(directory) / unit.name for unit in units]
        for unit, copy in zip(units, copies):
            text = unit.read_text()
            assert ".cargo" not in text and (program in text or unit.suffix != ".service"), text
            # Verification requires the program.
            copy.write_text(text.replace(program, f"{root.path}{program}"))
        quiet("systemd-analyze", "--user", "--man=no", "verify", *copies, env={**os.environ, "XDG_RUNTIME_DIR": directory})


def check_manual(root):
    """has manual pages that are set without a warning"""
    pages = sorted((root.path / "usr/share/man/man1").glob("*.1.gz"))
    assert {"mcpd.1.gz", "mcpd-serve.1.gz", "mcpd-connect.1.gz"} <= {page.name for page in pages}, pages
    if not shutil.which("man"):
        print("skipped: manual pages are not set without man")
        return
    for page in pages:
        command = ["man", "--warnings", "--encoding=UTF-8", "--local-file", str(page)]
        finished = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MANWIDTH": "100"}, timeout=60)
        assert finished.returncode == 0 and finished.stderr == "" and "NAME" in finished.stdout, finished


def check_completions(root):
    """has completions that their shells can read"""
    for shell, (script, arguments) in SHELLS.items():
        path = root.path / script
        assert path.stat().st_size > 0
        if shutil.which(shell):
            quiet(shell, *arguments, path)
        else:
            print(f"skipped: completions are not read by {shell}, which is not there")


def check_example(root):
    """has an example of a configuration that holds"""
    example = root.path / "usr/share/doc/mcpd/examples/mcpd.toml"
    subprocess.run([root.path / "usr/bin/mcpd", "check", example], check=True, stdout=subprocess.DEVNULL, timeout=60)


CHECKS = [check_files, check_profile, check_serving, check_units, check_manual, check_completions, check_example]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("package", type=Path)
    arguments = parser.parse_args()
    results = Results(arguments.results)
    with TemporaryDirectory(prefix="mcpd-package-") as directory:
        root = Root(directory)
        with results.check("the Debian package can be installed"):
            root.dpkg("--install", str(arguments.package))
        for check in CHECKS:
            with results.check(f"the Debian package {check.__doc__}"):
                check(root)
        with results.check("the Debian package leaves nothing when it is removed"):
            root.dpkg("--purge", "mcpd")
            assert not root.files() and not (root.profiles / "mcpd").exists(), root.files()


main()
