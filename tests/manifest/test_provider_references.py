"""Provider references: built-in names, entry points and Python files."""

from __future__ import annotations

import importlib.metadata
import re

import pytest

from resource_server.manifest import provider_references
from resource_server.providers.database.provider import Database
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime import extras


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed providers; one of them has the name of a built-in one."""
    entries = importlib.metadata.EntryPoints(
        importlib.metadata.EntryPoint(name, f"acme:{name}", provider_references.GROUP)
        for name in ("wiki", "filesystem", "git")
    )

    def entry_points(group: str) -> importlib.metadata.EntryPoints:
        return entries.select(group=group)

    # Patched: nothing is installed for a test.
    monkeypatch.setattr(extras, "entry_points", entry_points)


def test_built_in_providers_are_found_by_name() -> None:
    assert provider_references.built_in("filesystem") is Filesystem
    assert provider_references.built_in("database") is Database
    assert provider_references.built_in("other") is None
    assert provider_references.built_in_names() == ["filesystem", "database", "object_storage"]


@pytest.mark.usefixtures("installed")
def test_installed_providers_are_sorted_and_never_replace_built_in_ones() -> None:
    assert list(provider_references.installed()) == ["git", "wiki"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("reference", ["filesystem", "wiki", "mine.py", "a/b.py:Mine"])
def test_known_names_and_files_are_accepted_without_an_import(reference: str) -> None:
    provider_references.check_reference(reference)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("filesytem", "unknown provider 'filesytem'; did you mean 'filesystem'?"),
        ("wikki", "unknown provider 'wikki'; did you mean 'wiki'?"),
        (
            "zzz",
            "unknown provider 'zzz'; known: filesystem, database, object_storage, git, wiki, "
            "or a .py file",
        ),
        (
            "a\nb",
            r"unknown provider 'a\nb'; known: filesystem, database, object_storage, git, wiki, "
            "or a .py file",
        ),
    ],
)
def test_an_unknown_reference_names_the_likely_one_or_all(reference: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        provider_references.check_reference(reference)
