"""Another machine, played by this one: an `sshd` on loopback with keys and settings of its own, as an ordinary process."""

import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import processes
from daemon import eventually, free_port

SSHD = shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"]))
# Where sshd confines itself if root starts it.
PRIVILEGE_SEPARATION = Path("/run/sshd")

DAEMON = """
ListenAddress 127.0.0.1:{port}
HostKey {directory}/host
AuthorizedKeysFile {directory}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
# The user's own home directory stays as it is.
SetEnv HOME={directory} XDG_RUNTIME_DIR={directory}
"""
CLIENT = """
Host far
HostName 127.0.0.1
Port {port}
User {user}
IdentityFile {directory}/user
IdentitiesOnly yes
UserKnownHostsFile {directory}/known
GlobalKnownHostsFile none
BatchMode yes
ServerAliveInterval 1
ServerAliveCountMax 3
ExitOnForwardFailure yes
StreamLocalBindUnlink yes
"""


def missing():
    """Why there can be no such machine here, if so."""
    absent = [name for name in ("ssh", "ssh-keygen") if not shutil.which(name)] + ([] if SSHD else ["sshd"])
    return f"this machine has no {' or '.join(absent)}" if absent else None


class Host:
    """Reachable as `far` between `with` and its end."""

    def __init__(self):
        self._directory = Path(tempfile.mkdtemp(prefix="mcpd-ssh-"))
        self.directory = str(self._directory)
        names = {"port": free_port(), "user": pwd.getpwuid(os.getuid()).pw_name, "directory": self.directory}
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._directory / name], check=True)
        key = (self._directory / "host.pub").read_text()
        (self._directory / "known").write_text(f"[127.0.0.1]:{names['port']} {key}")
        (self._directory / "sshd_config").write_text(DAEMON.format(**names))
        (self._directory / "config").write_text(CLIENT.format(**names))
        self._process = None

    def __enter__(self):
        if os.getuid() == 0:
            PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        with (self._directory / "log").open("w") as log:
            command = [SSHD, "-D", "-e", "-f", self._directory / "sshd_config"]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        eventually(self._is_listening, "sshd listens")
        return self

    def __exit__(self, *_):
        left = self.processes()
        self._process.kill()
        self._process.wait()
        _signal(left, signal.SIGKILL)
        shutil.rmtree(self._directory)

    def ssh(self, *options):
        """The start of a command line that leads there."""
        return ["ssh", "-F", f"{self.directory}/config", *options, "far"]

    def running(self, command):
        """The command line that runs a command there."""
        return [*self.ssh("-T", "-S", "none"), "exec", shlex.join(command)]

    def processes(self):
        """Those of sshd, and all that it has started and that has not been orphaned."""
        return processes.descendants(self._process.pid)

    @contextmanager
    def silence(self):
        """Within, nothing comes from the other machine, and it notices nothing."""
        silent = [process for process in self.processes() if process.arguments()[0].startswith("sshd")]
        assert silent, "there is no connection"
        _signal(silent, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(silent, signal.SIGCONT)

    @contextmanager
    def forwarding(self, here, there):
        """Within, a Unix socket here leads to one there."""
        with subprocess.Popen(self.ssh("-N", "-L", f"{here}:{there}")) as ssh:
            try:
                eventually(lambda: _accepts(here), "the socket is forwarded")
                yield
            finally:
                ssh.kill()

    def log(self):
        return (self._directory / "log").read_text()

    def _is_listening(self):
        assert self._process.poll() is None, f"sshd ended with {self._process.returncode}: {self.log()}"
        return "Server listening" in self.log()


def _accepts(path):
    with socket.socket(socket.AF_UNIX) as agent:
        return agent.connect_ex(str(path)) == 0


def _signal(those, number):
    for process in those:
        # It may have ended meanwhile.
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
