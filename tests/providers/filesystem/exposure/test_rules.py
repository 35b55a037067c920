from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resource_server.documents.path_selection import PathSelection, selection
from resource_server.provider import Annotations
from resource_server.providers.filesystem.exposure.ignore_files import IgnoreRules
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from resource_server.providers.filesystem.options import (
    DirectoryOptions,
)
from tests.cases import for_each
from tests.providers.filesystem.exposure.judging import SHOWN, hidden_by, shown


def test_dotted_names_are_hidden_unless_the_option_shows_them() -> None:
    assert hidden_by(DirectoryRules(), ".github/x") == "name begins with a dot"
    assert hidden_by(SHOWN, ".github/x") is None


def test_exclude_wins_over_include() -> None:
    rules = DirectoryRules(
        include=PathSelection(["docs/"]), exclude=PathSelection(["*.tmp", "docs/old/"])
    )
    assert shown(rules, ["docs/a.md", "docs/a.tmp", "docs/old/a.md"]) == ["docs/a.md"]
    assert hidden_by(rules, "docs/old/a.md") == "excluded by 'docs/old/'"


def test_include_shows_matching_paths_and_their_parents() -> None:
    rules = DirectoryRules(include=PathSelection(["/docs/api/*.md", "src/**", "!src/gen/"]))
    assert shown(rules, ["docs/", "docs/api/", "docs/api/a.md", "src/", "src/a/b.c"]) == [
        "docs/",
        "docs/api/",
        "docs/api/a.md",
        "src/",
        "src/a/b.c",
    ]
    for path in ("a.md", "docs/a.md", "docs/img/", "lib/", "src/gen/x.c", "docs/api/a.txt"):
        assert hidden_by(rules, path) == "not included"


def test_including_a_name_keeps_every_directory_that_may_contain_it() -> None:
    rules = DirectoryRules(include=PathSelection(["*.md"]))
    assert shown(rules, ["a/b/", "a/b/c.md", "a/b/c.txt"]) == ["a/b/", "a/b/c.md"]


@for_each(
    ("include", "expected"),
    [
        (("src/",), ["src/", "src/lib/", "src/lib/src/"]),
        (("/src/",), ["src/", "src/lib/", "src/lib/src/"]),
        (("src/", "!lib/"), ["src/"]),
        (("docs/*.md",), ["docs/"]),
        (("**/src/",), ["src/", "src/lib/", "src/lib/src/", "docs/", "docs/src/"]),
        (("src",), ["src/", "src/lib/", "src/lib/src/", "docs/", "docs/src/"]),
    ],
)
def test_include_shows_no_directory_in_which_nothing_can_be_included(
    include: tuple[str, ...], expected: list[str]
) -> None:
    every = ["src/", "src/lib/", "src/lib/src/", "docs/", "docs/src/"]
    assert shown(DirectoryRules(include=selection(include)), every) == expected


def test_everything_below_an_included_directory_is_included() -> None:
    assert shown(DirectoryRules(include=PathSelection(["docs/"])), ["docs/a/b/c.txt"]) == [
        "docs/a/b/c.txt"
    ]


def test_a_directory_that_is_not_exposed_is_hidden() -> None:
    exposure = ExposureRules(
        {"scratch": DirectoryOptions(exposed=False), "docs": DirectoryOptions()}
    )
    assert shown(DirectoryRules(), ["scratch", "docs", "a/scratch"], exposure) == [
        "docs",
        "a/scratch",
    ]


def test_a_directory_has_its_own_visibility_options() -> None:
    exposure = ExposureRules(
        {
            "scratch": DirectoryOptions(exposed=False),
            ".github": DirectoryOptions(hidden=True),
            "build": DirectoryOptions(gitignore=False),
            "docs": DirectoryOptions(include=("*.md",), exclude=("old.md",)),
        }
    )
    ignores = IgnoreRules("", [(".gitignore", b"build\ntmp\n")])
    rules = DirectoryRules(ignores=(ignores,))
    assert hidden_by(rules, "scratch/x", exposure) == "exposed: false in directories"
    assert shown(rules, ["a/scratch/x", ".github/.x", "build/tmp"], exposure) == [
        "a/scratch/x",
        ".github/.x",
        "build/tmp",
    ]
    assert hidden_by(rules, "tmp/x", exposure) == "ignored by .gitignore:2 'tmp'"
    assert shown(rules, ["docs/a.md", "docs/old.md", "docs/b.txt"], exposure) == ["docs/a.md"]


def test_the_deepest_directory_wins_and_inherits_the_rest() -> None:
    exposure = ExposureRules(
        {
            "a": DirectoryOptions(
                annotations=Annotations(audience=("user",), priority=0.1),
                readable=False,
                listed=False,
            ),
            "a/b": DirectoryOptions(
                annotations=Annotations(priority=0.9), readable=True, encoding="latin-1"
            ),
        }
    )
    above = exposure.enter(DirectoryRules(encoding="utf-8"), "a")
    below = exposure.enter(exposure.enter(above, "a/b"), "a/b/c")
    assert (above.readable, above.encoding) == (False, "utf-8")
    assert (below.readable, below.listed) == (True, False)
    assert below.annotations == Annotations(audience=("user",), priority=0.9)
    assert below.encoding == "iso8859-1"


def test_directory_rules_stay_the_same_object_until_something_changes() -> None:
    rules = DirectoryRules()
    assert ExposureRules({}).enter(rules, "a") is rules


NAMES = st.sampled_from(
    ["a", "id_rsa", "ID_RSA", ".env", "x.pem", "b.md", "credentials", "credentials.py", "k.log"]
) | st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=6)


@given(st.lists(NAMES, unique=True), st.sets(NAMES), st.booleans(), st.booleans())
def test_many_names_are_judged_like_single_ones(
    names: list[str], directories: set[str], hidden: bool, ignored: bool
) -> None:
    ignores = (IgnoreRules("", [(".gitignore", b"*.log\na/\n")]),) if ignored else ()
    exposure, rules = ExposureRules({}), DirectoryRules(hidden=hidden, ignores=ignores)
    assert exposure.exposed(rules, "", names, directories) == [
        name
        for name in names
        if exposure.hidden_by(rules, "", name, is_directory=name in directories) is None
    ]
