"""Windows of a text that is longer than they are, from any place of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from resource_server.conversion.pool import Conversion
from resource_server.conversion.registry import PLAIN_TEXT
from resource_server.conversion.text_window import TextWindow
from resource_server.documents.ranges import wanted_range
from resource_server.provider import Content
from resource_server.provider.conversion import ConversionRequest, Part
from resource_server.providers.filesystem import converted_range
from resource_server.providers.filesystem.conversion_query import Wanted
from resource_server.runtime.document_range import Range

PARTS = st.lists(st.text("a\n\0éx😀\ud800", max_size=60), min_size=1, max_size=5)
ROOM = st.integers(24, 60)


def window(parts: Sequence[str], start: Range, room: int, mime_type: str) -> Conversion:
    found = TextWindow(start, room)
    place = found.take(Part(text, mime_type=mime_type) for text in parts)
    return Conversion((Part(found.text, mime_type=mime_type),), found.is_cut, place)


def read(parts: Sequence[str], room: int, query: Mapping[str, str], mime_type: str) -> Content:
    range = wanted_range(query)
    assert range is not None
    start = Range(range.unit, 0 if range.unit == "tail" else range.first)
    found = window(parts, start, room, mime_type)
    assert len(converted_range.joined_text(found)) <= room
    request = ConversionRequest(media_type="text/plain")
    return converted_range.content(found, mime_type, Wanted(PLAIN_TEXT, request, range))


@given(PARTS, ROOM, st.sampled_from(["text/plain", "text/markdown"]))
def test_windows_from_one_end_to_the_other_make_up_the_text(
    parts: list[str], room: int, mime_type: str
) -> None:
    joined = ("" if mime_type == "text/plain" else "\n").join(parts)
    whole = joined.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    total = len(whole.encode()), whole.count("\n") + (whole[-1:] not in ("", "\n"))
    for query in ({"lines": "1-"}, {"bytes": "0-"}, {"lines": "1-1"}, {"bytes": "0-2"}):
        text, following = "", query
        while following is not None:
            found = read(parts, room, following, mime_type)
            text += str(found.data)
            truncated = found.truncated
            assert truncated is None or truncated.next != following, (following, found)
            if truncated is not None and truncated.total is not None:
                assert truncated.total == total[truncated.unit == "lines"]
            following = None if truncated is None else truncated.next
        assert text == whole
    for count in (1, 3, 100):
        end = read(parts, room, {"tail": str(count)}, mime_type)
        lines = whole.splitlines(keepends=True) if "\r" not in whole else []
        if end.truncated is None or end.truncated.reason == "requested":
            assert end.data == "".join(lines[-count:])
        assert whole.endswith(str(end.data))


@given(PARTS, ROOM, st.integers(0, 60), st.sampled_from(["bytes", "lines"]), st.integers(0, 60))
def test_a_window_has_what_begins_in_it(
    parts: list[str], room: int, first: int, unit: str, begin: int
) -> None:
    """A range from a window that `has` it is the beginning of the one from a window of its own."""
    start = Range("lines" if unit == "lines" else "bytes", begin + (unit == "lines"))
    range = Range("lines" if unit == "lines" else "bytes", first + (unit == "lines"))
    found = window(parts, start, room, "text/plain")
    assume(converted_range.has(found, range))
    request = ConversionRequest(media_type="text/plain")
    shared = converted_range.content(found, "text/plain", Wanted(PLAIN_TEXT, request, range))
    query = {unit: f"{range.first}-"}
    assert str(read(parts, room, query, "text/plain").data).startswith(str(shared.data))
    is_end = shared.truncated is None or shared.truncated.next is None
    assert shared.data or is_end
