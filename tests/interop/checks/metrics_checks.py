"""Reads the metrics of mcpd with the parsers of the Python client of Prometheus, in both formats, after real calls."""

import subprocess
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

import lines
import results
from daemon import Daemon
from software import Software

# The tool that is called, and how often.
TOOL, CALLS = "echo", 5


def fetched(daemon, accept):
    """The body and the media type of `/metrics`."""
    headers = {"Authorization": f"Bearer {daemon.token()}", "Accept": accept}
    request = urllib.request.Request(f"http://127.0.0.1:{daemon.port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read().decode(), reply.headers["Content-Type"]


def check_values(families):
    """What the parser has read is what was done."""
    by_name = {family.name: family for family in families}
    histogram = by_name["mcp_server_operation_duration_seconds"]
    assert histogram.type == "histogram" and histogram.documentation, histogram
    counts = [
        sample.value
        for sample in histogram.samples
        if sample.name.endswith("_count") and sample.labels.get("gen_ai_tool_name") == TOOL
    ]
    assert counts == [CALLS], counts
    (up,) = by_name["mcpd_server_up"].samples
    assert (up.labels, up.value) == ({"mcpd_server": "everything"}, 1), up
    assert by_name["mcpd_server_memory_bytes"].samples[0].value > 1 << 20
    assert by_name["mcpd_server_cpu_seconds"].type == "counter"


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    servers = {"everything": Software(arguments.installed).node("everything")}
    with Daemon(arguments.mcpd.resolve(), servers, has_loopback=True) as daemon, lines.daemon(daemon.socket) as agent:
        for number in range(CALLS):
            agent.ask("tools/call", {"name": f"everything__{TOOL}", "arguments": {"message": str(number)}}, number + 1)
        with report.check("metrics: the parser of prometheus_client reads what `mcpd metrics` prints"):
            command = [daemon.mcpd, "metrics", "--runtime-dir", str(daemon.runtime)]
            text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
            check_values(list(prometheus(text)))
        for accept, parse in (("text/plain", prometheus), ("application/openmetrics-text; version=1.0.0", open_metrics)):
            with report.check(f"metrics: the parser of prometheus_client reads `/metrics` as {accept}"):
                text, media = fetched(daemon, accept)
                assert media.startswith(accept.split(";")[0]), media
                check_values(list(parse(text)))


main()
