from __future__ import annotations

from resource_server.documents.path_selection import PathSelection, selection
from resource_server.documents.patterns import bytewise


def matches(chosen: PathSelection, path: str, *, is_directory: bool = False) -> bool:
    path = bytewise(path)
    found = chosen.match(path, path.rpartition("/")[2], is_directory=is_directory)
    return found is not None and not found.negated


def leads(chosen: PathSelection, path: str) -> bool:
    return chosen.may_lead(path, path.rpartition("/")[2])


def test_the_default_includes_everything_without_a_pattern() -> None:
    assert selection(("**",)) is None


def test_a_directory_is_included_at_the_top_only_unless_a_pattern_names_any_depth() -> None:
    top, anywhere = selection(("src/",)), selection(("**/src/",))
    assert top is not None
    assert anywhere is not None
    assert matches(top, "src", is_directory=True)
    assert not matches(top, "docs/src", is_directory=True)
    assert matches(anywhere, "docs/src", is_directory=True)
    assert not matches(anywhere, "docs/src")


def test_only_ancestors_of_what_can_match_lead_to_it() -> None:
    chosen = PathSelection(["/docs/api/*.md", "!/lib/*"])
    assert [path for path in ("docs", "docs/api", "docs/img", "lib") if leads(chosen, path)] == [
        "docs",
        "docs/api",
    ]
    assert leads(PathSelection(["*.md"]), "any/folder")


def test_patterns_of_a_directory_are_relative_to_it() -> None:
    chosen = PathSelection(["/a.md"], "docs/")
    assert matches(chosen, "docs/a.md")
    assert not matches(chosen, "docs/old/a.md")


def test_a_pattern_matches_a_name_however_its_accents_are_encoded() -> None:
    for pattern in ("caf\u00e9.md", "cafe\u0301.md"):
        for name in ("caf\u00e9.md", "cafe\u0301.md"):
            assert matches(PathSelection([pattern]), name)
    assert not matches(PathSelection(["cafe.md"]), "caf\u00e9.md")
