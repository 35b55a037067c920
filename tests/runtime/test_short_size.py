"""Numbers of bytes for people."""

from __future__ import annotations

from resource_server.runtime.short_size import short_size
from tests.cases import for_each


@for_each(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0K"),
        (1023, "1.0K"),
        (10_137, "9.9K"),
        (10_200, "10K"),
        (1024**2 - 1, "1.0M"),
        (5 * 1024**3, "5.0G"),
    ],
)
def test_human_readable_sizes_are_short(count: int, text: str) -> None:
    assert short_size(count) == text
