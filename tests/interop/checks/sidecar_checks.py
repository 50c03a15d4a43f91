"""Checks mcpd as the sidecar of an agent: schemas of Kubernetes accept examples/scale/pod.yaml. Its containers run here, with users and
namespaces of their own, and reach only what they should."""

import subprocess
from pathlib import Path

import kubernetes_validate
import yaml

import containers
import lines
import processes
import results
from daemon import eventually

MANIFEST = Path(__file__).parents[3] / "examples/scale/pod.yaml"
# The first in which sidecars are on without being asked for, and the newest.
VERSIONS = ["1.29", kubernetes_validate.latest_version()]
SECRET = "top-secret-token"
STRANGER = 10003


def documents():
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


def schema_accepts(version):
    for document in documents().values():
        kubernetes_validate.validate(document, version, strict=True)
    mistaken = documents()["Pod"]
    mistaken["spec"]["containers"][0]["volumeMount"] = []
    try:
        kubernetes_validate.validate(mistaken, version, strict=True)
    except kubernetes_validate.ValidationError:
        return
    raise AssertionError("the schema accepts a mistake")


def agent_command(*words):
    """How the manifest has the agent connect, for another command of mcpd."""
    return ["mcpd", *words, "--daemon-uid", "10001", "--runtime-dir", "/run/mcpd", "--profile", "agent"]


def lists_profile(agent, _mcpd):
    """lists the tools of its profile alone, and calls them"""
    listed = agent.run(agent_command("tools"))
    assert listed.returncode == 0 and "demo__echo" in listed.stdout and "delete" not in listed.stdout, listed
    called = agent.run(agent_command("call", "demo__echo", "text=hello"))
    assert (called.returncode, called.stdout) == (0, "hello\n"), called
    denied = agent.run(agent_command("call", "demo__delete_everything"))
    assert denied.returncode == 1 and "Unknown tool" in denied.stderr, denied
    variables = agent.run(agent_command("call", "demo__variables"))
    assert "TOKEN" in variables.stdout, "the server has its secret"


def reaches_nothing_else(agent, mcpd):
    """reaches neither mcpd's directory with the operator's socket, nor secrets, nor servers"""
    assert agent.run(["ls", "-A", "/run/mcpd"]).stdout == "agent.sock\nown\n"
    for refused in (
        ["ls", "/run/mcpd/own"],
        ["mcpd", "status", "--runtime-dir", "/run/mcpd/own"],
        ["mcpd", "tools", "--runtime-dir", "/run/mcpd/own"],
        ["cat", "/run/secrets/mcpd/token"],
        ["cat", "/etc/mcpd/config.toml"],
        ["ls", "/home/mcpd"],
        ["rm", "/run/mcpd/agent.sock"],
        ["ln", "-s", "/tmp/other", "/run/mcpd/other.sock"],
    ):
        tried = agent.run(refused)
        assert tried.returncode != 0 and tried.stdout == "", tried
    # mcpd itself would be allowed to, so the container is what refuses.
    assert mcpd.inside(["mcpd", "status", "--runtime-dir", "/run/mcpd/own"]).returncode == 0
    assert mcpd.inside(["cat", "/run/secrets/mcpd/token"]).stdout == SECRET


def touches_no_process(agent, mcpd):
    """neither reads nor ends mcpd and its servers, even if the pod shares processes"""
    seen = agent.run(["sh", "-c", "ls /proc | grep -c '^[0-9]'"])
    # The shell, ls and grep.
    assert int(seen.stdout) <= 3, seen
    family = mcpd.processes()
    assert any("demo-server" in process.arguments() for process in family), family
    for process in family:
        for refused in (["cat", f"/proc/{process.pid}/environ"], ["kill", "-9", str(process.pid)]):
            command = ["sh", "-c", f"exec 2>&1; {' '.join(refused)}"]
            tried = agent.run(command, shares_processes=True)
            assert tried.returncode != 0 and SECRET not in tried.stdout, tried
            assert "ermi" in tried.stdout, tried
        assert process.is_running()


def refuses_strangers(agent, _mcpd):
    """is the only user that mcpd admits"""
    refused = agent.run(agent_command("tools"), user=STRANGER)
    assert refused.returncode != 0 and refused.stdout == "", refused


def survives_restart(agent, mcpd):
    """goes on after mcpd's container was killed and started again"""
    connect = agent.running(agent_command("connect"))
    with subprocess.Popen(connect, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        peer = lines.Peer(process.stdout, process.stdin).shake_hands()
        call = {"name": "demo__echo", "arguments": {"text": "hello"}}
        before = peer.ask("tools/call", call, 1)[-1]
        family = mcpd.processes()
        mcpd.kill()
        eventually(lambda: not any(process.is_running() for process in family), "all of the container has ended")
        mcpd.start()
        after = peer.ask("tools/call", call, 1)[-1]
        assert b"hello" in before and before == after, (before, after)
        process.stdin.close()
        assert process.wait(containers.TIMEOUT) == 0


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    for version in VERSIONS:
        with report.check(f"sidecar: the schema of Kubernetes {version} accepts the pod"):
            schema_accepts(version)
    if missing := containers.missing():
        print(f"skipped: the containers of the sidecar do not run: {missing}")
        return
    config_map = documents()["ConfigMap"]
    config_maps = {config_map["metadata"]["name"]: config_map["data"]}
    programs = [arguments.mcpd, arguments.mcpd.with_name("mcpd-init")]
    with containers.Pod(documents()["Pod"], config_maps, {"mcpd-secrets": {"token": SECRET}}, programs) as pod:
        agent, mcpd = pod.container("agent"), pod.container("mcpd")
        mcpd.start()
        for check in (lists_profile, reaches_nothing_else, touches_no_process, refuses_strangers, survives_restart):
            with report.check(f"sidecar: the agent {check.__doc__}"):
                check(agent, mcpd)


if __name__ == "__main__":
    main()
