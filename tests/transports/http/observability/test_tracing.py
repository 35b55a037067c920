"""OpenTelemetry spans, as a collector sees them."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.transports.program import (
    README,
    Program,
    message,
    modern,
    project,
    read,
    request,
    running,
)

COLLECTOR = """
import json, sys
from opentelemetry import trace

class Span(trace.NonRecordingSpan):
    def __init__(self, name, context, kind, attributes):
        self.parent = trace.get_current_span(context).get_span_context()
        self.trace_id = self.parent.trace_id or 7
        super().__init__(trace.SpanContext(self.trace_id, 8, False))
        self.told = {"name": name, "kind": kind.name, "status": "UNSET", "attributes": attributes}
    def set_attribute(self, key, value): self.told["attributes"][key] = value
    def set_status(self, status, description=None): self.told["status"] = status.name
    def end(self, end_time=None):
        parent = f"{self.parent.trace_id:032x}-{self.parent.span_id:016x}"
        print(json.dumps({**self.told, "parent": parent}), file=sys.stderr, flush=True)

class Tracer(trace.NoOpTracer):
    def start_span(self, name, context=None, kind=None, attributes=None, **_):
        return Span(name, context, kind, dict(attributes))

class Provider(trace.TracerProvider):
    def get_tracer(self, *_, **__): return Tracer()

trace.set_tracer_provider(Provider())
"""
INSIDE = """
from resource_server.providers.filesystem import Filesystem
fetch = Filesystem.fetch
def fetched(self, *arguments):
    print("inside", trace.get_current_span().get_span_context().trace_id, file=sys.stderr)
    return fetch(self, *arguments)
Filesystem.fetch = fetched
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
OTHER = "11111111111111111111111111111111-2222222222222222"
NONE = f"{0:032x}-{0:016x}"


def spans(program: Program) -> list[Any]:
    """End the program, and return the spans that it has made."""
    assert program.end(signal.SIGTERM) == 0
    return [json.loads(line) for line in program.errors if line.startswith("{")]


def test_a_request_is_one_span_that_names_no_resource(tmp_path: Path) -> None:
    with running(project(tmp_path), code=COLLECTOR) as program:
        program.read(README)
        program.ask(modern("resources/read", {"uri": "file:///project/none"}))
        session = program.session("2025-06-18")
        session.post(read(README), mcp_protocol_version="2025-06-18")
        program.ask(request("GET", path="/healthz"))
        found = spans(program)
    about = {"url.scheme": "file", "resource_server.mount": "project"}
    assert found == [
        {
            "name": name,
            "kind": "SERVER",
            "status": status,
            "attributes": {"mcp.method.name": name, **attributes},
            "parent": NONE,
        }
        for name, status, attributes in (
            (
                "resources/read",
                "UNSET",
                {
                    "mcp.protocol.version": "2026-07-28",
                    **about,
                    "http.response.status_code": 200,
                },
            ),
            (
                "resources/read",
                "ERROR",
                {
                    "mcp.protocol.version": "2026-07-28",
                    **about,
                    "http.response.status_code": 400,
                    "rpc.response.status_code": "-32602",
                    "error.type": "-32602",
                },
            ),
            ("initialize", "UNSET", {"http.response.status_code": 200}),
            ("notifications/initialized", "UNSET", {"http.response.status_code": 202}),
            (
                "resources/read",
                "UNSET",
                {
                    "mcp.protocol.version": "2025-06-18",
                    **about,
                    "http.response.status_code": 200,
                },
            ),
        )
    ]


@pytest.mark.parametrize(
    ("meta", "header", "parent"),
    [
        (None, None, NONE),
        (TRACE, None, TRACE),
        (None, TRACE, TRACE),
        (TRACE, OTHER, TRACE),
        ("nonsense", None, NONE),
    ],
)
def test_a_span_belongs_to_the_trace_of_the_client(
    tmp_path: Path, meta: str | None, header: str | None, parent: str
) -> None:
    carried = {} if meta is None else {"_meta": {"traceparent": f"00-{meta}-01"}}
    headers = {} if header is None else {"traceparent": f"00-{header}-01"}
    with running(project(tmp_path), code=COLLECTOR) as program:
        program.ask(modern("server/discover", carried, **headers))
        [found] = spans(program)
    assert found["parent"] == parent


def test_a_provider_runs_within_the_span_of_its_request(tmp_path: Path) -> None:
    with running(project(tmp_path), code=COLLECTOR + INSIDE) as program:
        ids = ("a" * 32, "b" * 32)
        with program.line() as line:
            for id in (*ids, None):
                headers = {} if id is None else {"traceparent": f"00-{id}-{'1' * 16}-01"}
                line.ask(modern("resources/read", {"uri": README}, **headers))
        spans(program)
        inside = [line.split()[1] for line in program.errors if line.startswith("inside")]
    assert inside == [*(str(int(id, 16)) for id in ids), "7"]


def test_an_invalid_message_makes_a_span_named_other(
    tmp_path: Path,
) -> None:
    with running(project(tmp_path), code=COLLECTOR) as program:
        for body in (b"{", message("tools/secret"), {"params": {"_meta": 5}}):
            program.ask(request("POST", body))
        found = spans(program)
    assert [(span["name"], span["status"]) for span in found] == [("other", "ERROR")] * 3


def test_opentelemetry_is_not_loaded_without_a_collector(tmp_path: Path) -> None:
    loaded = "[name for name in sys.modules if name.startswith('opentelemetry')]"
    told = f"import atexit, sys\natexit.register(lambda: print({loaded}, file=sys.stderr))"
    with running(project(tmp_path), code=told) as program:
        program.read(README)
        assert program.end(signal.SIGTERM) == 0
        assert program.errors == ["[]\n"]
