"""Checks spans: a collector that decodes them by the messages of OpenTelemetry, and an agent whose SDK sends its trace."""

import json
import random
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

import results
import sdk
import transport
from daemon import LINES, Daemon, Server, eventually

HERE = Path(__file__).parent
CANARY = "canary-1f0c"
SERVER, CLIENT = Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT


class Collector:
    """What it has received is in `requests`."""

    def __init__(self):
        self.requests, self.bodies = [], []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                assert (self.path, self.headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
                collector.bodies.append(body)
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._http.server_address[1]}"

    @contextmanager
    def serving(self):
        thread = threading.Thread(target=self._http.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()

    def spans(self):
        resources = [one for request in self.requests for one in request.resource_spans]
        return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]


def attributes(one):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in one.attributes}


def expect_known(message):
    """Each field of the message and of those in it has a number and a type that OpenTelemetry knows."""
    assert not UnknownFieldSet(message), f"unknown fields in {message}"
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if field.is_repeated else [value]:
                expect_known(inner)


async def call(daemon, trace_id, span_id):
    """A call of an agent within a span."""
    context = trace.SpanContext(trace_id, span_id, is_remote=False, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED))
    async with sdk.connect(transport.connecting(daemon.address(LINES))) as agent:
        with trace.use_span(trace.NonRecordingSpan(context)):
            await agent.call("raw__echo", {"text": CANARY})


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    trace_id, span_id = random.getrandbits(128) | 1, random.getrandbits(64) | 1
    with TemporaryDirectory() as directory, Collector().serving() as collector:
        log = Path(directory) / "received"
        command = [str(HERE.parent / "tee.sh"), str(log), sys.executable, str(HERE / "raw_echo.py")]
        settings = f'[daemon]\notlp_endpoint = "{collector.endpoint}"\n'
        with Daemon(arguments.mcpd, {"raw": Server(command)}, settings) as daemon:
            with report.check("traces: spans of a call belong to the trace that the agent's SDK sends, and so does its server"):
                anyio.run(call, daemon, trace_id, span_id)
                spans = eventually(lambda: len(collector.spans()) == 2 and collector.spans(), "both spans are there")
                outer, inner = sorted(spans, key=lambda span: span.kind)
                assert (outer.kind, inner.kind) == (SERVER, CLIENT), spans
                assert {span.trace_id for span in spans} == {trace_id.to_bytes(16, "big")}, spans
                assert (outer.parent_span_id, inner.parent_span_id) == (span_id.to_bytes(8, "big"), outer.span_id), spans
                [received] = [line for line in map(json.loads, log.read_text().splitlines()) if line["method"] == "tools/call"]
                expected = f"00-{trace_id:032x}-{inner.span_id.hex()}-01"
                assert received["params"]["_meta"]["traceparent"] == expected, received
            with report.check("traces: OpenTelemetry's own messages have each field and no argument is in them"):
                for request in collector.requests:
                    expect_known(request)
                assert (outer.name, inner.name) == ("tools/call raw__echo", "tools/call echo"), spans
                for span in spans:
                    found = attributes(span)
                    assert found["mcp.method.name"] == "tools/call" and found["mcpd.server"] == "raw", found
                    assert span.status.code == Status.STATUS_CODE_UNSET, span
                    assert 0 < span.end_time_unix_nano - span.start_time_unix_nano < 600 * 10**9, span
                [resource] = {request.resource_spans[0].resource.SerializeToString() for request in collector.requests}
                assert b"service.name" in resource, resource
                assert not any(CANARY.encode() in body for body in collector.bodies)


main()
