"""A pod as Kubernetes would run it: each container has a root, mounts, processes and a user of its own. Needs root."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import processes
from daemon import eventually

NAMESPACES = ["unshare", "--mount", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private"]
# Time limit of one command.
TIMEOUT = 60
# Makes the root at $0 from the machine's own programs. The container's mounts follow.
ROOT = """set -e
mount -t tmpfs -o mode=755 root "$0"
mkdir "$0/dev" "$0/etc" "$0/proc" "$0/run" "$0/usr" "$0/opt"
mkdir -m 1777 "$0/tmp"
mount --rbind -o ro /usr "$0/usr"
for directory in bin lib lib64 sbin; do
    if [ -L "/$directory" ]; then cp -P "/$directory" "$0"
    elif [ -d "/$directory" ]; then mkdir "$0/$directory"; mount --rbind -o ro "/$directory" "$0/$directory"; fi
done
for device in null zero random urandom; do touch "$0/dev/$device"; mount --bind "/dev/$device" "$0/dev/$device"; done
mount -t proc proc "$0/proc"
mkdir -p "$0/opt/bin"
mount --bind "$1" "$0/opt/bin"
"""
# Where the programs under test are in each container.
PATH = "/opt/bin:/usr/local/bin:/usr/bin:/bin"


def missing():
    """Why no pod can run here, if so."""
    if os.getuid() != 0:
        return "only root can give each container a user"
    if absent := [name for name in ("unshare", "setpriv", "mount") if not shutil.which(name)]:
        return f"this machine has no {' or '.join(absent)}"
    tried = subprocess.run([*NAMESPACES, "mount", "-t", "tmpfs", "tried", "/mnt"], capture_output=True, text=True)
    return tried.stderr.strip() or None if tried.returncode else None


class Pod:
    """What a manifest describes, between `with` and its end. `programs` are in the PATH of each container."""

    def __init__(self, manifest, config_maps, secrets, programs):
        self.spec = manifest["spec"]
        self._directory = Path(tempfile.mkdtemp(prefix="mcpd-pod-"))
        self._directory.chmod(0o755)
        self.programs = self._directory / "programs"
        self.programs.mkdir()
        for program in programs:
            shutil.copy(program, self.programs)
        self._group = self.spec["securityContext"]["fsGroup"]
        self.volumes = {volume["name"]: self._volume(volume, config_maps, secrets) for volume in self.spec["volumes"]}
        self.containers = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for container in self.containers.values():
            container.kill()
        shutil.rmtree(self._directory)

    def container(self, name):
        if name not in self.containers:
            described = [*self.spec["initContainers"], *self.spec["containers"]]
            root = self._directory / f"root-{name}"
            root.mkdir()
            self.containers[name] = Container(self, next(one for one in described if one["name"] == name), root, self._group)
        return self.containers[name]

    def _volume(self, volume, config_maps, secrets):
        path = self._directory / volume["name"]
        path.mkdir()
        mode, files = 0o644, {}
        if "configMap" in volume:
            files = config_maps[volume["configMap"]["name"]]
        elif "secret" in volume:
            mode, files = volume["secret"]["defaultMode"], secrets[volume["secret"]["secretName"]]
        for name, text in files.items():
            (path / name).write_text(text)
            os.chown(path / name, 0, self._group)
            (path / name).chmod(mode)
        os.chown(path, 0, self._group)
        path.chmod(0o2777)
        return path


class Container:
    """One of a pod. It runs its command from `start` to `kill`."""

    def __init__(self, pod, described, root, group):
        self._described, self._pod, self._root, self._group = described, pod, root, group
        self._process = None

    def start(self):
        """Runs the command, and then its hook, as at each start."""
        self._process = subprocess.Popen(self._entering(NAMESPACES, self._described["command"]), stdin=subprocess.DEVNULL)
        hook = self._described["lifecycle"]["postStart"]["exec"]["command"]
        eventually(lambda: self.inside(hook).returncode == 0, "the hook is done")

    def kill(self):
        """Ends its process 1, and so all others."""
        if self._process:
            for first in processes.children(self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(first.pid, signal.SIGKILL)
            self._process.wait(TIMEOUT)
            self._process = None

    def processes(self):
        return processes.descendants(self._process.pid)

    def inside(self, command):
        """Runs a command among the container's processes."""
        entering = ["nsenter", f"--target={self._first()}", "--mount", "--ipc", "--pid", "--root", "--wd"]
        return _run([*entering, *self._as_user(command)])

    def _first(self):
        """Its process 1, once that is in the root of the container."""

        def is_inside():
            assert self._process.poll() is None, f"the container has ended with {self._process.returncode}"
            return [one.pid for one in processes.children(self._process.pid) if Path(f"/proc/{one.pid}/root/opt/bin").exists()]

        return eventually(is_inside, "the container runs")[0]

    def running(self, command, user=None, shares_processes=False):
        """The command line that runs a command in the container; if it shares processes, it sees those of all containers."""
        namespaces = [option for option in NAMESPACES if not shares_processes or option not in ("--pid", "--fork", "--kill-child")]
        return self._entering(namespaces, command, user)

    def run(self, command, **more):
        return _run(self.running(command, **more))

    def _entering(self, namespaces, command, user=None):
        script = [ROOT]
        for mount in self._described["volumeMounts"]:
            source, target = self._pod.volumes[mount["name"]], f"{self._root}{mount['mountPath']}"
            script.append(f"mkdir -p {shlex.quote(target)}; mount --bind {shlex.quote(str(source))} {shlex.quote(target)}")
            if mount.get("readOnly"):
                script.append(f"mount -o remount,bind,ro {shlex.quote(target)}")
        script.append('mount -o remount,ro "$0"')
        script.append(f'cd /; exec chroot "$0" {shlex.join(self._as_user(command, user))}')
        return [*namespaces, "sh", "-c", "\n".join(script), str(self._root), str(self._pod.programs)]

    def _as_user(self, command, user=None):
        user = str(user or self._described["securityContext"]["runAsUser"])
        rights = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        identity = [f"--reuid={user}", "--regid=0", f"--groups={self._group}"]
        environment = [f"{one['name']}={one['value']}" for one in self._described.get("env", [])]
        return ["setpriv", *identity, *rights, "env", "-i", f"PATH={PATH}", *environment, *command]


def _run(command):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
