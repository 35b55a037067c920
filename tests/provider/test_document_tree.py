from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.provider import Path, Resource
from resource_server.provider import document_tree as tree
from resource_server.provider.document_tree import Document, DocumentTree, UnusableDocuments
from tests.cases import for_each

NAMES = st.sampled_from(["a", "b", "b0", "B", "ä", "\U0001f642", "\udcff", " "])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def made(*pairs: tuple[Any, Any]) -> DocumentTree:
    return DocumentTree(pairs, "notes")


def problem(*pairs: Any) -> str:
    with pytest.raises(UnusableDocuments) as caught:
        DocumentTree(pairs, "notes")
    return str(caught.value)


def below(found: DocumentTree, parent: Path) -> list[Resource]:
    """Return everything below a collection, by `children` alone."""
    every: list[Resource] = []
    for child in found.children(parent, None, 1000):
        every.append(child)
        every += below(found, child.path) if child.type == "collection" else []
    return every


@given(st.sets(PATHS), st.integers(1, 4))
def test_levels_page_through_what_children_lists(paths: set[str], limit: int) -> None:
    usable = [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)]
    found = made(*((path, path) for path in usable if path.isprintable()))
    every = below(found, ())

    def pages(page: Callable[[Path | None], Any]) -> list[Resource]:
        gathered: list[Resource] = []
        while some := page(gathered[-1].path if gathered else None):
            gathered += some
        return gathered

    for depth, kind in product(range(1, 5), ("collection", "document")):
        assert pages(lambda after, d=depth, k=kind: found.level(d, k, after, limit)) == sorted(
            (each for each in every if (len(each.path), each.type) == (depth, kind)),
            key=lambda each: each.path,
        )


def test_paths_that_cannot_be_resources_are_named_with_what_to_write() -> None:
    for path in ("", "/", "a//b", "/a", "a/", "a/../b", ".", "nul\0"):
        assert "segment of a path is empty, '.' or '..' or has NUL" in problem((path, ""))
    assert problem((7, "")) == "7: a path is text, such as 'notes/today.md'"
    assert "longer than 4096 bytes" in problem(("x" * 4097, ""))
    assert "more than 64 segments" in problem(("/".join("x" * 65), ""))
    assert made(("a/ /..a/%2e/\udcff", "")).find(("a", " ", "..a", "%2e", "\udcff")) is not None


def test_a_path_twice_or_below_a_document_is_refused() -> None:
    assert problem(("a", ""), ("a", "")) == "'a': it is there already"
    assert problem(("a", ""), ("a/b", "")) == "'a/b': 'a' is a document already"
    assert problem(("a/b", ""), ("a", "")) == "'a': it is a collection already"


def test_all_problems_are_reported_together_up_to_five() -> None:
    assert problem(("", ""), ("a", ""), ("b", 7)).count("\n") == 1
    lines = problem(*(("", "") for _ in range(9))).splitlines()
    assert (len(lines), lines[-1]) == (6, "there may be more problems")


def test_text_that_is_not_utf_8_is_refused_and_bytes_are_sent_as_they_are() -> None:
    assert "'a': its text has a lone surrogate at character 1" in problem(("a", "x\udcff"))
    odd = tree.store("a", b"x\xff")
    assert (odd.data, odd.size) == (b"x\xff", 2)
    assert odd.resource(("a",)).mime_type == "application/octet-stream"


@for_each(
    ("path", "contents", "data", "mime_type"),
    [
        ("a", "Grüße", "Grüße", "text/plain"),
        ("a.md", "Grüße".encode(), "Grüße", "text/markdown"),
        ("a", b"plain", "plain", "text/plain"),
        ("a.png", b"plain", b"plain", "image/png"),
        ("a.txt", b"a\0", b"a\0", "text/plain"),
        ("a", {"at": datetime(2026, 1, 2, tzinfo=UTC)}, None, "application/json"),
        ("a.geojson", [], "[]", "application/geo+json"),
        ("a", Document(content=[1], mime_type="text/x-odd"), "[\n  1\n]", "text/x-odd"),
    ],
)
def test_contents_become_text_or_bytes_with_a_media_type(
    path: str, contents: Any, data: str | bytes | None, mime_type: str
) -> None:
    found = tree.store(path, contents)
    assert found.data == (data or '{\n  "at": "2026-01-02T00:00:00Z"\n}')
    assert found.resource((path,)).mime_type == mime_type
    assert found.size == len(found.data.encode() if isinstance(found.data, str) else found.data)


@dataclass
class Issue:
    number: int


def test_json_may_hold_dataclasses_and_nothing_that_is_no_data() -> None:
    assert tree.store("a", [Issue(7)]).data == '[\n  {\n    "number": 7\n  }\n]'
    assert tree.store("a", [2**53 + 1]).data == '[\n  "9007199254740993"\n]'
    assert "it cannot be written as JSON: Encoding objects of type" in problem(("a", [object()]))
    endless: list[Any] = []
    endless.append(endless)
    assert "it cannot be written as JSON" in problem(("a", endless))
    assert "its contents are of type Issue; return text, bytes" in problem(("a", Issue(7)))


def test_metadata_of_a_wrong_type_is_refused() -> None:
    wrong: Any = 7
    assert "'a': its metadata has a wrong type" in problem(("a", Document(content="", title=wrong)))
    naive = Document(content="", last_modified=datetime(2026, 1, 2))  # noqa: DTZ001
    assert "last_modified has no time zone" in problem(("a", naive))


def test_too_many_documents_and_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    big = "x" * (tree.MAX_DOCUMENT_BYTES + 1)
    assert f"it has {len(big)} bytes, more than" in problem(("a", big))
    assert made(("a", big[1:])).resource(("a",)).size == tree.MAX_DOCUMENT_BYTES
    monkeypatch.setattr(tree, "MAX_DOCUMENTS", 2)
    monkeypatch.setattr(tree, "MAX_BYTES", 10)
    made(("a", ""), ("b", ""))
    assert problem(*((str(at), "") for at in range(3))) == "there are more than 2 documents"
    assert problem(("a", "x" * 11)) == "the documents have more than 10 bytes in all"


def test_what_is_no_pair_is_refused() -> None:
    pairs: Any
    for pairs, found in ((7, "int"), ("ab", "str"), (None, "NoneType")):
        with pytest.raises(UnusableDocuments, match=f"returned {found}; return a mapping of paths"):
            DocumentTree(pairs, "notes")
    assert "the function gave str, which is no pair" in problem("ab")
    assert "the function gave tuple, which is no pair" in problem(("a", "b", "c"))


def test_versions_follow_contents_metadata_and_the_set_of_children() -> None:
    before = made(("a/x", "1"), ("a/y", "1"), ("b/z", "1"))
    titled = Document(content="1", title="One")
    after = made(("b/z", "2"), ("a/y", titled), ("a/w", "1"))
    changed = {path for path in ((), ("a",), ("b",)) if before.version(path) != after.version(path)}
    assert changed == {("a",)}
    assert before.version(("b", "z")) != after.version(("b", "z"))
    assert before.version(("a", "y")) != after.version(("a", "y"))
    assert (before.version(("a", "x")) is None, after.version(("a", "x"))) == (False, None)
    assert after.relisted(before) == [("a",)]


def test_a_path_completes_to_what_begins_with_it() -> None:
    found = made(("a/x", ""), ("a/y", ""), ("ab", ""), ("b", ""))
    assert [*found.complete("a", 9)] == ["a/", "ab"]
    assert [*found.complete("a/", 1)] == ["a/x"]
    assert [*found.complete("no/x", 9)] == [*found.complete("ab/", 9)] == []


def test_a_document_has_no_children() -> None:
    with pytest.raises(NotACollection):
        made(("a", "")).children(("a",), None, 1)
    with pytest.raises(ResourceNotFound):
        made(("a", "")).children(("b",), None, 1)
