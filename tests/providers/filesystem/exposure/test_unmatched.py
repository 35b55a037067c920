"""Rules of a folder that match nothing: said, and where they may mean something else, it stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resource_server.access import Access
from resource_server.errors import RuleUnmatched
from resource_server.providers.filesystem import Filesystem, provider
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.eager import settle

pytestmark = pytest.mark.anyio

HIDDEN = DirectoryOptions(exposed=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("drafts/plan.md", "docs/api/a.md", "docs/b.tmp", "notes.md", ".env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
@pytest.mark.parametrize(
    "options",
    [
        HIDDEN,
        DirectoryOptions(readable=False),
        DirectoryOptions(listed=False),
        DirectoryOptions(access=Access(scopes=("hr",))),
        DirectoryOptions(include=("*.md",)),
        DirectoryOptions(exclude=("plan.md",)),
    ],
)
@pytest.mark.parametrize("key", ["draftz", "Drafts", "dcos/api", "docs/app/"])
async def test_the_folder_is_not_served_if_directories_names_draftz_beside_drafts(
    root: Path, key: str, options: DirectoryOptions
) -> None:
    with pytest.raises(
        RuleUnmatched, match=r"no such directory; did you mean '.*'[?] Not"
    ) as found:
        async with Filesystem(root, directories={key: options}):
            pass
    assert found.value.option == f"directories.{key}"
    (root / key.lower().rstrip("/")).mkdir(parents=True, exist_ok=True)
    async with Filesystem(root, directories={key.lower(): options}):
        pass


async def test_an_entry_of_its_own_is_no_reason_to_serve_what_draftz_may_mean(root: Path) -> None:
    directories = {"drafts": DirectoryOptions(listed=False), "draftz": HIDDEN}
    with pytest.raises(RuleUnmatched):
        async with Filesystem(root, directories=directories):
            pass


async def mistakes(folder: Filesystem, *, thorough: bool = False) -> list[tuple[str, str]]:
    async with folder:
        found = await settle(folder.warnings(thorough=thorough))
    return [each for each in found if each[0]]


@pytest.mark.parametrize(
    ("directories", "says"),
    [
        # Hides nothing; has no near name; may come later; its near name is hidden.
        ({"draftz": DirectoryOptions(title="D")}, ["no such directory; did you mean 'drafts'?"]),
        ({"private": HIDDEN}, ["no such directory"]),
        ({"docs/private": HIDDEN}, ["no such directory"]),
        ({"draftz": DirectoryOptions(exposed=False, optional=True)}, []),
        (
            {"drafts": HIDDEN, "drafts2": HIDDEN},
            ["no such directory; did you mean 'drafts'?"],
        ),
        ({"notes.md": HIDDEN}, []),
        ({"notes.md": DirectoryOptions(title="N")}, ["'notes.md' is no directory"]),
        ({".envs": HIDDEN}, ["no such directory; did you mean '.env'?"]),
    ],
)
async def test_other_keys_without_a_directory_are_only_reported(
    root: Path, directories: dict[str, DirectoryOptions], says: list[str]
) -> None:
    for thorough in (False, True):
        found = await mistakes(Filesystem(root, directories=directories), thorough=thorough)
        assert [text for _, text in found] == says


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"exclude": ("draftz/",)}, {"exclude": "'draftz/' matches nothing"}),
        ({"exclude": ("docs/*.tpm", "*.tmp")}, {"exclude": "'docs/*.tpm' matches nothing"}),
        ({"exclude": ("/docs/c.md",)}, {"exclude": "'/docs/c.md' matches nothing"}),
        ({"include": ("dosc/", "docs/")}, {"include": "'dosc/' matches nothing"}),
        ({"include": ("**", "!draftz/**")}, {"include": "'!draftz/**' matches nothing"}),
        ({"exclude": ("drafts/", "*.tmp", ".env", "/docs/api")}, {}),
        # Nothing is left for these, as their matches are in a hidden directory.
        ({"exclude": ("drafts/", "pl*.md", "plan.md")}, {}),
        ({"include": ("**/*.md", "!drafts/")}, {}),
        (
            {"directories": {"docs": DirectoryOptions(exclude=("apl/", "api/", "drafts/"))}},
            {"directories.docs.exclude": "'drafts/' matches nothing"},
        ),
        ({"directories": {"docs": DirectoryOptions(include=("*.tmp", "api/**"))}}, {}),
    ],
)
async def test_patterns_that_match_nothing_are_reported(
    root: Path, options: dict[str, Any], says: dict[str, str]
) -> None:
    for thorough in (False, True):
        found = await mistakes(Filesystem(root, **options), thorough=thorough)
        assert found[-1:] == list(says.items())
        assert len(found) <= 2


@pytest.mark.parametrize(
    ("compared", "says"),
    [
        (2, ["docs/c.md"]),  # more names are exposed
        (8, ["draftz/", "none.md", "docs/c.md"]),  # more names are hidden
        (40, ["draftz/", "none.md", "docs/c.md", "*.none"]),
    ],
)
async def test_a_start_looks_at_a_part_of_a_large_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch, compared: int, says: list[str]
) -> None:
    # Patched, as the limit is no option: a folder of its size would take seconds.
    monkeypatch.setattr(provider, "_MAX_COMPARED", compared)
    (root / ".git").mkdir()
    for number in range(12):
        (root / ".git" / str(number)).touch()
    exclude = ("draftz/", "none.md", "docs/c.md", "docs/b.tmp", "*.none")
    folder = Filesystem(root, directories={"drafts": HIDDEN}, exclude=exclude)
    assert [text.split("'")[1] for _, text in await mistakes(folder)] == says
