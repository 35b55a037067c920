"""What monitoring asks of a program over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from tests.transports.program import Answer, Program, request

GIVEN = "0123456789abcdef"
BEARER = {"authorization": f"Bearer {GIVEN}"}
FORWARDED = {"x-forwarded-for": "192.0.2.7"}


def get(program: Program, path: str, **headers: str) -> Answer:
    return program.ask(request("GET", path=path, **headers))


def metrics(program: Program) -> Mapping[str, float]:
    """Return the values of all metrics, by their names and labels."""
    answer = get(program, "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
